package plan

import (
	"fmt"
	"slices"
)

// Piece is a contiguous run of a rank's bytes, like a region or one of its
// extents.
type Piece struct {
	Key   int   // the caller's name for it, unique within the rank
	Bytes int64 // a multiple of PageSize; may be 0
	Align bool  // begins at a stripe boundary in the shared layout
}

// Source is what one rank contributes, in the order in which it is stored.
type Source struct {
	Rank, Node int
	Pieces     []Piece
}

// mapping says which rank runs on which node. A rank is meant by its position
// among the sources: a checkpoint of a few ranks has gaps in their numbers.
type mapping struct {
	ranks   []int   // by position, ascending
	all     []int   // all positions
	node    []int   // by position: index into nodes
	nodes   [][]int // positions of the ranks of each node, nodes by their first rank
	numbers []int   // what the caller calls the nodes
	// blocked says that the ranks of every node are consecutive.
	blocked bool
}

func newMapping(sources []Source) (*mapping, error) {
	if len(sources) == 0 {
		return nil, fmt.Errorf("plan: no ranks")
	}
	m := &mapping{
		ranks:   make([]int, len(sources)),
		all:     make([]int, len(sources)),
		node:    make([]int, len(sources)),
		blocked: true,
	}
	index := make(map[int]int)
	for i := range sources {
		s := &sources[i]
		switch {
		case s.Rank < 0:
			return nil, fmt.Errorf("plan: rank %d: must not be negative", s.Rank)
		case i > 0 && s.Rank <= m.ranks[i-1]:
			return nil, fmt.Errorf("plan: rank %d after rank %d: ranks must ascend", s.Rank, m.ranks[i-1])
		}
		n, ok := index[s.Node]
		if !ok {
			n = len(m.nodes)
			index[s.Node] = n
			m.nodes = append(m.nodes, nil)
			m.numbers = append(m.numbers, s.Node)
		} else if n != m.node[i-1] {
			m.blocked = false
		}
		m.ranks[i], m.all[i], m.node[i] = s.Rank, i, n
		m.nodes[n] = append(m.nodes[n], i)
	}
	return m, nil
}

// position returns where rank is among the sources.
func (m *mapping) position(rank int) (int, bool) { return slices.BinarySearch(m.ranks, rank) }

// groups divides the ranks into n groups: whole nodes, or equal parts of a node
// if there are more groups than nodes. With consecutive, groups are runs of
// consecutive ranks, even where the ranks of a node are not.
func (m *mapping) groups(n int, consecutive bool) [][]int {
	groups := make([][]int, 0, n)
	if consecutive && !m.blocked {
		return split(groups, m.all, n)
	}
	if n <= len(m.nodes) {
		for _, nodes := range split(nil, m.nodes, n) {
			group := slices.Concat(nodes...)
			slices.Sort(group)
			groups = append(groups, group)
		}
		return groups
	}
	for k, share := range deal(lengths(m.nodes), n) {
		groups = split(groups, m.nodes[k], share)
	}
	slices.SortFunc(groups, func(a, b []int) int { return a[0] - b[0] })
	return groups
}

func lengths(s [][]int) []int {
	n := make([]int, len(s))
	for i := range s {
		n[i] = len(s[i])
	}
	return n
}

// split appends n equal parts of s to parts.
func split[T any](parts [][]T, s []T, n int) [][]T {
	for i := range n {
		parts = append(parts, s[i*len(s)/n:(i+1)*len(s)/n])
	}
	return parts
}

// deal hands out n things to holders with so many places each, one by one in
// turn. There are n places.
func deal(places []int, n int) []int {
	shares := make([]int, len(places))
	for n > 0 {
		for j := range places {
			if n > 0 && shares[j] < places[j] {
				shares[j]++
				n--
			}
		}
	}
	return shares
}

// Ranks returns the ranks of the plan in order. The slice belongs to the plan.
func (p *Plan) Ranks() []int { return p.mapping.ranks }

// Node returns the node of a rank, and -1 for a rank that is not in the plan.
func (p *Plan) Node(rank int) int {
	i, ok := p.mapping.position(rank)
	if !ok {
		return -1
	}
	return p.mapping.numbers[p.mapping.node[i]]
}
