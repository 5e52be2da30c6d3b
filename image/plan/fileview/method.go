package fileview

import (
	"fmt"
	"math"
	"strings"
)

// A Method is one of the rules of this package. Its text forms are naive, romio,
// extent, scanfile, performance-model and adaptive.
type Method uint8

const (
	// Adaptive joins what it expects to save time, reads and writes by different
	// sums. It counts in whole device blocks, does not join across the end of a
	// stripe, where a call becomes two anyway, and takes a block whole or not at
	// all, unless the block alone is larger than the buffer.
	Adaptive Method = iota
	// Naive accesses each block on its own.
	Naive
	// ROMIO joins always, and fills the buffer with what follows when the next
	// block is out of its reach.
	ROMIO
	// Extent joins always, like ROMIO, but an access goes from its first wanted
	// byte to its last.
	Extent
	// ScanFile reads everything from the first block of the request to the last,
	// in as many whole stripes (or blocks, if not a stripe fits) at once as the
	// buffer holds. It writes like Extent, in accesses that end with a stripe.
	ScanFile
	// PerformanceModel joins over holes that take less time than a call costs:
	// hole/bandwidth < latency.
	PerformanceModel
)

var methodNames = [...]string{"adaptive", "naive", "romio", "extent", "scanfile", "performance-model"}

func (m Method) String() string {
	if int(m) < len(methodNames) {
		return methodNames[m]
	}
	return fmt.Sprintf("method %d", uint8(m))
}

// MarshalText returns the name of the method.
func (m Method) MarshalText() ([]byte, error) {
	if int(m) >= len(methodNames) {
		return nil, fmt.Errorf("no such method: %d", uint8(m))
	}
	return []byte(m.String()), nil
}

// UnmarshalText sets the method by its name.
func (m *Method) UnmarshalText(text []byte) error {
	for i, name := range methodNames {
		if string(text) == name {
			*m = Method(i)
			return nil
		}
	}
	return fmt.Errorf("no such method: %q; there are %s", text, strings.Join(methodNames[:], ", "))
}

// Decide implements Rule.
func (m Method) Decide(s Step) Decision {
	switch m {
	case Naive:
		return naive(s)
	case ROMIO:
		return romio(s)
	case Extent:
		return Decision{Take: s.Size}
	case ScanFile:
		return scanFile(s)
	case PerformanceModel:
		return performanceModel(s)
	default:
		return adaptive(s)
	}
}

func naive(s Step) Decision {
	if s.Len > 0 {
		return Decision{}
	}
	return Decision{Take: s.Size}
}

// romio is Listing 4.4 of Zickler (thesis, 2015). The buffer is filled also
// after the last block of the request, if the hole there is long enough: the
// rule does not know that it is the last.
func romio(s Step) Decision {
	if space := s.Buffer - s.Len; s.Len > 0 && s.Hole >= space {
		return Decision{Fill: space}
	}
	return Decision{Take: s.Size}
}

// performanceModel is Listing 4.5 of Zickler (thesis, 2015), written without a
// division.
func performanceModel(s Step) Decision {
	if s.Len > 0 && float64(s.Hole) >= s.Device.breakEven() {
		return Decision{}
	}
	return Decision{Take: s.Size}
}

// scanFile is described by Zickler (thesis, 2015), chapter 3; there is no
// listing.
func scanFile(s Step) Decision {
	unit := s.Device.Stripe
	if unit < 1 || unit > s.Buffer {
		unit = s.Device.Block
	}
	if unit < 1 || unit > s.Buffer {
		unit = 1
	}
	if s.Len == 0 {
		lead := max(s.Hole, s.Start%unit)
		if s.Access == Write {
			lead = 0
		}
		begin := s.Start - lead
		end := lastMultiple(begin, s.Buffer, unit)
		return Decision{Lead: lead, Take: max(0, end-s.Start), Fill: end - begin}
	}
	end := s.Start + s.Len
	space := lastMultiple(s.Start, s.Buffer, unit) - end
	if s.Size == 0 {
		return Decision{Fill: min(space, (unit-end%unit)%unit)}
	}
	if s.Hole >= space {
		return Decision{Fill: space}
	}
	return Decision{Take: space - s.Hole}
}

// lastMultiple returns the last multiple of unit that is not beyond off+n, nor
// beyond the largest offset.
func lastMultiple(off, n, unit int64) int64 {
	end := off + min(n, math.MaxInt64-off)
	return end - end%unit
}
