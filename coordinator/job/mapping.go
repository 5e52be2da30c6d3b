package job

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ckpt/dataset"
	"ckpt/image"
	"ckpt/internal/wording"
)

// A Mapping is the number of ranks on each node. Ranks are dealt to nodes in blocks: 8,8,4 puts
// ranks 0–7 on node 0, 8–15 on node 1 and 16–19 on node 2.
type Mapping []int

// ParseMapping reads a mapping like "8,8,4" for np ranks.
func ParseMapping(s string, np int) (Mapping, error) {
	var m Mapping
	sum := 0
	for field := range strings.SplitSeq(s, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(field))
		if err != nil || n < 1 || n > np {
			return nil, Clash(ClashMapping, fmt.Sprintf("mapping %q: %q is not a number of ranks from 1 to %d", s, field, np),
				"give the ranks of each node, like 8,8,4")
		}
		m = append(m, n)
		sum += n
	}
	if sum != np {
		return nil, Clash(ClashMapping, fmt.Sprintf("mapping %q places %d ranks, the job has %d", s, sum, np),
			"the numbers must add up to the number of ranks")
	}
	return m, nil
}

// EvenMapping spreads np ranks over nodes; the first nodes get the remainder.
func EvenMapping(np, nodes int) (Mapping, error) {
	if nodes < 1 || nodes > np {
		return nil, Clash(ClashMapping, fmt.Sprintf("%d ranks cannot be spread over %d nodes", np, nodes),
			wording.Sprintf("{nodes} takes 1 to %d here", np))
	}
	m := make(Mapping, nodes)
	for i := range m {
		m[i] = np / nodes
		if i < np%nodes {
			m[i]++
		}
	}
	return m, nil
}

// places reports whether the mapping is of so many ranks.
func (m Mapping) places(np int) bool {
	sum := 0
	for _, n := range m {
		if n < 1 || n > np-sum {
			return false
		}
		sum += n
	}
	return len(m) > 0 && sum == np
}

func (m Mapping) String() string {
	fields := make([]string, len(m))
	for i, n := range m {
		fields[i] = strconv.Itoa(n)
	}
	return strings.Join(fields, ",")
}

// Short writes runs of more than four equal nodes as 16×4: sixteen nodes of four ranks.
func (m Mapping) Short() string {
	var fields []string
	for i := 0; i < len(m); {
		n := i
		for n < len(m) && m[n] == m[i] {
			n++
		}
		if n-i > 4 {
			fields = append(fields, fmt.Sprintf("%d×%d", n-i, m[i]))
			i = n
			continue
		}
		fields = append(fields, strconv.Itoa(m[i]))
		i++
	}
	return strings.Join(fields, ",")
}

// Nodes returns the node of each rank.
func (m Mapping) Nodes() []int {
	var nodes []int
	for node, n := range m {
		for range n {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// First returns the lowest rank of a node, its leader.
func (m Mapping) First(node int) int {
	rank := 0
	for _, n := range m[:node] {
		rank += n
	}
	return rank
}

// AnyRanks reports whether a simulated job may have checkpoints of another number of ranks than
// it was launched with: its ranks hold arrays together.
func (s *Resolved) AnyRanks() bool {
	if s.Program != nil || s.Origin != "" || s.Mode != Coordinated {
		return false
	}
	inst, err := s.Instance()
	return err == nil && inst.Global()
}

// OnRanks describes the job, with its arrays, on another number of ranks.
func (s Spec) OnRanks(np int) Spec {
	if np != s.NP {
		s.Launched, s.NP = cmp.Or(s.Launched, s.NP), np
		s.WritePath.Aggregators = min(s.WritePath.Aggregators, np)
	}
	return s
}

// CheckRanks refuses to restart a simulated job on np ranks from a checkpoint of another number;
// m is nil before one is chosen.
func (s *Resolved) CheckRanks(m *image.Manifest, np int) error {
	as, asked := wording.Sprintf("leave {np} out: the job restarts on %s", plainRanks(s.NP)), wording.Sprintf("{np} %d", np)
	if np == s.NP {
		as, asked = "keep the mapping: its nodes are the groups of the job", "another mapping"
	}
	inst, err := s.Instance()
	if err != nil {
		return err
	}
	if !inst.Global() && !slices.ContainsFunc(inst.Arrays, func(a dataset.Array) bool { return a.Save && !a.Replicated }) {
		return Clash(ClashArrays, fmt.Sprintf("%s: the ranks of %s hold no array together", asked, inst.Name), as)
	}
	for _, a := range inst.Arrays {
		if !a.Shared() && !a.Replicated && a.Save {
			return Clash(ClashArrays, fmt.Sprintf("%s: array %q of %s is neither global nor replicated, and has no blocks", asked, a.Name, inst.Name),
				as+"; or describe the array with `global` or `blocks` in the workload of later jobs")
		}
	}
	if m == nil {
		return nil
	}
	for _, r := range m.Ranks {
		if r.Pending > 0 {
			return Clash(ClashMessages, wording.Sprintf("{np} %d: checkpoint %d, rank %d", np, m.Number, r.Rank), fmt.Sprintf("restart on %s", plainRanks(m.NP)))
		}
	}
	return nil
}
