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

import "fmt"

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
