package pfs

import (
	"context"
	"errors"
	"fmt"

	"ckpt/image/plan"
)

// Job is a plan that is carried out. The nodes of two jobs are different ones.
type Job struct {
	Plan  *plan.Plan
	Start float64 // seconds
	// Array, if not nil, says that the shared file of the plan holds an array, so that
	// its bytes come from other ranks than the plan says.
	Array *Array
	// Pack, if not nil, is how long one processor packs the bytes of a rank before
	// they are written.
	Pack  func(rank int) (seconds float64)
	Depth int  // operations of an individual writer under way; zero means one
	Sync  bool // the job ends when all is on the targets, and renamed
	Read  bool // the plan is read, not written
	// App and User say whose requests those of the job are, for a scheduler. Without App
	// it is the number of the job.
	App, User string
}

// Options of Run.
type Options struct {
	Seed uint64 // decides which targets are slow
	// Background is the share of targets and routers that others take.
	Background float64
	// Scheduler, if not nil, takes the place of that of the description; one without a
	// policy switches it off.
	Scheduler *Scheduler
	// Progress, if not nil, is told now and then how many bytes of all are written.
	Progress func(done, of int64)
}

// Result is what Run found.
type Result struct {
	Jobs []JobResult   `json:"jobs"`
	Use  []ResourceUse `json:"use"` // the most used of each kind
	// Units are the targets with what their schedulers counted.
	Units []Unit `json:"units,omitempty"`
}

// ResourceUse is the share of the time in which a resource worked.
type ResourceUse struct {
	Kind  string  `json:"kind"` // network, router, server, target, metadata or processor
	Name  string  `json:"name"`
	Share float64 `json:"share"`
}

// JobResult is how a job fared.
type JobResult struct {
	Seconds float64 `json:"seconds"` // from its start
	Phases  Phases  `json:"phases"`
	// Bottleneck is what took most of the time: processor, gather, stream, network,
	// router, server, target, locks, metadata or sync.
	Bottleneck       string  `json:"bottleneck"`
	LockWaits        int64   `json:"lock_waits"`
	WritersPerTarget []int   `json:"writers_per_target"` // of the targets that are used, in order
	Bytes            int64   `json:"bytes"`
	Rate             float64 `json:"rate"` // bytes per second
}

// Phases are where the time of writers goes. With P3 gather and write overlap, so
// that the sum may be more than the whole.
type Phases struct {
	Create   Phase `json:"create"`
	Pack     Phase `json:"pack"`
	Gather   Phase `json:"gather"`
	LockWait Phase `json:"lock_wait"`
	Write    Phase `json:"write"`
	Sync     Phase `json:"sync"`
	Wait     Phase `json:"wait"` // for a turn without P1, or for the other buffer with P3
}

// Phase is the time of writers in seconds.
type Phase struct {
	Mean float64 `json:"mean"`
	Max  float64 `json:"max"`
}

// Run carries jobs out in virtual time, all on one system. The same input gives
// the same result.
func Run(ctx context.Context, s *System, jobs []Job, o Options) (*Result, error) {
	if len(jobs) == 0 {
		return nil, errors.New("pfs: no jobs")
	}
	if !(o.Background >= 0 && o.Background < 1) {
		return nil, fmt.Errorf("pfs: background of %v: must be from 0 to below 1", o.Background)
	}
	if o.Scheduler != nil {
		if err := o.Scheduler.Check(); err != nil {
			return nil, fmt.Errorf("pfs: %w", err)
		}
	}
	sim := NewSim(s, o)
	all, err := sim.prepare(jobs)
	if err != nil {
		return nil, err
	}
	defer func() {
		for _, j := range all {
			j.close()
		}
	}()
	if err := sim.Run(ctx); err != nil {
		return nil, err
	}
	return sim.result(all), nil
}
