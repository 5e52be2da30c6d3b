// Package fileview reads and writes the blocks of a file that a view selects, as if they lay
// next to each other, in few large calls instead of one per block (data sieving). A View
// describes the pattern once; a File takes offsets that count wanted bytes only:
//
//	// One data zone per rank, the library zone of the rank before it.
//	v, err := fileview.NewView(header+library, []fileview.Tuple{{Size: data, Hole: library}}, ranks)
//	f, err := fileview.NewFile(file, v, fileview.Options{Device: device})
//	n, err := f.ReadAt(zone, rank*data) // partial restore: the data zone of one rank
//
// # Views
//
// A view begins at an offset of the file and goes through a list of tuples, again and again. A
// tuple is a block of wanted bytes and the hole after it:
//
//	file   0      initial
//	       +------+--------+-------+-----+------+--------+-------+----
//	       |      | block0 | hole0 | blk1| hole1| block0 | hole0 | ...
//	       +------+--------+-------+-----+------+--------+-------+----
//	view          0      size0         size0+size1
//
// The displacement of an MPI file view is the initial offset, its flattened filetype the list
// of tuples, its etype a byte.
//
// # Rules
//
// Reading two blocks and the hole between them with one call pays as long as the hole takes
// less time than a call. A Rule decides which blocks to join; Method has the rules of the
// literature, and Adaptive, the default. Joined blocks go through a buffer of at most
// Options.Buffer bytes; blocks that touch are moved in place.
//
// # Promises
//
//   - The bytes that ReadAt returns, and the file after WriteAt, are the same under every rule.
//   - No call is larger than Options.Buffer; a File has one buffer, for which calls take turns.
//   - A write changes no byte outside of its blocks. Joined over a hole it reads the hole and
//     writes it back, with the range locked; a plain write takes the lock as well. No update is
//     lost if all writers use the same Locker, or Lockers that exclude each other.
//   - A file grows to the last byte written. Holes on the way become zeros.
//   - Memory and time of a call follow from the blocks asked for.
//
// A write is not atomic, and not durable.
//
// The method is Zickler's (thesis, 2015), sections 3.3 and 4.4, with 64-bit offsets and without
// the read-modify-write of accesses that have no hole.
package fileview

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"sort"
)

// A Tuple is a block of Size ≥ 1 wanted bytes, and the Hole bytes after it.
type Tuple struct{ Size, Hole int64 }

// Forever repeats the tuples as often as offsets below 2^63 allow.
const Forever int64 = -1

// A View maps offsets among the wanted bytes of a file to offsets of the file. Goroutines may
// share it.
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

// NewView returns the view that begins at byte initial of the file and goes through the tuples
// repeat times, or Forever. A hole follows each tuple, also the last. It fails if a number is
// out of range, or the last hole ends beyond 2^63-1.
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

// Within returns how many wanted bytes a file of some length has.
func (v *View) Within(length int64) int64 {
	rest := max(length-v.initial, 0)
	n := rest / v.extent * v.wanted
	for _, b := range v.blocks {
		n += min(max(rest%v.extent-b.start, 0), b.Size)
	}
	return min(n, v.size)
}

// Offset returns where in the file the byte at viewOff is, and how much of its block follows;
// false if the view has no such byte.
func (v *View) Offset(viewOff int64) (off, n int64, ok bool) {
	if viewOff < 0 || viewOff >= v.size {
		return 0, 0, false
	}
	c := v.at(viewOff)
	return c.off(), c.run(), true
}

// at returns the cursor at a byte of the view.
func (v *View) at(viewOff int64) cursor {
	// First the repetition, then the tuple by binary search (Zickler, section 4.4).
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

// advance moves on by n bytes, at most run, and returns the hole that it jumped over, 0 within
// a block.
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

// A window is one access to the file.
type window struct {
	off  int64  // in the file
	len  int64  // bytes it spans
	lead int64  // of which lie before the first wanted
	data int64  // of which are wanted
	at   cursor // the first wanted byte
}

// plain tells whether all bytes of the window are wanted.
func (w *window) plain() bool { return w.len == w.data }

// pieces yields the wanted parts of the window: place and length. They are walked again each
// time, since a list could be larger than the buffer.
func (w *window) pieces() iter.Seq2[int64, int64] {
	return func(yield func(pos, n int64) bool) {
		c, pos := w.at, w.lead
		for left := w.data; left > 0; {
			n := min(c.run(), left)
			if !yield(pos, n) {
				return
			}
			left -= n
			pos += n + c.advance(n)
		}
	}
}

// A planner divides a request into windows as its rule decides.
type planner struct {
	rule   Rule
	access Access
	buffer int64
	device Device

	at   cursor // the next wanted byte
	left int64  // wanted bytes to come
	end  int64  // of the last window, -1 before the first
}

// next returns the next window, or false after the last. Whatever the rule answers, a window is
// not empty, fits the buffer, follows the last one, and leaves out no wanted byte.
func (p *planner) next() (window, bool) {
	if p.left == 0 {
		return window{}, false
	}
	w := window{off: p.at.off(), at: p.at}
	gap, reach := int64(0), w.off
	if p.end >= 0 {
		gap, reach = w.off-p.end, w.off-p.end
	}
	d := p.ask(&w, gap)
	if p.access == Read {
		lead := min(max(0, d.Lead), reach)
		if d.Take <= 0 && lead > 0 && d.Fill > 0 {
			w.off -= lead
			w.len = min(d.Fill, lead, p.buffer)
			p.end = w.off + w.len
			return w, true
		}
		w.lead = min(lead, p.buffer-1)
		w.off -= w.lead
		w.len = w.lead
	}
	if d.Take <= 0 {
		d.Take = p.buffer
	}
	hole, whole := p.take(&w, d.Take)
	for whole || p.left == 0 {
		d = p.ask(&w, hole)
		space := p.buffer - w.len
		if p.left == 0 || d.Take <= 0 || hole >= space {
			if p.left > 0 {
				space = min(space, hole)
			}
			if p.access == Read {
				w.len += min(max(0, d.Fill), space, math.MaxInt64-w.off-w.len)
			}
			break
		}
		w.len += hole
		hole, whole = p.take(&w, d.Take)
	}
	p.end = w.off + w.len
	return w, true
}

// ask puts the question about the next block, which comes after a hole.
func (p *planner) ask(w *window, hole int64) Decision {
	return p.rule.Decide(Step{
		Access: p.access,
		Start:  w.off,
		Len:    w.len,
		Data:   w.data,
		Hole:   hole,
		Size:   min(p.at.run(), p.left),
		Rest:   p.left,
		Buffer: p.buffer,
		Device: p.device,
	})
}

// take adds up to n bytes of the block to the window. It returns whether that was its end, and
// the hole behind it.
func (p *planner) take(w *window, n int64) (hole int64, whole bool) {
	run := p.at.run()
	n = min(n, run, p.left, p.buffer-w.len)
	w.len += n
	w.data += n
	p.left -= n
	return p.at.advance(n), n == run
}
