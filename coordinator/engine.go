package coordinator

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"ckpt/coordinator/launch"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/wire"
	"ckpt/image"
)

// An engine runs the ranks of a job: it starts an incarnation, ends it, and says what
// happened to it. One driver serves all engines. It decides when incarnations begin and
// end, when checkpoints are taken and what is kept. Ranks, or one agent that speaks for all
// of them, connect to the socket of the run and obey package protocol.
//
// processes is what engines have in common: one that embeds it needs Start only.
type engine interface {
	// Start starts a rank, and with the first one what its incarnation needs.
	launch.Launcher
	// Open opens and announces the socket of the run. On an error nothing of it stays.
	Open() error
	// Admit says why a rank that has come cannot take part, and Gone that its connection
	// has ended.
	Admit(wire.Greeting) error
	Gone(wire.Greeting, launch.Process, error)
	// Kill kills a rank, KillAll all ranks of a group; both return at once.
	Kill(rank int)
	// Strike kills a rank for an injected failure.
	Strike(rank int)
	KillAll(ranks []int)
	// Manifest describes a checkpoint that was written; reported does so from what the ranks
	// have said. Settled takes the news that it was committed or aborted.
	Manifest(cp protocol.Checkpoint, reported func() (*image.Manifest, error)) (*image.Manifest, error)
	Settled(number int, taken bool)
	// Hopeless reports whether another incarnation would fare no better than this one.
	Hopeless() bool
	// Settle waits until ranks that were told to leave have left, Complete fills in the
	// result of a job that has completed, and Close ends what is left.
	Settle()
	Complete([][]byte) error
	Close()
}

// processes is an engine whose ranks are processes of ckpt itself: the simulated ranks.
type processes struct {
	launch.Launcher
	reporting
	d *driver
}

func (p *processes) Open() error {
	d := p.d
	if err := d.socket.Open(d.network, d.listen, len(d.spec.Mapping)); err != nil {
		return err
	}
	if err := d.socket.Announce(d.job); err != nil {
		d.socket.Close()
		d.socket.Remove(d.job)
		return err
	}
	d.Go(d.accept)
	return nil
}

func (p *processes) Admit(wire.Greeting) error { return nil }

// Gone reports a rank whose connection has ended. The end of its process says more about
// the cause, so that is waited for first.
func (p *processes) Gone(g wire.Greeting, proc launch.Process, err error) {
	if proc.Explains() {
		wait := time.NewTimer(causeGrace)
		defer wait.Stop()
		select {
		case <-proc.Done(): // reports itself
			return
		case <-p.d.done:
			return
		case <-wait.C:
		}
	}
	cause := "closed its connection"
	if err != io.EOF {
		cause = "lost its connection: " + err.Error()
	}
	p.d.Post(func() { p.d.Lose(g.Incarnation, g.Rank, cause) })
}

// causeGrace is how long the second sign of a rank's end is waited for if it says more than
// the first: of process and connection, or of launcher and connections.
const causeGrace = time.Second

func (p *processes) Kill(rank int) { p.d.terminate(p.d.members[rank]) }

func (p *processes) Strike(rank int) {
	if m := p.d.members[rank]; m != nil && m.proc != nil {
		p.d.engine.Kill(rank)
	}
}

func (p *processes) KillAll(ranks []int) {
	for _, rank := range ranks {
		if p.d.members[rank] != nil {
			p.Kill(rank)
		}
	}
}

// leaveGrace is how long ranks may take to leave by themselves.
const leaveGrace = 3 * time.Second

func (p *processes) Settle() {
	deadline := time.NewTimer(leaveGrace)
	defer deadline.Stop()
	for _, m := range p.d.members {
		// Ranks that never connected were not told to leave; skip them.
		if m != nil && m.link != nil && !p.d.AwaitEnd(m.proc.Done(), deadline.C) {
			return
		}
	}
}

// AwaitEnd does what is posted until end is closed. It reports false if the limit comes
// before, or an interrupt: then somebody is in a hurry.
func (d *driver) AwaitEnd(end <-chan struct{}, limit <-chan time.Time) bool {
	for {
		select {
		case <-end:
			return true
		case <-d.ready: // somebody may wait for an answer
			d.take()()
		case <-d.interrupts:
			d.hurried = true
			return false
		case <-limit:
			return false
		}
	}
}

func (p *processes) Complete(results [][]byte) error {
	r := &p.d.result
	digests := make([]wire.DoneReport, len(results))
	for rank, body := range results {
		if err := json.Unmarshal(body, &digests[rank]); err != nil {
			return fmt.Errorf("result of rank %d: %w", rank, err)
		}
		r.addLog(digests[rank].Log)
	}
	r.Digest, r.Residual = jobDigest(digests), digests[0].Residual
	return nil
}

func (p *processes) Close() {}

// reporting is the part of an engine whose ranks report all that a manifest tells.
type reporting struct{}

func (reporting) Manifest(_ protocol.Checkpoint, reported func() (*image.Manifest, error)) (*image.Manifest, error) {
	return reported()
}

func (reporting) Settled(int, bool) {}
func (reporting) Hopeless() bool    { return false }

// processEnded reports a rank whose process has ended. A launcher that ends ends for all
// ranks at once: the connections tell which one was the first to go. On a busy machine,
// their ends may be noticed after the end of the launcher.
func (g *group) processEnded(incarnation, rank int, cause string) {
	lose := func() { g.d.Post(func() { g.d.Lose(incarnation, rank, cause) }) }
	g.d.Post(func() {
		tells := func(rank int) bool {
			m := g.d.members[rank]
			return m != nil && m.link != nil && !m.proc.Explains()
		}
		if incarnation == g.incarnation && slices.ContainsFunc(g.ranks, tells) {
			time.AfterFunc(causeGrace, lose)
			return
		}
		g.d.Lose(incarnation, rank, cause)
	})
}

func (d *driver) kill(rank int) {
	d.engine.Strike(rank)
}

// Lose tells the protocol, once, that a rank is gone.
func (d *driver) Lose(incarnation, rank int, cause string) {
	m := d.members[rank]
	if incarnation != d.group(rank).incarnation || m == nil || m.lost {
		return
	}
	m.lost = true
	if d.spec.Program != nil && d.fullness.endsAt(d.now()) {
		d.full = &fullError{job: d.job, others: true, err: fmt.Errorf("%w; rank %d %s", d.fullness.err, rank, cause)}
		d.Fail(d.full)
		return
	}
	d.step(d.spec.GroupOf[rank], protocol.RankLost{Incarnation: incarnation, Rank: rank, Cause: cause, Final: d.engine.Hopeless()})
}
