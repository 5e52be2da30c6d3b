package coordinator

import (
	"context"
	"errors"
	"fmt"

	"ckpt/coordinator/dmtcp"
	"ckpt/coordinator/job"
	"ckpt/coordinator/protocol"
	"ckpt/image"
	"ckpt/image/nodes"
	"ckpt/internal/durable"
)

// A dmtcpEngine runs a program that is not changed. One agent speaks for all of it.
type dmtcpEngine struct {
	processes
	*dmtcp.Engine
	stored *job.CheckpointEvent // that an earlier run had not stored; may be nil
}

func beginDMTCP(ctx context.Context, spec job.Spec, opt Options) (*Result, error) {
	described := job.Resolved{Spec: spec}
	if err := errors.Join(dmtcp.Check(&spec), job.CheckCombinations(described.Lookup("")), opt.checkFailures(&spec, true)); err != nil {
		return nil, err
	}
	tools, err := dmtcp.FindFor(ctx, spec.Program.Command, true)
	if err != nil {
		return nil, err
	}
	spec = dmtcp.Describe(spec)
	j, err := opt.newJob(spec, dmtcp.Forsake)
	if err != nil {
		return nil, err
	}
	defer j.Unlock()
	return runDMTCP(ctx, j, spec, tools, opt, func(*job.Resolved) (*image.Manifest, error) { return nil, nil })
}

func resumeDMTCP(ctx context.Context, spec *job.Resolved, j *image.Job, opt RestartOptions) (*Result, error) {
	if err := errors.Join(job.CheckCombinations(opt.lookup(spec, spec.Mapping)), opt.checkFailures(&spec.Spec, false)); err != nil {
		return nil, err
	}
	tools, err := dmtcp.FindFor(ctx, spec.Program.Command, false)
	if err != nil {
		return nil, err
	}
	again := spec.Spec
	again.AutoRestart = again.AutoRestart || opt.AutoRestart
	return runDMTCP(ctx, j, again, tools, opt.Options, func(spec *job.Resolved) (*image.Manifest, error) {
		return job.ChooseCheckpoint(j, spec, opt.Checkpoint, opt.passed())
	})
}

// checkFailures refuses failures that cannot happen to a program under DMTCP. How many ranks a new
// one has is not known.
func (o Options) checkFailures(spec *job.Spec, anew bool) error {
	for _, f := range o.Failures {
		s := *spec
		if anew {
			s.NP, s.Mapping = max(s.NP, f.Rank+1), job.Mapping{1}
		}
		if f.Iter > 0 {
			return job.Clash(job.ClashBoundary, fmt.Sprintf("failure at iteration %d", f.Iter), "")
		}
		if err := f.Check(&s); err != nil {
			return err
		}
	}
	return nil
}

// runDMTCP runs a job that this process has locked, from a checkpoint that is chosen once
// the one that an earlier run had left is stored.
func runDMTCP(ctx context.Context, j *image.Job, spec job.Spec, tools *dmtcp.Tools, opt Options, choose func(*job.Resolved) (*image.Manifest, error)) (*Result, error) {
	run := dmtcp.Run{Job: j, Spec: &spec, Limits: dmtcp.Limits(opt.limits()), Streams: opt.Streams, Warn: opt.Observer.Warn}
	e, left, err := dmtcp.TakeOver(ctx, run, tools, opt.DMTCP)
	if err != nil {
		return nil, err
	}
	resolved, err := e.Spec.Resolve()
	var from *image.Manifest
	if err == nil {
		from, err = choose(resolved)
	}
	if err != nil {
		e.Close(false)
		return nil, err
	}
	opt.Limits = run.Limits
	d := opt.newDriver(resolved, j, libraryID{})
	e.Drive(dmtcpDriver{d})
	d.run(&dmtcpEngine{processes{d: d}, e, left}, opt.alive)
	return d.drive(ctx, from, opt.Failures, opt.Interrupts)
}

// A dmtcpDriver does in the loop what the engine asks for from outside.
type dmtcpDriver struct{ *driver }

// Scratch makes the directory of the run again, if it has gone.
func (d dmtcpDriver) Scratch(ctx context.Context) (path string, err error) {
	ierr := d.inLoop(ctx, func() {
		err = d.socket.Mend(d.job)
		path = d.socket.Run.Scratch(0)
	})
	return path, errors.Join(ierr, err)
}

// Redescribe takes over what became known of the job.
func (d dmtcpDriver) Redescribe(ctx context.Context, s *job.Resolved) error {
	return d.inLoop(ctx, func() {
		d.spec = s
		d.result.App, d.result.NP = s.App, s.NP
	})
}

// Tx returns the checkpoint that is being written, through the turns, the limit and the trace of
// the job.
func (d dmtcpDriver) Tx(ctx context.Context, limit *nodes.Limiter) (tx *image.Tx, err error) {
	err = d.inLoop(ctx, func() {
		g := d.groups[0]
		if tx = g.tx; tx == nil {
			return
		}
		fsys := d.job.FS()
		if d.turns.client != nil {
			fsys = g.turn.FS(fsys)
		}
		fsys = limit.On(ctx, fsys)
		if g.recorded != nil {
			fsys = g.recorded.OfRank(0, 0, tx.Number()).On(fsys)
		}
		tx = tx.Through(fsys)
	})
	if err == nil && tx == nil {
		err = errors.New("the checkpoint was aborted")
	}
	return tx, err
}

// Waits reports whether the bytes of a checkpoint wait for a turn on the storage.
func (d dmtcpDriver) Waits() bool { return d.turns.client.Waits() }

// inLoop has f done in the loop, and waits for it.
func (d *driver) inLoop(ctx context.Context, f func()) error {
	over := make(chan struct{})
	d.Post(func() {
		f()
		close(over)
	})
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-d.done:
		return errors.New("the run has ended")
	}
}

// StopWithout ends a run whose last checkpoint could not be stored.
func (d dmtcpDriver) StopWithout(number int, err error) {
	d.Post(func() {
		if d.Over() {
			return
		}
		d.result.Lost++
		if errors.Is(err, durable.ErrStorageFull) {
			d.result.Full++
		}
		d.Event(&AbortedEvent{Type: "checkpoint_lost", Number: number, Rank: -1, Reason: err.Error()})
		d.full, d.outcome = err, &protocol.Outcome{Result: protocol.StoppedByRequest, Rank: -1}
	})
}

// Open tells the user what an earlier run had not stored.
func (e *dmtcpEngine) Open() error {
	for _, text := range e.Warnings() {
		e.d.Warn(text)
	}
	if err := e.processes.Open(); err != nil {
		e.Engine.Close(false)
		return err
	}
	if e.stored != nil {
		e.d.Post(func() {
			e.d.result.Checkpoints++
			e.d.Event(e.stored)
		})
	}
	return nil
}

// LoseLocal removes the images on the node, for an injected failure: no process runs.
func (e *dmtcpEngine) LoseLocal() {
	if err := e.Engine.LoseLocal(); err != nil {
		e.d.Warn(err.Error())
	}
}

// Strike kills the process of a rank.
func (e *dmtcpEngine) Strike(rank int) { e.KillRank(rank) }

// Settle waits until the program has ended, which takes a while after it was told to.
func (e *dmtcpEngine) Settle() {
	if m := e.d.members[0]; m != nil {
		e.d.AwaitEnd(m.proc.Done(), nil)
	}
}

func (e *dmtcpEngine) Complete([][]byte) error {
	e.d.Exited(0)
	return nil
}

func (e *dmtcpEngine) Close() {
	e.Engine.Close(e.d.outcome != nil && e.d.outcome.Result == protocol.Completed)
}
