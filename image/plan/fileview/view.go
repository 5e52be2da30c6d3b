package fileview

import (
	"errors"
	"fmt"
	"math"
	"sort"
)

// A Tuple is a block of Size wanted bytes, at least one, and the Hole bytes
// after it that are not wanted.
type Tuple struct{ Size, Hole int64 }

// Forever repeats the tuples as often as the offsets of a file, which are below
// 2^63, allow.
const Forever int64 = -1

// A View maps offsets among the wanted bytes of a file to offsets of the file.
// It does not change, and may be used by several goroutines at once.
type View struct {
	initial int64
	blocks  []block
	wanted  int64 // bytes of one repetition without its holes
	extent  int64 // bytes of one repetition
	size    int64 // wanted bytes of all repetitions
}

// A block is a tuple and the sums up to it, from the begin of the repetition.
type block struct {
	Tuple
	start int64 // bytes before it, with holes
	until int64 // wanted bytes up to and including it
}

// NewView returns the view that begins at byte initial of the file and goes
// through the tuples repeat times, or Forever. A hole follows each tuple, also
// the last before the list repeats.
//
// It is an error if a number is out of range or if the end of the last hole is
// not an offset of a file, which ends at 2^63-1.
func NewView(initial int64, tuples []Tuple, repeat int64) (*View, error) {
	switch {
	case initial < 0:
		return nil, fmt.Errorf("view: initial offset %d is negative", initial)
	case len(tuples) == 0:
		return nil, errors.New("view: no tuples")
	case repeat < 1 && repeat != Forever:
		return nil, fmt.Errorf("view: %d repetitions: must be at least 1, or Forever", repeat)
	}
	v := &View{initial: initial, blocks: make([]block, len(tuples))}
	space := math.MaxInt64 - initial
	for i, t := range tuples {
		switch {
		case t.Size < 1:
			return nil, fmt.Errorf("view: tuple %d: size %d: must be at least 1", i, t.Size)
		case t.Hole < 0:
			return nil, fmt.Errorf("view: tuple %d: hole %d is negative", i, t.Hole)
		case t.Hole > space-v.extent-t.Size: // the right side may be negative
			return nil, fmt.Errorf("view: tuple %d (size %d, hole %d) ends beyond the largest offset of a file", i, t.Size, t.Hole)
		}
		v.wanted += t.Size
		v.blocks[i] = block{Tuple: t, start: v.extent, until: v.wanted}
		v.extent += t.Size + t.Hole
	}
	most := space / v.extent
	if repeat == Forever {
		repeat = most
	}
	if repeat > most {
		return nil, fmt.Errorf("view: %d repetitions of %d bytes end beyond the largest offset of a file", repeat, v.extent)
	}
	v.size = repeat * v.wanted
	return v, nil
}

// Size returns how many wanted bytes the view has.
func (v *View) Size() int64 { return v.size }

// Offset returns where in the file the byte at viewOff of the view is, and how
// many bytes of its block there are from there on. It is false if the view has
// no such byte.
func (v *View) Offset(viewOff int64) (off, n int64, ok bool) {
	if viewOff < 0 || viewOff >= v.size {
		return 0, 0, false
	}
	c := v.at(viewOff)
	return c.off(), c.run(), true
}

// at returns the cursor at a byte of the view.
func (v *View) at(viewOff int64) cursor {
	// Zickler (thesis, 2015), section 4.4: first the repetition, then the tuple
	// by binary search.
	rest := viewOff % v.wanted
	i := sort.Search(len(v.blocks), func(i int) bool { return v.blocks[i].until > rest })
	b := &v.blocks[i]
	return cursor{
		v:    v,
		base: v.initial + viewOff/v.wanted*v.extent,
		i:    i,
		in:   rest - (b.until - b.Size),
	}
}

// A cursor is a byte of a view. Past the last one it must not be used.
type cursor struct {
	v    *View
	base int64 // file offset of the repetition
	i    int   // block
	in   int64 // bytes into the block, fewer than it has
}

func (c *cursor) off() int64 { return c.base + c.v.blocks[c.i].start + c.in }

// run returns the bytes left in the block.
func (c *cursor) run() int64 { return c.v.blocks[c.i].Size - c.in }

// advance moves on by n bytes, at most run. It returns the hole that it jumped
// over at the end of the block, 0 if it did not get there.
func (c *cursor) advance(n int64) (hole int64) {
	b := &c.v.blocks[c.i]
	if c.in += n; c.in < b.Size {
		return 0
	}
	c.in = 0
	if c.i++; c.i == len(c.v.blocks) {
		c.i = 0
		c.base += c.v.extent
	}
	return b.Hole
}
