package coordinator

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/wire"
	"ckpt/image"
)

// serveControl answers the commands on a connection.
func (d *driver) serveControl(conn net.Conn, r *bufio.Reader) {
	answerCommands(conn, r, d.done, &d.answering, func(c wire.Command, answers chan<- wire.Reply) { d.Post(func() { d.obey(c, answers) }) })
}

// answerTime is how long a command may take to read its answer.
const answerTime = 5 * time.Second

// answerCommands answers the commands on a connection, one after the other, until done
// is closed. Obey answers each once, perhaps later. The end of the run locks answering before
// it closes connections, so that an answer which was given goes out.
func answerCommands(conn net.Conn, r *bufio.Reader, done <-chan struct{}, answering *sync.RWMutex, obey func(wire.Command, chan<- wire.Reply)) {
	in := json.NewDecoder(r)
	for {
		var c wire.Command
		if err := in.Decode(&c); err != nil || !answerCommand(conn, c, done, answering, obey) {
			return
		}
	}
}

// answerCommand answers one, and reports whether there may be more.
func answerCommand(conn net.Conn, c wire.Command, done <-chan struct{}, answering *sync.RWMutex, obey func(wire.Command, chan<- wire.Reply)) bool {
	answering.RLock()
	defer answering.RUnlock()
	answers := make(chan wire.Reply, 1)
	obey(c, answers)
	answer := func(a wire.Reply) bool {
		_ = conn.SetWriteDeadline(time.Now().Add(answerTime))
		return json.NewEncoder(conn).Encode(a) == nil
	}
	select {
	case a := <-answers:
		return answer(a)
	case <-done:
		select {
		case a := <-answers: // given at the last moment
			answer(a)
		default:
		}
		return false
	}
}

// obey carries out a command in the loop.
func (d *driver) obey(c wire.Command, answers chan<- wire.Reply) {
	finish := func(a protocol.Answer, cp *job.CheckpointEvent, err error) {
		r := wire.Reply{Error: a.Err, Checkpoint: cp}
		if err != nil {
			detail := wire.ReportError(err)
			r.Detail = &detail
		}
		answers <- r
	}
	switch c.Op {
	case wire.OpStatus:
		answers <- wire.Reply{Status: d.status()}
	case wire.OpCheckpoint:
		d.request(protocol.Request{}, finish)
	case wire.OpStop:
		d.request(protocol.Request{Stop: true, Now: c.Now}, finish)
	case wire.OpPrune, wire.OpPruneBut:
		d.prune(c.Keep, c.But, answers, job.Prune)
	case wire.OpPreviewPrune:
		d.prune(c.Keep, c.But, answers, job.PreviewPrune)
	default:
		answers <- wire.Reply{Error: fmt.Sprintf("command %q is unknown", c.Op)}
	}
}

func (d *driver) status() *wire.Status {
	s := &wire.Status{Job: d.job.Name(), ID: d.spec.ID, Phase: d.phase(), Iteration: d.machine.Iteration(), Iterations: d.spec.Iterations,
		Incarnation: d.groups[0].incarnation, Mapping: d.spec.Mapping, Since: d.since, Rate: d.rate()}
	if iter, at, ok := d.machine.Upcoming(); ok {
		s.NextIteration = iter
		if iter == 0 {
			wait := max(0, (at - d.now()).Seconds())
			s.NextSeconds = &wait
		}
	}
	for _, g := range d.groups {
		if g.started {
			s.AtRisk = max(s.AtRisk, g.atRisk(d.now()).Seconds())
		}
	}
	s.InFlight = d.machine.InFlight()
	for _, m := range d.members {
		if m != nil {
			s.PIDs = append(s.PIDs, m.pids()...)
		}
	}
	return s
}

// phase says in words what the job is doing, and whether ranks wait for their turn on the
// storage.
func (d *driver) phase() string {
	waiting := slices.ContainsFunc(d.members, func(m *member) bool { return m != nil && m.signs.waits.Load() })
	if waiting {
		return d.machine.Phase() + ", waits for its turn"
	}
	return d.machine.Phase()
}

// Completed returns the result of a job whose last run has completed, nil if it has not or a
// run goes on.
func Completed(ctx context.Context, store *image.Store, name string) (*Result, error) {
	s, err := wire.Inspect(ctx, store, name)
	if err != nil || s.State != job.StateCompleted {
		return nil, err
	}
	j, err := store.Job(name)
	if err != nil {
		return nil, err
	}
	r := new(Result)
	known, err := job.Result(j, r)
	if err != nil {
		return nil, err
	}
	if !known { // an earlier version wrote less
		r = &Result{Type: "result", Job: s.Job, App: s.App, NP: s.NP, Iterations: s.Iterations, Outcome: s.State, Digest: s.Digest, Restarts: []int{}, WorkLost: []int{}, Recovery: []float64{}}
	}
	return r, nil
}

// prune removes all but the newest checkpoints of the running job. It waits for the
// checkpoint under way, which may refer to files of an earlier one. No checkpoint is taken
// away from ranks that read.
func (d *driver) prune(keep int, keepAlso []int, answers chan<- wire.Reply, do func(j *image.Job, keep int, also ...int) (*job.Pruned, error)) {
	for _, g := range d.groups {
		if g.checked != g.incarnation || !g.started {
			answers <- wire.Reply{Error: "the job is just starting; try again in a moment"}
			return
		}
	}
	if d.spec.Several() {
		answers <- wire.Reply{Error: "the ranks of job " + d.job.Name() + " take checkpoints apart from each other, and its recovery needs those that are there"}
		return
	}
	d.prunes = append(d.prunes, func() {
		// Newer checkpoints may be of a future that this run has left aside.
		for _, g := range d.groups {
			keepAlso = append(append(keepAlso, g.lineage.newest()), g.level.Facts().Held...)
		}
		p, err := do(d.job, keep, keepAlso...)
		r := wire.Reply{Pruned: p}
		if err != nil {
			detail := wire.ReportError(err)
			r = wire.Reply{Error: err.Error(), Detail: &detail}
		}
		answers <- r
	})
	d.startPrunes()
}

// thin removes the checkpoints that this run is not to keep, and only those: what
// cannot be removed now, the next commit removes. No checkpoint is taken
// away from ranks that read.
func (d *driver) thin() {
	g := d.groups[0]
	if !d.crowded || d.writing() || g.checked != g.incarnation || !g.started {
		return
	}
	d.crowded = false
	facts := g.level.Facts()
	removed, err := job.Thin(d.job, facts.Keep, facts.Of, d.spec.Retention(), facts.Held...)
	d.result.Removed += len(removed)
	if err != nil {
		d.Warn(job.NotRemoved + err.Error())
	}
}

// writing reports whether any group has a checkpoint under way.
func (d *driver) writing() bool {
	return slices.ContainsFunc(d.groups, func(g *group) bool { return g.level.Facts().Busy })
}

// startPrunes does what has waited, in the loop: what a checkpoint is to refer
// to must not go between its beginning and its commit.
func (d *driver) startPrunes() {
	if d.writing() {
		return
	}
	for _, p := range d.prunes {
		p()
	}
	d.prunes = nil
	d.thin()
}
