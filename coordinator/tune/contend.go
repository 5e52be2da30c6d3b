package tune

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"ckpt/image/iosched"
	"ckpt/image/pfs"
)

// A Contender is a job that moves the bytes of a checkpoint while others do.
type Contender struct {
	User  string // who runs it
	Case  Case
	Read  bool    // the checkpoint is read, as by a restart
	Start float64 // when it begins, seconds
}

// OrderKind says what keeps an order.
type OrderKind string

// The kinds.
const (
	NoOrder     OrderKind = "none"    // targets serve requests as the description says
	TurnsOrder  OrderKind = "turns"   // jobs take turns with whole bursts
	TargetOrder OrderKind = "targets" // targets order the requests of all jobs
)

// An Order is how a storage was shared, and how the jobs fared.
type Order struct {
	Kind   OrderKind
	Policy string // empty without an order
	// Flow is how long each job took from its start; Stretch is that over the time that
	// it takes alone; Turns is how often it had the storage, with turns.
	Flow, Stretch []float64
	Turns         []int
	// Total is the time from the first start to the last end, Mean and Max are those of
	// the flow times.
	Total, Mean, Max float64
}

// A Contention is how jobs fare that use a storage at the same time.
type Contention struct {
	Alone  []float64 // seconds of each job by itself
	Bytes  []int64   // that each moves
	Orders []Order   // the first is without an order
}

// Policies are the orders that Contend compares.
type Policies struct {
	Turns   []string // of package arbiter
	Targets []string // of package iosched
}

// Contend predicts how jobs fare that use a storage at the same time: without an order,
// in turns, and with targets that order requests. The seed and the background are those
// of the first job.
//
// In turns a job moves its bytes as fast as alone, from when the arbiter grants it the
// storage to when it is done, or has to let others go first.
func Contend(ctx context.Context, sys *pfs.System, jobs []Contender, o Policies) (*Contention, error) {
	if len(jobs) == 0 {
		return nil, fmt.Errorf("predict: no job is given")
	}
	c := &contest{sys: sys, jobs: jobs, options: pfs.Options{Seed: jobs[0].Case.Seed, Background: jobs[0].Case.Background}}
	r := new(Contention)
	for i := range jobs {
		files, err := c.add(&jobs[i])
		if err != nil {
			return nil, fmt.Errorf("job %d: %w", i+1, err)
		}
		r.Bytes = append(r.Bytes, files)
		if err := c.runAlone(ctx, i); err != nil {
			return nil, err
		}
	}
	r.Alone = c.alone
	if err := r.add(c.together(ctx, NoOrder, "")); err != nil {
		return nil, err
	}
	for _, policy := range o.Turns {
		if err := r.add(c.inTurns(policy, r.Bytes)); err != nil {
			return nil, err
		}
	}
	for _, policy := range o.Targets {
		if err := r.add(c.together(ctx, TargetOrder, policy)); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *Contention) add(o Order, err error) error {
	r.Orders = append(r.Orders, o)
	return err
}

// contest has the jobs of a contention as package pfs takes them.
type contest struct {
	sys     *pfs.System
	options pfs.Options
	jobs    []Contender
	parts   [][]pfs.Job // of each job
	alone   []float64
}

// add plans a job, and returns how many bytes its files have.
func (c *contest) add(j *Contender) (files int64, err error) {
	if err := j.Case.check(); err != nil {
		return 0, err
	}
	if !(j.Start >= 0) || math.IsInf(j.Start, 1) {
		return 0, fmt.Errorf("predict: start %g: want seconds from 0", j.Start)
	}
	l, err := j.Case.load(none, 1)
	if err != nil {
		return 0, err
	}
	p, err := l.plan(j.Case.Settings)
	if err != nil {
		return 0, err
	}
	parts, err := j.Case.jobs(p, j.Case.packing(c.sys, l, none), 1)
	if err != nil {
		return 0, err
	}
	for i := range parts {
		parts[i].Start, parts[i].Read = j.Start, j.Read
		parts[i].App, parts[i].User = "job "+strconv.Itoa(len(c.parts)), j.User // all parts are one application
		for f := range parts[i].Plan.Files {
			files += parts[i].Plan.Files[f].Bytes
		}
	}
	c.parts = append(c.parts, parts)
	return files, nil
}

// runAlone finds how long a job takes that has the storage to itself.
func (c *contest) runAlone(ctx context.Context, i int) error {
	r, err := pfs.Run(ctx, c.sys, c.parts[i], c.options)
	if err != nil {
		return err
	}
	c.alone = append(c.alone, longest(r.Jobs))
	return nil
}

// together finds how long each job takes from its start while all use the storage. A
// policy takes the place of that of the description.
func (c *contest) together(ctx context.Context, kind OrderKind, policy string) (Order, error) {
	var all []pfs.Job
	for _, parts := range c.parts {
		all = append(all, parts...)
	}
	o := c.options
	if policy != "" {
		o.Scheduler = &pfs.Scheduler{Policy: policy}
	}
	r, err := pfs.Run(ctx, c.sys, all, o)
	if err != nil {
		return Order{}, err
	}
	flow, from := make([]float64, len(c.parts)), 0
	for i, parts := range c.parts {
		flow[i] = longest(r.Jobs[from : from+len(parts)])
		from += len(parts)
	}
	return c.order(kind, policy, flow), nil
}

// longest is the time of the slowest part of a job; all parts begin together.
func longest(parts []pfs.JobResult) (seconds float64) {
	for i := range parts {
		seconds = max(seconds, parts[i].Seconds)
	}
	return seconds
}

// manyWindows is how many windows a prediction of turns may take at most, about. Longer
// jobs get longer windows.
const manyWindows = 20_000

// inTurns has the arbiter decide which job moves its bytes when.
func (c *contest) inTurns(policy string, bytes []int64) (Order, error) {
	bursts := make([]iosched.Expected, len(c.jobs))
	sum := time.Duration(0)
	for i := range c.jobs {
		j := &c.jobs[i]
		bursts[i] = iosched.Expected{App: fmt.Sprint(i), User: j.User, Arrival: nanoseconds(j.Start), Alone: nanoseconds(c.alone[i]), Bytes: bytes[i]}
		sum = min(sum+bursts[i].Alone, math.MaxInt64/2)
	}
	o := iosched.TurnOptions{Policy: policy}
	if window := sum / manyWindows; window > iosched.DefaultWindow {
		o.Window = window
	}
	// A job that gets the storage finds it elsewhere, and learns so by a message.
	change := float64(c.sys.Targets.Seek) + 2*float64(c.sys.Host.Latency)
	flows, err := iosched.Predict(o, iosched.Cost{Switch: nanoseconds(change)}, bursts)
	if err != nil {
		return Order{}, err
	}
	flow, turns := make([]float64, len(flows)), make([]int, len(flows))
	for i, f := range flows {
		flow[i], turns[i] = f.Flow.Seconds(), f.Turns
	}
	r := c.order(TurnsOrder, policy, flow)
	r.Turns = turns
	return r, nil
}

// nanoseconds is a time that package arbiter can add up.
func nanoseconds(seconds float64) time.Duration {
	return time.Duration(min(seconds*1e9, 1<<59))
}

// order adds up how the jobs fared.
func (c *contest) order(kind OrderKind, policy string, flow []float64) Order {
	o := Order{Kind: kind, Policy: policy, Flow: flow}
	first, last := math.Inf(1), 0.0
	for i, f := range flow {
		o.Stretch = append(o.Stretch, f/max(c.alone[i], 1e-9))
		o.Mean += f / float64(len(flow))
		o.Max = max(o.Max, f)
		first, last = min(first, c.jobs[i].Start), max(last, c.jobs[i].Start+f)
	}
	o.Total = last - first
	return o
}
