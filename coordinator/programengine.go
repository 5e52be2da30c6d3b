package coordinator

import (
	"cmp"
	"errors"
	"fmt"
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
	// launcherGrace is how long a command may take to end by itself after its ranks were
	// killed; it may still have output of theirs.
	launcherGrace = 2 * time.Second
)

// A programEngine runs a program of the user that calls ckpt. One command starts all ranks,
// each of which has an agent. Its fields belong to the driver's loop.
type programEngine struct {
	processes
	*gathering // whose run is the current incarnation's
	input      *launch.Input
	fresh      bool // the job is new: it keeps the input
	begun      int  // incarnation of the run
	first      int  // rank that was the first to go, or −1
	killed     int  // first rank that this coordinator has killed, or −1
}

// Start starts the command with the first rank of an incarnation, unless it runs already.
func (p *programEngine) Start(r launch.Rank, ended func(string)) (launch.Process, error) {
	r.Beat = programBeat(p.d.limits.Silence)
	if p.begun != r.Incarnation {
		run, err := p.program.Run(r)
		if err != nil {
			return nil, err
		}
		p.run, p.begun, p.first, p.killed = run, r.Incarnation, -1, -1
		run.WhenOver(func() { p.d.Post(func() { p.over(r.Incarnation, run) }) })
	}
	return p.program.Start(r, func(string) { ended("") }) // how it ended is judged
}

// open announces the socket through which the ranks have come.
func (p *programEngine) open() error {
	var err error
	if p.fresh {
		_, err = p.keepInput()
	}
	if err == nil {
		err = p.d.socket.announce(p.d.job)
	}
	if err != nil {
		p.gathering.close()
		return err
	}
	p.hand(p.d)
	p.watchInput()
	return nil
}

func (p *programEngine) close() {
	p.run.End()
	p.input.Close()
}

// errStranger refuses a rank of no program. The job goes on.
var errStranger = errors.New("no agent of a program")

func (p *programEngine) admit(g wire.Greeting) error {
	if g.Process == nil {
		return errStranger
	}
	a := &arrival{greeting: g}
	if err := a.check(); err != nil {
		return err
	}
	members := p.d.members
	if g.Process.Size != len(members) {
		return otherSize(g.Process.Size, len(members))
	}
	if m := members[g.Rank]; m != nil && m.link != nil && !m.closed {
		return p.oneOfMany(a, fmt.Sprintf("rank %d came twice, the second time from process %d on %s", g.Rank, g.Process.PID, g.Process.Name))
	}
	return nil
}

func (p *programEngine) gone(g wire.Greeting, _ *member, _ error) {
	p.d.Post(func() { p.rankGone(g.Incarnation, g.Rank) })
}

// rankGone notes that the link of a rank has ended.
func (p *programEngine) rankGone(incarnation, rank int) {
	d := p.d
	m := d.members[rank]
	if incarnation != d.group(rank).incarnation || m == nil || d.Over() {
		return
	}
	m.closed = true
	if m.done {
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
func (p *programEngine) judgeLater(incarnation int, waited time.Duration) {
	time.AfterFunc(waited, func() { p.d.Post(func() { p.judge(incarnation, waited) }) })
}

// over notes that the command has ended. The next run may have begun meanwhile.
func (p *programEngine) over(incarnation int, run *launch.ProgramRun) {
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
func (p *programEngine) judge(incarnation int, waited time.Duration) {
	d := p.d
	if d.Over() || incarnation != d.groups[0].incarnation {
		return
	}
	undone, open := -1, false
	for rank, m := range d.members {
		if m != nil && !m.done {
			if undone < 0 {
				undone = rank
			}
			open = open || m.link != nil && !m.closed
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
			d.lose(incarnation, blamed, "ended without ckpt_finalize")
		}
		return
	}
	switch {
	case open && waited == 0: // what its ranks have said may be under way
	case open && p.first < 0 && p.run.Status() == 0: // they compute without their launcher
	default:
		d.lose(incarnation, blamed, "ended without ckpt_finalize: "+p.run.Cause())
	}
}

// kill ends a rank by its agent, where that has come.
func (p *programEngine) kill(rank int) {
	m := p.d.members[rank]
	if m.link == nil {
		p.d.terminate(m)
		return
	}
	if p.killed < 0 {
		p.killed = rank
	}
	m.link.Send(protocol.KillProcess{})
}

// killAll ends all ranks by their agents, where they have come, and with the command.
func (p *programEngine) killAll(*group) {
	begun, wait := false, time.Duration(0)
	for _, m := range p.d.members {
		begun = begun || m != nil
		if m != nil && m.link != nil {
			m.link.Send(protocol.KillProcess{})
			wait = launcherGrace
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

// settle waits until the command and its ranks have ended by themselves: after the
// last checkpoint for as long as they may take, and when they have completed without a limit.
func (p *programEngine) settle() {
	d := p.d
	var limit <-chan time.Time
	if d.outcome.Result == protocol.StoppedByRequest {
		timer := time.NewTimer(p.grace())
		defer timer.Stop()
		limit = timer.C
	}
	ends := []<-chan struct{}{p.run.Over()}
	for _, m := range d.members {
		if m != nil && m.gone != nil {
			ends = append(ends, m.gone)
		}
	}
	for n := 0; n < len(ends); {
		select {
		case <-ends[n]:
			if n++; n == 1 {
				status := p.run.Status()
				d.result.ProgramStatus = &status
			}
		case <-d.ready: // somebody may wait for an answer
			d.take()()
		case <-d.interrupts:
			return
		case <-limit:
			d.Warn(fmt.Sprintf("the program has not ended within %v after it was told to stop: it is killed; its checkpoint is safe", p.grace()))
			return
		}
	}
}

// usualGrace is how long a program may take to end after it was told to stop.
const usualGrace = time.Minute

// grace is that time, or what is left of the run's.
func (p *programEngine) grace() time.Duration {
	g := cmp.Or(p.program.Grace(), usualGrace)
	if p.d.wall == nil {
		return g
	}
	return min(g, max(time.Second, p.d.wall.Left(p.d.now())-time.Second))
}

// complete has no digest to give: the ranks do not tell their results.
func (p *programEngine) complete([][]byte) error { return nil }

// keepInput keeps what has come of the standard input of a new program, for later runs.
func (p *programEngine) keepInput() (job.Input, error) {
	kept, err := p.input.Kept()
	if err == nil {
		err = job.WriteInput(p.d.job, kept)
	}
	if err != nil {
		err = fmt.Errorf("keep standard input: %w", err)
	}
	return kept, err
}

// inputAgain returns the standard input of a job that is restarted. Where it cannot be given
// again, a command of its own has the one of this run.
func (o *RestartOptions) inputAgain(j *image.Job) (*launch.Input, error) {
	kept, err := job.ReadInput(j)
	if err == nil && kept != nil {
		err = kept.Check(j)
	}
	switch {
	case err != nil && len(o.Command) == 0:
		return nil, err
	case err != nil || kept == nil:
		return launch.NewInput(o.Streams.In)
	}
	return launch.Again(kept)
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
func (p *programEngine) watchInput() {
	d := p.d
	d.Go(func() {
		select {
		case <-p.program.InputTooLong():
			d.Post(func() { d.Fail(errLongInput()) })
		case <-d.done:
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
			case <-d.done:
			}
		}
	})
}
