package coordinator

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/wire"
	"ckpt/image"
)

// serveControl answers the commands on a connection.
func (d *driver) serveControl(conn net.Conn, r *bufio.Reader) {
	answerCommands(conn, r, d.done, func(c wire.Command, answers chan<- wire.Reply) { d.post(func() { d.obey(c, answers) }) })
}

// answerCommands answers the commands on a connection, one after the other, until done
// is closed. Obey answers each once, perhaps later.
func answerCommands(conn net.Conn, r *bufio.Reader, done <-chan struct{}, obey func(wire.Command, chan<- wire.Reply)) {
	in := json.NewDecoder(r)
	for {
		var c wire.Command
		if err := in.Decode(&c); err != nil {
			return
		}
		answers := make(chan wire.Reply, 1)
		obey(c, answers)
		select {
		case a := <-answers:
			if err := json.NewEncoder(conn).Encode(a); err != nil {
				return
			}
		case <-done:
			// The answer may have been given at the last moment.
			select {
			case a := <-answers:
				_ = json.NewEncoder(conn).Encode(a)
			default:
			}
			return
		}
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
	for _, m := range d.members {
		if m != nil {
			s.PIDs = append(s.PIDs, m.pids()...)
		}
	}
	return s
}

// AwaitEnd returns when nobody coordinates the job any more, so that it can be
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
