package coordinator

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
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
	case wire.OpPrune:
		d.prune(c.Keep, answers, job.Prune)
	case wire.OpPreviewPrune:
		d.prune(c.Keep, answers, job.PreviewPrune)
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

// AwaitEnd returns when the job has lost its coordinator, so that it can be
// restarted: a coordinator answers a stop before it clears up.
func AwaitEnd(ctx context.Context, job *image.Job) error {
	was, _ := wire.Announced(job)
	for {
		err := job.Lock()
		if err == nil {
			return job.Unlock()
		}
		next, runs := wire.Announced(job)
		if errors.Is(err, image.ErrJobNotFound) || runs && next != was {
			return nil // another command waited to remove it, or to run it
		}
		if !errors.Is(err, image.ErrInUse) {
			return err
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
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

// Inspect describes a job of a store and asks its coordinator how it is.
func Inspect(ctx context.Context, store *image.Store, name string) (*job.Status, error) {
	s, err := job.Describe(store, name)
	if err != nil {
		return nil, err
	}
	j, err := store.Job(name)
	if err != nil {
		return nil, err
	}
	if run, ok := wire.Announced(j); ok {
		s.Started, s.Host = run.Started, run.Host
	}
	client, err := wire.Contact(ctx, j)
	if errors.Is(err, wire.ErrSilent) {
		s.State = job.StateSilent
		return s, nil
	}
	if unreachable := (*wire.UnreachableError)(nil); errors.As(err, &unreachable) {
		s.State, s.Digest, s.Failure = job.StateRunning, "", ""
		s.Unreachable, s.Coordinator = unreachable.Err.Error(), unreachable.PID
		if !s.Started.IsZero() {
			s.Elapsed = max(0, time.Since(s.Started).Seconds())
		}
		return s, nil
	}
	if errors.Is(err, wire.ErrNotRunning) && s.State == job.StateInterrupted {
		// It may have ended this moment: then it has noted how.
		return again(store, s)
	}
	if errors.Is(err, wire.ErrNotRunning) {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	client.Close()
	live, now := client.First, time.Now()
	s.State, s.Phase, s.Iteration, s.Mapping, s.PIDs = job.StateRunning, live.Phase, live.Iteration, live.Mapping, live.PIDs
	s.NP, s.Digest, s.Failure = len(live.Mapping.Nodes()), "", ""
	s.Started, s.Updated = live.Since.UTC().Truncate(time.Millisecond), now.UTC().Truncate(time.Millisecond)
	s.Elapsed, s.Rate = now.Sub(live.Since).Seconds(), live.Rate
	if s.Rate > 0 && s.Iterations > 0 {
		left := float64(max(0, s.Iterations-s.Iteration)) / s.Rate
		s.Left = &left
	}
	s.NextIteration, s.NextSeconds = live.NextIteration, live.NextSeconds
	s.AtRisk, s.InFlight = live.AtRisk, live.InFlight
	return s, nil
}

// Completed returns the result of a job whose last run has completed, nil if it has not or a
// run goes on.
func Completed(ctx context.Context, store *image.Store, name string) (*Result, error) {
	s, err := Inspect(ctx, store, name)
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

// again describes a job once more, with what is known of its last run.
func again(store *image.Store, was *job.Status) (*job.Status, error) {
	s, err := job.Describe(store, was.Job)
	if err == nil && s.State == job.StateInterrupted {
		s.Started, s.Host = was.Started, was.Host
	}
	return s, err
}

// LastRun says where and when the run of a job began that runs now or was killed; false
// if its last run has ended.
func LastRun(j *image.Job) (job.Beginning, bool) { return wire.Announced(j) }

// FindLine finds the recovery line of a job of a store, running or not.
func FindLine(ctx context.Context, store *image.Store, name string) (*job.StoredLine, error) {
	j, err := store.Job(name)
	if err != nil {
		return nil, err
	}
	return job.FindLine(ctx, j, func() (*job.Status, error) { return Inspect(ctx, store, name) })
}
