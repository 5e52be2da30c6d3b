package fileview

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Access is what a request does.
type Access uint8

const (
	Read Access = iota
	Write
)

func (a Access) String() string {
	if a == Write {
		return "write"
	}
	return "read"
}

// A Rule decides which blocks one access to the file takes in. It is asked before each block
// and after the last, by several goroutines. Whatever it answers is cut to what fits.
type Rule interface {
	Decide(Step) Decision
}

// A Step is the state of a request when a Rule is asked. Numbers are bytes.
type Step struct {
	Access Access
	// Start is the file offset of the access so far, or of the block if Len is 0; Len how much
	// of the file it spans, Data how much of that is wanted.
	Start, Len, Data int64
	// Hole lies before the block, after the access so far or, with Len 0, the access before; 0
	// for the first access of a request.
	Hole int64
	// Size is what the request wants of the block, 0 after the last block; Rest all it wants
	// from there on.
	Size, Rest int64
	// Buffer is the most that one access may span.
	Buffer int64
	Device Device
}

// A Decision is the answer to a Step. The zero value ends the access.
type Decision struct {
	// Take is how many bytes of the block, after the hole, join the access. With 0 the access
	// ends before the hole, and the block is asked about again, with Len 0; with less than Size
	// it ends within the block.
	Take int64
	// Lead is how many bytes before its first block the access begins, at most back to the
	// access before.
	Lead int64
	// Fill is how many bytes the access goes on into the hole if it ends here; with Len 0 and
	// Take 0 the length of an access without a block, Lead bytes before it. A write, which has
	// nothing to write there, ignores Lead and Fill.
	Fill int64
}

// A Device describes the storage for the rules. Unknown values are 0.
type Device struct {
	// Bandwidth is in bytes per second.
	Bandwidth float64
	// Latency is what a call costs however short it is: network, system call and file system.
	Latency time.Duration
	// Stripe is the number of bytes after which the next server has its turn.
	Stripe int64
	// Block is the unit that the device transfers, 4096 bytes for most.
	Block int64
}

// maxUnit bounds stripes and blocks, so that their sums stay far from overflow.
const maxUnit = 1 << 40

func (d *Device) check() error {
	switch {
	case !(d.Bandwidth >= 0 && d.Bandwidth <= 1e18):
		return fmt.Errorf("bandwidth %g bytes/s: must be between 0, not known, and 1e18", d.Bandwidth)
	case d.Latency < 0:
		return fmt.Errorf("latency %v is negative", d.Latency)
	case d.Stripe < 0 || d.Stripe > maxUnit:
		return fmt.Errorf("stripe of %d bytes: must be between 0, not known, and 1 TiB", d.Stripe)
	case d.Block < 0 || d.Block > maxUnit:
		return fmt.Errorf("block of %d bytes: must be between 0, not known, and 1 TiB", d.Block)
	}
	return nil
}

// breakEven returns the bytes that are transferred in the time of a call.
func (d *Device) breakEven() float64 { return d.Bandwidth * d.Latency.Seconds() }

// moved returns the bytes of the whole device blocks that n bytes at off touch.
func (d *Device) moved(off, n int64) int64 {
	if d.Block <= 1 {
		return n
	}
	n += off % d.Block
	return (n + d.Block - 1) / d.Block * d.Block
}

// A Method is one of the rules of this package. Its text forms are naive, romio, extent,
// scanfile, performance-model and adaptive.
type Method uint8

const (
	// Adaptive joins what it expects to save time, with different sums for reads and writes. It
	// counts whole device blocks, does not join across the end of a stripe, and takes blocks
	// whole, unless one is larger than the buffer.
	Adaptive Method = iota
	// Naive accesses each block on its own.
	Naive
	// ROMIO joins always, and fills the buffer with what follows when the next block is out of
	// reach.
	ROMIO
	// Extent joins like ROMIO, but an access goes from its first wanted byte to its last.
	Extent
	// ScanFile reads everything from the first block of the request to the last, in as many
	// whole stripes, or blocks, as the buffer holds. It writes like Extent, in accesses that
	// end with a stripe.
	ScanFile
	// PerformanceModel joins over holes that take less time than a call: hole/bandwidth <
	// latency.
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

// romio is Listing 4.4 of Zickler (thesis, 2015). The buffer is also filled after the last
// block, if the hole there is long enough.
func romio(s Step) Decision {
	if space := s.Buffer - s.Len; s.Len > 0 && s.Hole >= space {
		return Decision{Fill: space}
	}
	return Decision{Take: s.Size}
}

// performanceModel is Listing 4.5 of Zickler (thesis, 2015), without a division.
func performanceModel(s Step) Decision {
	if s.Len > 0 && float64(s.Hole) >= s.Device.breakEven() {
		return Decision{}
	}
	return Decision{Take: s.Size}
}

// scanFile is described by Zickler (thesis, 2015), chapter 3, without a listing.
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

// lastMultiple returns the last multiple of unit up to off+n and the largest offset.
func lastMultiple(off, n, unit int64) int64 {
	end := off + min(n, math.MaxInt64-off)
	return end - end%unit
}

// adaptive is the rule that Zickler (thesis, 2015), chapter 3, asks for and leaves open; the
// sums are ours. Times are in bytes: a call costs as much as breakEven bytes.
func adaptive(s Step) Decision {
	switch {
	case s.Len == 0:
		return Decision{Take: firstTake(s)}
	case s.Size == 0 || s.Hole > s.Buffer-s.Len-s.Size:
		// A block that is cut needs a second call for its rest, which joining was to save.
		return Decision{}
	case s.Hole == 0 && s.Data == s.Len:
		return Decision{Take: s.Size} // the blocks touch: one call less, for nothing
	case s.Hole+s.Size > stripeRoom(s):
		return Decision{}
	}
	join := pays(s)
	if s.Access == Write {
		join = rewritePays(s)
	}
	if !join {
		return Decision{}
	}
	return Decision{Take: s.Size}
}

// firstTake cuts a block that is larger than the buffer where a stripe, or at least a device
// block, ends.
func firstTake(s Step) int64 {
	if s.Size <= s.Buffer {
		return s.Size
	}
	for _, unit := range [...]int64{s.Device.Stripe, s.Device.Block} {
		if unit < 1 {
			continue
		}
		if end := lastMultiple(s.Start, s.Buffer, unit); end > s.Start {
			return end - s.Start
		}
	}
	return s.Buffer
}

// stripeRoom returns the bytes from the end of the access to the end of its last stripe.
func stripeRoom(s Step) int64 {
	if s.Device.Stripe < 1 {
		return s.Buffer
	}
	return s.Device.Stripe - 1 - (s.Start+s.Len-1)%s.Device.Stripe
}

// pays tells whether reading the hole and the block takes less time than a call for the block.
func pays(s Step) bool {
	d := &s.Device
	join := d.moved(s.Start, s.Len+s.Hole+s.Size) - d.moved(s.Start, s.Len)
	apart := d.moved(s.Start+s.Len+s.Hole, s.Size)
	return float64(join) < float64(apart)+d.breakEven()
}

// rewritePays is pays for a write: to join over a hole means to read the whole range and to
// write it. The first hole costs as much as two blocks save, so the rule looks ahead: it takes
// the blocks to come to be like the next, as they are in a view of one tuple.
func rewritePays(s Step) bool {
	d := &s.Device
	apart := float64(d.moved(s.Start+s.Len+s.Hole, s.Size)) + d.breakEven()
	if s.Data < s.Len { // it is a read-modify-write already
		join := d.moved(s.Start, s.Len+s.Hole+s.Size) - d.moved(s.Start, s.Len)
		return 2*float64(join) < apart
	}
	step := s.Hole + s.Size
	n := min((s.Buffer-s.Len)/step, stripeRoom(s)/step, s.Rest/s.Size)
	join := 2 * (float64(d.moved(s.Start, s.Len+n*step)) + d.breakEven())
	plain := float64(d.moved(s.Start, s.Len)) + d.breakEven()
	return join < plain+float64(n)*apart
}
