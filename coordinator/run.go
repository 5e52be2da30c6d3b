package coordinator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/protocol/supervisor"
	"ckpt/coordinator/recovery"
	"ckpt/coordinator/wire"
	"ckpt/image"
	"ckpt/internal/wording"
)

// drive runs the job to its end. The caller holds the job's lock. The error is a
// refusedError if no rank was to compute.
func (d *driver) drive(ctx context.Context, from *image.Manifest, failures []launch.Failure, interrupts <-chan struct{}) (*Result, error) {
	if err := d.open(); err != nil {
		return nil, &job.RefusedError{Err: err}
	}
	defer d.close()
	from, err := d.openLevels(ctx, from)
	if err != nil {
		return nil, &job.RefusedError{Err: err}
	}
	cfg, err := d.supervisorConfig(from)
	if err != nil {
		return nil, err
	}
	if d.machine, err = supervisor.New(cfg); err != nil {
		if errors.Is(err, recovery.ErrNoLine) {
			err = &job.MissingError{What: err.Error(), Cause: d.passed, OnNodes: d.spec.Tier != nil}
		}
		return nil, err
	}
	if err := d.takeOver(); err != nil {
		return nil, err
	}
	d.journal = job.OpenJournal(d.job)
	defer d.journal.Close()
	if d.groups[0].level.Facts().Behind {
		d.journal.Behind()
	}
	d.openTurns(ctx)
	defer d.turns.client.Close()
	d.parent = cfg.From
	d.stored = make(map[int]int)
	for _, k := range cfg.Known {
		d.groups[k.Group].lineage.committed(k.Number)
		d.stored[k.Number] = k.Iter
	}
	if err := d.startTuning(); err != nil {
		return nil, err
	}
	d.since = time.Now()
	d.result = Result{Type: "result", Job: d.job.Name(), App: d.spec.App, NP: d.spec.NP, Mode: d.spec.Mode, InFlight: d.spec.Flights(),
		Iterations: d.spec.Iterations, several: d.spec.Several()}
	d.result.Last = cfg.From
	for _, k := range cfg.Known {
		d.result.Last = max(d.result.Last, k.Number)
	}
	d.interrupts = interrupts
	d.limitTime(d.until, max(cfg.Cost.First, cfg.Cost.FirstHigh))
	d.inject = newInjector(d, failures)
	defer d.inject.stop()
	d.perform(d.machine.Begin(0))
	d.serveLoop(ctx, interrupts)
	d.endRestarting(-1)
	d.settle()
	d.result.Wall = time.Since(d.since).Seconds()
	d.outages.sum(&d.result, d.now())
	result, err := d.verdict()
	d.recordEnding(result, err)
	if result != nil {
		d.journal.Add(result)
	}
	return result, err
}

func (d *driver) open() error {
	err := d.engine.Open()
	if err == nil {
		d.Go(func() { launch.MendUntil(d.done, func() { d.Post(d.mend) }) })
	}
	return err
}

// mend makes the socket again if it has gone. The next start of ranks tells if it cannot.
func (d *driver) mend() {
	if err := d.socket.Mend(d.job); err != nil {
		d.log.Debug("socket", "why", err)
	}
}

func (d *driver) close() {
	close(d.done)
	for _, g := range d.groups {
		g.dropLibrary()
	}
	d.engine.Close()
	d.answering.Lock()
	d.socket.Close()
	d.answering.Unlock()
	for _, m := range d.members {
		if m != nil && m.link != nil {
			m.link.Close()
		}
	}
	d.helpers.Wait()
	for _, g := range d.groups {
		g.level.Close()
	}
	d.socket.Remove(d.job)
}

// serveLoop runs until the job has ended. A first interrupt stops the job after a
// last checkpoint, a second at once; the end of ctx kills.
func (d *driver) serveLoop(ctx context.Context, interrupts <-chan struct{}) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	armed := time.Duration(0)
	asked := 0
	for !d.Over() {
		at, ok := d.machine.Deadline()
		if due, limited := d.wallDue(); limited && (!ok || due < at) {
			at, ok = due, true
		}
		if ok && at != armed {
			armed = at
			timer.Reset(max(0, at-d.now()))
		}
		select {
		case <-d.ready:
			d.take()()
		case <-timer.C:
			armed = 0
			if due, limited := d.wallDue(); limited && d.now() >= due {
				asked++
				d.timeIsUp()
			}
			d.step(supervisor.Job, protocol.Tick{})
		case <-interrupts:
			asked++
			d.interrupt(asked > 1)
		case <-d.demands:
			d.request(protocol.Request{}, d.afterDemand)
		case <-ctx.Done():
			d.broken = ctx.Err()
		}
	}
}

// interrupt stops the job: after a last checkpoint, if it is not to be now.
func (d *driver) interrupt(now bool) {
	d.result.Interrupted, d.hurried = true, now
	for rank, err := range d.logWaits {
		if !now {
			d.Warn(fmt.Sprintf("stopping without a last checkpoint: rank %d waits for its message log: %v", rank, err))
			now = true
		}
	}
	if !d.halts || now {
		d.tellStopping(now)
	}
	d.request(protocol.Request{Stop: true, Now: now}, d.afterInterrupt)
}

func (d *driver) tellStopping(now bool) {
	d.Event(&StoppingEvent{Type: "stopping", Now: now, Iteration: d.machine.Iteration(), AtRisk: d.atRisk(), Walltime: d.result.Requeue && !now})
}

// atRisk is how many iterations a restart repeats if the job is stopped at once: those
// since the newest checkpoint of each group, at most.
func (d *driver) atRisk() int {
	most := 0
	for _, g := range d.groups {
		most = max(most, d.machine.Iteration()-g.durable)
	}
	return most
}

// afterDemand says why a checkpoint that was asked for by a signal was not taken, unless
// an event has.
func (d *driver) afterDemand(a protocol.Answer, _ *job.CheckpointEvent, aborted error) {
	if a.Err != "" && aborted == nil && d.outcome == nil {
		d.Warn("no checkpoint was taken: " + a.Err)
	}
}

// haltPause is between two tries to stop a job that is to be dealt to other ranks.
const haltPause = time.Millisecond

// afterInterrupt stops without a checkpoint when one cannot be taken: somebody
// who presses ^C wants the job to end.
func (d *driver) afterInterrupt(a protocol.Answer, _ *job.CheckpointEvent, _ error) {
	if a.Err == "" || d.outcome != nil {
		return
	}
	if d.halts && !d.hurried { // once ranks that failed compute again
		time.AfterFunc(haltPause, func() {
			d.Post(func() { d.request(protocol.Request{Stop: true}, d.afterInterrupt) })
		})
		return
	}
	d.Warn("stopping without a last checkpoint: " + a.Err)
	d.request(protocol.Request{Stop: true, Now: true}, func(protocol.Answer, *job.CheckpointEvent, error) {})
}

// recordEnding notes how the run has ended, before anybody can learn that it has. A
// restart that never came to compute leaves the last result alone.
func (d *driver) recordEnding(result *Result, err error) {
	if !d.result.began {
		return
	}
	if result == nil {
		job.RecordEnding(d.job, job.StateInterrupted, "", err, d.beginning(), nil)
		return
	}
	job.RecordEnding(d.job, result.Outcome, result.Digest, err, d.beginning(), result)
}

// settle lets the ranks leave, ends those that do not, and cleans up.
func (d *driver) settle() {
	for _, g := range d.groups {
		g.level.LetGo()
	}
	if d.broken == nil && d.outcome.Result != protocol.Failed && !d.hurried {
		d.engine.Settle()
	}
	for _, g := range d.groups {
		if err := g.endIncarnation(); err != nil {
			d.Warn(err.Error())
		}
	}
	for _, g := range d.groups {
		g.level.Drain()
	}
	for _, g := range d.groups {
		g.cleanUp()
	}
	d.startPrunes()
	d.requests.end()
}

// verdict makes the result, or the error, of the run.
func (d *driver) verdict() (*Result, error) {
	if d.broken != nil {
		return nil, d.broken
	}
	o := d.outcome
	d.result.Outcome = o.Result.String()
	if d.full != nil && o.Result == protocol.StoppedByRequest {
		return &d.result, d.full
	}
	if o.Result == protocol.Failed {
		cause := errors.New(o.Text)
		if len(o.Body) > 0 {
			cause = wire.DecodeError(o.Body, o.Text)
		}
		if o.Restored {
			return &d.result, cause
		}
		newest, err := d.job.Latest()
		return &d.result, &JobFailedError{Job: d.job.Name(), Err: cause, Restartable: d.spec.Several() || err == nil && newest > 0 || len(d.groups[0].level.Versions()) > 0, Several: d.spec.Several(),
			Tried: d.spec.AutoRestart}
	}
	if err := d.checkPlace(); err != nil {
		return &d.result, err
	}
	d.tellAborted()
	if o.Result == protocol.Completed {
		d.tellIdle()
		if err := d.engine.Complete(o.Results); err != nil {
			return nil, err
		}
	}
	return &d.result, nil
}

// tellAborted says that half of the checkpoints of the run, or more, did not fit into the
// storage.
func (d *driver) tellAborted() {
	r := &d.result
	if r.Full == 0 || 2*r.Full < r.Checkpoints+r.Lost {
		return
	}
	newest := "no other was taken"
	if r.Checkpoints > 0 {
		newest = fmt.Sprintf("the newest is of iteration %d", d.groups[0].durable)
		if d.spec.Several() {
			newest = fmt.Sprintf("%d others were taken", r.Checkpoints)
		}
	}
	remedy := wording.Sprintf("{prune %s} {keep} 1 frees space, and a launch with {keep} 2 keeps it free", d.job.Name())
	if d.spec.Several() || r.Checkpoints == 0 {
		remedy = "free space in " + d.store
	}
	if r := d.groups[0].level.Facts().Remedy; r != "" { // the store was not what they were waiting for
		remedy = r
	}
	d.Warn(fmt.Sprintf("%d of %d checkpoints were aborted because the storage is full, and %s; %s", r.Full, r.Checkpoints+r.Lost, newest, remedy))
}

// tellIdle says that the schedule never came to a checkpoint in this job.
func (d *driver) tellIdle() {
	if d.result.Checkpoints+d.result.Lost > 0 || d.result.Last > 0 {
		return
	}
	switch s := d.spec.Schedule; {
	case s.Interval > 0:
		when := "before the first"
		if d.now() >= s.Interval {
			when = "before a checkpoint was complete with"
		}
		d.Warn(wording.Sprintf("no checkpoint was taken: the job ended after %v, %s {interval} of %v",
			d.now().Round(10*time.Millisecond), when, s.Interval))
	case s.Overhead > 0:
		d.Warn(wording.Sprintf("no checkpoint was taken: the job ended before one fitted into {overhead} %g%%", 100*s.Overhead))
	}
}

// checkPlace looks whether the directory of the job is still there. A result is shown
// all the same; a job that was to be continued cannot be.
func (d *driver) checkPlace() error {
	err := d.job.InPlace()
	if err == nil {
		return nil
	}
	if d.outcome.Result == protocol.Completed {
		d.Warn("nothing of this run is stored: " + err.Error())
		return nil
	}
	return fmt.Errorf("job %s has no last checkpoint: %w", d.job.Name(), err)
}

// limitTime sets the limit of time of the run, if it has one.
func (d *driver) limitTime(end time.Time, cost time.Duration) {
	if !end.IsZero() {
		d.wall = protocol.NewWalltime(max(time.Millisecond, end.Sub(d.since)), cost)
	}
}

// wallDue returns when the run is to be stopped for its limit of time, false if never.
func (d *driver) wallDue() (time.Duration, bool) {
	if d.wall == nil || d.result.Interrupted || !d.result.began {
		return 0, false
	}
	return d.wall.At(), true
}

// tookWall notes what a checkpoint took.
func (d *driver) tookWall(latency float64) {
	if d.wall != nil {
		d.wall.Took(seconds(latency), d.result.Checkpoints == 1)
	}
}

// timeIsUp stops the job after a last checkpoint, to be queued again.
func (d *driver) timeIsUp() {
	d.result.Requeue = true
	d.Warn("the time of this run is nearly up")
	d.interrupt(false)
}
