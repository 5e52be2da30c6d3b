package global

import (
	"errors"
	"fmt"
)

// A Range is the elements Lo, Lo+By, … up to Hi of an axis: Lo..Hi by By in Chapel.
// A By of 0 is 1.
type Range struct{ Lo, Hi, By int64 }

func (r Range) by() int64 { return max(1, r.By) }

// Len returns the number of elements.
func (r Range) Len() int64 {
	if r.Hi < r.Lo {
		return 0
	}
	return (r.Hi-r.Lo)/r.by() + 1
}

// At returns the k-th element, from 0.
func (r Range) At(k int64) int64 { return r.Lo + k*r.by() }

// Pos returns which one element i is, from 0. It is the inverse of At.
func (r Range) Pos(i int64) int64 { return (i - r.Lo) / r.by() }

// Within returns the elements of r from lo to hi.
func (r Range) Within(lo, hi int64) Range {
	by := r.by()
	if lo > r.Lo {
		r.Lo += ceilDiv(lo-r.Lo, by) * by
	}
	if hi < r.Hi {
		r.Hi = hi
	}
	if n := r.Len(); n > 0 {
		r.Hi = r.At(n - 1)
	}
	return r
}

func ceilDiv(a, b int64) int64 {
	q := a / b
	if a%b > 0 {
		q++
	}
	return q
}

// All returns the ranges of a whole array.
func (a *Array) All() []Range {
	out := make([]Range, len(a.Shape))
	for i, n := range a.Shape {
		out[i] = Range{0, n - 1, 1}
	}
	return out
}

// checkSections checks an assignment of section s of src to section d of dst.
func checkSections(dst *Layout, d []Range, src *Layout, s []Range) error {
	if len(d) != len(dst.axes) || len(s) != len(src.axes) || len(d) != len(s) {
		return fmt.Errorf("sections of %d and %d axes for arrays of %d and %d", len(d), len(s), len(dst.axes), len(src.axes))
	}
	if dst.array.Elem != src.array.Elem {
		return fmt.Errorf("elements of %d and %d bytes", dst.array.Elem, src.array.Elem)
	}
	for i := range d {
		if d[i].Len() != s[i].Len() {
			return fmt.Errorf("axis %d: %d elements are assigned to %d", i, s[i].Len(), d[i].Len())
		}
		if err := errors.Join(d[i].check(dst.axes[i]), s[i].check(src.axes[i])); err != nil {
			return fmt.Errorf("axis %d: %w", i, err)
		}
	}
	return nil
}

func (r Range) check(x axis) error {
	if r.By < 0 || r.Len() > 0 && (r.Lo < 0 || r.Hi >= x.n) {
		return fmt.Errorf("range %d..%d by %d of %d elements", r.Lo, r.Hi, r.by(), x.n)
	}
	return nil
}
