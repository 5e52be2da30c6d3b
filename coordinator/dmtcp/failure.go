package dmtcp

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"ckpt/coordinator"
	"ckpt/coordinator/job"
	"ckpt/internal/family"
)

// mostTries is how often the program is restarted from a checkpoint, in vain, before an
// older one is used.
const mostTries = 3

// programEnded takes the end of the program.
func (e *engine) programEnded(inc *incarnation, err error) {
	if e.inc != inc || e.ending != nil {
		return // it was ended
	}
	e.ended, e.root = true, err
	if !inc.ready && err == nil {
		e.tellStart(inc) // it was quick
	}
	if e.taking || e.importer {
		return // what DMTCP has written may be a checkpoint
	}
	e.finish()
}

// finish ends the run, or restarts the program, after the end of the program.
func (e *engine) finish() {
	if e.root != nil {
		e.fail("the program " + cause(e.root))
		return
	}
	if e.state.Mark != "" && e.dir.read(e.state.Mark) == "" {
		e.fail("the program was killed by a command to DMTCP's coordinator, like dmtcp_command -k")
		return
	}
	e.endIncarnation()
	done := 0
	e.result.ProgramStatus = &done
	e.end(job.StateCompleted, nil)
}

// fail takes a failure of the program: it is restarted, or the run ends.
func (e *engine) fail(reason string) {
	began, from := e.inc != nil && e.inc.ready, 0
	if e.inc != nil {
		from = e.inc.from
	}
	e.endIncarnation()
	e.result.Failures++
	if e.failed.IsZero() {
		e.failed = time.Now()
	}
	e.event(&coordinator.FailureEvent{Type: "failure", Rank: -1, Node: -1, Reason: reason})
	if !began && from > 0 {
		e.tried[from]++
	}
	if !e.spec.AutoRestart || e.inRow >= e.opt.Limits.Restarts || !began && from == 0 {
		e.end(job.StateFailed, &coordinator.JobFailedError{Job: e.job.Name(), Err: errors.New(reason), Restartable: len(e.line) > 0, Tried: e.inRow > 0})
		return
	}
	e.retry("")
}

// retry restarts the program from the newest checkpoint that may work.
func (e *engine) retry(unusable string) {
	from := 0
	for _, n := range slices.Backward(e.line) {
		if e.tried[n] < mostTries {
			from = n
			break
		}
	}
	if from == 0 && len(e.line) > 0 {
		e.endIncarnation()
		e.end(job.StateFailed, &coordinator.JobFailedError{Job: e.job.Name(), Err: errors.New("no checkpoint restarts"), Restartable: true, Tried: true})
		return
	}
	if unusable == "" && len(e.line) > 0 && from != e.line[len(e.line)-1] {
		unusable = fmt.Sprintf("checkpoint %d did not restart", e.line[len(e.line)-1])
	}
	e.inRow++
	e.event(&coordinator.RestartEvent{Type: "restart", Ranks: e.spec.NP, From: from, Incarnation: e.number + 1, Unusable: unusable})
	pause := time.Duration(0)
	if e.inRow > 1 {
		pause = min(longestPause, e.opt.pause<<min(e.inRow-2, 20))
		e.event(&coordinator.BackoffEvent{Type: "backoff", Restarts: e.inRow - 1, Pause: pause.Seconds(), Silence: e.opt.Limits.Patience.Seconds()})
	}
	e.phase, e.inc = pausing, nil
	// A checkpoint that was passed over does not come back.
	e.line = slices.DeleteFunc(e.line, func(n int) bool { return n > from && e.tried[n] >= mostTries })
	time.AfterFunc(pause, func() {
		e.post(func() {
			if e.ending == nil && e.phase == pausing {
				e.begin(from)
			}
		})
	})
}

// endAll kills processes and waits for their end.
func endAll(list []family.Process) {
	family.Signal(list, syscall.SIGKILL)
	family.Await(list, killTime)
}
