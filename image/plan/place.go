package plan

import (
	"fmt"
	"iter"
)

// Base is where the part of a rank begins.
type Base struct {
	File   int   // index into Plan.Files
	Offset int64 // in the file
}

// Hole is a stretch of a file that no write touches: padding before a stripe boundary, zero.
type Hole struct {
	File          int
	Offset, Bytes int64
}

// roundUp returns the least multiple of unit that is at least n.
func roundUp(n, unit int64) int64 {
	if r := n % unit; r != 0 {
		return n - r + unit
	}
	return n
}

// relative lays out the pieces of one rank: their offsets from its base, and the length.
func (s *Settings) relative(pieces []Piece) ([]int64, int64, error) {
	offsets := make([]int64, len(pieces))
	var end int64
	for i := range pieces {
		p := &pieces[i]
		if err := checkLength(p.Bytes); err != nil {
			return nil, 0, fmt.Errorf("piece %d: %w", i, err)
		}
		if p.Align && s.aligned() && p.Bytes > 0 {
			end = roundUp(end, s.StripeSize)
		}
		offsets[i] = end
		if end += p.Bytes; end > maxFile {
			return nil, 0, fmt.Errorf("piece %d: ends beyond 2^60 bytes", i)
		}
	}
	return offsets, end, nil
}

func checkLength(n int64) error {
	if n < 0 || n > maxFile || n%PageSize != 0 {
		return fmt.Errorf("length of %d: must be a multiple of %d, at most 2^60", n, PageSize)
	}
	return nil
}

// members returns for each file the ranks in it, in order.
func (s *Settings) members(m *mapping) [][]int {
	switch s.Layout {
	case Aggregated:
		return m.groups(s.Aggregators, false)
	case Shared:
		return m.groups(1, false)
	}
	return m.groups(len(m.ranks), false)
}

// bases is the prefix sum over each file.
func (s *Settings) bases(members [][]int, lengths []int64) ([]Base, error) {
	bases := make([]Base, len(lengths))
	for file, ranks := range members {
		end := s.Header
		for _, i := range ranks {
			if s.aligned() && lengths[i] > 0 {
				end = roundUp(end, s.StripeSize)
			}
			bases[i] = Base{File: file, Offset: end}
			if end += lengths[i]; end > maxFile {
				return nil, fmt.Errorf("plan: file %d: more than 2^60 bytes", file)
			}
		}
	}
	return bases, nil
}

// placed is a piece, not empty, at its place.
type placed struct {
	at, bytes int64
	key       int
	source    int32 // position of the rank
	index     int32 // among the pieces of the rank
}

func (p *placed) end() int64 { return p.at + p.bytes }

// place fills in where everything goes.
func (p *Plan) place(sources []Source, members [][]int) error {
	p.offsets = make([][]int64, len(sources))
	p.lengths = make([]int64, len(sources))
	total := 0
	for i := range sources {
		s := &sources[i]
		var err error
		if err = checkKeys(s.Pieces); err == nil {
			p.offsets[i], p.lengths[i], err = p.Settings.relative(s.Pieces)
		}
		if err != nil {
			return fmt.Errorf("plan: rank %d: %w", s.Rank, err)
		}
		total += len(s.Pieces)
	}
	var err error
	if p.bases, err = p.Settings.bases(members, p.lengths); err != nil {
		return err
	}
	p.pieces = make([]placed, 0, total)
	p.first = append(p.first, 0)
	p.Files = make([]File, len(members))
	for f, ranks := range members {
		end := p.Settings.Header
		for _, i := range ranks {
			base := p.bases[i].Offset
			for j := range sources[i].Pieces {
				p.offsets[i][j] += base
				piece := &sources[i].Pieces[j]
				if piece.Bytes == 0 {
					continue
				}
				p.pieces = append(p.pieces, placed{p.offsets[i][j], piece.Bytes, piece.Key, int32(i), int32(j)})
				end = p.offsets[i][j] + piece.Bytes
			}
		}
		p.Files[f] = File{Rank: p.mapping.ranks[ranks[0]], Bytes: end}
		p.first = append(p.first, len(p.pieces))
	}
	return nil
}

// checkKeys checks that the keys of a rank differ.
func checkKeys(pieces []Piece) error {
	ascending := true
	for i := 1; i < len(pieces) && ascending; i++ {
		ascending = pieces[i].Key > pieces[i-1].Key
	}
	if ascending {
		return nil
	}
	seen := make(map[int]int, len(pieces))
	for i := range pieces {
		if j, ok := seen[pieces[i].Key]; ok {
			return fmt.Errorf("pieces %d and %d: both have the key %d", j, i, pieces[i].Key)
		}
		seen[pieces[i].Key] = i
	}
	return nil
}

// Places returns the file of a rank and the offsets of its pieces, which belong to the plan;
// file is -1 for a rank that is not in it.
func (p *Plan) Places(rank int) (file int, offsets []int64) {
	i, ok := p.mapping.position(rank)
	if !ok {
		return -1, nil
	}
	return p.bases[i].File, p.offsets[i]
}

// Holes yields the holes of all files in order.
func (p *Plan) Holes() iter.Seq[Hole] {
	return func(yield func(Hole) bool) {
		for f := range p.Files {
			end := p.Settings.Header
			for _, pl := range p.pieces[p.first[f]:p.first[f+1]] {
				if pl.at > end && !yield(Hole{File: f, Offset: end, Bytes: pl.at - end}) {
					return
				}
				end = pl.end()
			}
		}
	}
}
