package iosched

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Options are the parameters of the policies. The zero value is usable.
type Options struct {
	// Rate is what the unit moves in a second, in bytes. It turns quanta into time
	// for mlf. 0 says that nobody knows.
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

// policies has what each name makes.
var policies = map[string]func(Options) (Policy, error){
	"fifo":     func(Options) (Policy, error) { return newFIFO(), nil },
	"offset":   func(Options) (Policy, error) { return newOffset(), nil },
	"deadline": func(o Options) (Policy, error) { return newDeadline(o) },
	"rr":       func(o Options) (Policy, error) { return newRR(o), nil },
	"srpt":     func(o Options) (Policy, error) { return newSRPT(o), nil },
	"wsjf":     func(o Options) (Policy, error) { return newWSJF(o), nil },
	"mlf":      newMLF,
}

// Names returns the names of all policies, sorted.
func Names() []string {
	return slices.Sorted(maps.Keys(policies))
}

// New returns the policy of a name.
func New(name string, o Options) (Policy, error) {
	make, ok := policies[name]
	if !ok {
		return nil, fmt.Errorf("unknown policy %q (want %s)", name, strings.Join(Names(), ", "))
	}
	p, err := make(o)
	if err != nil {
		return nil, fmt.Errorf("policy %s: %w", name, err)
	}
	return p, nil
}
