package plan

import (
	"fmt"
	"math"
	"slices"
)

// Plan is who writes what where. It is made by New and not changed afterwards;
// goroutines may share it.
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
	// Group is the number of the group of ranks whose bytes it writes, Ranks are
	// its members. The slice belongs to the plan. In an unaligned shared file
	// bytes of other ranks may come along, where they share a stripe.
	Group int   `json:"group"`
	Ranks []int `json:"-"`
	// OSTs are those whose stripes it writes, if aggregators divide OSTs.
	OSTs []int `json:"osts,omitempty"`
}

// New plans the checkpoint of the given ranks, which must be in order. The
// sources are not kept.
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

// header gives the header of the shared file to the writer of its first stripe,
// or, where nobody owns stripes, to the first rank with data. The other files
// belong to their ranks.
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
