package dataset

import (
	"errors"
	"fmt"
	"iter"
	"math/bits"
	"slices"
)

// peersSpec says in a spec which ranks a rank sends a kind of message to. Exactly one of
// the patterns is given.
type peersSpec struct {
	Grid      []*expression `yaml:"grid"`      // sides of a grid of ranks; the first runs fastest
	Steps     [][]int64     `yaml:"steps"`     // on the grid, one for each neighbour
	Wrap      bool          `yaml:"wrap"`      // the grid has no edges
	Doubling  *expression   `yaml:"doubling"`  // recursive doubling within rows of so many ranks
	Transpose []*expression `yaml:"transpose"` // rows and columns of a grid of ranks
	Rank      *int64        `yaml:"rank"`      // one rank receives from all
	Tree      bool          `yaml:"tree"`      // up a binomial tree of all ranks and down again
	All       bool          `yaml:"all"`       // each rank sends to all others
}

// maxSteps bounds the neighbours of a rank, maxSides the sides of a grid of ranks.
const (
	maxSteps = 100
	maxSides = 6
)

func (s *peersSpec) check() error {
	if s == nil {
		return nil
	}
	given := 0
	for _, is := range []bool{len(s.Grid) > 0, s.Doubling != nil, len(s.Transpose) > 0, s.Rank != nil, s.Tree, s.All} {
		if is {
			given++
		}
	}
	switch {
	case given != 1:
		return fmt.Errorf("%d patterns: want one of grid, doubling, transpose, rank, tree, all", given)
	case len(s.Grid) == 0 && (len(s.Steps) > 0 || s.Wrap):
		return errors.New("steps and wrap belong to a grid")
	case len(s.Grid) > 0 && (len(s.Steps) == 0 || len(s.Steps) > maxSteps || len(s.Grid) > maxSides):
		return fmt.Errorf("want a grid of at most %d sides with 1 to %d steps", maxSides, maxSteps)
	case len(s.Transpose) > 0 && len(s.Transpose) != 2:
		return fmt.Errorf("transpose has %d sides: want rows and columns", len(s.Transpose))
	case s.Rank != nil && *s.Rank < 0:
		return fmt.Errorf("rank %d: want a rank from 0", *s.Rank)
	}
	for _, step := range s.Steps {
		if len(step) != len(s.Grid) {
			return fmt.Errorf("step %v on a grid of %d sides", step, len(s.Grid))
		}
	}
	return nil
}

// peers are a pattern on a number of processes.
type peers struct {
	np    int64
	sides []int64
	spec  *peersSpec
}

// instance evaluates the sides and checks that they hold all ranks.
func (s *peersSpec) instance(np int, params map[string]int64) (*peers, error) {
	out := &peers{np: int64(np), spec: s}
	sides := slices.Concat(s.Grid, s.Transpose)
	if s.Doubling != nil {
		sides = []*expression{s.Doubling}
	}
	product := int64(1)
	for _, e := range sides {
		n, err := e.whole(params)
		if err != nil {
			return nil, err
		}
		if n < 1 || n > out.np {
			return nil, fmt.Errorf("a side of %d ranks of %d", n, np)
		}
		out.sides = append(out.sides, n)
		product *= n
		if product > out.np {
			break
		}
	}
	switch {
	case s.Doubling != nil:
		if n := out.sides[0]; out.np%n != 0 || bits.OnesCount64(uint64(n)) != 1 {
			return nil, fmt.Errorf("doubling in rows of %d ranks of %d: want a power of two that divides them", n, np)
		}
	case len(out.sides) > 0 && product != out.np:
		return nil, fmt.Errorf("a grid of %v ranks does not hold %d", out.sides, np)
	}
	return out, nil
}

// degree is how many ranks a rank sends to, at most.
func (p *peers) degree() int64 {
	switch {
	case p.spec.Steps != nil:
		return int64(len(p.spec.Steps))
	case p.spec.Doubling != nil:
		return int64(bits.Len64(uint64(p.sides[0])) - 1)
	case p.spec.All:
		return p.np - 1
	}
	return 1
}

// of yields the ranks that a rank sends to. A rank may come twice, and itself never
// comes.
func (p *peers) of(rank int64, yield func(to int64) bool) bool {
	send := func(to int64) bool { return to == rank || yield(to) }
	switch s := p.spec; {
	case s.Steps != nil:
		for _, step := range s.Steps {
			if to, ok := p.step(rank, step); ok && !send(to) {
				return false
			}
		}
	case s.Doubling != nil:
		for bit := int64(1); bit < p.sides[0]; bit <<= 1 {
			if !send(rank ^ bit) { // rows begin at multiples of their length
				return false
			}
		}
	case s.Transpose != nil:
		return send(p.transposed(rank))
	case s.Rank != nil:
		return *s.Rank >= p.np || send(*s.Rank)
	case s.Tree:
		return p.tree(rank, send)
	case s.All:
		for to := range p.np {
			if !send(to) {
				return false
			}
		}
	}
	return true
}

// step walks on the grid; beyond an edge there is no rank.
func (p *peers) step(rank int64, step []int64) (to int64, ok bool) {
	stride := int64(1)
	for d, side := range p.sides {
		at := rank/stride%side + step[d]%side
		if p.spec.Wrap {
			at = (at + side) % side
		} else if at = rank/stride%side + step[d]; at < 0 || at >= side {
			return 0, false
		}
		to += at * stride
		stride *= side
	}
	return to, true
}

// transposed is the partner of a rank on a grid of rows and as many or twice as many
// columns: two ranks of a row have the halves that one of the other side needs.
func (p *peers) transposed(rank int64) int64 {
	rows, cols := p.sides[0], p.sides[1]
	row, col := rank/cols, rank%cols
	if cols == rows {
		return col*cols + row
	}
	return col/2*cols + 2*row + col%2
}

// tree sends to the parent of a rank and to its children.
func (p *peers) tree(rank int64, send func(int64) bool) bool {
	low := rank & -rank // lowest set bit; the root has all
	if rank > 0 && !send(rank-low) {
		return false
	}
	for bit := int64(1); rank+bit < p.np && (rank == 0 || bit < low); bit <<= 1 {
		if !send(rank + bit) {
			return false
		}
	}
	return true
}

// Known reports whether the spec says which ranks the messages go to.
func (m *Message) Known() bool { return m.peers != nil }

// Pairs yields sender and receiver of the messages of one iteration. Each pair stands
// for Each messages of Mean bytes. Without a pattern it yields nothing.
func (m *Message) Pairs() iter.Seq2[int, int] {
	return func(yield func(from, to int) bool) {
		if m.peers == nil {
			return
		}
		for rank := range m.peers.np {
			if !m.peers.of(rank, func(to int64) bool { return yield(int(rank), int(to)) }) {
				return
			}
		}
	}
}
