package analyze

import "encoding/binary"

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
