package analyze

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// A span is a part of a file with one state: a set of processes that have read it since
// it was last written, 0 for the empty set.
type span struct {
	from, to int64
	state    uint64
}

// spans are the touched parts of a file in their order. They lie in pieces of at most
// pieceSpans, so that a new one moves few others.
type spans struct {
	pieces [][]span
	free   [][]span // emptied pieces, to be used again
	n      int      // spans
	at     int      // piece of the last request: the next one is often near
}

const pieceSpans = 64

func (s *spans) reset() {
	for _, p := range s.pieces {
		s.free = append(s.free, p[:0])
	}
	s.pieces, s.n, s.at = s.pieces[:0], 0, 0
}

// all returns a copy of all spans.
func (s *spans) all() []span { return slices.Concat(s.pieces...) }

// piece returns an empty piece.
func (s *spans) piece() []span {
	if n := len(s.free); n > 0 {
		p := s.free[n-1]
		s.free = s.free[:n-1]
		return p
	}
	return make([]span, 0, pieceSpans)
}

// find returns the piece and the place in it of the first span that ends behind from.
// If that is the first one of the next piece, the place is behind the last span.
func (s *spans) find(from int64) (p, i int) {
	p = s.at
	if p >= len(s.pieces) || s.pieces[p][0].from > from || p+1 < len(s.pieces) && s.pieces[p+1][0].from <= from {
		low, high := 0, len(s.pieces) // the last piece that begins at or before from
		for low < high {
			if mid := int(uint(low+high) >> 1); s.pieces[mid][0].from <= from {
				low = mid + 1
			} else {
				high = mid
			}
		}
		p = max(0, low-1)
		s.at = p
	}
	if p >= len(s.pieces) {
		return 0, 0
	}
	list := s.pieces[p]
	if n := len(list); list[n-1].to <= from {
		return p, n
	}
	low, high := 0, len(list)-1
	for low < high {
		if mid := int(uint(low+high) >> 1); list[mid].to > from {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return p, low
}

// next returns the span at a place that find returned, if there is one.
func (s *spans) next(p, i int) (span, bool) {
	switch {
	case p >= len(s.pieces):
		return span{}, false
	case i < len(s.pieces[p]):
		return s.pieces[p][i], true
	case p+1 < len(s.pieces):
		return s.pieces[p+1][0], true
	}
	return span{}, false
}

// insert puts x, which overlaps no other span, before the i-th span of a piece. It joins
// x to equal neighbours.
func (s *spans) insert(p, i int, x span) {
	if len(s.pieces) == 0 {
		s.pieces = append(s.pieces, s.piece())
	}
	list := s.pieces[p]
	before := i > 0 && list[i-1].to == x.from && list[i-1].state == x.state
	behind := i < len(list) && list[i].from == x.to && list[i].state == x.state
	switch {
	case before && behind:
		list[i-1].to = list[i].to
		s.pieces[p] = slices.Delete(list, i, i+1)
		s.n--
		return
	case before:
		list[i-1].to = x.to
		return
	case behind:
		list[i].from = x.from
		return
	}
	s.n++
	if len(list) == pieceSpans {
		// Appending leaves full pieces behind.
		half := pieceSpans / 2
		if i == len(list) && p+1 == len(s.pieces) {
			half = pieceSpans - 1
		}
		more := append(s.piece(), list[half:]...)
		list = list[:half]
		s.pieces[p] = list
		s.pieces = slices.Insert(s.pieces, p+1, more)
		if i > half {
			p, i, list = p+1, i-half, more
		}
	}
	s.pieces[p] = slices.Insert(list, i, x)
}

// change gives the part from..to of the i-th span of a piece another state.
func (s *spans) change(p, i int, from, to int64, state uint64) {
	list := s.pieces[p]
	x := list[i]
	if x.state == state {
		return
	}
	switch {
	case x.from < from && to < x.to:
		list[i].to = from
		s.insert(p, i+1, span{to, x.to, x.state})
		p, i = s.find(from)
		s.insert(p, i, span{from, to, state})
	case x.from < from:
		list[i].to = from
		s.insert(p, i+1, span{from, to, state})
	case to < x.to:
		list[i].from = to
		s.insert(p, i, span{from, to, state})
	default:
		list[i].state = state
		if i+1 < len(list) && list[i+1].from == to && list[i+1].state == state {
			list[i].to = list[i+1].to
			list = slices.Delete(list, i+1, i+2)
			s.n--
		}
		if i > 0 && list[i-1].to == from && list[i-1].state == state {
			list[i-1].to = list[i].to
			list = slices.Delete(list, i, i+1)
			s.n--
		}
		s.pieces[p] = list
	}
}

// A sampling chooses blocks of a file, by a hash of their number, so that no step of
// the program can be in step with it. Each level keeps half of the blocks of the level
// below; level 0 keeps all bytes.
type sampling struct {
	level, shift int
}

func (a sampling) share() float64 { return 1 / float64(uint64(1)<<a.level) }

func (a sampling) keeps(block int64) bool {
	x := uint64(block) + 0x9e3779b97f4a7c15 // splitmix64
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return bits.TrailingZeros64(x^x>>31) >= a.level
}

// cut calls f with the kept parts of a range that is not empty, and returns the number
// of blocks.
func (a sampling) cut(from, to int64, f func(from, to int64)) int64 {
	first, last := from>>a.shift, (to-1)>>a.shift
	for b := first; b <= last; b++ {
		if !a.keeps(b) {
			continue
		}
		low, high := max(from, b<<a.shift), to
		if b < last {
			high = (b + 1) << a.shift
		}
		f(low, high)
	}
	return last - first + 1
}

// readers are the sets of processes that have read a part of a file. If there are at
// most 64 processes, a set is its bits; else its number in a list, where 0 is the empty
// set and equal sets have equal numbers.
type readers struct {
	words int // of 64 bits
	list  []uint64
	known map[string]uint64
	with  map[[2]uint64]uint64 // set and process to the set of both
	key   []byte
}

const (
	maxSetWords = 1 << 18 // in the list, before unused sets are removed
	maxSetSteps = 1 << 16
)

func (r *readers) reset(processes int) {
	r.words = (processes + 63) / 64
	if r.words > 1 {
		r.empty()
	}
}

func (r *readers) empty() {
	r.known, r.with = map[string]uint64{}, map[[2]uint64]uint64{}
	r.list = append(r.list[:0], make([]uint64, r.words)...)
	r.known[string(make([]byte, 8*r.words))] = 0
}

func (r *readers) has(set uint64, process int) bool {
	if r.words > 1 {
		set = r.list[int(set)*r.words+process/64]
	}
	return set>>(process%64)&1 != 0
}

// add returns the set with another process.
func (r *readers) add(set uint64, process int) uint64 {
	if r.words <= 1 {
		return set | 1<<process
	}
	step := [2]uint64{set, uint64(process)}
	if to, ok := r.with[step]; ok {
		return to
	}
	if len(r.with) == maxSetSteps {
		clear(r.with)
	}
	at := len(r.list)
	r.list = append(r.list, r.list[int(set)*r.words:(int(set)+1)*r.words]...)
	r.list[at+process/64] |= 1 << (process % 64)
	to := r.intern(at)
	r.with[step] = to
	return to
}

// intern returns the number of the set at the end of the list, and removes it there if
// it is known.
func (r *readers) intern(at int) uint64 {
	r.key = r.key[:0]
	for _, w := range r.list[at:] {
		r.key = binary.LittleEndian.AppendUint64(r.key, w)
	}
	if n, ok := r.known[string(r.key)]; ok {
		r.list = r.list[:at]
		return n
	}
	n := uint64(at / r.words)
	r.known[string(r.key)] = n
	return n
}

func (r *readers) full() bool { return r.words > 1 && len(r.list) > maxSetWords }

// crowded reports whether the list would be full again soon.
func (r *readers) crowded() bool { return r.words > 1 && len(r.list) > maxSetWords/2 }

// keep removes the sets that are in no span, and numbers the others anew.
func (r *readers) keep(s *spans) {
	if r.words <= 1 {
		return
	}
	old := append([]uint64(nil), r.list...)
	r.empty()
	number := map[uint64]uint64{}
	for _, p := range s.pieces {
		for i := range p {
			x := p[i].state
			to, ok := number[x]
			if !ok {
				at := len(r.list)
				r.list = append(r.list, old[int(x)*r.words:(int(x)+1)*r.words]...)
				to = r.intern(at)
				number[x] = to
			}
			p[i].state = to
		}
	}
}
