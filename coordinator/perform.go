package coordinator

import "ckpt/coordinator/protocol"

// perform carries the actions of the protocol out, in order.
func (d *driver) perform(actions []protocol.Action) {
	g := d.groups[0]
	for _, a := range actions {
		if d.watch != nil {
			d.watch(a)
		}
		d.logAction(a)
		switch a := a.(type) {
		case protocol.Send:
			g.send(a.Message.Rank, a.Message)
		case protocol.Broadcast:
			g.broadcast(a.Message)
		case protocol.Kill:
			d.kill(a.Rank)
		case protocol.Spawn:
			g.spawn(a)
		case protocol.Prepare:
			g.prepare(a.Number)
		case protocol.Commit:
			g.commit(a.Checkpoint)
		case protocol.Discard:
			// At the end, ranks may still be writing: settle ends them first.
			if _, ends := actions[len(actions)-1].(protocol.Finish); !ends {
				g.discard(a.Number)
			}
		case protocol.Answer:
			d.answer(a)
		case protocol.Report:
			g.report(a.Notice)
		case protocol.Finish:
			d.outcome = &a.Outcome
		}
	}
	d.told.taken, d.told.lost = nil, nil
	d.startPrunes()
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
	if ev := d.told.taken; ev != nil && ev.Number == a.Number {
		taken = ev
	}
	answer(a, taken, d.told.lost)
}
