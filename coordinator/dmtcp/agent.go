package dmtcp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/wire"
	"ckpt/internal/durable"
	"ckpt/internal/family"
)

// An agent speaks for the program in one incarnation, as the only rank of its group. Its
// fields belong to the goroutine of run; others post to it.
type agent struct {
	e       *Engine
	ctx     context.Context // ends when the agent is to end at once
	cancel  context.CancelFunc
	over    chan struct{} // closed when nothing of the incarnation is left
	calls   chan func()
	helpers sync.WaitGroup
	link    *wire.Link
	measure atomic.Pointer[func() int64] // what grows while the work of the moment makes progress
	pids    []int                        // guarded by the engine
	died    atomic.Int64                 // when a process of the program was first seen to be gone, in ns; 0: none was

	incarnation
	proposed int     // checkpoint for which the program is to hold, or 0
	resuming bool    // the program may not compute yet after a checkpoint
	taking   *taking // nil: no checkpoint is being taken or stored
	ended    bool    // the program has,
	root     error   // and how
	quit     bool    // the agent is to leave
	cause    string  // why, in words
}

// Kill, Done, PID and Explains make the agent a launch.Process.
func (a *agent) Kill()                 { a.cancel() }
func (a *agent) Done() <-chan struct{} { return a.over }
func (a *agent) PID() int              { return 0 }
func (a *agent) Explains() bool        { return true }

// Died returns when the program was first seen to miss a process, which ends the incarnation
// later; false if it misses none.
func (a *agent) Died() (time.Time, bool) {
	at := a.died.Load()
	return time.Unix(0, at), at > 0
}

// lost notes when a process of the program was gone.
func (a *agent) lost(at time.Time) { a.died.CompareAndSwap(0, at.UnixNano()) }

// do has f called by the agent, in order, unless it is over.
func (a *agent) do(f func()) {
	select {
	case a.calls <- f:
	case <-a.ctx.Done():
	}
}

// help runs f beside the agent.
func (a *agent) help(f func()) { a.helpers.Go(f) }

// run runs an incarnation, and returns why it has ended, "" if it was told to.
func (a *agent) run(r launch.Rank) string {
	defer func() {
		switch {
		case a.from == 0 || a.progressed:
		case !a.ready: // also a restart that hangs, which the driver ends
			a.e.tried[a.from]++
		case time.Since(a.since) < quickEnd:
			a.e.quick[a.from]++
		}
	}()
	if err := a.connect(r); err != nil {
		return err.Error()
	}
	a.help(func() { a.beat(r.Beat) })
	a.help(a.hear)
	for !a.quit {
		select {
		case f := <-a.calls:
			f()
		case <-a.ctx.Done():
			return "was ended"
		}
	}
	return a.cause
}

// fail ends the incarnation.
func (a *agent) fail(cause string) {
	if !a.quit {
		a.quit, a.cause = true, cause
	}
}

func (a *agent) connect(r launch.Rank) error {
	conn, err := wire.Dial(a.ctx, r.Socket, r.Token)
	if err != nil {
		return err
	}
	host, name := wire.ThisHost()
	if err := wire.Greet(conn, wire.Greeting{Token: r.Token, Role: wire.RoleRank, Rank: r.Rank, Incarnation: r.Incarnation, Host: host, HostName: name}); err != nil {
		conn.Close()
		return err
	}
	if a.link, err = wire.NewLink(conn, bufio.NewReader(conn)); err != nil {
		conn.Close()
		return err
	}
	a.link.Send(protocol.Hello{Process: os.Getpid()})
	return nil
}

// beat gives signs of life, and of progress as long as there is something to measure.
func (a *agent) beat(period time.Duration) {
	var progress uint64
	last := int64(0)
	t := time.NewTicker(period)
	defer t.Stop()
	for {
		if measure := a.measure.Load(); measure != nil {
			if now := (*measure)(); now != last {
				last = now
				progress++
			}
		}
		a.link.Send(protocol.Beat{Progress: progress, Waits: a.e.driver.Waits()})
		select {
		case <-t.C:
		case <-a.ctx.Done():
			return
		}
	}
}

// watch has signs of life tell the progress of what is done from now on.
func (a *agent) watch(progress func() int64) { a.measure.Store(&progress) }

// hear passes on what the driver says, until it is gone.
func (a *agent) hear() {
	for {
		m, err := a.link.Receive()
		if err != nil {
			a.cancel()
			return
		}
		a.do(func() { a.obey(m) })
	}
}

// obey carries out an order.
func (a *agent) obey(m protocol.Message) {
	switch m := m.(type) {
	case protocol.Welcome:
		var w wire.Welcome
		if err := json.Unmarshal(m.Body, &w); err != nil {
			a.fail(err.Error())
			return
		}
		a.begin(&w)
	case protocol.Propose:
		a.proposed = m.Number
		a.hold()
	case protocol.StopAt:
		a.link.Send(protocol.Stopped{Number: m.Number, Iter: m.Iter})
	case protocol.Drain:
		a.link.Send(protocol.Drained{Number: m.Number})
	case protocol.Write:
		a.take(m.Number, m.Last)
	case protocol.Abort:
		a.abort(m.Number)
	case protocol.Quit:
		a.quit = true
	}
}

// hold says that the program holds, which it does as long as all of it computes and DMTCP writes
// no images. At the end of the program nothing is said.
func (a *agent) hold() {
	if a.proposed > 0 && a.ready && !a.resuming && !a.ended && a.taking == nil && !a.ending() && a.lostRank() < 0 {
		a.link.Send(protocol.Holding{Number: a.proposed})
		a.proposed = 0
	}
}

// abort gives a checkpoint up.
func (a *agent) abort(number int) {
	a.proposed = 0
	if t := a.taking; t != nil && t.number == number {
		t.aborted = true
		t.cancel()
		return // the end of it tells
	}
	a.link.Send(protocol.Aborted{Number: number})
}

// begin starts the program, once its images are there.
func (a *agent) begin(w *wire.Welcome) {
	a.from = w.From
	a.e.came.Store(a.from > 0)
	switch {
	case a.e.tried[a.from] >= mostTries:
		a.unusable(errors.New("did not restart"), true)
		return
	case a.e.quick[a.from] >= mostTries && a.hasOlder():
		a.unusable(fmt.Errorf("fails within %v, %d times", quickEnd, mostTries), true)
		return
	}
	a.watch(func() int64 { return a.e.dir.written(liveName) })
	a.help(func() {
		err := a.fetch()
		a.do(func() { a.fetched(err, w.Again) })
	})
}

// mostTries is how often the program is restarted from a checkpoint, in vain, before an
// older one is used.
const mostTries = 3

// quickEnd is how soon a program fails that was whole in no process of the checkpoint. Where an
// older checkpoint is there, that is used after mostTries.
const quickEnd = 10 * time.Second

// unusable says that the program cannot be started. Without an older checkpoint the run ends:
// it would begin from nothing.
func (a *agent) unusable(err error, damaged bool) {
	older := damaged && a.hasOlder()
	a.link.Send(protocol.SetupFailed{Damaged: damaged, Text: err.Error(), Body: wire.EncodeError(err), Final: !older})
}

// hasOlder reports whether there is an older checkpoint.
func (a *agent) hasOlder() bool {
	numbers, _ := a.e.Job.Checkpoints()
	return slices.ContainsFunc(numbers, func(n int) bool { return n < a.from })
}

// fetched starts the program once its images are there. If the store cannot give them, the
// files that DMTCP wrote may still be there.
func (a *agent) fetched(err error, again bool) {
	e := a.e
	damage := new(durable.DamageError)
	e.mu.Lock()
	spare := e.state.Spare
	e.mu.Unlock()
	if errors.As(err, &damage) && spare != nil && spare.Number == a.from {
		e.Warn(fmt.Sprintf("checkpoint %d is damaged; the program restarts from the images that DMTCP wrote: %v", a.from, err))
		err = a.useSpare(spare)
	}
	if err == nil {
		err = a.start()
	}
	if err != nil {
		a.unusable(err, errors.As(err, &damage))
		return
	}
	a.watch(a.progress)
	program := a.program
	a.help(func() {
		select {
		case <-program.over:
			a.lost(time.Now())
			a.do(func() { a.programEnded(program.err) })
		case <-a.ctx.Done():
		}
	})
	a.help(func() {
		peers, err := a.awaitReady()
		a.do(func() { a.runs(peers, again, err) })
	})
}

// errProgramEnded is of a program that computes no more: programEnded says why.
var errProgramEnded = errors.New("the program has ended")

// runs takes the news that the program computes.
func (a *agent) runs(peers []worker, again bool, err error) {
	if a.quit || a.ended || errors.Is(err, errProgramEnded) {
		return
	}
	if err != nil {
		a.fail("does not start: " + err.Error())
		return
	}
	e := a.e
	e.from = a.from
	e.mu.Lock()
	e.state.Processes = append(e.state.Processes[:2:2], processesOf(peers)...)
	err = e.state.write(e.Job)
	e.mu.Unlock()
	if err != nil {
		e.Warn(err.Error())
	}
	a.guess(peers)
	a.isReady(again)
	a.help(a.watchRanks)
	a.hold()
}

// isReady says that the program computes.
func (a *agent) isReady(again bool) {
	a.ready, a.since = true, time.Now()
	a.e.came.Store(true)
	a.link.Send(protocol.Ready{})
	if again {
		a.link.Send(protocol.Restored{Body: job.Encode(wire.RestoreReport{Read: a.read, ReadBytes: a.bytes, Trace: a.trace})})
	}
}

// programEnded takes the end of the program. A set that DMTCP has written may still become
// a checkpoint.
func (a *agent) programEnded(err error) {
	if a.ended {
		return
	}
	a.ended, a.root = true, err
	if a.taking == nil {
		a.finish()
	}
}

// finish says what the end of the program means.
func (a *agent) finish() {
	if a.root != nil {
		a.fail(cause(a.root))
		return
	}
	if mark := a.e.state.Mark; mark != "" {
		switch status := a.e.statusOf(mark); {
		case status < 0:
			a.fail("was killed by a command to DMTCP's coordinator, like dmtcp_command -k")
			return
		case status > 0:
			a.fail(fmt.Sprintf("exited with status %d", status))
			return
		}
	}
	if !a.ready {
		a.isReady(false) // it was quick
	}
	a.endProgram()
	a.link.Send(protocol.Done{})
}

// watchResumed reports the failure of a program that does not compute again after a
// checkpoint: now and then DMTCP lets one hang. It waits less for one that misses a process.
func (a *agent) watchResumed(peers []family.Process) {
	began, limit := time.Now(), a.e.Limits.Phase
	for time.Since(began) < limit {
		if _, running, err := a.server.status(a.ctx); err == nil && running || a.program.ended() || a.ctx.Err() != nil {
			a.do(func() {
				a.resuming = false
				a.hold()
			})
			return
		}
		if slices.ContainsFunc(peers, hasEnded) {
			a.lost(time.Now())
			limit = min(limit, time.Since(began)+leaveTime)
			peers = nil
		}
		select {
		case <-a.program.over:
		case <-time.After(pollEvery):
		}
	}
	a.do(func() {
		a.programEnded(fmt.Errorf("does not compute again after a checkpoint of DMTCP, for %v", limit.Round(time.Second)))
	})
}

// watchRanks reports the failure of the program when a rank has ended and others have not,
// for too long: some launchers do not notice it under DMTCP, and the others wait for ever.
func (a *agent) watchRanks() {
	var since time.Time
	for {
		select {
		case <-a.program.over:
			return
		case <-a.ctx.Done():
			return
		case <-time.After(pollEvery):
		}
		gone := a.lostRank()
		silence := a.e.Limits.Silence
		switch {
		case gone < 0 || !slices.ContainsFunc(a.ranks, family.Process.Alive):
			since = time.Time{}
		case since.IsZero():
			since = time.Now()
		case time.Since(since) > silence:
			since = time.Now() // again, unless that was heard
			a.do(func() {
				if a.taking == nil || !a.taking.raw {
					a.lost(time.Now().Add(-silence))
					a.fail(fmt.Sprintf("goes on without its process %d, a rank that has ended %v ago", a.ranks[gone].PID, silence))
				}
			})
		}
	}
}
