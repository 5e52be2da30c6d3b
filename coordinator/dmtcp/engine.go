package dmtcp

import (
	"context"
	"io"
	"os"
	"sync"
	"time"

	"ckpt/coordinator"
	"ckpt/coordinator/job"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/wire"
	"ckpt/image"
	"ckpt/zones"
)

// Options are what a run needs besides the description of the job.
type Options struct {
	coordinator.Options

	settle time.Duration // how long the number of processes has to stay the same
	pause  time.Duration // before the second restart in a row
	free   func(*directory) (int64, error)
	// environ is os.Environ, but of tests.
	environ func() []string
}

const (
	// usualPatience is how long a restart or a checkpoint may go without progress.
	usualPatience = time.Minute
	usualSettle   = time.Second
	usualPause    = time.Second
	longestPause  = time.Minute
	// pollEvery is the time between questions to DMTCP's coordinator.
	pollEvery = 100 * time.Millisecond
)

func (o *Options) fill() {
	set := func(d *time.Duration, usual time.Duration) {
		if *d == 0 {
			*d = usual
		}
	}
	if o.Limits == (protocol.Limits{}) {
		o.Limits = protocol.DefaultLimits
	}
	set(&o.Limits.Patience, usualPatience)
	set(&o.settle, usualSettle)
	set(&o.pause, usualPause)
	if o.free == nil {
		o.free = (*directory).free
	}
	if o.environ == nil {
		o.environ = os.Environ
	}
}

// A phase says what the engine is doing; status tells it.
type phase string

const (
	starting      phase = "starting"
	computing     phase = "computing"
	checkpointing phase = "checkpointing"
	storing       phase = "computing, storing a checkpoint"
	pausing       phase = "waiting to restart"
	stopping      phase = "stopping"
)

// An engine runs a job. Its fields belong to the goroutine of loop; others post to it.
type engine struct {
	opt     Options
	job     *image.Job
	spec    job.Spec
	tools   *tools
	rules   *zones.Rules
	dir     *directory
	state   state
	out     coordinator.Observer
	journal job.Journal
	calls   chan func()
	over    chan struct{} // closed when nobody takes calls any more
	helpers sync.WaitGroup
	ctx     context.Context        // of the programs of DMTCP that only ask or order
	scratch func() (string, error) // directory of this run
	session io.Closer              // holds the directory of the MPI library's files; may be nil
	inputAt int64                  // where a file begins that is the program's standard input

	phase    phase
	inc      *incarnation // nil while there is none
	number   int          // of the incarnation
	from     int          // checkpoint that it was restarted from
	newest   int          // checkpoint of this run's line
	line     []int        // checkpoints of this run's line, ascending
	tried    map[int]int  // restarts from a checkpoint that came to nothing
	inRow    int          // restarts since the last checkpoint
	failed   time.Time    // when the program failed, until it computes again
	planned  schedule
	timer    *time.Timer
	taking   bool // a checkpoint is being taken
	resuming bool // the program may not compute yet after a checkpoint
	importer bool // one is being stored
	waiting  []request
	prunes   []func()
	result   coordinator.Result
	since    time.Time
	wall     *protocol.Walltime // nil: the run may take as long as it likes
	stop     bool               // after the checkpoint that is being stored
	hurried  bool               // nothing is waited for
	began    bool               // the program has computed
	ending   *ending
	root     error // how the program ended; with ended
	ended    bool
}

// An ending is how the run ends.
type ending struct {
	outcome string
	err     error
}

// A request asks for a checkpoint.
type request struct {
	stop   bool
	answer func(wire.Reply)
}

// post has f called by the loop, in order. Nothing is called once the run is over.
func (e *engine) post(f func()) {
	select {
	case e.calls <- f:
	case <-e.over:
	}
}

// help runs f beside the loop.
func (e *engine) help(f func()) { e.helpers.Go(f) }

// loop runs until the job has ended.
func (e *engine) loop(ctx context.Context) {
	e.timer = time.NewTimer(time.Hour)
	defer e.timer.Stop()
	asked := 0
	for e.ending == nil {
		e.arm()
		select {
		case f := <-e.calls:
			f()
		case <-e.timer.C:
			e.due()
		case <-e.opt.Interrupts:
			asked++
			e.interrupt(asked > 1)
		case <-e.opt.Checkpoints:
			e.demand(request{answer: func(r wire.Reply) {
				if r.Error != "" {
					e.out.Warn("no checkpoint was taken: " + r.Error)
				}
			}})
		case <-ctx.Done():
			e.end(job.StateInterrupted, ctx.Err())
		}
	}
}

// arm sets the timer to the next checkpoint of the schedule.
func (e *engine) arm() {
	wait := time.Hour
	if at, ok := e.planned.due(); ok && e.idle() {
		wait = time.Until(at)
	}
	if at, ok := e.wallDue(); ok {
		wait = min(wait, time.Until(at))
	}
	e.timer.Reset(max(0, wait))
}

// idle reports whether a checkpoint can be taken now.
func (e *engine) idle() bool {
	return e.phase == computing && !e.taking && !e.importer && !e.resuming
}

// wallDue returns when the run is to be stopped for its limit of time, false if never.
func (e *engine) wallDue() (time.Time, bool) {
	if e.wall == nil || e.result.Interrupted || !e.began {
		return time.Time{}, false
	}
	return e.since.Add(e.wall.At()), true
}

// due takes the checkpoint of the schedule.
func (e *engine) due() {
	now := time.Now()
	if at, ok := e.wallDue(); ok && !now.Before(at) {
		e.result.Requeue = true
		e.out.Warn("the time of this run is nearly up")
		e.interrupt(false)
		return
	}
	if at, ok := e.planned.due(); ok && e.idle() && !now.Before(at) {
		e.take()
	}
}

// event tells the observer of an event, and keeps it in the journal.
func (e *engine) event(ev any) {
	e.journal.Add(ev)
	e.out.Event(ev)
}

// end ends the run.
func (e *engine) end(outcome string, err error) {
	if e.ending == nil {
		e.ending = &ending{outcome, err}
	}
}
