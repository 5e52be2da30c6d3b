// Package plan decides which rank writes which bytes of a checkpoint where, and in what order.
// It does no I/O: an executor carries a plan out, a simulator costs it, a printer explains it.
//
// Every process of the job calls New with the same sources and settings, takes the part of its
// rank and needs no further agreement:
//
//	p, err := plan.New(sources, plan.Defaults())
//	file, offsets := p.Places(rank)          // where the pieces of the rank go
//	for round := range p.WriterPlan(rank) {  // what the rank has to write
//		// pull round.Gathers into the buffer, then carry out round.Writes
//	}
//	summary := p.Summary()                   // what `ckpt layout` prints
//
// # Placement
//
// A file begins with Settings.Header bytes, which are the caller's.
//
//	per-rank    a file per rank, its pieces one after the other
//	aggregated  a file per aggregator: the pieces of the ranks that it serves,
//	            rank after rank, without gaps
//	shared      one file. The part of each rank, and in it every piece with
//	            Align, begins at a stripe boundary; the padding is a hole. The
//	            file depends on sizes, header and stripe size only.
//
// # Schedule
//
// In two-phase writing aggregators gather bytes of other ranks into a buffer, round after
// round, and write them. Larrosa Jiménez (thesis, Málaga 2015, section 2.3) names four sources
// of parallelism in it:
//
//	P1  writers work at the same time; without it one after the other
//	P2  the gathers of a round run at the same time
//	P3  two buffers: while round k is written from one, round k+1 is gathered
//	    into the other. They are exchanged when both are done, not before.
//	P4  several aggregators per OST. This one changes the plan itself.
//
// A gather is a pull by the aggregator; the gathers of a round from one rank follow each other,
// so that one message can fetch them. Own bytes are written from where they are.
//
// In the shared layout stripe s lies on OST (FirstOST+s) mod StripeCount, and with the
// two-phase strategy the aggregators divide the OSTs: one per OST, or with fewer aggregators a
// range of OSTs each. With P4 the ranks are divided into groups with one aggregator per OST
// each. A stripe with bytes of two groups, which only Settings.Unaligned brings about, belongs
// to the group of its first byte.
//
// Open MPI's OMPIO has the other strategies:
//
//	dynamic     an aggregator per group of consecutive ranks; a round takes the
//	            next Buffer bytes of the group in file order
//	static      the same groups; in every round each member contributes the same
//	            number of bytes, its share of the buffer
//	individual  every rank writes its own bytes, up to WriteBytes at a time, of
//	            which as many may be under way as a buffer holds
//
// The aggregators of dynamic and static own whole stripes too. Individual ranks do not:
// Summary.ContendedStripes counts the stripes with several writers. In the aggregated layout
// two-phase and dynamic are the same.
//
// # Promises
//
//   - Every byte of every piece is written exactly once, at the place that Places gives it.
//     Holes are not written.
//   - But for individual, every stripe of the shared file has one writer.
//   - A round moves at most Settings.Buffer bytes, its own included. With P3 there are two.
//   - All offsets and lengths are multiples of PageSize, as direct I/O wants.
//   - The plan is a function of its input.
//   - New is linear in the number of pieces; rounds are made while they are read.
package plan

import (
	"fmt"
	"math"
	"slices"
)

// Plan is who writes what where. New makes it; goroutines may share it.
type Plan struct {
	Settings Settings // as they took effect: defaults filled in, number of aggregators resolved
	Files    []File
	Writers  []Writer // by rank

	mapping *mapping
	offsets [][]int64 // of the pieces, by position of the rank
	lengths []int64   // of its part
	bases   []Base    // of its part
	pieces  []placed  // of all files, in order
	first   []int     // for each file its first in pieces; and the end
	domains []domain  // of the writers
}

// File is one file of a checkpoint.
type File struct {
	// Rank is the writer of the first bytes, who should write the header too.
	Rank  int   `json:"rank"`
	Bytes int64 `json:"bytes"` // length, with header and holes
}

// Writer is a rank that writes.
type Writer struct {
	Rank int `json:"rank"`
	Node int `json:"node"`
	// Group numbers the group of ranks whose bytes it writes, Ranks are its members. In an
	// unaligned shared file bytes of others come along where they share a stripe.
	Group int   `json:"group"`
	Ranks []int `json:"-"`
	// OSTs are those whose stripes it writes, if aggregators divide OSTs.
	OSTs []int `json:"osts,omitempty"`
}

// New plans the checkpoint of the given ranks, in order. The sources are not kept.
func New(sources []Source, settings Settings) (*Plan, error) {
	if len(sources) > math.MaxInt32 {
		return nil, fmt.Errorf("plan: too many ranks: %d", len(sources))
	}
	m, err := newMapping(sources)
	if err != nil {
		return nil, err
	}
	s, err := settings.prepared()
	if err != nil {
		return nil, err
	}
	if s.Aggregators, err = s.count(m); err != nil {
		return nil, err
	}
	p := &Plan{Settings: s, mapping: m}
	members := s.members(m)
	if err := p.place(sources, members); err != nil {
		return nil, err
	}
	p.assign(members)
	if s.Strategy == Static {
		if err := p.checkShares(); err != nil {
			return nil, err
		}
	}
	p.header()
	return p, nil
}

// header gives the header of the shared file to the writer of its first stripe or, without
// owners of stripes, to the first rank with data.
func (p *Plan) header() {
	if p.Settings.Layout != Shared || len(p.pieces) == 0 {
		return
	}
	if p.Settings.Strategy == Individual {
		p.Files[0].Rank = p.mapping.ranks[p.pieces[0].source]
		return
	}
	for i := range p.domains {
		if p.domains[i].begins(&p.Settings) {
			p.Files[0].Rank = p.Writers[i].Rank
			return
		}
	}
}

// writer returns which of the writers rank is.
func (p *Plan) writer(rank int) (int, bool) {
	return slices.BinarySearchFunc(p.Writers, rank, func(w Writer, rank int) int { return w.Rank - rank })
}

// Piece is a contiguous run of a rank's bytes, like a region.
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

// mapping says which rank runs on which node. A rank is meant by its position among the
// sources, whose numbers may have gaps.
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

// groups divides the ranks into n groups: whole nodes, or equal parts of nodes if there are
// more groups. With consecutive, groups are runs of consecutive ranks in any case.
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

// deal hands out n things, one by one in turn, to holders with so many places each.
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
