package replay

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
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

// A moment is the end of an operation or a part. The index of the operation orders
// moments at the same time.
type moment struct {
	at    int64
	index int32
	what  int32
}

func sortMoments(m []moment) {
	slices.SortFunc(m, func(a, b moment) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.index, b.index)) })
}

// before returns how many of the sorted ends came before the start of the operation
// with that index.
func before(ends []moment, start int64, index int32) int32 {
	return int32(sort.Search(len(ends), func(i int) bool {
		return ends[i].at > start || ends[i].at == start && ends[i].index >= index
	}))
}

// order sets the dependencies of operations on one file. All wait for its creation,
// truncation and end. Reads, truncations and ends wait for everything that had ended
// before. A renaming also waits for what had ended on the file that it replaces.
func (p *plan) order() {
	replacing := make(map[int32][]int32) // renamings, by the file that they replace
	for i := range p.events {
		if e := &p.events[i]; e.Op == iotrace.Rename && e.File != e.Peer && len(p.byFile[e.Peer]) > 0 {
			replacing[e.Peer] = append(replacing[e.Peer], int32(i))
		}
	}
	p.replaced = make(map[int32]int32)
	for f, ops := range p.byFile {
		others := replacing[int32(f)]
		if !p.shared(ops, others) {
			continue
		}
		p.files[f].gate = newGate(len(ops))
		ends := make([]moment, len(ops))
		for k, i := range ops {
			ends[k] = moment{p.events[i].End, i, i}
		}
		sortMoments(ends)
		// turn returns how many of the first k must finish before any other operation:
		// those up to the last one that created, truncated or ended the file.
		turn := make([]int32, len(ends)+1)
		for k, m := range ends {
			o := p.op(m.what)
			o.place = int32(k)
			turn[k+1] = turn[k]
			switch o.Op {
			case iotrace.Truncate, iotrace.Rename, iotrace.Unlink:
				turn[k+1] = int32(k + 1)
			case iotrace.Open:
				if m.what == ops[0] || o.empties {
					turn[k+1] = int32(k + 1)
				}
			}
		}
		for _, i := range ops {
			o := p.op(i)
			o.need = before(ends, o.Start, i)
			switch {
			case o.Op == iotrace.Read, o.Op == iotrace.Truncate, o.Op == iotrace.Rename, o.Op == iotrace.Unlink, o.empties:
			default:
				o.need = turn[o.need]
			}
		}
		for _, i := range others {
			p.replaced[i] = before(ends, p.events[i].Start, i)
		}
	}
}

// A turn is the place of an operation among those that need the name of a file.
type turn struct {
	gate        *gate
	place, need int32 // how many before it must finish first
}

// take lets the operations that rename, remove or replace a file take turns with those
// that need its name before and after, in the order of the trace also if they overlap.
// Else a faster rank would find no file, or a wrong one.
func (p *plan) take() {
	p.turns = make(map[int32][]turn)
	ends := make([]bool, len(p.files))
	users := make([][]int32, len(p.files))
	for i := range p.events {
		o := p.op(int32(i))
		switch o.Op {
		case iotrace.Rename:
			ends[o.File], ends[o.Peer] = true, true
		case iotrace.Unlink:
			ends[o.File] = true
		}
	}
	use := func(file, i int32) {
		if ends[file] {
			users[file] = append(users[file], i)
		}
	}
	for i := range p.events {
		o := p.op(int32(i))
		if o.Op == iotrace.Open || o.Op == iotrace.Stat || o.Op == iotrace.Rename || o.Op == iotrace.Unlink || o.opens {
			use(o.File, int32(i))
		}
		if o.Op == iotrace.Rename && o.Peer != o.File {
			use(o.Peer, int32(i))
		}
	}
	for _, list := range users {
		if !p.overlap(list) {
			continue
		}
		g, need := newGate(len(list)), int32(0)
		for place, i := range list {
			t := turn{g, int32(place), need}
			if op := p.events[i].Op; op == iotrace.Rename || op == iotrace.Unlink {
				t.need, need = int32(place), int32(place+1)
			}
			p.turns[i] = append(p.turns[i], t)
		}
	}
}

// overlap reports whether several ranks do the operations, or one begins before the one
// before it has ended. One rank takes its turns anyway, one after the other.
func (p *plan) overlap(list []int32) bool {
	for k, i := range list {
		if k > 0 && (p.events[i].Rank != p.events[list[0]].Rank || p.events[i].Start < p.events[list[k-1]].End) {
			return true
		}
	}
	return false
}

// shared reports whether several ranks do the operations.
func (p *plan) shared(ops, others []int32) bool {
	another := func(i int32) bool { return p.events[i].Rank != p.events[ops[0]].Rank }
	return slices.ContainsFunc(ops, another) || slices.ContainsFunc(others, another)
}
