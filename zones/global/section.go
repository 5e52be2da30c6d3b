package global

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Pick is what a section takes of one axis: N elements, the first one at Start, the others Step
// apart. A Step below 0 goes backwards.
type Pick struct{ Start, N, Step int64 }

// A Section is a strided box of an array, as NumPy's basic slices are.
type Section struct {
	Picks []Pick
	// Shape is the shape of the result: axes of which one number was picked are not in it.
	Shape []int64
}

// Whole returns the section of all elements.
func Whole(shape []int64) Section {
	s := Section{Shape: slices.Clone(shape)}
	for _, n := range shape {
		s.Picks = append(s.Picks, Pick{0, n, 1})
	}
	return s
}

// ParseSection reads a section in the words of NumPy, like "0:100,::4", "-1", "...,0" or "::-1".
// A number must be within the axis; the ends of a slice are cut to it.
func ParseSection(text string, shape []int64) (Section, error) {
	items := strings.Split(text, ",")
	for i, item := range items {
		items[i] = strings.TrimSpace(item)
	}
	if n := len(items); n > 1 && items[n-1] == "" {
		items = items[:n-1] // Python allows a last comma
	}
	given := len(items)
	if at := slices.Index(items, "..."); at >= 0 {
		given--
		if slices.Contains(items[at+1:], "...") {
			return Section{}, fmt.Errorf("slice %q has more than one \"...\"", text)
		}
		if given <= len(shape) {
			items = slices.Concat(items[:at], slices.Repeat([]string{":"}, len(shape)-given), items[at+1:])
		}
	}
	if given > len(shape) {
		return Section{}, fmt.Errorf("slice %q has %d axes, the array has %d", text, given, len(shape))
	}
	var s Section
	for i, n := range shape {
		item := ":"
		if i < len(items) {
			item = items[i]
		}
		p, one, err := parsePick(item, n)
		if err != nil {
			return Section{}, fmt.Errorf("slice %q: axis %d: %w", text, i, err)
		}
		s.Picks = append(s.Picks, p)
		if !one {
			s.Shape = append(s.Shape, p.N)
		}
	}
	return s, nil
}

// parsePick reads what is taken of an axis of n elements, and whether that is one number.
func parsePick(item string, n int64) (p Pick, one bool, err error) {
	fields := strings.Split(item, ":")
	if len(fields) > 3 {
		return p, false, fmt.Errorf("%q has more than two colons", item)
	}
	var at [3]*int64
	for i, f := range fields {
		if f = strings.TrimSpace(f); f == "" && len(fields) > 1 {
			continue
		}
		v, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return p, false, fmt.Errorf("%q is no number and no slice START:STOP:STEP", item)
		}
		at[i] = &v
	}
	if len(fields) == 1 {
		i := *at[0]
		if i < 0 {
			i += n
		}
		if i < 0 || i >= n {
			return p, false, fmt.Errorf("element %d of %d", *at[0], n)
		}
		return Pick{i, 1, 1}, true, nil
	}
	p, err = sliced(at, n)
	return p, false, err
}

// sliced is Python's slice.indices: START:STOP:STEP, each perhaps missing, of n elements.
func sliced(at [3]*int64, n int64) (Pick, error) {
	step, low, high := int64(1), int64(0), n
	if at[2] != nil {
		step = *at[2]
	}
	if step == 0 {
		return Pick{}, errors.New("the step is 0")
	}
	if step < 0 {
		low, high = -1, n-1
	}
	bound := func(v *int64, missing int64) int64 {
		switch {
		case v == nil:
			return missing
		case *v < 0:
			return max(low, *v+n)
		}
		return min(high, *v)
	}
	var p Pick
	if step > 0 {
		start, stop := bound(at[0], low), bound(at[1], high)
		p = Pick{start, 0, min(step, n)}
		if stop > start {
			p.N = (stop-start-1)/p.Step + 1
		}
		return p, nil
	}
	start, stop := bound(at[0], high), bound(at[1], low)
	p = Pick{start, 0, max(step, -n)}
	if start > stop {
		p.N = (start-stop-1)/-p.Step + 1
	}
	return p, nil
}

// Len returns the number of elements.
func (s Section) Len() int64 {
	n := int64(1)
	for _, p := range s.Picks {
		n *= p.N
	}
	return n
}

// Boxes cuts the elements from the lo-th up to the hi-th of a section, the last axis running
// fastest, into sections. Each calls its argument with a section and the place of its first
// element behind lo; the elements of a section follow each other.
func (s Section) Boxes(lo, hi int64, each func(at int64, box Section) error) error {
	b := boxes{of: s.Picks, each: each, from: lo, box: slices.Clone(s.Picks)}
	if lo >= hi {
		return nil
	}
	return b.axis(0, 0, lo, hi)
}

type boxes struct {
	of, box []Pick
	from    int64
	each    func(at int64, box Section) error
}

// axis cuts the elements lo to hi of what the axes before have fixed, which begins at base.
func (b *boxes) axis(i int, base, lo, hi int64) error {
	row := int64(1)
	for _, p := range b.of[i+1:] {
		row *= p.N
	}
	take := func(first, n int64) {
		p := b.of[i]
		b.box[i] = Pick{p.Start + first*p.Step, n, p.Step}
	}
	inner := func(k, lo, hi int64) error {
		take(k, 1)
		return b.axis(i+1, base+k*row, lo, hi)
	}
	first, last := lo/row, hi/row
	if lo%row != 0 {
		if first == last {
			return inner(first, lo%row, hi%row)
		}
		if err := inner(first, lo%row, row); err != nil {
			return err
		}
		first++
	}
	if last > first {
		take(first, last-first)
		copy(b.box[i+1:], b.of[i+1:])
		if err := b.each(base+first*row-b.from, Section{Picks: slices.Clone(b.box)}); err != nil {
			return err
		}
	}
	if hi%row == 0 {
		return nil
	}
	return inner(last, 0, hi%row)
}

// Split returns the part with one more axis where its cells are several elements of so many bytes.
func (p *Part) Split(elem int64) *Part {
	q := *p
	n := p.Elem / max(elem, 1)
	q.Elem, q.Axes = elem, append(slices.Clone(p.Axes), Stretch{Cells: n, Count: n})
	if p.room != nil {
		q.room = append(slices.Clone(p.room), n)
	}
	return &q
}

// Section returns what a memory, which has the elements of a section and no others, gets of a
// part that a rank holds. Its halo gives nothing.
func (p *Part) Section(rank int, s Section) []Transfer {
	pieces, memory := make([][]piece, len(p.Axes)), make([]int64, len(p.Axes))
	for i, pick := range s.Picks {
		memory[i] = pick.N
		r, gets := Range{pick.Start, pick.Start + (pick.N-1)*pick.Step, pick.Step}, run{n: pick.N, step: 1}
		if pick.Step < 0 {
			r = Range{r.Hi, r.Lo, -pick.Step}
			gets.at, gets.step = pick.N-1, -1
		}
		pieces[i] = meet(pattern{runs: []run{gets}}, p.Axes[i].holds(r, false), pick.N)
	}
	return p.combine(rank, p.Elem, pieces, memory, 0)
}

// combine makes transfers from the part to a memory, which begins at an offset, of one piece per
// axis.
func (p *Part) combine(rank int, elem int64, pieces [][]piece, memory []int64, offset int64) (list []Transfer) {
	if slices.ContainsFunc(pieces, func(of []piece) bool { return len(of) == 0 }) {
		return nil
	}
	chosen := make([]piece, len(pieces))
	var walk func(i int)
	walk = func(i int) {
		if i == len(pieces) {
			t := transfer(rank, chosen, memory, p.memory(), elem)
			t.SrcOffset, t.DstOffset = t.SrcOffset+p.offset, t.DstOffset+offset
			list = append(list, t)
			return
		}
		for _, chosen[i] = range pieces[i] {
			walk(i + 1)
		}
	}
	walk(0)
	return list
}
