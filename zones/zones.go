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
	"fmt"

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
