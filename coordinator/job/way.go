package job

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ckpt/dataset"
	"ckpt/image"
	"ckpt/image/codec"
	"ckpt/image/container"
	"ckpt/image/plan"
	"ckpt/internal/wording"
)

// A Way is how the ranks of a job write a checkpoint. It may change from one to the next: each
// order to write names it, so that every incarnation of a rank knows. The files and their
// manifest tell how they were written.
type Way struct {
	WritePath plan.Settings `json:"write_path"`
	Codec     string        `json:"codec"`
}

// Way is the description's.
func (s *Spec) Way() Way { return Way{s.WritePath, s.Codec} }

func (w *Way) CodecOf() (codec.Setting, error) {
	return parseOr(w.Codec, codec.UseNone, codec.ParseSetting)
}

// Joint returns how the ranks of a group write files together, nil if each writes its own. The
// way may be impossible for the group.
func (s *Resolved) Joint(group int, w Way) (*JointLayout, error) {
	if w.WritePath.Layout == "" || w.WritePath.Layout == plan.PerRank {
		return nil, nil
	}
	ranks := s.Groups[group]
	l := &JointLayout{Settings: fitted(w.WritePath, s.NP, len(ranks)), Ranks: s.places(ranks)}
	var err error
	l.Files, err = container.JointFiles(l.Settings, l.Ranks)
	if err != nil && s.Several() {
		err = fmt.Errorf("%s take checkpoints apart from the others: %w", NameRanks(ranks), err)
	}
	return l, err
}

// JointAs is Joint, in the description's way if w is nil.
func (s *Resolved) JointAs(group int, w *Way) (*JointLayout, error) {
	if w == nil {
		return s.Layouts[group], nil
	}
	return s.Joint(group, *w)
}

// fitted returns settings for some of np ranks. A small group has as many aggregators as it can.
func fitted(s plan.Settings, np, ranks int) plan.Settings {
	if s.Aggregators > np {
		return s // a mistake, whatever the groups
	}
	return s.Fit(ranks)
}

type JointLayout struct {
	Settings plan.Settings
	Ranks    []plan.Source
	Files    int
}

// Of reports whether the ranks of a version are those that the layout is for.
func (g *JointLayout) Of(m *image.Manifest) bool {
	return g != nil && slices.EqualFunc(g.Ranks, m.Ranks, func(s plan.Source, r image.Rank) bool { return s.Rank == r.Rank })
}

// resolveLayouts finds out how the ranks of each group write.
func (s *Resolved) resolveLayouts() error {
	s.Layouts = make([]*JointLayout, len(s.Groups))
	for g := range s.Groups {
		l, err := s.Joint(g, s.Way())
		if err != nil {
			return err
		}
		s.Layouts[g] = l
	}
	return nil
}

// FewerAggregators says that some group has fewer aggregators than were asked for, or returns "".
func (s *Resolved) FewerAggregators() string {
	smallest := 0
	for g, ranks := range s.Groups {
		if len(ranks) < len(s.Groups[smallest]) {
			smallest = g
		}
	}
	layout := s.Layouts[smallest]
	if layout == nil || layout.Settings.Aggregators >= s.WritePath.Aggregators ||
		s.WritePath.Layout == plan.Shared && s.WritePath.Strategy == plan.Individual {
		return "" // no number of aggregators has an effect
	}
	return wording.Sprintf("{aggregators} %d: a group of %s has %s", s.WritePath.Aggregators,
		plural(len(layout.Ranks), "rank"), plural(layout.Settings.Aggregators, "aggregator"))
}

func plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// Layout returns the settings of the write path as they take effect; an error may be a
// *plan.SettingError.
func (s Spec) Layout() (plan.Settings, error) {
	r := &Resolved{Spec: s, Nodes: s.Mapping.Nodes()}
	r.divide()
	p, err := plan.New(r.places(r.Groups[0]), fitted(s.WritePath, s.NP, len(r.Groups[0])))
	if err != nil {
		return plan.Settings{}, err
	}
	return p.Settings, nil
}

func (s *Resolved) places(ranks []int) []plan.Source {
	var places []plan.Source
	for _, rank := range ranks {
		places = append(places, plan.Source{Rank: rank, Node: s.Nodes[rank]})
	}
	return places
}

func (g *JointLayout) Kind() string {
	if g.Settings.Layout == plan.Shared {
		return container.KindJob
	}
	return container.KindAggregated
}

type Tuning struct {
	Storage   string `json:"storage"`   // the description, as YAML
	Objective string `json:"objective"` // as tune.ParseObjective takes it
	// Before is the way that the user asked for, Why what the one found is better at.
	Before      Way    `json:"before"`
	BeforeAsync bool   `json:"before_async,omitempty"`
	Why         string `json:"why"`
}

func (s *Resolved) Possible(w Way) error {
	if _, err := w.CodecOf(); err != nil {
		return err
	}
	for g := range s.Groups {
		if _, err := s.Joint(g, w); err != nil {
			return fmt.Errorf("%s: %w", NameRanks(s.Groups[g]), err)
		}
	}
	return nil
}

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
