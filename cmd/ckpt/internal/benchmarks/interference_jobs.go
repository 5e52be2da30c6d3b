package benchmarks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/user"
	"path/filepath"
	"strconv"
	"time"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator"
	"ckpt/coordinator/job"
	"ckpt/coordinator/turns"
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

// A contenderEvent is a commit, or why it failed.
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
func contend(ctx context.Context, g *ui.Globals, inst *dataset.Instance, fsys vfs.FS, store, name string) *contender {
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
	default: // more than were asked for
	}
}

// A gate is the file system of a coordinator that waits before it makes the directory of a
// checkpoint. Then all ranks stand still and have written nothing: jobs that reach an
// iteration boundary at different times begin to write at the same time.
type gate struct {
	vfs.FS
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
	return s.FS.Mkdir(name)
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

// A reader reads a file again and again, as a program does that looks at results while jobs
// write theirs. Each time is a burst of its own.
type reader struct {
	fsys   vfs.FS
	name   string
	size   int64
	client *turns.Client
	buf    []byte
}

const (
	// readerPiece is what the reader's sizes are multiples of.
	readerPiece = 64 << 10
	// readerBuffer is what it reads at a time.
	readerBuffer = 1 << 20
	// readerPause is how long it thinks before it reads a file.
	readerPause = 200 * time.Millisecond
	// readerFiles is how many files it reads at least.
	readerFiles = 5
)

// newReader makes the file.
func newReader(fsys vfs.FS, dir, name string, size int64) (*reader, error) {
	r := &reader{fsys: fsys, name: name, size: size, buf: vfs.Aligned(readerBuffer)}
	who := turns.Who{App: "reader"}
	if u, err := user.Current(); err == nil {
		who.User = u.Username
	}
	f, err := vfs.OS{}.Create(name)
	if err != nil {
		return nil, err
	}
	for off := int64(0); off < size && err == nil; off += readerBuffer {
		_, err = f.WriteAt(r.buf[:min(readerBuffer, size-off)], off)
	}
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return nil, err
	}
	r.client = turns.NewClient(dir, who, turns.ClientOptions{})
	return r, nil
}

// read reads the file once, and returns how long that took, the wait for a turn included.
func (r *reader) read() (took time.Duration, err error) {
	begin := time.Now()
	turn := r.client.Begin(turns.Burst{Kind: turns.Command, File: r.name, Bytes: r.size})
	defer func() {
		turn.End()
		took = time.Since(begin)
	}()
	f, err := openAround(turn.FS(r.fsys), r.name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for off := int64(0); off < r.size; off += readerBuffer {
		if _, err := f.ReadAt(r.buf[:min(readerBuffer, r.size-off)], off); err != nil && err != io.EOF {
			return 0, err
		}
	}
	return 0, nil
}

// openAround opens a file around the page cache if that works, which tmpfs for one does not.
func openAround(fsys vfs.FS, name string) (vfs.File, error) {
	if f, err := fsys.OpenDirect(name); err == nil {
		return f, nil
	}
	return fsys.Open(name)
}

// A reading is what a reader did while something else was going on.
type reading struct {
	times []float64 // seconds of each file that it began meanwhile
	end   time.Time
	err   error
}

// during reads until busy is closed, and then until it has read readerFiles.
func (r *reader) during(ctx context.Context, busy <-chan struct{}) (found reading) {
	for n := 0; ; n++ {
		select {
		case <-time.After(readerPause):
		case <-ctx.Done():
			found.err = ctx.Err()
			return found
		}
		over := false
		select {
		case <-busy:
			over = true
		default:
		}
		if over && n >= readerFiles {
			return found
		}
		took, err := r.read()
		if err != nil {
			found.err = err
			return found
		}
		found.end = time.Now()
		if !over {
			found.times = append(found.times, took.Seconds())
		}
	}
}

func (r *reader) close() { r.client.Close() }
