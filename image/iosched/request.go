package iosched

import (
	"fmt"
	"time"
)

// Op is what a request does to its bytes.
type Op uint8

// The operations.
const (
	Read Op = iota
	Write
)

func (o Op) String() string {
	if o == Write {
		return "write"
	}
	return "read"
}

// A Request wants some bytes of a file. Its user sets the exported fields but Seq and
// Arrival, which the [Controller] sets, and leaves it alone until all its bytes are
// done. A request that is done may be used for another.
type Request struct {
	App, User     string
	Rank          int
	File          string
	Op            Op
	Offset, Bytes int64
	// Burst is how many bytes App moves in all before it computes again. 0 says that
	// nobody knows.
	Burst   int64
	Arrival time.Duration
	Seq     uint64
	Data    any // comes back untouched

	left    int64   // bytes that were not granted
	pending pending // of the controller
	place   place   // of the policy
}

// End is the offset behind the last byte.
func (r *Request) End() int64 { return r.Offset + r.Bytes }

func (r *Request) check() error {
	if r.Op > Write {
		return fmt.Errorf("file %q: unknown operation %d (want iosched.Read or iosched.Write)", r.File, r.Op)
	}
	if r.Offset < 0 || r.Bytes <= 0 || r.Offset+r.Bytes < 0 {
		return fmt.Errorf("file %q: %s of %d bytes at offset %d is no range of a file (want at least one byte at 0 or later)", r.File, r.Op, r.Bytes, r.Offset)
	}
	return nil
}

// grant hands out the next n bytes, or all that are left if n is 0 or more than that.
func (r *Request) grant(n int64) Grant {
	if n <= 0 || n > r.left {
		n = r.left
	}
	g := Grant{Request: r, Offset: r.End() - r.left, Bytes: n}
	r.left -= n
	return g
}

// A Grant is a part of a request that is to be served now. It is not the whole if the
// policy takes the unit away after a quantum; then the rest is granted later.
type Grant struct {
	Request       *Request
	Offset, Bytes int64
}

// End is the offset behind the last byte.
func (g Grant) End() int64 { return g.Offset + g.Bytes }

// A Policy chooses which request a storage unit serves next. It has no goroutines
// and no clock: its caller says what time it is.
type Policy interface {
	Name() string
	// Add takes a request with a Seq and an Arrival.
	Add(now time.Duration, r *Request)
	// Next returns what to serve now, in that order, one after the other. The slice
	// is valid until the next call. Without grants, nothing waits; or, if wake is
	// more than 0, the unit is to stay idle until then or until the next Add.
	Next(now time.Duration) (grants []Grant, wake time.Duration)
	// Done says that a grant was served between began and now.
	Done(began, now time.Duration, g Grant)
	// Len is how many requests have bytes that were not granted.
	Len() int
}

// Reason is why a unit stays idle though requests wait.
type Reason uint8

// The reasons.
const (
	// Shift waits for a process that is always a little later than its siblings.
	Shift Reason = iota
	// Better waits for requests that would make an aggregate longer.
	Better
	// Synchronous waits for the next request of a file that has the unit.
	Synchronous
)

// A Wait is one time that a unit stays idle.
type Wait struct {
	File   string
	Op     Op
	Reason Reason
	Number int // of the waits so far, this one included
}

// A Waiter is a policy that may leave a unit idle though requests wait.
type Waiter interface {
	// Waiting describes the wait that Next asked for last.
	Waiting() Wait
}
