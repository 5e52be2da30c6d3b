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
	// open opens and announces the socket of the run. On an error nothing of it stays.
	open() error
	// admit says why a rank that has come cannot take part, and gone that its connection
	// has ended.
	admit(wire.Greeting) error
	gone(wire.Greeting, *member, error)
	// kill kills a rank, killAll all ranks of a group; both return at once.
	kill(rank int)
	killAll(*group)
	// manifest describes a checkpoint that the ranks have written, settled takes the news
	// that it was committed or aborted.
	manifest(*group, protocol.Checkpoint) (*image.Manifest, error)
	settled(number int, taken bool)
	// hopeless reports whether another incarnation would fare no better than this one.
	hopeless() bool
	// settle waits until ranks that were told to leave have left, complete fills in the
	// result of a job that has completed, and close ends what is left.
	settle()
	complete([][]byte) error
	close()
}

// processes is an engine whose ranks are processes of ckpt itself: the simulated ranks.
type processes struct {
	launch.Launcher
	d *driver
}

func (p *processes) open() error {
	d := p.d
	if err := d.socket.open(d.network, d.listen, len(d.spec.Mapping)); err != nil {
		return err
	}
	if err := d.socket.announce(d.job); err != nil {
		d.socket.close()
		d.socket.remove(d.job)
		return err
	}
	d.Go(d.accept)
	return nil
}

func (p *processes) admit(wire.Greeting) error { return nil }

// gone reports a rank whose connection has ended. The end of its process says more about
// the cause, so that is waited for first.
func (p *processes) gone(g wire.Greeting, m *member, err error) {
	if m.proc.Explains() {
		wait := time.NewTimer(causeGrace)
		defer wait.Stop()
		select {
		case <-m.proc.Done(): // reports itself
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
	p.d.Post(func() { p.d.lose(g.Incarnation, g.Rank, cause) })
}

// causeGrace is how long the second sign of a rank's end is waited for if it says more than
// the first: of process and connection, or of launcher and connections.
const causeGrace = time.Second

func (p *processes) kill(rank int) { p.d.terminate(p.d.members[rank]) }

func (p *processes) killAll(g *group) {
	for _, rank := range g.ranks {
		if p.d.members[rank] != nil {
			p.kill(rank)
		}
	}
}

// leaveGrace is how long ranks may take to leave by themselves.
const leaveGrace = 3 * time.Second

func (p *processes) settle() {
	d := p.d
	deadline := time.NewTimer(leaveGrace)
	defer deadline.Stop()
	for _, m := range d.members {
		// Ranks that never connected were not told to leave; skip them.
		for gone := m == nil || m.link == nil; !gone; {
			select {
			case <-m.proc.Done():
				gone = true
			case <-d.ready: // somebody may wait for an answer
				d.take()()
			case <-deadline.C:
				return
			}
		}
	}
}

func (p *processes) complete(results [][]byte) error {
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

func (p *processes) manifest(g *group, cp protocol.Checkpoint) (*image.Manifest, error) {
	return g.manifest(cp)
}

func (p *processes) settled(int, bool) {}
func (p *processes) hopeless() bool    { return false }
func (p *processes) close()            {}

// processEnded reports a rank whose process has ended. A launcher that ends ends for all
// ranks at once: the connections tell which one was the first to go. On a busy machine,
// their ends may be noticed after the end of the launcher.
func (g *group) processEnded(incarnation, rank int, cause string) {
	lose := func() { g.d.Post(func() { g.d.lose(incarnation, rank, cause) }) }
	g.d.Post(func() {
		tells := func(rank int) bool {
			m := g.d.members[rank]
			return m != nil && m.link != nil && !m.proc.Explains()
		}
		if incarnation == g.incarnation && slices.ContainsFunc(g.ranks, tells) {
			time.AfterFunc(causeGrace, lose)
			return
		}
		g.d.lose(incarnation, rank, cause)
	})
}
