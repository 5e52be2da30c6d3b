package coordinator

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"ckpt/coordinator/job"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/wire"
	"ckpt/internal/durable"
)

// recovered notes what a recovery of several groups takes.
func (d *driver) recovered(a protocol.Recovery) {
	for i, id := range a.RolledBack {
		d.outages.restarts(id, a.Failed, len(d.groups[id].ranks), a.Iterations[i])
	}
	d.event(&RecoveryEvent{Type: "recovery", Failed: a.Failed, RolledBack: a.RolledBack, From: a.From, Ranks: a.Ranks,
		Iterations: a.Iterations, Seconds: a.Decided.Seconds()})
}

// report tells the observer of a notice of the protocol.
func (g *group) report(n protocol.Notice) {
	switch n.Kind {
	case protocol.Started:
		g.started = true
		if !g.d.result.began {
			job.ForgetEnding(g.job)
			g.d.result.began = true
		}
		g.unlinkSegments()
		g.d.outages.computes(g.id, g.d.now())
		if g.spec.Several() {
			g.d.tellStart()
			return
		}
		g.d.event(&StartEvent{Type: "start", Job: g.job.Name(), App: g.spec.App, NP: g.spec.NP, Mapping: g.spec.Mapping,
			Iterations: g.spec.Iterations, Incarnation: n.Incarnation, From: n.From, Iteration: n.Iter})
	case protocol.CheckpointTaken:
		g.tell(n)
	case protocol.CheckpointAborted:
		err := fmt.Errorf("checkpoint %d was aborted: %s", n.Checkpoint, n.Text)
		if len(n.Body) > 0 {
			err = wire.DecodeError(n.Body, n.Text)
		}
		g.d.requests.aborted = err
		g.d.result.Lost++
		g.d.event(&AbortedEvent{Type: "checkpoint_lost", Number: n.Checkpoint, Rank: n.Rank, Reason: n.Text})
		g.d.stopIfFull(err)
	case protocol.RankDied:
		node := -1
		if n.Rank >= 0 {
			node = g.spec.Nodes[n.Rank]
		}
		g.d.outages.died(g.id, node, n.Iter, g.d.now())
		g.d.event(&FailureEvent{Type: "failure", Rank: n.Rank, Node: node, Iteration: n.Iter, Reason: n.Text})
	case protocol.BackingOff:
		ev := &BackoffEvent{Type: "backoff", Restarts: n.Stuck, Iteration: n.Iter, Pause: n.Pause.Seconds(), Silence: n.Silence.Seconds()}
		if g.spec.Several() {
			ev.Of = g.ranks
		}
		g.d.event(ev)
	case protocol.FallingBack:
		if g.spec.Several() { // Recovery says what comes of it
			g.d.out.Warn(fmt.Sprintf("checkpoint %d of %s is passed over: %s", n.Checkpoint, g.name(), n.Text))
			return
		}
		g.fellBack = fmt.Sprintf("checkpoint %d: %s", n.Checkpoint, n.Text)
	case protocol.Restarting:
		if g.spec.Several() {
			return // Recovery says it for all groups
		}
		g.d.outages.restarts(g.id, nil, len(g.ranks), g.d.outages.lost(g.id, n.Iter))
		g.d.event(&RestartEvent{Type: "restart", Ranks: len(g.ranks), From: n.From, Iteration: n.Iter,
			Incarnation: n.Incarnation, Unusable: g.fellBack})
		g.fellBack = ""
	}
}

// stopIfFull ends the job, if that is asked for when the storage is full.
func (d *driver) stopIfFull(err error) {
	if !d.stopOnFull || d.full != nil || !errors.Is(err, durable.ErrStorageFull) {
		return
	}
	d.full = fmt.Errorf("job %s was stopped: %w", d.job.Name(), err)
	d.helpers.Go(func() {
		d.post(func() {
			d.request(protocol.Request{Stop: true, Now: true}, func(protocol.Answer, *job.CheckpointEvent, error) {})
		})
	})
}

// tell reports a committed checkpoint. The manifest cannot tell how long its
// own commit took; this does.
func (g *group) tell(n protocol.Notice) {
	m := g.taken
	ev := job.DescribeCheckpoint(m.Summary())
	ev.Job = g.job.Name()
	ev.Latency.Storage += n.Commit.Seconds()
	ev.Latency.Total += n.Commit.Seconds()
	ev.Pause = max(ev.Pause, n.Pause.Seconds())
	g.d.result.Checkpoints++
	g.d.result.addLog(m.Log)
	g.d.result.last = m.Number
	g.d.requests.note(ev)
	g.d.event(ev)
}

// tellStart tells, once, that the groups begin to compute, and from where.
func (d *driver) tellStart() {
	if d.computes {
		return
	}
	d.computes = true
	ev := &StartEvent{Type: "start", Job: d.job.Name(), App: d.spec.App, NP: d.spec.NP, Mapping: d.spec.Mapping,
		Iterations: d.spec.Iterations, Incarnation: 1, Iteration: math.MaxInt}
	for _, g := range d.groups {
		from := g.spawned.From
		ev.Line = append(ev.Line, from)
		ev.Iteration = min(ev.Iteration, d.stored[from])
	}
	ev.From = slices.Min(ev.Line)
	d.event(ev)
}
