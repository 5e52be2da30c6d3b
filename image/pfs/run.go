package pfs

import (
	"context"
	"errors"

	"ckpt/image/plan"
)

// Job is a plan that is carried out.
type Job struct {
	Plan  *plan.Plan
	Start float64 // seconds
	// Pack, if not nil, is how long one processor packs the bytes of a rank before
	// they are written.
	Pack  func(rank int) (seconds float64)
	Depth int  // operations of an individual writer under way; zero means one
	Sync  bool // the job ends when all is on the targets, and renamed
	Read  bool // the plan is read, not written
}

// Options of Run.
type Options struct {
	Seed uint64 // decides which targets are slow
	// Background is the share of targets and routers that others take.
	Background float64
	// Progress, if not nil, is told now and then how many bytes of all are written.
	Progress func(done, of int64)
}

// Result is what Run found.
type Result struct {
	Jobs []JobResult   `json:"jobs"`
	Use  []ResourceUse `json:"use"` // the most used of each kind
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
	r := new(Result)
	for _, j := range jobs {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		r.Jobs = append(r.Jobs, bound(s, j, o))
	}
	return r, nil
}

// bound is the least time that a job takes alone: each part of the system works
// all the time.
func bound(s *System, j Job, o Options) JobResult {
	var r JobResult
	for i := range j.Plan.Files {
		r.Bytes += j.Plan.Files[i].Bytes
	}
	targets := min(s.Targets.Count, j.Plan.Settings.StripeCount*len(j.Plan.Files))
	rate := float64(s.Targets.Rate) * float64(targets) * (1 - o.Background)
	r.Bottleneck = "target"
	if routers := float64(s.Routers.Rate) * float64(s.Routers.Count) * (1 - o.Background); routers > 0 && routers < rate {
		rate, r.Bottleneck = routers, "router"
	}
	if streams := float64(s.Host.Stream) * float64(len(j.Plan.Writers)); streams > 0 && streams < rate {
		rate, r.Bottleneck = streams, "stream"
	}
	write := float64(r.Bytes) / rate
	r.Seconds = write
	r.Phases.Write = Phase{write, write}
	if s.Metadata.Creates > 0 {
		create := float64(len(j.Plan.Files)) / s.Metadata.Creates
		r.Seconds += create
		r.Phases.Create = Phase{create, create}
	}
	if j.Sync {
		r.Seconds += float64(s.Sync)
		r.Phases.Sync = Phase{float64(s.Sync), float64(s.Sync)}
	}
	r.Rate = float64(r.Bytes) / r.Seconds
	return r
}
