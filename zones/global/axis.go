package global

import "fmt"

// axis is one axis of an array on its ranks: n elements over so many places.
type axis struct {
	n, places int64
	kind      Kind
	block     int64 // 0: as equal as can be (block), 1 (cyclic)
	halo      int64
}

func (x axis) check() error {
	if x.kind == Block && x.block > 0 && x.block*x.places < x.n {
		return fmt.Errorf("%d blocks of %d do not hold %d elements", x.places, x.block, x.n)
	}
	// Without a length the last place has the fewest elements; with one, too.
	if x.count(x.places-1) < 1 {
		return fmt.Errorf("%d elements on %d ranks: %w", x.n, x.places, ErrTooManyRanks)
	}
	return nil
}

// length is that of a block that is dealt out.
func (x axis) length() int64 { return max(1, x.block) }

// start is the first element of a place, for block.
func (x axis) start(c int64) int64 {
	if x.block > 0 {
		return min(x.n, c*x.block)
	}
	q, r := x.n/x.places, x.n%x.places
	return c*q + min(c, r)
}

// count is the number of elements of a place, without halo.
func (x axis) count(c int64) int64 {
	if x.kind == Block {
		return x.start(c+1) - x.start(c)
	}
	b := x.length()
	turn := b * x.places
	return x.n/turn*b + min(b, max(0, x.n%turn-c*b))
}

// owner is the place of an element. Elements beyond the edge are of the place at it.
func (x axis) owner(i int64) int64 {
	if x.kind != Block {
		return i / x.length() % x.places
	}
	i = min(max(i, 0), x.n-1)
	if x.block > 0 {
		return i / x.block
	}
	q, r := x.n/x.places, x.n%x.places
	if i < r*(q+1) {
		return i / (q + 1)
	}
	return r + (i-r*(q+1))/q
}

// local is the position of an element in the memory of a place, halo included.
func (x axis) local(c, i int64) int64 {
	if x.kind == Block {
		return i - x.start(c) + x.halo
	}
	b := x.length()
	return i/(b*x.places)*b + i%b
}

// global is the element at a position.
func (x axis) global(c, at int64) int64 {
	if x.kind == Block {
		return at + x.start(c) - x.halo
	}
	b := x.length()
	return (at/b*x.places+c)*b + at%b
}
