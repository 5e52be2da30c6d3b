package replay

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"ckpt/iotrace"
)

// A running is a replay in progress.
type running struct {
	p       *plan
	o       *Options
	files   []liveFile
	handles []handle
	parts   *gate
	left    []atomic.Int32 // unfinished ops of each part
	meeting []*meeting
	spare   spares
	noise   noise
	scratch sync.Pool // for reads, *[]byte
	start   time.Time

	recorded struct{ ranks, files []int32 } // the recorder's indexes
	progress progress

	preparedBytes  int64
	opens          atomic.Int64 // beyond the trace
	direct, missed atomic.Int64 // requests that bypassed the page cache; missing bytes
}

func newRunning(p *plan, o *Options) *running {
	r := &running{p: p, o: o, files: make([]liveFile, len(p.files)), handles: make([]handle, len(p.handles)), parts: newGate(len(p.parts)),
		left: make([]atomic.Int32, len(p.parts)), noise: newNoise(o.Seed, max(p.largest, fillChunk)), progress: progress{report: o.Progress, total: p.volume()}}
	for i, x := range p.parts {
		r.left[i].Store(x.ops)
	}
	for _, m := range p.meetings {
		r.meeting = append(r.meeting, newMeeting(m.parties))
	}
	for i := range r.handles {
		r.handles[i] = handle{ready: make(chan struct{}), idle: make(chan struct{})}
	}
	for i := range p.events {
		x := p.op(int32(i))
		switch {
		case x.handle == iotrace.None || x.Op == iotrace.Open:
		case x.Op == iotrace.Close:
			r.handles[x.handle].closes = true
		default:
			r.handles[x.handle].users.Add(1)
		}
	}
	scratch := min(max(p.largest, page), fillChunk)
	for i := range r.files {
		r.files[i].name.Store(int32(i))
	}
	r.scratch.New = func() any { b := alignedMemory(int(scratch)); return &b }
	for _, k := range p.ranks {
		r.recorded.ranks = append(r.recorded.ranks, o.Recorder.Rank(k))
	}
	r.recorded.files = make([]int32, len(p.names))
	known := make([]bool, len(p.names))
	for i := range p.planned {
		for _, name := range []int32{p.planned[i].name, p.planned[i].to} {
			if name != iotrace.None && !known[name] {
				r.recorded.files[name], known[name] = o.Recorder.File(p.names[name]), true
			}
		}
	}
	return r
}

// run starts all ranks and waits for them. The first error stops all.
func (r *running) run(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	r.start = r.o.clock.Now()
	var all sync.WaitGroup
	for _, ops := range r.p.byRank {
		if len(ops) == 0 {
			continue
		}
		all.Go(func() {
			if err := r.rank(ctx, stop, ops); err != nil {
				stop(err)
			}
		})
	}
	all.Wait()
	r.progress.end()
	return context.Cause(ctx)
}

// A flight is an operation that its rank does not wait for.
type flight struct {
	op    int32
	ended chan struct{}
}

// A rankRun is a rank in progress.
type rankRun struct {
	*running
	flights []flight
	all     sync.WaitGroup
	// The latest moment of the rank before the next operation, in the trace and in the
	// replay. Gaps count from there.
	traced, real int64
	// late is the excess of sleeps, which last too long on most systems. Later sleeps
	// are shortened by it, so that it does not add up.
	late int64
}

// rank does the operations of one rank. A failed flight stops the replay.
func (r *running) rank(ctx context.Context, stop func(error), ops []int32) error {
	x := &rankRun{running: r, traced: r.p.first}
	defer x.all.Wait()
	for k, i := range ops {
		o := r.p.op(i)
		if err := x.turn(ctx, i); err != nil {
			return err
		}
		if k+1 == len(ops) || r.p.events[ops[k+1]].Start >= o.End {
			if err := r.do(ctx, i, nil); err != nil {
				return err
			}
			x.moment(o.End, o.end)
			continue
		}
		f := flight{i, make(chan struct{})}
		x.flights = append(x.flights, f)
		began := make(chan struct{})
		x.all.Go(func() {
			defer close(f.ended)
			if err := r.do(ctx, i, began); err != nil {
				stop(err)
			}
		})
		// The next operation begins after this one, as in the trace.
		if err := await(ctx, began); err != nil {
			return err
		}
		x.moment(o.Start, r.since())
	}
	return nil
}

func (x *rankRun) moment(traced, real int64) {
	if traced >= x.traced {
		x.traced, x.real = traced, real
	}
}

// turn waits until operation i may begin.
func (x *rankRun) turn(ctx context.Context, i int32) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	o := x.p.op(i)
	if err := x.landed(ctx, o.Start); err != nil {
		return err
	}
	if p := &x.p.parts[o.part]; p.first == i {
		if err := x.parts.wait(ctx, p.need); err != nil {
			return err
		}
	}
	if o.File != iotrace.None {
		if g := x.p.files[o.File].gate; g != nil {
			if err := g.wait(ctx, o.need); err != nil {
				return err
			}
		}
	}
	for _, t := range x.p.turns[i] {
		if err := t.gate.wait(ctx, t.need); err != nil {
			return err
		}
	}
	if need := x.p.replaced[i]; need > 0 {
		if err := x.p.files[o.Peer].gate.wait(ctx, need); err != nil {
			return err
		}
	}
	if x.o.KeepGaps {
		return x.gap(ctx, o)
	}
	return nil
}

// gap sleeps until the time before an operation has passed.
func (x *rankRun) gap(ctx context.Context, o op) error {
	due, now := x.real+o.Start-x.traced-x.late, x.since()
	if now >= due {
		x.late = min(x.late, now-due)
		return nil
	}
	err := x.o.clock.Sleep(ctx, time.Duration(due-now))
	x.late = max(0, x.since()-due)
	return err
}

// landed waits for the flights that had ended by then in the trace.
func (x *rankRun) landed(ctx context.Context, by int64) error {
	keep := x.flights[:0]
	for _, f := range x.flights {
		o := x.p.op(f.op)
		if o.End > by {
			keep = append(keep, f)
			continue
		}
		if err := await(ctx, f.ended); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err // this error may be the reason
		}
		x.moment(o.End, o.end)
	}
	x.flights = keep
	return nil
}

// do performs operation i and marks it as done. It closes began, if that is not nil,
// when the operation begins.
func (r *running) do(ctx context.Context, i int32, began chan<- struct{}) error {
	o := r.p.op(i)
	if err := r.perform(ctx, i, began); err != nil {
		return err
	}
	for _, t := range r.p.turns[i] {
		t.gate.finish(t.place)
	}
	if o.File != iotrace.None {
		if g := r.p.files[o.File].gate; g != nil {
			g.finish(o.place)
		}
	}
	if r.left[o.part].Add(-1) == 0 {
		r.parts.finish(r.p.parts[o.part].place)
	}
	return nil
}

// close closes all open files.
func (r *running) close() error {
	var failed error
	for i := range r.handles {
		failed = errors.Join(failed, r.handles[i].close())
	}
	return failed
}

// progress collects the bytes moved, for Options.Progress.
type progress struct {
	report func(done, total int64)
	total  int64
	done   atomic.Int64
	mu     sync.Mutex // held by the reporter
}

// add reports, unless another goroutine does.
func (p *progress) add(n int64) {
	p.done.Add(n)
	if p.report != nil && p.mu.TryLock() {
		defer p.mu.Unlock()
		p.report(p.done.Load(), p.total)
	}
}

// end reports the rest.
func (p *progress) end() {
	if p.report != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.report(p.done.Load(), p.total)
	}
}

// A clock tells the time, and lets it pass.
type clock interface {
	Now() time.Time
	// Sleep waits for d, or until ctx is done, and then returns its error.
	Sleep(ctx context.Context, d time.Duration) error
}

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

func (systemClock) Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// spares are handles that no rank uses any more and that the trace does not close.
// They come from Darshan, which records no opens and closes, and from programs that
// leave closing to the system. In the traced job each process had its own limit of
// open files; here all ranks share one. So spare handles are closed when there are too
// many, and not earlier: on some file systems closing takes long, and the trace says
// nothing about it.
type spares struct {
	mu   sync.Mutex
	list []*handle
}

// over adds a handle that is not used any more.
func (r *running) over(h *handle) {
	if h.closes {
		return
	}
	r.spare.mu.Lock()
	r.spare.list = append(r.spare.list, h)
	r.spare.mu.Unlock()
}

// opened opens a file, and closes spare handles if there are too many. No handle
// becomes spare meanwhile, because other ranks need those that they open.
func (r *running) opened(open func() (openFile, error)) (openFile, error) {
	f, err := open()
	if !errors.Is(err, syscall.EMFILE) {
		return f, err
	}
	r.spare.mu.Lock()
	defer r.spare.mu.Unlock()
	var failed error
	for _, h := range r.spare.list {
		failed = errors.Join(failed, h.close())
	}
	if r.spare.list = nil; failed != nil {
		return nil, failed
	}
	return open()
}
