// Package zones names the kinds of memory of a parallel process.
//
// A checkpoint image has four zones that behave differently when a job is scaled or
// remapped (León 2022, s. 3.2):
//
//   - library: the executable and its shared objects; the same in every rank
//   - data: program data and heap; shrinks as ranks are added (strong scaling)
//   - shared: the message-passing segment of a node; grows with the ranks per
//     node under MPICH, flat under Open MPI
//   - iobuffer: the collective buffer of a rank that is an I/O aggregator
//
// The package is a leaf: it imports nothing else of this module.
package zones

import (
	"encoding/json"
	"fmt"
	"strings"

	"ckpt/zones/global"
)

// A Zone is one of the four kinds of memory.
type Zone uint8

// The zones, in the order in which tables and files list them. The values are
// part of the image format (docs/FORMAT.md) and never change.
const (
	Library Zone = iota
	Data
	Shared
	IOBuffer
	numZones
)

var zoneNames = [numZones]string{"library", "data", "shared", "iobuffer"}

// All lists the zones in their fixed order.
func All() []Zone { return []Zone{Library, Data, Shared, IOBuffer} }

// Valid reports whether z is one of the four zones.
func (z Zone) Valid() bool { return z < numZones }

func (z Zone) String() string {
	if !z.Valid() {
		return fmt.Sprintf("zone(%d)", uint8(z))
	}
	return zoneNames[z]
}

// MarshalText writes the zone's name.
func (z Zone) MarshalText() ([]byte, error) {
	if !z.Valid() {
		return nil, fmt.Errorf("zone %d is unknown", uint8(z))
	}
	return []byte(zoneNames[z]), nil
}

// UnmarshalText reads a zone's name.
func (z *Zone) UnmarshalText(text []byte) error {
	for i, name := range zoneNames {
		if name == string(text) {
			*z = Zone(i)
			return nil
		}
	}
	return fmt.Errorf("zone %q is unknown (want library, data, shared or iobuffer)", text)
}

// Sizes holds bytes per zone.
type Sizes struct {
	Library  int64 `json:"library"`
	Data     int64 `json:"data"`
	Shared   int64 `json:"shared"`
	IOBuffer int64 `json:"iobuffer"`
}

// Add adds n bytes to zone z. Unknown zones are ignored.
func (s *Sizes) Add(z Zone, n int64) {
	switch z {
	case Library:
		s.Library += n
	case Data:
		s.Data += n
	case Shared:
		s.Shared += n
	case IOBuffer:
		s.IOBuffer += n
	}
}

// Plus returns the sum of s and t, zone by zone.
func (s Sizes) Plus(t Sizes) Sizes {
	return Sizes{s.Library + t.Library, s.Data + t.Data, s.Shared + t.Shared, s.IOBuffer + t.IOBuffer}
}

// Total returns the bytes of all zones.
func (s Sizes) Total() int64 { return s.Library + s.Data + s.Shared + s.IOBuffer }

// An Elem is the type of the values in a region. Codecs use it to choose a filter;
// nothing else depends on it.
type Elem uint8

// The element types. The values are part of the image format.
const (
	Bytes Elem = iota
	Float64
	Float32
	Int32
	Int64
	Float16
	BFloat16
	Int16
	Float8
	Int8
	numElems
)

var elems = [numElems]struct {
	name string
	size int
}{{"bytes", 1}, {"float64", 8}, {"float32", 4}, {"int32", 4}, {"int64", 8},
	{"float16", 2}, {"bfloat16", 2}, {"int16", 2}, {"float8", 1}, {"int8", 1}}

// Elems lists the element types.
func Elems() []Elem {
	list := make([]Elem, numElems)
	for i := range list {
		list[i] = Elem(i)
	}
	return list
}

// Valid reports whether e is a known element type.
func (e Elem) Valid() bool { return e < numElems }

// Size returns the bytes of one element, or 0 for an unknown type.
func (e Elem) Size() int {
	if !e.Valid() {
		return 0
	}
	return elems[e].size
}

func (e Elem) String() string {
	if !e.Valid() {
		return fmt.Sprintf("elem(%d)", uint8(e))
	}
	return elems[e].name
}

// MarshalText writes the name.
func (e Elem) MarshalText() ([]byte, error) {
	if !e.Valid() {
		return nil, fmt.Errorf("unknown element type %d", uint8(e))
	}
	return []byte(e.String()), nil
}

// PageSize is the granule of regions and extents in bytes. It is the page size of
// x86-64 and part of the image format on all machines.
const PageSize = 4096

// PageRound returns n rounded up to a whole number of pages.
func PageRound(n int64) int64 { return (n + PageSize - 1) &^ (PageSize - 1) }

// A Region is a contiguous range of memory of one zone.
type Region struct {
	Name string
	Zone Zone
	Elem Elem
	// Size is the size that the program asked for, in bytes. Sizes of zones count it.
	Size int64
	// Part is what the rank holds of an array of all ranks, or nil. Replicated
	// says that all ranks have the same contents. A program, or the specification of a workload, tells both.
	Part       *global.Part
	Replicated bool
	// Blocks are what the rank holds of an array of all ranks in a region that has more; nil: it
	// holds no such array.
	Blocks []*global.Part
	// Mem is the memory itself: it starts on a page boundary and is
	// PageRound(Size) bytes long; the bytes past Size are zero. A region that is only
	// written may have fewer pages: those that it lacks are zero.
	Mem []byte
}

// A Class is the class of an area of a process's memory: one of the four zones, or a
// class outside of them.
type Class uint8

// The classes beyond the zones.
const (
	// Kernel marks pages that the kernel maps into every process (vdso, vvar,
	// vsyscall). Checkpointers do not store them.
	Kernel = Class(numZones) + iota
	// Runtime marks the areas that a checkpointer adds to a process: its libraries,
	// its allocator, its reserved memory.
	Runtime
	numClasses
)

// ClassOf returns the class of the areas of zone z.
func ClassOf(z Zone) Class { return Class(z) }

// Zone returns the zone of the class; ok is false for Kernel and Runtime.
func (c Class) Zone() (z Zone, ok bool) { return Zone(c), c < Class(numZones) }

func (c Class) String() string {
	switch c {
	case Kernel:
		return "kernel"
	case Runtime:
		return "runtime"
	}
	return Zone(c).String()
}

// MarshalText writes the name of the class.
func (c Class) MarshalText() ([]byte, error) {
	if c >= numClasses {
		return nil, fmt.Errorf("class %d is unknown", uint8(c))
	}
	return []byte(c.String()), nil
}

// UnmarshalText reads the name of a class.
func (c *Class) UnmarshalText(text []byte) error {
	for i := range numClasses {
		if i.String() == string(text) {
			*c = i
			return nil
		}
	}
	return fmt.Errorf("%q is neither a zone (library, data, shared, iobuffer) nor kernel or runtime", text)
}

// An Area is a range of a process's address space with one mapping: a line of
// /proc/PID/maps, a record of a checkpoint image, a segment of a core file. Sizes are
// in bytes.
type Area struct {
	Start, End uint64
	Prot       Prot
	Shared     bool   // MAP_SHARED
	Name       string // as in /proc/PID/maps; empty if anonymous
	Offset     uint64 // in the file behind it
	Device     uint64 // major<<32 | minor of that file, or 0
	Inode      uint64

	// Stored is the size of the area in the checkpoint image, headers included. For a
	// process it is the size that an image would need.
	Stored int64
	// Runs is the number of ranges of touched pages, or 0 if unknown.
	Runs int
	// Resident is the part in memory or swap. Dirty is the part written since it was
	// mapped or read. Occupied is the part with contents of its own: touched, not the
	// page of zeros, and different from the file. They are -1 if unknown.
	Resident, Dirty, Occupied int64
	// Companion is set if the checkpoint stores the contents in a file beside the
	// images, once for all processes that map it.
	Companion bool

	Class Class // set by Rules.Classify
}

// Bytes returns the length of the address range.
func (a *Area) Bytes() int64 { return int64(a.End - a.Start) }

// Deleted reports whether the file behind the area has been removed.
func (a *Area) Deleted() bool { return strings.HasSuffix(a.Name, deletedMark) }

// File returns the name without the mark of a removed file.
func (a *Area) File() string { return strings.TrimSuffix(a.Name, deletedMark) }

const deletedMark = " (deleted)"

// MarshalJSON writes the fields of docs/CLI.md. Addresses are numbers. As multiples of
// the page size they survive readers that use doubles.
func (a Area) MarshalJSON() ([]byte, error) {
	known := func(n int64) *int64 {
		if n < 0 {
			return nil
		}
		return &n
	}
	return json.Marshal(struct {
		Start     uint64 `json:"start"`
		End       uint64 `json:"end"`
		Bytes     int64  `json:"bytes"`
		Stored    int64  `json:"stored_bytes"`
		Prot      Prot   `json:"prot"`
		Shared    bool   `json:"shared_mapping"`
		Name      string `json:"name"`
		Class     Class  `json:"zone"`
		Runs      int    `json:"touched_ranges,omitempty"`
		Resident  *int64 `json:"resident_bytes,omitempty"`
		Dirty     *int64 `json:"dirty_bytes,omitempty"`
		Occupied  *int64 `json:"occupied_bytes,omitempty"`
		Companion bool   `json:"companion,omitempty"`
	}{a.Start, a.End, a.Bytes(), a.Stored, a.Prot, a.Shared, a.Name, a.Class, a.Runs,
		known(a.Resident), known(a.Dirty), known(a.Occupied), a.Companion})
}

// Prot is the set of permissions of an area: read 1, write 2, execute 4.
type Prot uint8

// The bits of Prot, as in mmap(2).
const (
	Read Prot = 1 << iota
	Write
	Exec
)

// String formats it like /proc/PID/maps: rw-.
func (p Prot) String() string {
	b := []byte("---")
	for i, c := range []byte("rwx") {
		if p&(1<<i) != 0 {
			b[i] = c
		}
	}
	return string(b)
}

// MarshalText writes String.
func (p Prot) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// ParseProt reads the first three letters of a permission like rw-p.
func ParseProt(s string) (Prot, error) {
	var p Prot
	if len(s) >= 3 {
		for i, c := range []byte("rwx") {
			switch s[i] {
			case c:
				p |= 1 << i
			case '-':
			default:
				return 0, fmt.Errorf("%q is not a permission like rw-p", s)
			}
		}
		return p, nil
	}
	return 0, fmt.Errorf("%q is not a permission like rw-p", s)
}
