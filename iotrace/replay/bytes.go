package replay

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"unsafe"

	"ckpt/iotrace"
)

// An extent is a part of a file.
type extent struct{ off, end int64 }

// fill finds the bytes that the trace reads before it writes them. Files with such
// bytes are prepared, even if the trace creates them. It takes one file after the
// other, since the lists of one may be longer than the rest of the plan.
func (p *plan) fill() {
	for file, ops := range p.byFile {
		if !slices.ContainsFunc(ops, func(i int32) bool { return p.events[i].Op == iotrace.Read && p.events[i].Bytes > 0 }) {
			continue
		}
		f := &p.files[file]
		f.fill = p.unwritten(ops)
		f.prepared = f.prepared || len(f.fill) > 0
	}
}

// unwritten returns the extents that are read before they are written, in order.
// Written bytes exist from the end of the write.
func (p *plan) unwritten(ops []int32) []extent {
	data := make([]int32, 0, len(ops))
	for _, i := range ops {
		if e := &p.events[i]; e.Op.Data() && e.Bytes > 0 {
			data = append(data, i)
		}
	}
	edges := make([]int64, 0, 2*len(data))
	for _, i := range data {
		e := &p.events[i]
		edges = append(edges, e.Offset, e.Offset+e.Bytes)
	}
	slices.Sort(edges)
	touched := newPainting(slices.Clip(slices.Compact(edges)))
	at := func(i int32) int64 {
		if e := &p.events[i]; e.Op == iotrace.Write {
			return e.End
		}
		return p.events[i].Start
	}
	order := func(i int32) int { // of those at the same time, writes are first
		if p.events[i].Op == iotrace.Write {
			return 0
		}
		return 1
	}
	slices.SortFunc(data, func(i, j int32) int { return cmp.Or(cmp.Compare(at(i), at(j)), order(i)-order(j), cmp.Compare(i, j)) })
	for _, i := range data {
		e := &p.events[i]
		touched.paint(extent{e.Offset, e.Offset + e.Bytes}, e.Op == iotrace.Read)
	}
	return touched.read()
}

// A painting records how each stretch between two edges was touched first, if it is
// painted in order of time. Each stretch is painted once: next skips painted stretches
// (union-find).
type painting struct {
	edges []int64
	reads []uint64 // a bit of each stretch: a read touched it first
	next  []int32
}

func newPainting(edges []int64) *painting {
	p := &painting{edges, make([]uint64, len(edges)/64+1), make([]int32, len(edges)+1)}
	for i := range p.next {
		p.next[i] = int32(i)
	}
	return p
}

func (p *painting) paint(x extent, read bool) {
	i, _ := slices.BinarySearch(p.edges, x.off)
	for i := p.blank(int32(i)); int(i) < len(p.edges) && p.edges[i] < x.end; i = p.blank(i) {
		if read {
			p.reads[i/64] |= 1 << (i % 64)
		}
		p.next[i] = i + 1
	}
}

// blank returns the first unpainted stretch from i on.
func (p *painting) blank(i int32) int32 {
	for p.next[i] != i {
		p.next[i] = p.next[p.next[i]]
		i = p.next[i]
	}
	return i
}

// read returns the stretches that a read touched first, those that touch as one.
func (p *painting) read() (out []extent) {
	for i := 0; i+1 < len(p.edges); i++ {
		if p.reads[i/64]&(1<<(i%64)) == 0 {
			continue
		}
		if n := len(out); n > 0 && out[n-1].end == p.edges[i] {
			out[n-1].end = p.edges[i+1]
			continue
		}
		out = append(out, extent{p.edges[i], p.edges[i+1]})
	}
	return out
}

// A SpaceError says that the files of a replay would not fit. The replay has not begun.
type SpaceError struct {
	Dir        string
	Need, Free int64 // bytes
}

func (e *SpaceError) Error() string {
	return fmt.Sprintf("%s has %d bytes of free space, and the files of the replay need %d", e.Dir, e.Free, e.Need)
}

// Factor returns an Options.ScaleBytes with which the files fit.
func (e *SpaceError) Factor() float64 { return max(0.01, 0.9*float64(e.Free)/float64(e.Need)) }

// footprint returns about how many bytes the files occupy when they occupy most, in whole
// pages, as most file systems allot them. Unwritten parts of a file are holes.
func (p *plan) footprint() (most int64) {
	type state struct{ occupied, end int64 }
	files := make([]state, len(p.files))
	var sum int64
	change := func(f *state, to int64) {
		sum += pages(to) - pages(f.occupied)
		f.occupied = to
		most = max(most, sum)
	}
	for i := range p.files {
		for _, x := range p.files[i].fill {
			change(&files[i], files[i].occupied+x.end-x.off)
			files[i].end = x.end
		}
	}
	for i := range p.events {
		e := &p.events[i]
		if e.File == iotrace.None {
			continue
		}
		f := &files[e.File]
		switch e.Op {
		case iotrace.Open:
			if p.planned[i].empties {
				f.end = 0
				change(f, 0)
			}
		case iotrace.Write:
			f.end = max(f.end, e.Offset+e.Bytes)
			change(f, min(f.occupied+e.Bytes, f.end))
		case iotrace.Truncate:
			f.end = e.Bytes
			change(f, min(f.occupied, e.Bytes))
		case iotrace.Unlink:
			change(f, 0)
		case iotrace.Rename:
			if e.Peer != e.File {
				change(&files[e.Peer], 0)
			}
		}
	}
	return most
}

// pages rounds up to whole pages.
func pages(n int64) int64 { return (n + pageSize - 1) / pageSize * pageSize }

// fits checks the free space before a file is made.
func (r *running) fits() error {
	free, err := r.o.fs.Free(r.o.Dir)
	if err != nil {
		return &Error{Op: "look at the free space of", Path: r.o.Dir, Offset: iotrace.None, Rank: iotrace.None, Err: err}
	}
	if need := r.p.footprint(); need > free {
		return &SpaceError{r.o.Dir, need, free}
	}
	return nil
}

const (
	page = 4096
	// maxPool bounds the memory of a noise. Larger requests repeat it within one call;
	// no file system compresses over such a distance.
	maxPool = 64 << 20
	minPool = 1 << 20
)

// A noise is incompressible bytes at an address that O_DIRECT accepts.
type noise struct{ pool []byte }

// newNoise makes noise for requests of up to most bytes.
func newNoise(seed uint64, largest int64) noise {
	pool := alignedMemory(int(min(max(largest+minPool, minPool), maxPool)))
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	_, _ = rand.NewChaCha8(key).Read(pool) // never fails
	return noise{pool}
}

// bytes returns n bytes for one call. They begin at a page chosen by which, so that
// requests differ.
func (x noise) bytes(n int64, which uint64) [][]byte {
	at := int64(scatter(which)%uint64(len(x.pool)/page)) * page
	return around(x.pool, at, n)
}

// scatter is the finalizer of SplitMix64 (Steele, Lea, Flood: Fast splittable
// pseudorandom number generators, OOPSLA 2014).
func scatter(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// around returns n bytes from at on, and wraps around at the end of the memory.
func around(memory []byte, at, n int64) [][]byte {
	if n <= int64(len(memory))-at {
		return [][]byte{memory[at : at+n]}
	}
	var out [][]byte
	for n > 0 {
		k := min(n, int64(len(memory))-at)
		out = append(out, memory[at:at+k])
		n -= k
		at = 0
	}
	return out
}

// alignedMemory returns at least n bytes of whole pages, aligned to a page.
func alignedMemory(n int) []byte {
	n = (n + page - 1) / page * page
	b := make([]byte, n+page)
	skip := -int(uintptr(unsafe.Pointer(&b[0]))) & (page - 1)
	return b[skip : skip+n : skip+n]
}
