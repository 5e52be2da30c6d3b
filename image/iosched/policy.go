package iosched

import (
	"fmt"
	"slices"
	"strings"
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
	// Burst is how many bytes App moves in all before it computes again. 0:
	// unknown.
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

// Options are the parameters of the policies. The zero value is usable.
type Options struct {
	// Rate is what the unit moves in a second, in bytes. It turns quanta into time
	// for mlf. 0: unknown.
	Rate float64
	// Quantum is how many bytes an application moves before rr, srpt and wsjf choose
	// again. 0 says one request, and is 1 MiB for rr and wsjf.
	Quantum int64
	// Weight is the share of a user; nil, or a weight that is not above 0, is 1.
	Weight func(user string) float64
	// Bound is how long an application waits under wsjf before it goes first
	// whatever its length. 0 is 10 s.
	Bound time.Duration
	// IdleWait is how long wsjf keeps the unit for the next request of the application
	// that it serves. 0 is 3 ms; below 0 it does not.
	IdleWait time.Duration
	// Deadline has the parameters of the policy deadline; nil is DefaultDeadline.
	Deadline *DeadlineOptions
	// MLF has the parameters of the policy mlf; nil is DefaultMLF.
	MLF *MLFOptions
}

// DeadlineOptions are the parameters of the policy deadline, after the scheduler
// of that name in Linux.
type DeadlineOptions struct {
	Read, Write time.Duration // how long a request waits before it goes first
	Batch       int           // requests in offset order before expiry is looked at
	Starved     int           // how many batches of reads may pass waiting writes
}

// DefaultDeadline returns the parameters that Linux has.
func DefaultDeadline() DeadlineOptions {
	return DeadlineOptions{Read: 500 * time.Millisecond, Write: 5 * time.Second, Batch: 16, Starved: 2}
}

// MLFOptions are the parameters of the policy mlf. Each can be switched by itself.
type MLFOptions struct {
	Enabled bool  // false is the policy fifo
	QB      int64 // what the quantum of each request grows by at each choice

	Aggregate bool  // put contiguous requests behind each other
	MaxAgg    int64 // bytes of the longest such aggregate

	OffsetFirst bool          // the smallest offset of a file first, else the oldest request
	Deadline    time.Duration // after which a request is chosen whatever its offset; 0 never

	Windows   bool          // a file keeps the unit for a time
	WindowMax time.Duration // how long at most
	Grow      float64       // what a window is multiplied by when more than High of it was used
	Shrink    float64       // and when less than Low of it was used
	High, Low float64
	Reset     float64 // a window that was used by less than this starts again from QB

	ShiftWait time.Duration // how long to wait for a late process; 0 never
	AggWait   time.Duration // how long to wait for a longer aggregate; 0 never
	IdleWait  time.Duration // how long a file keeps the unit without a request; 0 not at all

	ReadsWait      bool // a read waits for all older writes of its file, not only for those that it overlaps
	PipelineWrites bool // deliver all writes of an aggregate at once, not one after the other
}

// DefaultMLF returns the parameters of the thesis where it gives them, and ours where
// it does not: docs/TURNS.md says which are which.
func DefaultMLF() MLFOptions {
	return MLFOptions{
		Enabled: true, QB: 32 << 10,
		Aggregate: true, MaxAgg: 4 << 20,
		OffsetFirst: true, Deadline: 500 * time.Millisecond,
		Windows: true, WindowMax: 500 * time.Millisecond,
		Grow: 2, Shrink: 0.5, High: 0.75, Low: 0.25, Reset: 0.02,
		ShiftWait: 3 * time.Millisecond, AggWait: 2 * time.Millisecond, IdleWait: 3 * time.Millisecond,
		ReadsWait: true, PipelineWrites: true,
	}
}

// policies are in the order in which they are listed for turns. Each orders requests, or
// the turns of applications, or both.
var policies = []struct {
	name     string
	requests func(Options) (Policy, error)
	turns    *turnPolicy
}{
	{"none", nil, &turnPolicy{}},
	{"fifo", func(Options) (Policy, error) { return newFIFO(), nil }, &turnPolicy{cost: (*Arbiter).place}},
	{"rr", func(o Options) (Policy, error) { return newRR(o), nil }, &turnPolicy{cost: (*Arbiter).waitsSince}},
	{"srpt", func(o Options) (Policy, error) { return newSRPT(o), nil }, &turnPolicy{cost: (*Arbiter).remaining, preempts: true}},
	{"mlf", newMLF, &turnPolicy{cost: (*Arbiter).windowsUsed, levels: mlfLevels}},
	{"wsjf", func(o Options) (Policy, error) { return newWSJF(o), nil }, &turnPolicy{cost: (*Arbiter).account, preempts: true, users: true}},
	{"offset", func(Options) (Policy, error) { return newOffset(), nil }, nil},
	{"deadline", func(o Options) (Policy, error) { return newDeadline(o) }, nil},
}

// Names returns the names of the policies that order requests, sorted.
func Names() (names []string) {
	for _, p := range policies {
		if p.requests != nil {
			names = append(names, p.name)
		}
	}
	slices.Sort(names)
	return names
}

// TurnPolicies returns the names of the policies that order turns.
func TurnPolicies() (names []string) {
	for _, p := range policies {
		if p.turns != nil {
			names = append(names, p.name)
		}
	}
	return names
}

// New returns the policy of a name.
func New(name string, o Options) (Policy, error) {
	for _, row := range policies {
		if row.name != name || row.requests == nil {
			continue
		}
		p, err := row.requests(o)
		if err != nil {
			return nil, fmt.Errorf("policy %s: %w", name, err)
		}
		return p, nil
	}
	return nil, fmt.Errorf("unknown policy %q (want %s)", name, strings.Join(Names(), ", "))
}
