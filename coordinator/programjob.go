package coordinator

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"ckpt/coordinator/launch"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/wire"
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

// A programJob is the program of the user that a driver runs. Its fields belong to the
// driver's loop.
type programJob struct {
	*gathering // whose run is that of the current incarnation
	input      *launch.Input
	fresh      bool // the job is new: it keeps the input
	first      int  // rank that was the first to go, −1 none
	killed     int  // first rank that this coordinator has killed, −1 none
}

// startProgram starts the command for an incarnation, unless it runs already.
func (d *driver) startProgram(incarnation int) error {
	p := d.program
	run, err := p.program.Run(launch.Rank{Incarnation: incarnation, Socket: d.socket.address, Token: d.socket.token, Beat: programBeat(d.limits.Silence)})
	if err != nil {
		return err
	}
	p.run, p.first, p.killed = run, -1, -1
	run.WhenOver(func() { d.post(func() { d.programOver(incarnation, run) }) })
	return nil
}

// fits reports whether a rank that has come belongs to the program; if not, the job ends.
func (d *driver) fits(g wire.Greeting) bool {
	a := &arrival{greeting: g}
	if g.Process == nil {
		return false
	}
	err := a.check()
	switch {
	case err != nil:
	case g.Process.Size != len(d.members):
		err = otherSize(g.Process.Size, len(d.members))
	case d.members[g.Rank] != nil && d.members[g.Rank].link != nil && !d.members[g.Rank].closed:
		err = d.program.oneOfMany(a, fmt.Sprintf("rank %d came twice, the second time from process %d on %s", g.Rank, g.Process.PID, g.Process.Name))
	}
	if err != nil {
		d.fail(err)
	}
	return err == nil
}

// rankGone notes that the link of a rank has ended.
func (d *driver) rankGone(incarnation, rank int) {
	m := d.members[rank]
	if incarnation != d.group(rank).incarnation || m == nil || d.over() {
		return
	}
	m.closed = true
	if m.done {
		return
	}
	if d.program.first < 0 {
		d.program.first = rank
		d.judgeLater(incarnation, settleTime)
	}
	d.judgeProgram(incarnation, 0)
}

// judgeLater judges again when the command, or the connection of a rank, has had so long
// to end.
func (d *driver) judgeLater(incarnation int, waited time.Duration) {
	time.AfterFunc(waited, func() { d.post(func() { d.judgeProgram(incarnation, waited) }) })
}

// programOver notes that the command has ended. The next run may have begun meanwhile.
func (d *driver) programOver(incarnation int, run *launch.ProgramRun) {
	d.judgeProgram(incarnation, 0)
	// Connections of ranks that have ended may still be open, and what they have said under
	// way.
	if run.Status() != 0 {
		d.judgeLater(incarnation, lastTime)
	}
	d.judgeLater(incarnation, settleTime)
}

// judgeProgram decides what it means that the command, or the connection of a rank, has
// ended, after waiting so long for what is still to end.
func (d *driver) judgeProgram(incarnation int, waited time.Duration) {
	p := d.program
	if d.over() || incarnation != d.groups[0].incarnation {
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
			d.judgeLater(incarnation, outliveTime)
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

// killProgram ends all ranks of a program: by their agents, where they have come, and
// with the command.
func (d *driver) killProgram() {
	run := d.program.run
	if !slices.ContainsFunc(d.members, func(m *member) bool { return m != nil }) {
		return // the first incarnation is still to begin
	}
	wait := time.Duration(0)
	for _, m := range d.members {
		if m != nil && m.link != nil {
			m.link.Send(protocol.KillProcess{})
			wait = launcherGrace
		}
	}
	if wait == 0 {
		run.Kill()
		return
	}
	time.AfterFunc(wait, run.Kill)
}

// settleProgram waits until the command and its ranks have ended by themselves: after the
// last checkpoint for as long as they may take, and when they have completed without a limit.
func (d *driver) settleProgram() {
	p := d.program
	if d.broken != nil || d.outcome.Result == protocol.Failed || d.hurried || p.run == nil {
		return
	}
	var limit <-chan time.Time
	if d.outcome.Result == protocol.StoppedByRequest {
		timer := time.NewTimer(d.graceOf())
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
			d.out.Warn(fmt.Sprintf("the program has not ended within %v after it was told to stop: it is killed; its checkpoint is safe", d.graceOf()))
			return
		}
	}
}

// usualGrace is how long a program may take to end after it was told to stop.
const usualGrace = time.Minute

// graceOf is that time, or what is left of the run's.
func (d *driver) graceOf() time.Duration {
	g := cmp.Or(d.program.program.Grace(), usualGrace)
	if d.wall == nil {
		return g
	}
	return min(g, max(time.Second, d.wall.Left(d.now())-time.Second))
}

// tellWaiting tells the user which rank a checkpoint waits for.
func (g *group) tellWaiting(n protocol.Notice) {
	text := fmt.Sprintf("checkpoint %d waits for rank %d", n.Checkpoint, n.Rank)
	if m := g.d.members[n.Rank]; g.d.program != nil && m != nil {
		g.d.out.Warn(fmt.Sprintf("%s on %s, which has not called ckpt_boundary for %v since step %d", text, m.hostName, n.Pause.Round(time.Second), m.step))
		return
	}
	g.d.out.Warn(fmt.Sprintf("%s, which has been in iteration %d for %v", text, n.Iter, n.Pause.Round(time.Second)))
}
