package fileview

import (
	"fmt"
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

// A Rule decides which blocks one access to the file takes in. It is asked
// before each block, and once more after the last of the request. It must be
// safe for use by several goroutines at once.
//
// No answer can do harm: what does not fit is cut, and an access that would be
// empty takes what fits.
type Rule interface {
	Decide(Step) Decision
}

// A Step is the state of a request when a Rule is asked. All numbers but Device
// are bytes.
type Step struct {
	Access Access
	// Start is the file offset of the access so far, Len how many bytes of the
	// file it spans, Data how many of them are wanted. With Len 0 it has not
	// begun, and Start is the offset of the block.
	Start, Len, Data int64
	// Hole lies before the block: between the access so far and the block, or,
	// with Len 0, between the access before and the block; for the first access
	// of a request it is 0.
	Hole int64
	// Size is what the request wants of the block, 0 after the last block. Rest
	// is what it wants from here on, the block included.
	Size, Rest int64
	// Buffer is the most that one access may span.
	Buffer int64
	Device Device
}

// A Decision is the answer to a Step. The zero value ends the access.
type Decision struct {
	// Take is how many bytes of the block join the access, together with the
	// hole before it. With 0 the access ends before the hole, and the block is
	// asked about again, with Len 0. If it is less than Size, the access ends
	// within the block.
	Take int64
	// Lead is how many bytes before the block the access begins, if this is its
	// first block. It does not go back behind the access before.
	Lead int64
	// Fill is how many bytes the access goes on into the hole if it ends here.
	// With Len 0 and Take 0 it is the length of an access that has no block at
	// all, and begins Lead bytes before it.
	//
	// Lead and Fill are for reads. A write ignores them: there is nothing to
	// write before its first block and after its last.
	Fill int64
}

// A Device describes the storage for the rules. Unknown values are 0.
type Device struct {
	// Bandwidth is in bytes per second.
	Bandwidth float64
	// Latency is what a call costs however short it is: network, system call
	// and file system together.
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

// breakEven returns the bytes that are transferred in the time that a call
// costs.
func (d *Device) breakEven() float64 { return d.Bandwidth * d.Latency.Seconds() }

// moved returns the bytes of the whole device blocks that n bytes at off touch.
func (d *Device) moved(off, n int64) int64 {
	if d.Block <= 1 {
		return n
	}
	n += off % d.Block
	return (n + d.Block - 1) / d.Block * d.Block
}
