package dmtcptest

import (
	"encoding/binary"
	"hash/fnv"
	"math"

	"ckpt/zones"
)

// The flags of mmap(2) with which DMTCP describes areas.
const (
	shared    = 0x1
	private   = 0x2
	fixed     = 0x10
	anonymous = 0x20
)

// An Area is a range of addresses in an image. The functions that make areas
// set what DMTCP would; a test may then change a field.
type Area struct {
	Start, End uint64
	Offset     uint64
	Prot       zones.Prot
	Flags      uint32
	Device     uint64 // major<<32 | minor
	Inode      uint64
	FileSize   int64 // stored of a file's area; -1 otherwise
	Name       string

	// Runs are the parts into which the area is cut, which cover it. An area
	// without runs is stored whole.
	Runs []Run
	// Dropped says that the area is stored as a header and nothing else, as the
	// cache of nscd.
	Dropped bool
	// Data makes the contents; nil makes zeros.
	Data Contents
}

// A Run is a number of pages that are stored or not.
type Run struct {
	Pages int64
	Zero  bool // not stored
}

// Touched returns a run of pages that are stored.
func Touched(pages int64) Run { return Run{Pages: pages} }

// Untouched returns a run of pages that are not stored.
func Untouched(pages int64) Run { return Run{Pages: pages, Zero: true} }

// Alternating returns n runs of one page each, every other one stored.
func Alternating(n int) []Run {
	runs := make([]Run, n)
	for i := range runs {
		runs[i] = Run{Pages: 1, Zero: i%2 == 1}
	}
	return runs
}

func (r Run) stored() int64 {
	if r.Zero {
		return 0
	}
	return r.Pages * block
}

func (r Run) properties() uint64 {
	if r.Zero {
		return 4 | 1
	}
	return 4
}

func (a *Area) properties() uint64 {
	switch {
	case a.Dropped:
		return 1
	case a.Runs != nil:
		return 2
	}
	return 0
}

// flat returns the bytes that follow the header of an area that is not cut.
func (a *Area) flat() int64 {
	switch {
	case a.Dropped || a.Runs != nil:
		return 0
	case a.FileSize > 0:
		return a.FileSize
	}
	return int64(a.End - a.Start)
}

func (a *Area) stored() int64 {
	n := block + a.flat()
	for _, r := range a.Runs {
		n += block + r.stored()
	}
	return n
}

// Anonymous returns private memory of a process, as long as its runs are. Its
// name is empty, or in brackets.
func Anonymous(start uint64, name string, data Contents, runs ...Run) Area {
	end := start
	for _, r := range runs {
		end += uint64(r.Pages) * block
	}
	return Area{Start: start, End: end, Prot: zones.Read | zones.Write, Flags: private | fixed | anonymous,
		FileSize: -1, Name: name, Runs: runs, Data: data}
}

// File returns an area that maps a whole file of that size for reading. It is
// stored up to the end of the file, so that the next header need not begin at a
// multiple of the page size.
func File(start uint64, path string, size int64, data Contents) Area {
	return Area{Start: start, End: start + uint64(zones.PageRound(size)), Prot: zones.Read, Flags: private | fixed,
		Device: 8<<32 | 2, Inode: inode(path), FileSize: size, Name: path, Data: data}
}

// Reserved returns addresses that a library keeps free for later.
func Reserved(start uint64, size int64) Area {
	a := Anonymous(start, "", nil, Untouched(size/block))
	a.Prot = 0
	return a
}

// Segment returns memory that processes share and whose file has been removed,
// as MPICH does it: each image holds all of it.
func Segment(start uint64, path string, size int64, data Contents) Area {
	a := Anonymous(start, path+" (deleted)", data, Touched(size/block))
	a.Flags = shared | fixed
	a.Device, a.Inode = 26, inode(path)
	return a
}

// Stack returns the main stack, of which the uppermost bytes are stored, and
// above them all the environment: strings like PMI_RANK=3.
func Stack(end uint64, size, stored int64, data Contents, env []string) Area {
	strings := []byte{0}
	for _, s := range env {
		strings = append(append(strings, s...), 0)
	}
	strings = append(strings, make([]byte, 8)...)
	top := size - int64(len(strings))
	return Anonymous(end-uint64(size), "[stack]", func(p []byte, off int64) {
		if data != nil {
			data(p, off)
		}
		overlay(p, off, strings, top)
	}, Untouched((size-stored)/block), Touched(stored/block))
}

// Arena returns what DMTCP's allocator maps: 16 MiB of which a page in every 16
// KiB is touched, which makes 2048 runs and 12 MiB of image.
func Arena(start uint64, data Contents) Area {
	var runs []Run
	for range 1024 {
		runs = append(runs, Touched(1), Untouched(3))
	}
	return Anonymous(start, "", data, runs...)
}

func inode(path string) uint64 {
	h := fnv.New32a()
	h.Write([]byte(path))
	return uint64(h.Sum32()) + 1
}

// Contents makes the contents of an area: it fills p with the bytes from off on.
// It is called for what is stored only, in order.
type Contents func(p []byte, off int64)

// Noise returns bytes that no compressor makes smaller.
func Noise(seed uint64) Contents {
	return words(func(i uint64) uint64 { return mix(seed ^ mix(i)) })
}

// Doubles returns a smooth field of float64 as a solver has it: neighbours
// differ in their lower bits.
func Doubles(seed uint64) Contents {
	return words(func(i uint64) uint64 {
		x := 1 + float64((seed+i)%4096)/4096
		return math.Float64bits(x) | mix(seed^mix(i))>>40
	})
}

// Literal returns b and zeros after it.
func Literal(b []byte) Contents {
	return func(p []byte, off int64) { overlay(p, off, b, 0) }
}

// Repeated returns the first n bytes of data over and over.
func Repeated(data Contents, n int64) Contents {
	unit := make([]byte, n)
	data(unit, 0)
	return func(p []byte, off int64) {
		for i := range p {
			p[i] = unit[(off+int64(i))%n]
		}
	}
}

// Changed returns the bytes of data before from, and the bytes of other from there on.
func Changed(data, other Contents, from int64) Contents {
	return func(p []byte, off int64) {
		n := min(max(from-off, 0), int64(len(p)))
		data(p[:n], off)
		other(p[n:], off+n)
	}
}

func words(f func(i uint64) uint64) Contents {
	return func(p []byte, off int64) {
		for ; off%8 == 0 && len(p) >= 8; p, off = p[8:], off+8 {
			binary.LittleEndian.PutUint64(p, f(uint64(off)/8))
		}
		for len(p) > 0 {
			var w [8]byte
			binary.LittleEndian.PutUint64(w[:], f(uint64(off)/8))
			n := copy(p, w[off%8:])
			p, off = p[n:], off+int64(n)
		}
	}
}

// overlay copies of b, which lies at the offset at, what falls into p, which
// lies at off.
func overlay(p []byte, off int64, b []byte, at int64) {
	switch {
	case at >= off+int64(len(p)), at+int64(len(b)) <= off:
	case at >= off:
		copy(p[at-off:], b)
	default:
		copy(p, b[off-at:])
	}
}

// mix is the output function of splitmix64 (Steele, Lea, Flood 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// An rng is a small generator of random numbers.
type rng uint64

func (r *rng) next() uint64 {
	*r += 0x9e3779b97f4a7c15
	return mix(uint64(*r))
}
