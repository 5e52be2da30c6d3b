// Package program runs a program of the user that calls ckpt: its command starts all ranks,
// each of which has an agent. How many ranks there are, and where, is known when they come.
package program

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/wire"
	"ckpt/image"
)

const (
	// settleTime is how long the command of a program may take to end after one of its
	// ranks has: how it ends says why.
	settleTime = time.Second
	// outliveTime is how long it may take to end after all of its ranks have: a launcher
	// cleans up, and the machine may be slow.
	outliveTime = 10 * time.Second
	// LauncherGrace is how long a command may take to end by itself after its ranks were
	// killed; it may still have output of theirs.
	LauncherGrace = 2 * time.Second
	// leaveGrace is how long a command may take to end that was asked to.
	leaveGrace = 3 * time.Second
	// causeGrace is how long the end of a command is waited for if it says more than the end
	// of an agent's connection.
	causeGrace = time.Second
)

// A Driver is what an engine asks of the driver of its run, in whose loop all of it happens
// but Post, Go and Ended.
type Driver interface {
	// Post has the loop do something, Go starts what goes on beside it, and Ended is closed
	// when it has ended.
	Post(func())
	Go(func())
	Ended() <-chan struct{}
	// Over reports whether the run ends, and Stopping that a user ends it. Fail ends it.
	Over() bool
	Stopping() bool
	Fail(error)
	Warn(string)
	// Serve serves a connection that has shown its greeting; CannotAccept says that no more
	// can come.
	Serve(net.Conn, *bufio.Reader, wire.Greeting)
	CannotAccept(error)
	Ranks
	// AwaitEnd does what is posted until end is closed; it reports false if an interrupt or
	// the limit came before.
	AwaitEnd(end <-chan struct{}, limit <-chan time.Time) bool
	// Left is how long the run may still take, if it has a limit.
	Left() (left time.Duration, limited bool)
	// Exited takes the exit status of the command.
	Exited(status int)
}

// Ranks are the ranks of the present incarnation.
type Ranks interface {
	Incarnation() int
	Members() []Member
	// Closed notes that the connection of a rank has ended, Lose that the rank has.
	Closed(rank int)
	Lose(incarnation, rank int, cause string)
	// Send sends a message to a rank, and EndRank ends one that has not come.
	Send(rank int, m protocol.Message)
	EndRank(rank int)
}

// A Member is the agent of a rank, as far as it has come.
type Member struct {
	Here   bool            // its process was started, or is awaited
	Linked bool            // its agent has come
	Closed bool            // the connection of its agent has ended
	Done   bool            // it has called ckpt_finalize
	Gone   <-chan struct{} // closed with the connection; nil before
}

// An Engine runs the command of a program. Its fields belong to the driver's loop.
type Engine struct {
	*Gathering // whose run is the current incarnation's
	d          Driver
	job        *image.Job
	silence    time.Duration
	input      *launch.Input
	fresh      bool // the job is new: it keeps the input
	begun      int  // incarnation of the run
	first      int  // rank that was the first to go, or −1
	killed     int  // first rank that this coordinator has killed, or −1
}

// NewEngine returns the engine of a job whose ranks have come. A fresh one keeps its input.
func NewEngine(g *Gathering, d Driver, j *image.Job, silence time.Duration, input *launch.Input, fresh bool) *Engine {
	return &Engine{Gathering: g, d: d, job: j, silence: silence, input: input, fresh: fresh, first: -1, killed: -1}
}

// Start starts the command with the first rank of an incarnation, unless it runs already.
func (p *Engine) Start(r launch.Rank, ended func(string)) (launch.Process, error) {
	r.Beat = beat(p.silence)
	if p.begun != r.Incarnation {
		if p.begun > 0 {
			p.run.Sweep() // no two runs meet
		}
		run, err := p.program.Run(r)
		if err != nil {
			return nil, err
		}
		p.run, p.begun, p.first, p.killed = run, r.Incarnation, -1, -1
		run.WhenOver(func() { p.d.Post(func() { p.over(r.Incarnation, run) }) })
		p.watchOrphans(r.Incarnation, run)
	}
	return p.program.Start(r, func(string) { ended("") }) // how it ended is judged
}

// watchOrphans has a run fail whose ranks have lost their launcher, if they still compute.
func (p *Engine) watchOrphans(incarnation int, run *launch.ProgramRun) {
	p.d.Go(func() {
		select {
		case orphan := <-run.Orphaned():
			p.d.Post(func() {
				if undone := p.undone(); undone >= 0 && !p.d.Over() && incarnation == p.d.Incarnation() {
					p.d.Lose(incarnation, undone, orphan)
				}
			})
		case <-run.Over():
		case <-p.d.Ended():
		}
	})
}

// undone is the first rank that has not called ckpt_finalize, or −1.
func (p *Engine) undone() int {
	return slices.IndexFunc(p.d.Members(), func(m Member) bool { return m.Here && !m.Done })
}

// Open announces the socket through which the ranks have come.
func (p *Engine) Open() error {
	var err error
	if p.fresh {
		_, err = p.keepInput()
	}
	if err == nil {
		err = p.Socket.Announce(p.job)
	}
	if err != nil {
		p.Gathering.Close()
		return err
	}
	p.hand(p.d)
	p.watchInput()
	return nil
}

// Close ends the command, and what is left of a run that failed.
func (p *Engine) Close() {
	p.run.End()
	if p.undone() >= 0 {
		p.run.Sweep()
	} else {
		p.run.SweepEarlier()
	}
	p.input.Close()
}

// ErrStranger refuses a rank of no program. The job goes on.
var ErrStranger = errors.New("no agent of a program")

// Admit says why a rank cannot take part.
func (p *Engine) Admit(g wire.Greeting) error {
	if g.Process == nil {
		return ErrStranger
	}
	a := &arrival{greeting: g}
	if err := a.check(); err != nil {
		return err
	}
	members := p.d.Members()
	if g.Process.Size != len(members) {
		return otherSize(g.Process.Size, len(members))
	}
	if m := members[g.Rank]; m.Linked && !m.Closed {
		return p.oneOfMany(a, fmt.Sprintf("rank %d came twice, the second time from process %d on %s", g.Rank, g.Process.PID, g.Process.Name))
	}
	return nil
}

// Gone takes the end of a rank's connection.
func (p *Engine) Gone(g wire.Greeting, _ launch.Process, _ error) {
	p.d.Post(func() { p.rankGone(g.Incarnation, g.Rank) })
}

// rankGone notes that the link of a rank has ended.
func (p *Engine) rankGone(incarnation, rank int) {
	if incarnation != p.d.Incarnation() || p.d.Over() {
		return
	}
	m := p.d.Members()[rank]
	if !m.Here {
		return
	}
	p.d.Closed(rank)
	if m.Done {
		return
	}
	if p.first < 0 {
		p.first = rank
		p.judgeLater(incarnation, settleTime)
	}
	p.judge(incarnation, 0)
}

// judgeLater judges again when the command, or the connection of a rank, has had so long
// to end.
func (p *Engine) judgeLater(incarnation int, waited time.Duration) {
	time.AfterFunc(waited, func() { p.d.Post(func() { p.judge(incarnation, waited) }) })
}

// over notes that the command has ended. The next run may have begun meanwhile.
func (p *Engine) over(incarnation int, run *launch.ProgramRun) {
	p.judge(incarnation, 0)
	// Connections of ranks that have ended may still be open, and what they have said under
	// way.
	if run.Status() != 0 {
		p.judgeLater(incarnation, lastTime)
	}
	p.judgeLater(incarnation, settleTime)
}

// judge decides what it means that the command, or the connection of a rank, has
// ended, after waiting so long for what is still to end.
func (p *Engine) judge(incarnation int, waited time.Duration) {
	d := p.d
	if d.Over() || incarnation != d.Incarnation() {
		return
	}
	undone, open := -1, false
	for rank, m := range d.Members() {
		if m.Here && !m.Done {
			if undone < 0 {
				undone = rank
			}
			open = open || m.Linked && !m.Closed
		}
	}
	if undone < 0 {
		return // the protocol ends the job
	}
	blamed := undone
	switch {
	case p.killed >= 0: // the link of another rank may have ended before
		blamed = p.killed
	case p.first >= 0:
		blamed = p.first
	}
	select {
	case <-p.run.Over():
	default:
		switch {
		case p.first < 0 || waited == 0:
		case !open && waited < outliveTime:
			p.judgeLater(incarnation, outliveTime)
		default:
			d.Lose(incarnation, blamed, "ended without ckpt_finalize")
		}
		return
	}
	switch {
	case open && waited == 0: // what its ranks have said may be under way
	case open && p.first < 0 && p.run.Status() == 0: // they compute without their launcher
	default:
		d.Lose(incarnation, blamed, "ended without ckpt_finalize: "+p.run.Cause())
	}
}

// Kill ends a rank by its agent, where that has come.
func (p *Engine) Kill(rank int) {
	if !p.d.Members()[rank].Linked {
		p.d.EndRank(rank)
		return
	}
	if p.killed < 0 {
		p.killed = rank
	}
	p.d.Send(rank, protocol.KillProcess{})
}

// Strike kills a rank for an injected failure.
func (p *Engine) Strike(rank int) {
	if p.d.Members()[rank].Here {
		p.Kill(rank)
	}
}

// KillAll ends all ranks by their agents, where they have come, and with the command.
func (p *Engine) KillAll([]int) {
	begun, wait := false, time.Duration(0)
	for rank, m := range p.d.Members() {
		begun = begun || m.Here
		if m.Linked {
			p.d.Send(rank, protocol.KillProcess{})
			wait = LauncherGrace
		}
	}
	switch {
	case !begun: // the first incarnation is still to begin
	case wait == 0:
		p.run.Kill()
	default:
		time.AfterFunc(wait, p.run.Kill)
	}
}

// Settle waits until the command and its ranks have ended by themselves: after the
// last checkpoint for as long as they may take, and when they have completed without a limit.
func (p *Engine) Settle() {
	var limit <-chan time.Time
	grace, began := p.grace(), time.Now()
	if p.d.Stopping() {
		timer := time.NewTimer(grace)
		defer timer.Stop()
		limit = timer.C
	}
	ends := []<-chan struct{}{p.run.Over()}
	for _, m := range p.d.Members() {
		if m.Gone != nil {
			ends = append(ends, m.Gone)
		}
	}
	p.d.Go(func() { p.endHanging(ends[1:]) })
	for i, end := range ends {
		if !p.d.AwaitEnd(end, limit) {
			if limit != nil && time.Since(began) >= grace {
				p.d.Warn(fmt.Sprintf("the program has not ended within %v after it was told to stop: it is killed; its checkpoint is safe", grace))
			}
			return
		}
		if i == 0 {
			p.d.Exited(p.run.Status())
		}
	}
}

// endHanging ends the command some time after all ranks have ended, if it waits for a process of
// the launcher that has died.
func (p *Engine) endHanging(ranks []<-chan struct{}) {
	run := p.run
	run.Look()
	for _, end := range ranks {
		select {
		case <-end:
		case <-run.Over():
			return
		case <-p.d.Ended():
			return
		}
	}
	select {
	case <-time.After(hangTime):
	case <-run.Over():
		return
	case <-p.d.Ended():
		return
	}
	if hangs := run.Hangs(); hangs != "" {
		p.d.Post(func() { p.d.Warn(hangs + ": the command is killed; all ranks had finished") })
		run.Kill()
	}
}

// hangTime is how long a launcher may take to find out by itself.
const hangTime = 20 * time.Second

// usualGrace is how long a program may take to end after it was told to stop.
const usualGrace = time.Minute

// grace is that time, or what is left of the run's.
func (p *Engine) grace() time.Duration {
	g := cmp.Or(p.program.Grace(), usualGrace)
	if left, limited := p.d.Left(); limited {
		return min(g, max(time.Second, left-time.Second))
	}
	return g
}

// Complete has no digest to give: the ranks do not tell their results.
func (p *Engine) Complete([][]byte) error { return nil }

// keepInput keeps what has come of the standard input of a new program, for later runs.
func (p *Engine) keepInput() (job.Input, error) {
	kept, err := p.input.Kept()
	if err == nil {
		err = job.WriteInput(p.job, kept)
	}
	if err != nil {
		err = fmt.Errorf("keep standard input: %w", err)
	}
	return kept, err
}

// errLongInput refuses an input that no later run could read.
func errLongInput() error {
	return &job.UsageError{Text: fmt.Sprintf("standard input is a pipe of more than %d MiB: it cannot be given again to a run that is restarted", job.InputLimit>>20),
		Fix: "give it as a file, < FILE, or have the program read the file itself; < /dev/null if it reads none"}
}

// keepPause is the time between two times that a stream which grows is kept.
const keepPause = 100 * time.Millisecond

// watchInput keeps a stream of a new program as it comes, and ends a job whose stream is too
// long.
func (p *Engine) watchInput() {
	d := p.d
	d.Go(func() {
		select {
		case <-p.program.InputTooLong():
			d.Post(func() { d.Fail(errLongInput()) })
		case <-d.Ended():
		}
	})
	if !p.fresh {
		return
	}
	d.Go(func() {
		for had := -1; p.input.More(had); {
			kept, err := p.keepInput()
			if err != nil {
				d.Post(func() { d.Warn(err.Error() + ": a later restart cannot give it again") })
			}
			if had = len(kept.Data); err != nil || kept.Ended {
				return
			}
			select {
			case <-time.After(keepPause):
			case <-d.Ended():
			}
		}
	})
}
