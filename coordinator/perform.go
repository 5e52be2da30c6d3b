package coordinator

import (
	"fmt"
	"slices"

	"ckpt/coordinator/protocol"
	"ckpt/coordinator/protocol/supervisor"
)

// perform carries the actions of the protocol out, in order.
func (d *driver) perform(actions []supervisor.Action) {
	for i, tagged := range actions {
		a := tagged.Action
		if d.watch != nil {
			d.watch(a)
		}
		d.logAction(a)
		if tagged.Group == supervisor.Job {
			d.performJob(a)
			continue
		}
		d.groups[tagged.Group].perform(a, actions[i:])
	}
	d.told.taken, d.told.lost = nil, nil
	d.startPrunes()
}

// performJob does what concerns the whole job.
func (d *driver) performJob(a protocol.Action) {
	var err error
	switch a := a.(type) {
	case protocol.Answer:
		d.answer(a)
	case protocol.Collect:
		err = d.collect(a)
	case protocol.Recovery:
		d.recovered(a)
	case protocol.Print:
		err = d.print(a)
	case protocol.Report:
		d.out.Warn(fmt.Sprintf("the job begins anew: %s", a.Notice.Text))
	case protocol.Finish:
		d.outcome = &a.Outcome
	}
	if err != nil {
		d.broken = err
	}
}

// perform does what concerns the group; rest are the actions from this one on.
func (g *group) perform(a protocol.Action, rest []supervisor.Action) {
	switch a := a.(type) {
	case protocol.Send:
		g.send(a.Message.Rank, a.Message)
	case protocol.Broadcast:
		g.broadcast(a.Message)
	case protocol.Kill:
		g.kill(a.Rank)
	case protocol.Spawn:
		g.spawn(a)
	case protocol.Prepare:
		g.prepare(a.Number)
	case protocol.Commit:
		g.commit(a.Checkpoint)
	case protocol.Discard:
		// At the end, ranks may still be writing: settle ends them first.
		if !slices.ContainsFunc(rest, func(a supervisor.Action) bool { _, ends := a.Action.(protocol.Finish); return ends }) {
			g.discard(a.Number)
		}
	case protocol.Examine:
		g.examineLogs(a)
	case protocol.Forget:
		if err := g.forgetAfter(a); err != nil {
			g.broken = err
		}
	case protocol.Report:
		g.report(a.Notice)
	}
}

func (d *driver) send(rank int, m protocol.Message) {
	if member := d.members[rank]; member != nil && member.link != nil {
		member.link.send(m)
	}
}

// logAction logs the turns of a run, not each message to each rank.
func (d *driver) logAction(a protocol.Action) {
	switch a := a.(type) {
	case protocol.Broadcast:
		d.log.Debug("broadcast", "message", a.Message.Kind.String(), "checkpoint", a.Message.Number, "iteration", a.Message.Iter)
	case protocol.Kill:
		d.log.Debug("kill", "rank", a.Rank)
	case protocol.Spawn:
		d.log.Debug("spawn", "generation", a.Gen, "from", a.From, "run", d.run.path)
	case protocol.Commit:
		d.log.Debug("commit", "checkpoint", a.Checkpoint.Number, "iteration", a.Checkpoint.Iter)
	case protocol.Discard:
		d.log.Debug("discard", "checkpoint", a.Number)
	case protocol.Finish:
		d.log.Debug("finish", "result", a.Outcome.Result.String(), "why", a.Outcome.Text)
	}
}

// broadcast sends a message to all ranks of the group: the same, but for the order
// to write, which names each rank's files.
func (g *group) broadcast(m protocol.Message) {
	if m.Kind == protocol.Write && g.tx == nil {
		return // it could not be prepared, and is being given up
	}
	if m.Kind == protocol.Write {
		for _, rank := range g.ranks {
			m.Rank, m.Body = rank, encode(g.order(rank))
			g.send(rank, m)
		}
		return
	}
	frame, err := protocol.AppendFrame(nil, m)
	if err != nil {
		g.broken = err
		return
	}
	for _, rank := range g.ranks {
		if member := g.members[rank]; member != nil && member.link != nil {
			member.link.sendFrame(frame)
		}
	}
}

func (d *driver) answer(a protocol.Answer) {
	answer := d.requests[a.ID]
	delete(d.requests, a.ID)
	if answer == nil {
		return
	}
	var taken *CheckpointEvent
	if ev := d.told.taken; ev != nil && (ev.Number == a.Number || d.several()) {
		taken = ev
	}
	answer(a, taken, d.told.lost)
}
