package dmtcp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ckpt/coordinator"
	"ckpt/coordinator/job"
	"ckpt/image"
	"ckpt/image/dmtcp"
	"ckpt/internal/durable"
	"ckpt/internal/family"
)

// errStuck says that DMTCP made no progress.
var errStuck = errors.New("no progress")

// take takes a checkpoint, for all who wait for one now.
func (e *engine) take() {
	to := e.waiting
	e.waiting = nil
	if err := e.checkSpace(); err != nil {
		e.aborted(to, err)
		return
	}
	if err := e.dir.renew(liveName); err != nil {
		e.aborted(to, err)
		return
	}
	e.taking, e.phase = true, checkpointing
	inc, set := e.inc, rawSet{Name: fmt.Sprintf("%s%d", setPrefix, e.state.Sets+1), From: e.from}
	e.state.Sets++
	e.help(func() {
		files, err := e.write(inc, &set)
		e.post(func() { e.written(inc, set, files, to, err) })
	})
}

// checkSpace refuses a checkpoint for which the disk has too little space: the images and
// what the store keeps of them are both there for a while.
func (e *engine) checkSpace() error {
	free, err := e.opt.free(e.dir)
	if err != nil {
		return err
	}
	need := e.expectedBytes()
	if free < 2*need {
		return fmt.Errorf("%w: %s has %d MiB free, a checkpoint of %d MiB needs twice as much", durable.ErrStorageFull, e.dir.root, free>>20, need>>20)
	}
	return nil
}

// expectedBytes is how large the images of the next checkpoint will be: as large as those of
// the last one, at least what the program holds in memory.
func (e *engine) expectedBytes() int64 {
	need := family.Resident(e.state.Processes)
	if e.state.Spare != nil {
		need = max(need, e.dir.written(e.state.Spare.Name))
	}
	return need
}

// write has DMTCP write the images of a checkpoint, and checks them: DMTCP also says that
// it is done when it is not.
func (e *engine) write(inc *incarnation, set *rawSet) (*dmtcp.Set, error) {
	began := time.Now()
	var err error
	if set.Peers, _, err = inc.server.status(e.ctx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(e.ctx)
	defer cancel(nil)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		e.watchProgress(ctx, func() int64 { return e.dir.written(liveName) }, cancel)
	}()
	err = inc.server.checkpoint(ctx)
	set.Pause = time.Since(began)
	stuck := context.Cause(ctx)
	cancel(nil)
	<-watched
	if errors.Is(stuck, errStuck) {
		return nil, fmt.Errorf("the checkpoint of DMTCP makes no progress: %w", stuck)
	}
	if err != nil {
		inc.awaitEnd() // DMTCP may know before us that the program has ended
		return nil, err
	}
	if name, err := e.dir.unfinished(liveName); err != nil || name != "" {
		return nil, errors.Join(err, fmt.Errorf("DMTCP has left %s unfinished", name))
	}
	if err := e.dir.settle(set.Name); err != nil {
		return nil, err
	}
	return e.collect(set)
}

// watchResumed reports the failure of a program that does not compute again after a
// checkpoint: now and then DMTCP lets one hang.
func (e *engine) watchResumed(inc *incarnation) {
	for end := time.Now().Add(e.opt.Limits.Patience); ; {
		if _, running, err := inc.server.status(e.ctx); err == nil && running || inc.program.ended() || e.ctx.Err() != nil {
			e.post(e.resumed)
			return
		}
		if time.Now().After(end) {
			break
		}
		select {
		case <-inc.program.over:
		case <-time.After(pollEvery):
		}
	}
	e.post(func() { e.hangs(inc) })
}

// resumed takes the news that the program computes after a checkpoint.
func (e *engine) resumed() {
	e.resuming = false
	e.takeForWaiting()
}

// hangs ends the program, which hangs, once its last checkpoint is stored.
func (e *engine) hangs(inc *incarnation) {
	if e.inc != inc || e.ending != nil {
		return
	}
	e.ended, e.root = true, fmt.Errorf("does not compute again after a checkpoint of DMTCP, for %v", e.opt.Limits.Patience)
	if !e.taking && !e.importer {
		e.finish()
	}
}

// awaitEnd waits a moment for the end of the program.
func (i *incarnation) awaitEnd() {
	select {
	case <-i.program.over:
	case <-time.After(time.Second):
	}
}

// watchProgress calls cancel when what progress returns has not changed for too long.
func (e *engine) watchProgress(ctx context.Context, progress func() int64, cancel context.CancelCauseFunc) {
	last, changed := progress(), time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pollEvery):
		}
		if now := progress(); now != last {
			last, changed = now, time.Now()
		}
		if time.Since(changed) > e.opt.Limits.Patience {
			cancel(fmt.Errorf("%w for %v", errStuck, e.opt.Limits.Patience))
			return
		}
	}
}

// collect reads the files of a set: every image to its end.
func (e *engine) collect(set *rawSet) (*dmtcp.Set, error) {
	images, err := e.dir.images(set.Name)
	if err != nil {
		return nil, err
	}
	files, err := dmtcp.Collect(e.ctx, images, dmtcp.CollectOptions{Rules: e.rules})
	if err != nil {
		return nil, err
	}
	if n := len(files.Images); n != set.Peers {
		return nil, fmt.Errorf("the program has %d processes, DMTCP wrote %d images", set.Peers, n)
	}
	if e.newest > 0 && files.NP != e.spec.NP {
		return nil, fmt.Errorf("the images are of %d ranks, the job has %d", files.NP, e.spec.NP)
	}
	return files, nil
}

// written takes a set that is whole, or aborts the checkpoint.
func (e *engine) written(inc *incarnation, set rawSet, files *dmtcp.Set, to []request, err error) {
	e.taking = false
	if e.phase == checkpointing {
		e.phase = computing
	}
	if err == nil {
		e.state.Pending = &set
		err = e.state.write(e.job)
	}
	if err != nil {
		e.state.Pending = nil
		if derr := e.dir.discard(set.Name); derr != nil {
			e.out.Warn(derr.Error())
		}
		if inc.program.ended() { // which is why
			e.waiting = append(to, e.waiting...)
			if e.ended {
				e.finish()
			}
			return
		}
		e.aborted(to, err)
		if inc == e.inc && !e.ended && errors.Is(err, errStuck) {
			e.fail(err.Error())
		}
		e.afterStorage()
		return
	}
	e.planned.computes(time.Now(), set.Pause)
	e.resuming = true
	e.help(func() { e.watchResumed(inc) })
	for _, r := range to {
		complete := e.ended && e.root == nil
		if r.stop && !complete && !e.stop {
			e.phase, e.stop = stopping, true
			e.endIncarnation()
		}
	}
	e.store(set, files, to)
}

// aborted tells of a checkpoint that was not taken. The next one of the schedule is due
// after another interval.
func (e *engine) aborted(to []request, err error) {
	next, nerr := e.job.Next()
	if nerr != nil {
		err = errors.Join(err, nerr)
	}
	e.planned.computes(time.Now(), 0)
	e.result.Lost++
	full := errors.Is(err, durable.ErrStorageFull)
	if full {
		e.result.Full++
	}
	e.event(&coordinator.AbortedEvent{Type: "checkpoint_lost", Number: next, Rank: -1, Reason: err.Error()})
	e.answerAll(to, nil, err)
	if full && e.opt.StopOnFull && e.ending == nil {
		e.phase = stopping
		e.endIncarnation()
		e.end(job.StateStopped, fmt.Errorf("job %s was stopped: %w", e.job.Name(), err))
	}
}

// store stores a set in the job while the program computes on.
func (e *engine) store(set rawSet, files *dmtcp.Set, to []request) {
	e.importer = true
	if e.phase == computing {
		e.phase = storing
	}
	began := time.Now()
	err := e.describe(files)
	e.help(func() {
		var m *image.Manifest
		if err == nil {
			m, err = e.importSet(set, files, began)
		}
		e.post(func() { e.stored(set, m, began, to, err) })
	})
}

func (e *engine) importSet(set rawSet, files *dmtcp.Set, began time.Time) (*image.Manifest, error) {
	return files.Import(e.ctx, e.job, dmtcp.Options{
		Notice: func(err error) { e.out.Warn(err.Error()) },
		Describe: func(m *image.Manifest) {
			m.Parent, m.Pause = set.From, set.Pause.Seconds()
			m.Latency.Storage = m.Pause + time.Since(began).Seconds()
			m.Latency.Total = m.Latency.Storage
		},
	})
}

// stored tells of a checkpoint that the store has, or aborts it.
func (e *engine) stored(set rawSet, m *image.Manifest, began time.Time, to []request, err error) {
	e.importer = false
	if e.phase == storing {
		e.phase = computing
	}
	if err != nil {
		e.notStored(set, to, err)
		return
	}
	ev := job.DescribeCheckpoint(m.Summary())
	ev.Job, ev.Pause = e.job.Name(), set.Pause.Seconds()
	ev.Latency.Total = ev.Pause + time.Since(began).Seconds()
	ev.Latency.Storage = ev.Latency.Total
	e.newest, e.inRow, e.result.Last = m.Number, 0, m.Number
	e.line = append(e.line, m.Number)
	e.result.Checkpoints++
	if e.wall != nil {
		e.wall.Took(time.Duration(ev.Latency.Total*float64(time.Second)), e.result.Checkpoints == 1)
	}
	set.Number = m.Number
	e.state.Pending, e.state.Spare = nil, &set
	e.keepSpare()
	e.event(ev)
	if next := e.planned.event(time.Now()); next != nil {
		e.event(next)
	}
	e.thin()
	e.answerAll(to, ev, nil)
	e.afterStorage()
}

// notStored tells of a set that could not be stored. Its files go: the next checkpoint is
// newer. After the last one they stay, for the next run.
func (e *engine) notStored(set rawSet, to []request, err error) {
	if e.ending != nil { // the run was ended in a hurry
		e.answerAll(to, nil, err)
		return
	}
	if !e.stop {
		e.state.Pending = nil
		e.keepSpare()
	}
	if e.stop {
		err = fmt.Errorf("%w; its images are in %s, and the next run stores them", err, e.dir.path(set.Name))
		e.end(job.StateStopped, err)
	}
	e.aborted(to, err)
	e.afterStorage()
}

// keepSpare removes the sets that are not needed any more, after the state says so.
func (e *engine) keepSpare() {
	err := e.state.write(e.job)
	var keep []string
	for _, s := range []*rawSet{e.state.Pending, e.state.Spare} {
		if s != nil {
			keep = append(keep, s.Name)
		}
	}
	if err == nil {
		err = e.dir.keepOnly(keep)
	}
	if err != nil {
		e.out.Warn("images of DMTCP that are not needed any more stay: " + err.Error())
	}
}

// afterStorage does what has waited for the checkpoint.
func (e *engine) afterStorage() {
	if e.taking || e.importer {
		return
	}
	e.startPrunes()
	switch {
	case e.ending != nil:
	case e.stop:
		e.end(job.StateStopped, nil)
	case e.ended:
		e.finish()
	default:
		e.takeForWaiting()
	}
}
