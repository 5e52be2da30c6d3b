package coordinator

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"ckpt/coordinator/dmtcp"
	"ckpt/coordinator/job"
	"ckpt/coordinator/protocol"
	"ckpt/image"
	"ckpt/internal/durable"
)

// A dmtcpEngine runs a program that is not changed. One agent speaks for all of it.
type dmtcpEngine struct {
	processes
	*dmtcp.Engine
	stored *job.CheckpointEvent // that an earlier run had not stored; may be nil
}

func beginDMTCP(ctx context.Context, spec job.Spec, opt Options) (*Result, error) {
	if err := dmtcp.Check(&spec); err != nil {
		return nil, err
	}
	tools, err := dmtcp.Find(ctx)
	if err != nil {
		return nil, err
	}
	spec = dmtcp.Describe(spec)
	text, err := spec.Encode()
	if err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(opt.Store) // DMTCP runs in other directories
	if err != nil {
		return nil, err
	}
	store, err := image.CreateStore(opt.fileSystem(), dir)
	if err != nil {
		return nil, err
	}
	j, err := createJob(store, opt.Job, spec.App, text, dmtcp.Forsake)
	if err != nil {
		return nil, err
	}
	defer j.Unlock()
	return runDMTCP(ctx, j, spec, tools, opt, func(*job.Resolved) (*image.Manifest, error) { return nil, nil })
}

func resumeDMTCP(ctx context.Context, spec *job.Resolved, j *image.Job, opt RestartOptions) (*Result, error) {
	switch {
	case len(opt.Command) > 0:
		return nil, &job.UsageError{Text: "only programs that call ckpt are restarted with another command", Fix: "leave out what follows --"}
	case opt.NP > 0 && opt.NP != spec.NP:
		return nil, &job.UsageError{Text: "images of DMTCP are of as many ranks as they were taken from", Fix: "leave the number of ranks out"}
	}
	tools, err := dmtcp.Find(ctx)
	if err != nil {
		return nil, err
	}
	again := spec.Spec
	again.AutoRestart = again.AutoRestart || opt.AutoRestart
	return runDMTCP(ctx, j, again, tools, opt.Options, func(spec *job.Resolved) (*image.Manifest, error) {
		return job.ChooseCheckpoint(j, spec, opt.Checkpoint)
	})
}

// runDMTCP runs a job that this process has locked, from a checkpoint that is chosen once
// the one that an earlier run had left is stored.
func runDMTCP(ctx context.Context, j *image.Job, spec job.Spec, tools *dmtcp.Tools, opt Options, choose func(*job.Resolved) (*image.Manifest, error)) (*Result, error) {
	var d *driver
	var err error
	e := &dmtcpEngine{}
	run := dmtcp.Run{Job: j, Spec: &spec, Limits: dmtcp.Limits(opt.limits()), Streams: opt.Streams, Warn: opt.Observer.Warn,
		Scratch: func(ctx context.Context) (path string, err error) {
			ierr := d.inLoop(ctx, func() {
				err = d.socket.Mend(j)
				path = d.socket.Run.Scratch(0)
			})
			return path, errors.Join(ierr, err)
		},
		Describe: func(ctx context.Context, s *job.Spec) error {
			resolved, err := s.Resolve()
			if err != nil || d == nil {
				spec = *s
				return err
			}
			return d.inLoop(ctx, func() { d.redescribe(resolved) })
		},
		Tx: func(ctx context.Context) (tx *image.Tx, err error) {
			err = d.inLoop(ctx, func() { tx = d.groups[0].tx })
			if err == nil && tx == nil {
				err = errors.New("the checkpoint was aborted")
			}
			return tx, err
		},
		Stop: func(number int, err error) { d.Post(func() { d.stopWithout(number, err) }) },
	}
	if e.Engine, e.stored, err = dmtcp.New(ctx, run, tools, opt.DMTCP); err != nil {
		return nil, err
	}
	resolved, err := spec.Resolve()
	var from *image.Manifest
	if err == nil {
		from, err = choose(resolved)
	}
	if err != nil {
		e.Engine.Close(false)
		return nil, err
	}
	opt.Limits = run.Limits
	d = opt.newDriver(resolved, j, j.Store(), libraryID{})
	e.processes = processes{d: d}
	d.run(e, opt.alive)
	return d.drive(ctx, from, opt.Failures, opt.Interrupts)
}

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

// redescribe takes over what became known of the job.
func (d *driver) redescribe(s *job.Resolved) {
	d.spec = s
	d.result.App, d.result.NP = s.App, s.NP
}

// stopWithout ends a run whose last checkpoint could not be stored.
func (d *driver) stopWithout(number int, err error) {
	if d.Over() {
		return
	}
	d.result.Lost++
	if errors.Is(err, durable.ErrStorageFull) {
		d.result.Full++
	}
	d.Event(&AbortedEvent{Type: "checkpoint_lost", Number: number, Rank: -1, Reason: err.Error()})
	d.full, d.outcome = err, &protocol.Outcome{Result: protocol.StoppedByRequest, Rank: -1}
}

// Open tells the user what an earlier run had not stored.
func (e *dmtcpEngine) Open() error {
	e.d.Warn(dmtcp.OpenPort)
	err := e.processes.Open()
	if err == nil && e.stored != nil {
		e.d.Post(func() {
			e.d.result.Checkpoints++
			e.d.Event(e.stored)
		})
	}
	return err
}

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

// endTime is how long a program under DMTCP may take to be gone after it was killed.
const endTime = 30 * time.Second

func (e *dmtcpEngine) Close() {
	e.Engine.Close(e.d.outcome != nil && e.d.outcome.Result == protocol.Completed)
}
