package global

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// A Held is a part, the rank that holds it, and the region that it is in, where that matters.
type Held struct {
	Rank   int
	Part   *Part
	Region string
}

// CheckTiles reports why parts do not make up an array, each cell once: nil if they do.
// The error names two ranks where two are at odds.
func CheckTiles(parts []Held) error {
	if err := CheckApart(parts); err != nil || len(parts) == 0 {
		return err
	}
	if parts[0].Part.Index != nil {
		return checkIndexed(parts)
	}
	var held int64
	for _, h := range parts {
		held += h.Part.Own()
	}
	whole := int64(1)
	for _, s := range parts[0].Part.Axes {
		var ok bool
		if whole, ok = product(whole, s.Cells); !ok {
			return errors.New("the array is too large")
		}
	}
	if held != whole {
		return fmt.Errorf("%d of %d cells are held by no rank", whole-held, whole)
	}
	return nil
}

// CheckApart reports why parts are not of the same array, or which two hold the same cell:
// nil if they and other parts can make up an array.
func CheckApart(parts []Held) error {
	if len(parts) == 0 {
		return nil
	}
	for _, h := range parts[1:] {
		if err := parts[0].Part.Fits(h.Part); err != nil {
			return fmt.Errorf("ranks %d and %d describe different arrays: %w", parts[0].Rank, h.Rank, err)
		}
	}
	if parts[0].Part.Index != nil {
		return nil
	}
	if a, b, cell := overlap(parts); cell != nil && a == b {
		return fmt.Errorf("rank %d holds cell %v in two blocks", a, cell)
	} else if cell != nil {
		return fmt.Errorf("ranks %d and %d both hold cell %v", min(a, b), max(a, b), cell)
	}
	return nil
}

// overlap returns two ranks that hold the same cell, and that cell, or nil.
// It walks along the first axis and compares those parts that reach as far. Where all are
// dealt in turn alike, it is enough to compare their first blocks.
func overlap(parts []Held) (a, b int, cell []int64) {
	order := slices.DeleteFunc(slices.Clone(parts), func(h Held) bool { return h.Part.Own() == 0 })
	slices.SortStableFunc(order, func(x, y Held) int { return cmp.Compare(x.Part.Axes[0].First, y.Part.Axes[0].First) })
	alike := !slices.ContainsFunc(order, func(h Held) bool {
		return h.Part.Axes[0].Block == 0 || h.Part.Axes[0].Stride != order[0].Part.Axes[0].Stride
	})
	reach := func(s Stretch) int64 {
		if alike {
			return s.First + s.Block - 1
		}
		return s.last()
	}
	var open []Held
	for _, h := range order {
		first := h.Part.Axes[0].First
		open = slices.DeleteFunc(open, func(o Held) bool { return reach(o.Part.Axes[0]) < first })
		for _, o := range open {
			if cell := o.Part.shared(h.Part); cell != nil {
				return o.Rank, h.Rank, cell
			}
		}
		open = append(open, h)
	}
	return 0, 0, nil
}

// last is the index of the last cell.
func (s Stretch) last() int64 {
	if s.Block == 0 {
		return s.First + s.Count - 1
	}
	return s.First + (s.Count-1)/s.Block*s.Stride + (s.Count-1)%s.Block
}

func (p *Part) shared(q *Part) []int64 {
	var cell [MaxAxes]int64
	for i, s := range p.Axes {
		if cell[i] = s.meets(q.Axes[i]); cell[i] < 0 {
			return nil
		}
	}
	return slices.Clone(cell[:len(p.Axes)])
}

// meets returns the first cell that both stretches have, or −1. They have
// cells.
func (s Stretch) meets(t Stretch) int64 {
	first := max(s.First, t.First)
	switch {
	case s.First == t.First && s.Count == t.Count && s.Block == t.Block && s.Stride == t.Stride:
		return first
	case s.last() < t.First || t.last() < s.First:
		return -1
	case s.Block == 0 && t.Block == 0:
		return first
	case s.Block > 0 && t.Block > 0 && s.Stride == t.Stride: // ranks are many, and this is usual
		if first >= min(s.First+s.Block, t.First+t.Block) {
			return -1
		}
		return first
	}
	s.Halo, s.Lower, s.Upper, t.Halo, t.Lower, t.Upper = 0, 0, 0, 0, 0, 0
	both := meet(s.holds(s.around(0, 0), false), t.holds(s.around(0, 0), false), s.Cells)
	if len(both) == 0 {
		return -1
	}
	cell := s.at(both[0].dst)
	for _, p := range both {
		cell = min(cell, s.at(p.dst))
	}
	return cell
}

// at is the index of the cell at a position in memory without halo.
func (s Stretch) at(position int64) int64 {
	if s.Block == 0 {
		return s.First + position
	}
	return s.First + position/s.Block*s.Stride + position%s.Block
}

// A run is consecutive elements of a range that one place has: n of them from the k-th,
// which lies at position at of its memory; the others follow at a distance of step.
type run struct{ k, n, at, step int64 }

// cut returns the part of the run within [lo, hi).
func (r run) cut(lo, hi int64) run {
	if skip := lo - r.k; skip > 0 {
		r.k, r.n, r.at = lo, r.n-skip, r.at+skip*r.step
	}
	r.n = min(r.n, hi-r.k)
	return r
}

// A pattern is the elements of a range that one place has: runs that repeat every period
// elements of the range, shift positions later in the memory; period 0 means that they
// do not repeat.
type pattern struct {
	runs          []run
	period, shift int64
}

// holds returns which elements of r are in the stretch, in its halo too if that is asked
// for. Otherwise elements beyond the edge of the array are of the stretch at the edge.
func (s Stretch) holds(r Range, halo bool) pattern {
	if s.Block > 0 {
		return s.deals(r)
	}
	if s.Count == 0 && !halo {
		return pattern{}
	}
	lo, hi := s.First, s.First+s.Count-1
	if halo || lo == 0 {
		lo -= s.low()
	}
	if halo || hi == s.Cells-1 {
		hi += s.high()
	}
	part := r.Within(lo, hi)
	if part.Len() == 0 {
		return pattern{}
	}
	return pattern{runs: []run{{r.Pos(part.Lo), part.Len(), part.Lo - s.First + s.low(), r.by()}}}
}

// deals is holds for blocks.
func (s Stretch) deals(r Range) pattern {
	by, n := r.by(), r.Len()
	if s.Count == 0 {
		return pattern{}
	}
	p := pattern{period: s.Stride / gcd(s.Stride, by)}
	p.shift = p.period * by / s.Stride * s.Block
	if p.period >= n {
		p.period, p.shift = 0, 0
	} else {
		n = p.period
	}
	for k := int64(0); k < n; {
		// How far element i is behind the start of a block, perhaps of the one before First.
		i := r.At(k)
		behind := ((i-s.First)%s.Stride + s.Stride) % s.Stride
		if behind >= s.Block {
			k += ceilDiv(s.Stride-behind, by)
			continue
		}
		length := min(ceilDiv(s.Block-behind, by), n-k)
		p.runs = append(p.runs, run{k, length, (i-s.First-behind)/s.Stride*s.Block + behind, by})
		k += length
	}
	if p.period == 1 && len(p.runs) == 1 {
		return pattern{runs: []run{{0, r.Len(), p.runs[0].at, p.shift}}}
	}
	return p
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func (p pattern) between(lo, hi int64) []run {
	var out []run
	add := func(r run) {
		if r = r.cut(lo, hi); r.n > 0 {
			out = append(out, r)
		}
	}
	if p.period == 0 {
		for _, r := range p.runs {
			add(r)
		}
		return out
	}
	for turn := lo / p.period; turn*p.period < hi; turn++ {
		for _, r := range p.runs {
			r.k, r.at = r.k+turn*p.period, r.at+turn*p.shift
			add(r)
		}
	}
	return out
}

// hull returns the range outside of which the pattern, of a range of n, has nothing.
func (p pattern) hull(n int64) (lo, hi int64) {
	switch {
	case len(p.runs) == 0:
		return 0, 0
	case p.period > 0:
		return 0, n
	}
	last := p.runs[len(p.runs)-1]
	return p.runs[0].k, last.k + last.n
}

// after is how far memory advances over span elements of the range.
func (p pattern) after(span int64) int64 {
	if p.period > 0 {
		return span / p.period * p.shift
	}
	if len(p.runs) == 0 {
		return 0
	}
	return span * p.runs[0].step
}

// repeats returns the least number of elements after which the pattern, in a range of n,
// repeats itself; n if it does not.
func (p pattern) repeats(n int64) int64 {
	switch {
	case p.period > 0:
		return p.period
	case len(p.runs) == 1:
		return 1
	}
	return n
}

// A piece is elements that one place has and another gets, along one axis: count times n
// elements, of which the first is at src and dst.
type piece struct {
	n, src, srcStep, dst, dstStep int64
	count, srcShift, dstShift     int64
}

// meet returns what both patterns of a range of n have. Their number does not depend on
// n: what repeats is one piece.
func meet(dst, src pattern, n int64) []piece {
	lo, hi := dst.hull(n)
	lo2, hi2 := src.hull(n)
	lo, hi = max(lo, lo2), min(hi, hi2)
	if lo >= hi {
		return nil
	}
	period, ok := product(dst.repeats(n), src.repeats(n)/gcd(dst.repeats(n), src.repeats(n)))
	if !ok || period > hi-lo || period == 1 {
		period = hi - lo
	}
	srcShift, dstShift := src.after(period), dst.after(period)
	var out []piece
	s := src.between(lo, lo+period)
	for _, d := range dst.between(lo, lo+period) {
		for len(s) > 0 && s[0].k+s[0].n <= d.k {
			s = s[1:]
		}
		for _, r := range s {
			if r.k >= d.k+d.n {
				break
			}
			from, to := max(r.k, d.k), min(r.k+r.n, d.k+d.n)
			a, b := d.cut(from, to), r.cut(from, to)
			p := piece{n: a.n, src: b.at, srcStep: b.step, dst: a.at, dstStep: a.step, srcShift: srcShift, dstShift: dstShift}
			out = append(out, p.repeat(from, hi, period)...)
		}
	}
	return out
}

// repeat returns the piece, which is at k, as often as it comes before hi: whole ones, and
// what there is of the last.
func (p piece) repeat(k, hi, period int64) []piece {
	p.count = (hi - k - p.n) / period
	if p.count++; hi-k < p.n {
		p.count = 0
	}
	var out []piece
	if p.count > 0 {
		out = append(out, p)
	}
	if rest := hi - (k + p.count*period); rest > 0 {
		q := p
		q.n, q.src, q.dst = rest, p.src+p.count*p.srcShift, p.dst+p.count*p.dstShift
		q.count = 1
		out = append(out, q)
	}
	return out
}
