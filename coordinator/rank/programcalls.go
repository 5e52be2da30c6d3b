package rank

import (
	"context"
	"errors"
	"fmt"

	"ckpt/coordinator/job"
	client "ckpt/coordinator/process"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/wire"
	"ckpt/internal/durable"
)

// resumed answers a restore.
func (p *program) resumed() client.Answer {
	if p.cfg.From == 0 {
		return client.Answer{Status: client.None}
	}
	return client.Answer{Status: client.OK, Value: p.state.step}
}

// answer ends the call that the process waits in.
func (p *program) answer(a client.Answer) {
	p.waiting = nil
	if err := p.client.Answer(a); err != nil {
		p.fail(fmt.Errorf("answer the process: %w", err))
	}
}

// outcome answers a call that the process makes while it computes: with what is to be said
// of an earlier checkpoint, once.
func (p *program) outcome() client.Answer {
	a := p.notice
	p.notice = client.Answer{}
	p.client.SetPending(false)
	return a
}

// farewell answers a call after the job has been stopped.
func (p *program) farewell(k client.Kind) client.Answer {
	if k == client.Boundary || k == client.Restore {
		return client.Answer{Status: client.Stop}
	}
	return client.Answer{Status: client.OK}
}

// called takes a call of the process.
func (p *program) called(ctx context.Context, c client.Call) {
	p.waiting = &c
	switch {
	case p.left:
		p.finished = p.finished || c.Kind == client.Finalize
		p.answer(p.farewell(c.Kind))
	case c.Kind == client.Query:
		p.answer(p.query(c.Name))
	case c.Kind == client.Wait:
		if p.writing == 0 {
			p.answer(p.outcome())
		}
	case c.Kind == client.Finalize:
		if p.writing == 0 {
			p.finalize(ctx)
		}
	case c.Kind == client.Restore && !p.began:
		p.prepare(ctx)
	case c.Kind == client.Restore:
		p.answer(client.Answer{Status: client.Argument, Text: "ckpt_restore was called a second time, or after a boundary"})
	case c.Kind == client.Boundary && !p.began:
		p.step = c.Step
		p.unrestored()
	case c.Kind == client.Boundary && int(c.Count) == p.dies():
		p.link.Send(protocol.InjectDue{Iter: int(c.Count)}) // the coordinator kills the process
	case c.Kind == client.Boundary:
		p.step = c.Step
		p.do(ctx, protocol.Reached{Iter: int(c.Count), Save: c.Save})
		p.client.SetLimit(p.limit())
	}
}

// prepare restores the memory and says that the process may compute.
func (p *program) prepare(ctx context.Context) {
	if p.readyTold {
		return
	}
	p.readyTold = true
	go func() {
		if p.cfg.From > 0 {
			if err := p.state.restoreProgram(ctx, p.client); err != nil {
				p.link.Send(protocol.SetupFailed{Damaged: job.Unrestorable(err), Text: err.Error(), Body: wire.EncodeError(err)})
				return
			}
		}
		if p.spec.Async {
			_ = p.client.Prepare(ctx) // the first checkpoint meets the same error, and tells it
		}
		p.link.Send(protocol.Ready{})
	}()
}

// unrestored begins a program that has reached a boundary without a call of restore.
func (p *program) unrestored() {
	if p.cfg.From > 0 {
		err := fmt.Errorf("rank %d has reached a boundary without ckpt_restore: checkpoint %d would be lost", p.id, p.cfg.From)
		p.link.Send(protocol.SetupFailed{Text: err.Error(), Body: wire.EncodeError(err)})
		return
	}
	if !p.readyTold {
		p.readyTold = true
		p.link.Send(protocol.Ready{})
	}
}

// finalize tells the coordinator that the program has ended on purpose.
func (p *program) finalize(ctx context.Context) {
	if !p.began { // it has passed no boundary
		p.unrestored()
		return
	}
	p.finished = true
	p.member.Step(protocol.Computing{Iter: p.spec.Iterations + 1})
	p.do(ctx, protocol.Ended{Body: job.Encode(wire.DoneReport{})})
	p.answer(p.outcome())
}

// note keeps what an abort means for the process until its next call. The reason why this
// rank could not write says more, and stays.
func (p *program) note(m protocol.Message) {
	a, ok := m.(protocol.Abort)
	if !ok || p.notice.Text != "" {
		return
	}
	p.tell(client.Answer{Status: client.IO, Text: fmt.Sprintf("checkpoint %d was aborted; ckpt launch says why", a.Number)})
}

// tell keeps an answer for the next call.
func (p *program) tell(a client.Answer) {
	p.notice = a
	p.client.SetPending(true)
}

// statusOf is the status of a checkpoint that this rank could not write.
func statusOf(err error) client.Status {
	var damage *durable.DamageError
	switch {
	case errors.Is(err, durable.ErrStorageFull):
		return client.Full
	case errors.As(err, &damage):
		return client.Damage
	}
	return client.IO
}
