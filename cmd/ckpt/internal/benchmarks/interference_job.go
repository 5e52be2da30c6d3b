package benchmarks

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator"
	"ckpt/coordinator/job"
	"ckpt/dataset"
	"ckpt/internal/vfs"
)

// A contender is a job that runs for the whole measurement and takes a checkpoint when it
// is asked to.
type contender struct {
	app    string
	dir    string // of the job in the store
	g      *ui.Globals
	ask    chan struct{}
	ready  chan struct{} // all ranks stand still for a checkpoint
	write  chan struct{} // it may be written
	events chan contenderEvent
	over   chan error // its end, which should not come before stop
	cancel context.CancelFunc
	// stopped reports whether the measurement is over, or was interrupted.
	stopped func() bool
}

// A contenderEvent is a commit, or a reason why there was none.
type contenderEvent struct {
	at     time.Time
	stored int64
	reason string
}

// contenderIterations is more than a measurement takes.
const contenderIterations = 1 << 30

// contenderSpec describes a job that writes all of its memory, as it is, at each request.
func contenderSpec(inst *dataset.Instance) job.Spec {
	s := job.NewSpec(inst)
	s.Codec, s.Incremental, s.Trace, s.Keep = "none", false, false, 1
	s.Iterations, s.Schedule.Every = contenderIterations, contenderIterations/2
	s.StorageTurns = job.UseTurns
	return s
}

// contend starts a job.
func contend(ctx context.Context, g *ui.Globals, inst *dataset.Instance, fsys wholeFS, store, name string) *contender {
	ctx, cancel := context.WithCancel(ctx)
	c := &contender{app: inst.String(), dir: filepath.Join(store, "jobs", name), g: g, ask: make(chan struct{}, 1),
		ready: make(chan struct{}, 1), write: make(chan struct{}, 1), events: make(chan contenderEvent, 16), over: make(chan error, 1), cancel: cancel, stopped: func() bool { return ctx.Err() != nil }}
	go func() {
		_, err := coordinator.Launch(ctx, contenderSpec(inst),
			coordinator.Options{Store: store, Job: name, Observer: c, Log: g.Log(), StopOnFull: true, FS: &gate{fsys, c, ctx}, Checkpoints: c.ask})
		c.over <- err
	}()
	return c
}

// Warn implements coordinator.Observer. A job that was stopped has nothing to say.
func (c *contender) Warn(text string) {
	if c.stopped() {
		return
	}
	c.g.Warn("%s: %s", c.app, ui.OneLine(text))
}

// Event implements coordinator.Observer.
func (c *contender) Event(ev any) {
	e := contenderEvent{at: time.Now()}
	switch ev := ev.(type) {
	case *job.CheckpointEvent:
		e.stored = ev.StoredBytes
	case *coordinator.AbortedEvent:
		e.reason = ev.Reason
	case *coordinator.FailureEvent:
		e.reason = fmt.Sprintf("rank %d failed", ev.Rank)
	default:
		return
	}
	select {
	case c.events <- e:
	default: // nobody asked for so many
	}
}

// A wholeFS has all abilities of a file system.
type wholeFS interface {
	vfs.FS
	vfs.DirectCreator
	vfs.DirectWriter
	vfs.DirectOpener
}

// A gate is the file system of a coordinator that waits before it makes the directory of a
// checkpoint. Then all ranks stand still and have written nothing: jobs that reach an
// iteration boundary at different times begin to write at the same time.
type gate struct {
	wholeFS
	c   *contender
	ctx context.Context
}

func (s *gate) Mkdir(name string) error {
	number, err := strconv.Atoi(filepath.Base(name))
	if err == nil && number > 0 && filepath.Dir(name) == s.c.dir {
		s.c.ready <- struct{}{}
		select {
		case <-s.c.write:
		case <-s.ctx.Done():
		}
	}
	return s.wholeFS.Mkdir(name)
}

// standStill asks for a checkpoint, and waits until the ranks stand still for it.
func (c *contender) standStill(ctx context.Context) error {
	c.ask <- struct{}{}
	_, err := c.await(ctx, c.ready)
	return err
}

// checkpoint has the job write its checkpoint, and waits for the commit.
func (c *contender) checkpoint(ctx context.Context) (contenderEvent, error) {
	c.write <- struct{}{}
	return c.await(ctx, nil)
}

// await waits for a commit, or until something is ready before.
func (c *contender) await(ctx context.Context, ready <-chan struct{}) (contenderEvent, error) {
	limit := time.NewTimer(contenderLimit)
	defer limit.Stop()
	select {
	case <-ready:
		return contenderEvent{}, nil
	case e := <-c.events:
		if e.reason != "" {
			return e, fmt.Errorf("%s took no checkpoint: %s", c.app, e.reason)
		}
		return e, nil
	case err := <-c.over:
		c.over <- err
		return contenderEvent{}, errors.Join(fmt.Errorf("%s ended before its checkpoint", c.app), err)
	case <-ctx.Done():
		return contenderEvent{}, ctx.Err()
	case <-limit.C:
		return contenderEvent{}, fmt.Errorf("%s took no checkpoint in %v", c.app, contenderLimit)
	}
}

// contenderLimit is longer than any checkpoint that is worth measuring.
const contenderLimit = 3 * time.Minute

// settle waits until the job has removed its older checkpoint, which it does after the
// commit of the next one. Until then it hears no request.
func (c *contender) settle(ctx context.Context) error {
	for begin := time.Now(); ; {
		list, err := filepath.Glob(filepath.Join(c.dir, "[0-9]*", "manifest"))
		if err != nil || len(list) <= 1 {
			return err
		}
		if time.Since(begin) > contenderLimit {
			return fmt.Errorf("%s did not remove its older checkpoints in %v", c.app, contenderLimit)
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// stop ends the job at once, and returns when its ranks are gone.
func (c *contender) stop() {
	c.cancel()
	<-c.over
}

// contenderBytes is the most that a job has in the store at a time: the checkpoint that it
// keeps, the one that it writes, one that is being removed, and its library.
func contenderBytes(inst *dataset.Instance) (int64, error) {
	s := contenderSpec(inst)
	one, err := checkpointBytes(inst, &s)
	if err != nil {
		return 0, err
	}
	return 3*one + 64<<20, nil
}
