// Package codec makes extents of memory smaller on their way to storage and restores them.
//
// An extent is a whole number of pages, at most 64 MiB, of one element type. It is stored in
// one of five ways, its ID, after an optional Filter. A writer has one Encoder for each
// goroutine, a reader one Decoder:
//
//	enc := codec.NewEncoder(codec.UseAuto, codec.Options{Conditions: conditions})
//	x := enc.Encode(extent, zones.Float64)
//	// store x.ID, x.Filter and x.Data
//
//	var dec codec.Decoder
//	err := dec.Decode(extent, data, id, filter)
//
// # Promises
//
//   - Decode restores what Encode was given, bit for bit, NaNs included.
//   - The stored bytes save at least a page, or are the extent itself, without a copy. An
//     extent of zeros stores nothing.
//   - Decode fills dst exactly or returns an error, for any input, without panic, and
//     allocates no more than the length of dst and a constant. Checksums find what it misses.
//   - But for UseAuto, which learns and looks at the clock, the same extent under the same
//     setting gives the same bytes.
//   - UseAuto spends next to nothing where compression does not pay.
//
// # Format
//
// The filters group the bytes of an extent by their place in an element: signs, exponents and
// the zeros of small integers stand together, apart from the noise of mantissas. With elements
// of w bytes (Shuffle4: 4, Shuffle8: 8) and n = length/w, byte k of element i moves from w*i+k
// to n*k+i. For w = 4, n = 3:
//
//	memory    a0 a1 a2 a3   b0 b1 b2 b3   c0 c1 c2 c3
//	filtered  a0 b0 c0   a1 b1 c1   a2 b2 c2   a3 b3 c3
//	          plane 0    plane 1    plane 2    plane 3
//
// Elements are little-endian: plane w-1 holds signs and exponents. Any memory may have a
// filter. The filtered or original bytes are stored as:
//
//	0 raw   as they are, never filtered
//	1 zero  not at all, never filtered
//	2 s2    one block of S2, which begins with the length (an extension of the
//	        Snappy block format)
//	3 zstd  frames of Zstandard (RFC 8878), each with its content size, not
//	        empty. This encoder writes a frame for each plane, or one, without
//	        checksums.
//	4 gzip  one member (RFC 1952) and nothing behind it
//
// The numbers of IDs and filters are part of the image format.
package codec

import (
	"bytes"
	"fmt"
	"strings"
)

// An ID says how an extent is stored.
type ID uint8

// The ways of storing an extent. The values are part of the image format.
const (
	Raw ID = iota
	Zero
	S2
	Zstd
	Gzip
	numIDs
)

var idNames = [numIDs]string{"raw", "zero", "s2", "zstd", "gzip"}

// Valid reports whether this package knows the ID.
func (id ID) Valid() bool { return id < numIDs }

func (id ID) String() string {
	if !id.Valid() {
		return fmt.Sprintf("codec(%d)", uint8(id))
	}
	return idNames[id]
}

// A Filter reorders an extent before it is compressed.
type Filter uint8

// The filters. The values are part of the image format.
const (
	NoFilter Filter = iota
	Shuffle4        // elements of 4 bytes
	Shuffle8        // elements of 8 bytes
	numFilters
)

var filterNames = [numFilters]string{"none", "shuffle4", "shuffle8"}

// Valid reports whether this package knows the filter.
func (f Filter) Valid() bool { return f < numFilters }

func (f Filter) String() string {
	if !f.Valid() {
		return fmt.Sprintf("filter(%d)", uint8(f))
	}
	return filterNames[f]
}

// width returns the bytes of an element that the filter takes apart: the number of planes.
func (f Filter) width() int {
	switch f {
	case Shuffle4:
		return 4
	case Shuffle8:
		return 8
	}
	return 1
}

// A Setting is what a user asks of an Encoder. The zero value is UseAuto.
type Setting uint8

// The settings.
const (
	UseAuto Setting = iota // whatever stores the extent soonest
	UseNone                // no compression; zeros are still left out
	UseGzip                // for readers that have nothing else
	UseZstd                // the smallest
	UseS2                  // the fastest
	numSettings
)

var settings = [numSettings]struct {
	name string
	id   ID
}{{"auto", Raw}, {"none", Raw}, {"gzip", Gzip}, {"zstd", Zstd}, {"s2", S2}}

func (s Setting) String() string {
	if s >= numSettings {
		return fmt.Sprintf("setting(%d)", uint8(s))
	}
	return settings[s].name
}

// Settings returns all settings but UseAuto, the one without compression first.
func Settings() []Setting {
	var list []Setting
	for s := UseNone; s < numSettings; s++ {
		list = append(list, s)
	}
	return list
}

// Choices lists the names of all settings: auto, none, gzip, zstd or s2.
func Choices() string {
	names := Names()
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// Names returns the names of all settings, auto first.
func Names() []string {
	names := []string{UseAuto.String()}
	for _, s := range Settings() {
		names = append(names, s.String())
	}
	return names
}

// ParseSetting reads a setting's name, one of Choices.
func ParseSetting(name string) (Setting, error) {
	for i, s := range settings {
		if s.name == name {
			return Setting(i), nil
		}
	}
	return 0, fmt.Errorf("compression %q is unknown (want %s)", name, Choices())
}

// IsZero reports whether all bytes of b are zero, at the speed of memory.
func IsZero(b []byte) bool {
	head := b[:min(len(b), 256)]
	for _, x := range head {
		if x != 0 {
			return false
		}
	}
	// Bytes that equal themselves shifted by their zero head are zero. Equal uses wide
	// registers, and finds one operand in the cache.
	return bytes.Equal(b[len(head):], b[:len(b)-len(head)])
}
