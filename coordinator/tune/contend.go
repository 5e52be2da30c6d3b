package tune

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"ckpt/image/iosched"
	"ckpt/image/pfs"
	"ckpt/image/plan"
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

// A Contention is how jobs fare that use a storage at the same time.
type Contention struct {
	Jobs   []Alone `json:"contender_list"`
	Orders []Order `json:"order_list"` // the first is without an order
}

// Alone is a job that has the storage to itself.
type Alone struct {
	App     string  `json:"app"`
	NP      int     `json:"np"`
	User    string  `json:"user,omitempty"`
	Read    bool    `json:"restores"`
	Begin   float64 `json:"begin_s"`
	Bytes   int64   `json:"bytes"` // that it moves
	Seconds float64 `json:"lone_s"`
}

// An Order is how a storage was shared, and how the jobs fared.
type Order struct {
	Kind   OrderKind `json:"order_kind"`
	Policy string    `json:"policy,omitempty"` // empty without an order
	// Total is the time from the first start to the last end, Mean and Max are of
	// the flow times. The ratios are to those without an order.
	Total      float64 `json:"makespan_s"`
	Mean       float64 `json:"mean_flow_s"`
	Max        float64 `json:"max_flow_s"`
	TotalRatio float64 `json:"makespan_ratio"`
	MeanRatio  float64 `json:"mean_flow_ratio"`
	Jobs       []Flow  `json:"contender_flow_list"`
}

// A Flow is how a job fared: the time from its start, and that over the time that it takes
// alone; with turns, how often it had the storage.
type Flow struct {
	Seconds float64 `json:"flow_s"`
	Stretch float64 `json:"stretch"`
	Turns   int     `json:"turn_count,omitempty"`
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
		lone, err := c.add(ctx, &jobs[i])
		if err != nil {
			return nil, fmt.Errorf("job %d: %w", i+1, err)
		}
		r.Jobs = append(r.Jobs, lone)
	}
	c.alone = r.Jobs
	if err := r.add(c.together(ctx, NoOrder, "")); err != nil {
		return nil, err
	}
	for _, policy := range o.Turns {
		if err := r.add(c.inTurns(policy)); err != nil {
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
	none := &r.Orders[0]
	last := &r.Orders[len(r.Orders)-1]
	last.TotalRatio, last.MeanRatio = o.Total/max(none.Total, 1e-9), o.Mean/max(none.Mean, 1e-9)
	return err
}

// contest has the jobs of a contention as package pfs takes them.
type contest struct {
	sys     *pfs.System
	options pfs.Options
	jobs    []Contender
	parts   [][]pfs.Job // of each job
	alone   []Alone
}

// add plans a job, and finds how long it takes that has the storage to itself.
func (c *contest) add(ctx context.Context, j *Contender) (lone Alone, err error) {
	if err := j.Case.check(); err != nil {
		return lone, err
	}
	if !(j.Start >= 0) || math.IsInf(j.Start, 1) {
		return lone, fmt.Errorf("predict: start %g: want seconds from 0", j.Start)
	}
	l, err := j.Case.load(none, 1)
	if err != nil {
		return lone, err
	}
	lone = Alone{NP: len(l.sources), User: j.User, Read: j.Read, Begin: j.Start}
	if j.Case.Instance != nil { // else its memory is given
		lone.App = j.Case.Instance.String()
	}
	p, err := l.plan(j.Case.Settings)
	if err != nil {
		return lone, err
	}
	parts, err := j.Case.jobs(p, j.Case.packing(c.sys, l, none), 1, 1)
	if err != nil {
		return lone, err
	}
	for i := range parts {
		parts[i].Start, parts[i].Read = j.Start, j.Read
		parts[i].App, parts[i].User = "job "+strconv.Itoa(len(c.parts)), j.User // all parts are one application
		for f := range parts[i].Plan.Files {
			lone.Bytes += parts[i].Plan.Files[f].Bytes
		}
	}
	c.parts = append(c.parts, parts)
	r, err := pfs.Run(ctx, c.sys, parts, c.options)
	if err != nil {
		return lone, err
	}
	lone.Seconds = longest(r.Jobs)
	return lone, nil
}

// together finds how long each job takes from its start while all use the storage. A
// policy takes the place of the description's.
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
func (c *contest) inTurns(policy string) (Order, error) {
	bursts := make([]iosched.Expected, len(c.jobs))
	sum := time.Duration(0)
	for i := range c.jobs {
		j := &c.jobs[i]
		bursts[i] = iosched.Expected{App: fmt.Sprint(i), User: j.User, Arrival: nanoseconds(j.Start), Alone: nanoseconds(c.alone[i].Seconds), Bytes: c.alone[i].Bytes}
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
	flow := make([]float64, len(flows))
	for i, f := range flows {
		flow[i] = f.Flow.Seconds()
	}
	r := c.order(TurnsOrder, policy, flow)
	for i, f := range flows {
		r.Jobs[i].Turns = f.Turns
	}
	return r, nil
}

// nanoseconds is a time that package arbiter can add up.
func nanoseconds(seconds float64) time.Duration {
	return time.Duration(min(seconds*1e9, 1<<59))
}

// order adds up how the jobs fared.
func (c *contest) order(kind OrderKind, policy string, flow []float64) Order {
	o := Order{Kind: kind, Policy: policy}
	first, last := math.Inf(1), 0.0
	for i, f := range flow {
		o.Jobs = append(o.Jobs, Flow{Seconds: f, Stretch: f / max(c.alone[i].Seconds, 1e-9)})
		o.Mean += f / float64(len(flow))
		o.Max = max(o.Max, f)
		first, last = min(first, c.jobs[i].Start), max(last, c.jobs[i].Start+f)
	}
	o.Total = last - first
	return o
}

// requestBytes is about what an aggregator sends to ask for bytes of another rank.
const requestBytes = 64

// Accesses says how the bytes of the ranks lie in the files of a plan, and what moving
// them costs on a system: the pattern whose degree of continuity tells plain, sieved and
// collective accesses apart. Sources are those that the plan was made of. Blocks are the
// mean ones of all ranks; bytes of a rank that lie side by side are one block. ok is false
// for a plan without bytes.
//
// A collective access leaves out the padding between stripes.
func Accesses(sys *pfs.System, sources []plan.Source, p *plan.Plan) (pattern iosched.Pattern, ok bool) {
	b := blocksOf(sources, p)
	if b.ranks == 0 {
		return pattern, false
	}
	s, ranks := &p.Settings, int64(b.ranks)
	pattern = iosched.Pattern{
		Processes: b.ranks, Blocks: (b.blocks + ranks - 1) / ranks,
		Write: true, Buffer: s.Buffer,
		Seek:    float64(sys.Targets.Seek) + float64(sys.Targets.PerRequest) + float64(sys.Host.Latency),
		Disk:    float64(sys.Targets.Rate) * float64(min(s.StripeCount, sys.Targets.Count)),
		Copy:    float64(sys.Host.Copy),
		Network: float64(sys.Host.Network),
		Request: requestBytes,
	}
	if g := sys.Host.Gather.Parallel; g > 0 {
		pattern.Network = float64(g)
	}
	if !sys.Host.OneHost {
		pattern.Network *= float64(b.nodes) // all nodes exchange at the same time
	}
	pattern.Block = max(1, b.bytes/(pattern.Blocks*ranks))
	pattern.Answer = pattern.Block
	pattern.Domain = pattern.Blocks * pattern.Block
	pattern.Span = max(pattern.Domain, b.spans/ranks)
	return pattern, true
}

// blocks adds up the blocks of all ranks.
type blocks struct {
	ranks  int   // that have bytes
	nodes  int   // that they are on
	blocks int64 // runs of bytes of one rank
	bytes  int64
	spans  int64 // from the first byte of a rank to its last
}

// blocksOf goes through what ranks hold, whoever writes it.
func blocksOf(sources []plan.Source, p *plan.Plan) (b blocks) {
	nodes := make(map[int]bool)
	for _, s := range sources {
		_, offsets := p.Places(s.Rank)
		var first, end, runs int64
		for i, piece := range s.Pieces {
			if piece.Bytes == 0 {
				continue
			}
			if at := offsets[i]; runs == 0 {
				first, runs = at, 1
			} else if at != end {
				runs++
			}
			end = offsets[i] + piece.Bytes
			b.bytes += piece.Bytes
		}
		if runs > 0 {
			nodes[s.Node] = true
			b.ranks++
			b.blocks += runs
			b.spans += end - first
		}
	}
	b.nodes = len(nodes)
	return b
}
