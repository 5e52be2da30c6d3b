package zones

import (
	"fmt"

	"ckpt/zones/global"
)

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
	numElems
)

var elems = [numElems]struct {
	name string
	size int
}{{"bytes", 1}, {"float64", 8}, {"float32", 4}, {"int32", 4}, {"int64", 8}}

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
	// Part is what the rank holds of an array of all ranks; nil if it is none. Replicated
	// says that all ranks have the same contents. A program, or the specification of a workload, tells both.
	Part       *global.Part
	Replicated bool
	// Mem is the memory itself: it starts on a page boundary and is
	// PageRound(Size) bytes long; the bytes past Size are zero. A region that is only
	// written may have fewer pages: those that it lacks are zero.
	Mem []byte
}
