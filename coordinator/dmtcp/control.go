package dmtcp

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"ckpt/coordinator"
	"ckpt/coordinator/job"
	"ckpt/coordinator/wire"
)

// obey carries out a command of another process.
func (e *engine) obey(c wire.Command, answers chan<- wire.Reply) {
	answer := func(r wire.Reply) { answers <- r }
	switch c.Op {
	case wire.OpStatus:
		answer(wire.Reply{Status: e.status()})
	case wire.OpCheckpoint:
		e.demand(request{answer: answer})
	case wire.OpStop:
		if c.Now {
			e.stopNow()
			answer(wire.Reply{})
			return
		}
		e.demand(request{stop: true, answer: answer})
	case wire.OpPrune, wire.OpPreviewPrune:
		e.prunes = append(e.prunes, func() { answer(e.prune(c)) })
		e.startPrunes()
	default:
		answer(wire.Reply{Error: fmt.Sprintf("command %q is unknown", c.Op)})
	}
}

func (e *engine) status() *wire.Status {
	s := &wire.Status{Job: e.job.Name(), ID: e.spec.ID, Phase: string(e.phase), Incarnation: e.number, Mapping: e.spec.Mapping, Since: e.since}
	if at, ok := e.planned.due(); ok && e.phase == computing && !e.taking {
		wait := max(0, time.Until(at).Seconds())
		s.NextSeconds = &wait
	}
	if e.inc != nil && e.inc.ready {
		ranks := e.inc.ranks
		if len(ranks) == 0 { // no MPI job; the first two are no processes of the program
			ranks = e.state.Processes[min(2, len(e.state.Processes)):]
		}
		for _, p := range ranks {
			s.PIDs = append(s.PIDs, p.PID)
		}
	}
	return s
}

// demand has a checkpoint taken as soon as the program computes.
func (e *engine) demand(r request) {
	if e.phase == stopping {
		r.answer(refusal(errors.New("the job is stopping")))
		return
	}
	e.waiting = append(e.waiting, r)
	e.takeForWaiting()
}

// takeForWaiting takes a checkpoint for those who wait for one, unless one is under way
// that began before they asked.
func (e *engine) takeForWaiting() {
	if len(e.waiting) > 0 && e.idle() {
		e.take()
	}
}

// answerAll answers those for whom the checkpoint was taken.
func (e *engine) answerAll(to []request, ev *job.CheckpointEvent, err error) {
	for _, r := range to {
		if err != nil {
			r.answer(refusal(err))
			continue
		}
		r.answer(wire.Reply{Checkpoint: ev})
	}
}

func refusal(err error) wire.Reply {
	detail := wire.ReportError(err)
	return wire.Reply{Error: err.Error(), Detail: &detail}
}

// interrupt stops the job: after a last checkpoint, if it is not to be now.
func (e *engine) interrupt(now bool) {
	e.result.Interrupted = true
	e.event(&coordinator.StoppingEvent{Type: "stopping", Now: now})
	if now {
		e.stopNow()
		return
	}
	e.demand(request{stop: true, answer: func(r wire.Reply) {
		if r.Error != "" && e.ending == nil {
			e.out.Warn("stopping without a last checkpoint: " + r.Error)
			e.stopNow()
		}
	}})
}

// stopNow ends the program without a checkpoint.
func (e *engine) stopNow() {
	e.phase, e.hurried = stopping, true
	e.endIncarnation()
	e.end(job.StateStopped, nil)
}

// prune removes checkpoints of the running job. The next one may share bytes with the
// newest, which therefore stays.
func (e *engine) prune(c wire.Command) wire.Reply {
	do := job.Prune
	if c.Op == wire.OpPreviewPrune {
		do = job.PreviewPrune
	}
	var also []int
	if e.newest > 0 {
		also = append(also, e.newest)
	}
	p, err := do(e.job, c.Keep, also...)
	if err != nil {
		return refusal(err)
	}
	return wire.Reply{Pruned: p}
}

// startPrunes does what has waited for a checkpoint that is being stored, or read.
func (e *engine) startPrunes() {
	if e.importer || e.phase == starting {
		return
	}
	for _, p := range e.prunes {
		p()
	}
	e.prunes = nil
}

// thin removes the checkpoints that this run is not to keep.
func (e *engine) thin() {
	if e.spec.Keep == 0 {
		return
	}
	removed, err := job.Thin(e.job, e.spec.Keep, e.line)
	e.result.Removed += len(removed)
	e.line = slices.DeleteFunc(e.line, func(n int) bool { return slices.Contains(removed, n) })
	if err != nil {
		e.out.Warn("old checkpoints were not removed: " + err.Error())
	}
}
