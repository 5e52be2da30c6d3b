package coordinator

import (
	"errors"
	"fmt"
	"slices"

	"ckpt/coordinator/job"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/protocol/supervisor"
	"ckpt/image"
	"ckpt/internal/durable"
)

// perform carries the actions of the protocol out, in order. If one fails that the
// next rely on, the job ends.
func (d *driver) perform(actions []supervisor.Action) {
	for i, tagged := range actions {
		a := tagged.Action
		if d.watch != nil {
			d.watch(a)
		}
		d.logAction(a)
		var err error
		if tagged.Group == supervisor.Job {
			err = d.performJob(a)
		} else {
			err = d.groups[tagged.Group].perform(a, actions[i:])
		}
		if err != nil {
			d.Fail(err)
			break
		}
	}
	d.requests.aborted = nil
	d.startPrunes()
	if err := d.catchUp(); err != nil {
		d.Fail(err)
	}
}

// performJob does what concerns the whole job.
func (d *driver) performJob(a protocol.Action) error {
	switch a := a.(type) {
	case protocol.Answer:
		d.requests.answer(a)
	case protocol.Collect:
		return d.collect(a)
	case protocol.Recovery:
		d.recovered(a)
	case protocol.Print:
		return d.print(a)
	case protocol.Report:
		d.Warn(fmt.Sprintf("the job restarts from scratch: %s", a.Notice.Text))
	case protocol.Finish:
		d.outcome = &a.Outcome
		return d.endOutput()
	}
	return nil
}

// perform does what concerns the group; rest are the actions from this one on.
func (g *group) perform(a protocol.Action, rest []supervisor.Action) error {
	switch a := a.(type) {
	case protocol.Send:
		g.d.Send(a.Rank, a.Message)
	case protocol.Broadcast:
		g.broadcast(a.Message)
	case protocol.Kill:
		g.d.kill(a.Rank)
	case protocol.Spawn:
		g.spawn(a)
	case protocol.Prepare:
		// Note output before the checkpoint, so that a restart does not repeat it.
		if err := g.d.noteOutput(); err != nil {
			g.Later(commitFailed(a.Number, err))
			break
		}
		g.begin(a.Number)
	case protocol.Commit:
		m, err := g.d.engine.Manifest(a.Checkpoint, func() (*image.Manifest, error) { return g.manifest(a.Checkpoint) })
		g.committing = true
		g.level.Commit(a.Checkpoint, m, err)
	case protocol.Discard:
		// At the end, ranks may still be writing: settle ends them first.
		if !slices.ContainsFunc(rest, func(a supervisor.Action) bool { _, ends := a.Action.(protocol.Finish); return ends }) {
			if g.level.Facts().UnderWay == a.Number {
				g.abort()
			}
		}
	case protocol.Examine:
		g.examineLogs(a)
	case protocol.Forget:
		return g.forgetAfter(a)
	case protocol.Report:
		g.report(a.Notice)
	}
	return nil
}

// logAction logs the turns of a run, not each message to each rank.
func (d *driver) logAction(a protocol.Action) {
	switch a := a.(type) {
	case protocol.Broadcast:
		d.log.Debug("broadcast", "message", protocol.Name(a.Message), "content", fmt.Sprintf("%+v", a.Message))
	case protocol.Kill:
		d.log.Debug("kill", "rank", a.Rank)
	case protocol.Spawn:
		d.log.Debug("spawn", "incarnation", a.Incarnation, "from", a.From, "run", d.socket.Run.Path)
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
	if w, ok := m.(protocol.Write); ok {
		g.level.Place(w)
		return
	}
	if c, ok := m.(protocol.Capture); ok {
		for _, rank := range g.ranks {
			o := g.Order(rank)
			o.Base = g.lineage.newest()
			c.Body = job.Encode(o)
			g.d.Send(rank, c)
		}
		return
	}
	if _, quit := m.(protocol.Quit); quit && !g.level.MayLeave() {
		return
	}
	frame, err := protocol.AppendFrame(nil, m)
	if err != nil {
		g.d.broken = err
		return
	}
	for _, rank := range g.ranks {
		if member := g.d.members[rank]; member != nil && member.link != nil {
			member.link.SendFrame(frame)
		}
	}
}

// Fail ends the job: what it needs could not be done. If the storage is full, it is
// as if it had been stopped.
func (d *driver) Fail(err error) {
	if !errors.Is(err, durable.ErrStorageFull) {
		d.broken = err
		return
	}
	for _, g := range d.groups {
		if err := g.endIncarnation(); err != nil {
			d.Warn(err.Error())
		}
	}
	if d.full == nil {
		d.full = d.cannotGoOn(err)
	}
	d.outcome = &protocol.Outcome{Result: protocol.StoppedByRequest, Rank: -1}
}

// An answerFunc takes the answer to a request, with the checkpoint that it tells of, or
// the error that aborted one.
type answerFunc func(a protocol.Answer, taken *job.CheckpointEvent, aborted error)

// requests are those that wait for an answer.
type requests struct {
	last    int // number given
	waiting map[int]answerFunc
	taken   map[int]*job.CheckpointEvent // by number, since a request began to wait
	aborted error                        // of a checkpoint, in the actions under way
}

func newRequests() requests {
	return requests{waiting: map[int]answerFunc{}, taken: map[int]*job.CheckpointEvent{}}
}

// add returns the number of a request.
func (r *requests) add(answer answerFunc) int {
	r.last++
	r.waiting[r.last] = answer
	return r.last
}

// note keeps a checkpoint that an answer may tell of.
func (r *requests) note(ev *job.CheckpointEvent) {
	if len(r.waiting) > 0 {
		r.taken[ev.Number] = ev
	}
}

func (r *requests) answer(a protocol.Answer) {
	answer, taken := r.waiting[a.ID], r.taken[a.Number]
	delete(r.waiting, a.ID)
	if len(r.waiting) == 0 {
		clear(r.taken)
	}
	if answer != nil {
		answer(a, taken, r.aborted)
	}
}

// end answers what is left when the job has ended.
func (r *requests) end() {
	for id, answer := range r.waiting {
		delete(r.waiting, id)
		answer(protocol.Answer{ID: id, Err: "the job has ended"}, nil, nil)
	}
}
