package plan

import "fmt"

// Relative lays out the pieces of one rank: the offset of each from the base of
// the rank, and the length of the whole. For the shared layout offsets count
// from a stripe boundary, which is where Bases puts every rank.
func (s Settings) Relative(pieces []Piece) (offsets []int64, length int64, err error) {
	if s, err = s.prepared(); err != nil {
		return nil, 0, err
	}
	return s.relative(pieces)
}

// Bases returns where the part of each rank begins, from the lengths of all of
// them; the pieces of the sources are not looked at.
func (s Settings) Bases(sources []Source, lengths []int64) ([]Base, error) {
	if len(lengths) != len(sources) {
		return nil, fmt.Errorf("plan: %d lengths for %d ranks", len(lengths), len(sources))
	}
	for i, n := range lengths {
		if err := checkLength(n); err != nil {
			return nil, fmt.Errorf("plan: rank %d: %w", sources[i].Rank, err)
		}
	}
	m, err := newMapping(sources)
	if err != nil {
		return nil, err
	}
	if s, err = s.prepared(); err != nil {
		return nil, err
	}
	if s.Aggregators, err = s.count(m); err != nil {
		return nil, err
	}
	return s.bases(s.members(m), lengths)
}
