package nodes

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Kind is how a Scheme protects files.
type Kind string

// The kinds of schemes.
const (
	None    Kind = "none"
	Partner Kind = "partner" // whole copies
	XOR     Kind = "xor"     // one parity
	RS      Kind = "rs"      // Reed-Solomon
)

// A Scheme says what protects the files of a node. The zero value is no protection.
// It is comparable, and a string in JSON.
type Scheme struct {
	kind         Kind
	copies       int // of Partner
	data, parity int // of XOR and RS: members of a set whose units are data, and parity
}

// maxGroup is how many nodes a scheme may ask for. Sets become up to twice as large,
// and the code ends at 256.
const maxGroup = 128

// maxCopies is how many copies a scheme may ask for.
const maxCopies = 64

// Parse reads "none", "partner", "partner:K", "xor:N" or "rs:K+M".
func Parse(text string) (Scheme, error) {
	kind, arg, has := strings.Cut(text, ":")
	s := Scheme{kind: Kind(kind)}
	var ok bool
	switch s.kind {
	case None:
		s, ok = Scheme{}, !has
	case Partner:
		if s.copies, ok = 1, true; has {
			s.copies, ok = count(arg, 1, maxCopies)
		}
	case XOR:
		var n int
		n, ok = count(arg, 2, maxGroup)
		s.data, s.parity = n-1, 1
	case RS:
		k, m, plus := strings.Cut(arg, "+")
		var okData, okParity bool
		s.data, okData = count(k, 1, maxGroup)
		s.parity, okParity = count(m, 1, maxGroup)
		ok = plus && okData && okParity && s.data+s.parity <= maxGroup
	}
	if !ok {
		return Scheme{}, fmt.Errorf("invalid protection %q (want none, partner, partner:K with K up to %d, xor:N with N from 2, or rs:K+M with K+M up to %d)", text, maxCopies, maxGroup)
	}
	return s, nil
}

func count(text string, least, most int) (int, bool) {
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= least && n <= most && strconv.Itoa(n) == text
}

// String returns what Parse reads.
func (s Scheme) String() string {
	switch s.Kind() {
	case Partner:
		if s.copies == 1 {
			return string(Partner)
		}
		return fmt.Sprintf("%s:%d", Partner, s.copies)
	case XOR:
		return fmt.Sprintf("%s:%d", XOR, s.data+s.parity)
	case RS:
		return fmt.Sprintf("%s:%d+%d", RS, s.data, s.parity)
	}
	return string(None)
}

// MarshalText implements encoding.TextMarshaler.
func (s Scheme) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Scheme) UnmarshalText(b []byte) (err error) {
	*s, err = Parse(string(b))
	return err
}

// Kind returns how the scheme protects files.
func (s Scheme) Kind() Kind {
	if s.kind == "" {
		return None
	}
	return s.kind
}

// Coded reports whether the scheme keeps parity of sets.
func (s Scheme) Coded() bool { return s.parity > 0 }

// Strength is how many nodes may be lost at a time.
func (s Scheme) Strength() int { return s.copies + s.parity }

// Nodes is how many nodes the scheme needs.
func (s Scheme) Nodes() int {
	if s.Coded() {
		return s.data + s.parity
	}
	return s.copies + 1
}

// Check reports whether so many nodes, each in a failure domain of its own, are
// enough.
func (s Scheme) Check(nodes int) error {
	if nodes < s.Nodes() {
		return fmt.Errorf("protection %s needs %d nodes, the job has %d", s, s.Nodes(), nodes)
	}
	return nil
}

// A Topology says which ranks share a node, and which nodes may fail together.
type Topology struct {
	NodeOf  []int // by rank
	Domains []int // the failure domain of each node; nil: each node is its own
	Ranks   []int // that take checkpoints together, ascending; nil: all
}

// nodes returns the nodes that have ranks, a failure domain side by side. No process could
// keep anything on the others.
func (t Topology) nodes() []int {
	nodes := slices.Clone(t.NodeOf)
	slices.Sort(nodes)
	nodes = slices.Compact(nodes)
	slices.SortStableFunc(nodes, func(a, b int) int { return t.domain(a) - t.domain(b) })
	return nodes
}

func (t Topology) domain(node int) int {
	if t.Domains == nil {
		return node
	}
	return t.Domains[node]
}

// ranks returns the ranks of a node that take checkpoints together.
func (t Topology) ranks(node int) []int {
	var ranks []int
	for rank, n := range t.NodeOf {
		if n == node && (t.Ranks == nil || slices.Contains(t.Ranks, rank)) {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

// largest returns how many of the nodes the largest failure domain has, and which it
// is.
func (t Topology) largest(nodes []int) (domain, most int) {
	of := make(map[int]int)
	for _, n := range nodes {
		d := t.domain(n)
		if of[d]++; of[d] > most {
			domain, most = d, of[d]
		}
	}
	return domain, most
}

// Fits reports whether the scheme can protect every rank from the loss of as many
// nodes as Strength says, and of any one failure domain.
func (s Scheme) Fits(t Topology) error {
	for rank, node := range t.NodeOf {
		if node < 0 || t.Domains != nil && node >= len(t.Domains) {
			return fmt.Errorf("rank %d is on node %d, but failure domains are given for %d nodes", rank, node, len(t.Domains))
		}
	}
	nodes := t.nodes()
	if err := s.Check(len(nodes)); err != nil {
		return err
	}
	domain, most := t.largest(nodes)
	if s.Kind() == Partner && len(nodes)-most < s.copies {
		return fmt.Errorf("protection %s needs %d nodes outside each failure domain: domain %d has %d of %d nodes", s, s.copies, domain, most, len(nodes))
	}
	if !s.Coded() {
		return nil
	}
	for _, group := range s.groups(t) {
		if domain, most := t.largest(group); most > s.parity {
			return fmt.Errorf("protection %s needs groups with at most %d nodes of a failure domain: a group of %d nodes has %d of domain %d; more domains, smaller groups or more parity would do", s, s.parity, len(group), most, domain)
		}
	}
	return nil
}

// Survives is how many failure domains may be lost at a time, of nodes that the scheme fits.
func (s Scheme) Survives(t Topology) int {
	if !s.Coded() {
		return s.Strength()
	}
	most := 1
	for _, group := range s.groups(t) {
		_, n := t.largest(group)
		most = max(most, n)
	}
	return s.parity / most
}

// Partners returns the nodes that keep copies of a rank's files. They are in other
// failure domains than the rank's node, and in different ones as far as there are
// enough. Each node keeps copies of as many nodes, if no domain has more than half of
// them.
func (s Scheme) Partners(t Topology, rank int) []int {
	nodes := t.nodes()
	own := t.NodeOf[rank]
	_, step := t.largest(nodes)
	at := slices.Index(nodes, own)
	var partners []int
	used := map[int]bool{t.domain(own): true}
	for again := range 2 {
		// A step as long as the largest domain leads out of every domain.
		for i := range step * len(nodes) {
			n := nodes[(at+i%len(nodes)*step+step+i/len(nodes))%len(nodes)]
			if len(partners) == s.copies {
				return partners
			}
			d := t.domain(n)
			if d == t.domain(own) || slices.Contains(partners, n) || again == 0 && used[d] {
				continue
			}
			partners, used[d] = append(partners, n), true
		}
	}
	return partners
}

// groups divides the nodes into groups of at least as many nodes as the scheme says.
// The nodes of a failure domain are dealt to the groups in turn.
func (s Scheme) groups(t Topology) [][]int {
	nodes := t.nodes()
	groups := make([][]int, max(1, len(nodes)/s.Nodes()))
	for i, n := range nodes {
		groups[i%len(groups)] = append(groups[i%len(groups)], n)
	}
	return groups
}

// A Set is ranks of different nodes whose files are coded together.
type Set struct {
	ID int `json:"id"`
	// Members are ranks. At -1 a node takes part that has too few ranks to have one
	// in this set. All other members are known by their position here.
	Members []int `json:"members"`
	// Nodes are where the members run. Each holds one parity file, whose number is the
	// position of the member.
	Nodes []int `json:"nodes"`
	// Parity is how many members' nodes hold parity in each row.
	Parity int `json:"parity"`
}

// Sets returns the sets of a scheme, in which every rank that takes checkpoints with the
// others is once. It is empty for schemes that have no parity.
func (s Scheme) Sets(t Topology) []Set {
	if !s.Coded() {
		return nil
	}
	var sets []Set
	for _, group := range s.groups(t) {
		ranks, most := make([][]int, len(group)), 0
		for i, n := range group {
			ranks[i] = t.ranks(n)
			most = max(most, len(ranks[i]))
		}
		for index := range most {
			set := Set{ID: len(sets), Nodes: slices.Clone(group), Parity: s.parity}
			for i := range group {
				rank := -1
				if index < len(ranks[i]) {
					rank = ranks[i][index]
				}
				set.Members = append(set.Members, rank)
			}
			sets = append(sets, set)
		}
	}
	return sets
}

// SetOf returns the set of a rank, and its position there.
func SetOf(sets []Set, rank int) (set Set, member int, ok bool) {
	for _, s := range sets {
		if i := slices.Index(s.Members, rank); i >= 0 && rank >= 0 {
			return s, i, true
		}
	}
	return Set{}, 0, false
}

// Check reports whether a set that came from somewhere else can be one.
func (s Set) Check() error {
	n := len(s.Members)
	switch {
	case n != len(s.Nodes):
		return fmt.Errorf("set %d has %d members on %d nodes", s.ID, n, len(s.Nodes))
	case s.ID < 0 || n < 2 || n >= 2*maxGroup || s.Parity < 1 || s.Parity >= n:
		return fmt.Errorf("set %d of %d members cannot have %d parities", s.ID, n, s.Parity)
	}
	return nil
}
