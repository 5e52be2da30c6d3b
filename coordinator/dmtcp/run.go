package dmtcp

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"ckpt/coordinator"
	"ckpt/coordinator/job"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/wire"
	"ckpt/image"
	"ckpt/image/dmtcp"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
	"ckpt/internal/wording"
	"ckpt/zones"
)

// Launch runs a program of the user under DMTCP, as a new job.
func Launch(ctx context.Context, spec job.Spec, opt Options) (*coordinator.Result, error) {
	if err := check(&spec); err != nil {
		return nil, err
	}
	t, err := findTools(ctx)
	if err != nil {
		return nil, err
	}
	spec.Origin, spec.NP, spec.Mapping = dmtcp.Origin, 1, job.Mapping{1} // until the ranks are known
	if name := programIn(spec.Program.Command); image.CheckJobName(name) == nil {
		spec.App = name
	}
	text, err := spec.Encode()
	if err != nil {
		return nil, err
	}
	store, err := openStore(opt.Store, opt.FS, image.CreateStore)
	if err != nil {
		return nil, err
	}
	j, err := coordinator.CreateJob(store, opt.Job, spec.App, text, forsake)
	if err != nil {
		return nil, err
	}
	defer j.Unlock()
	return run(ctx, j, spec, t, opt, func(*engine) (int, error) { return 0, nil })
}

// Restart continues a job from a checkpoint, 0 for the newest.
func Restart(ctx context.Context, opt Options, checkpoint int, autoRestart bool) (*coordinator.Result, error) {
	t, err := findTools(ctx)
	if err != nil {
		return nil, err
	}
	store, err := openStore(opt.Store, opt.FS, image.OpenStore)
	if err != nil {
		return nil, err
	}
	j, spec, err := job.Take(store, opt.Job)
	if err != nil {
		return nil, err
	}
	defer j.Unlock()
	if err := spec.CheckRunnable(j); err != nil {
		return nil, err
	}
	again := spec.Spec
	again.AutoRestart = again.AutoRestart || autoRestart
	return run(ctx, j, again, t, opt, func(e *engine) (int, error) { return e.choose(checkpoint) })
}

// Runs reports whether a job is one that this package runs.
func Runs(j *image.Job) bool {
	spec, err := job.ReadSpec(j)
	return err == nil && spec.Program != nil && spec.Origin == dmtcp.Origin
}

func openStore(dir string, fsys vfs.FS, open func(vfs.FS, string) (*image.Store, error)) (*image.Store, error) {
	if fsys == nil {
		fsys = vfs.OS{}
	}
	dir, err := filepath.Abs(dir) // DMTCP runs in other directories
	if err != nil {
		return nil, err
	}
	return open(fsys, dir)
}

// check refuses what DMTCP cannot do.
func check(s *job.Spec) error {
	switch p := s.Schedule; {
	case s.Program == nil || len(s.Program.Command) == 0:
		return &job.UsageError{Text: "engine dmtcp: no command is given", Fix: "give the command that starts the program, like mpiexec -n 8 ./app"}
	case p.Every > 0 || p.Count > 0:
		return &job.UsageError{Text: "engine dmtcp: the iterations of a program that is not changed are not known", Fix: wording.Sprintf("give {every}, {interval} a duration like 30m, or give {overhead} a share")}
	case p.Interval < 0 || s.Keep < 0:
		return &job.UsageError{Text: fmt.Sprintf("interval %v, keep %d: out of range", p.Interval, s.Keep)}
	}
	return nil
}

// forsake ends what an earlier job without a checkpoint has left. Images that only wait to
// be stored are worth as much as a checkpoint.
func forsake(j *image.Job) error {
	s, err := readState(j)
	if errors.Is(err, durable.ErrOtherJob) {
		return err
	}
	if s.Pending != nil {
		return &job.UsageError{Text: fmt.Sprintf("job %s has a checkpoint of DMTCP that is not stored yet", j.Name()), Fix: wording.Sprintf("{restart %s} stores it and continues; or choose another {job}", j.Name())}
	}
	held, err := s.hold()
	if err != nil {
		return err
	}
	if held != nil {
		defer held.Close()
	}
	endLeft(&s)
	d := &directory{filepath.Join(j.Dir(), engineName)}
	return errors.Join(d.discard("."), job.Forsake(j))
}

// run runs a job that this process has locked.
func run(ctx context.Context, j *image.Job, spec job.Spec, t *tools, opt Options, choose func(*engine) (int, error)) (*coordinator.Result, error) {
	opt.fill()
	e := &engine{opt: opt, job: j, spec: spec, tools: t, rules: zones.DefaultRules(), out: opt.Observer, calls: make(chan func(), 64),
		over: make(chan struct{}), tried: make(map[int]int), since: time.Now(), phase: starting, planned: schedule{Schedule: spec.Schedule}}
	e.result = coordinator.Result{Type: "result", Job: j.Name(), App: spec.App, NP: spec.NP, Mode: spec.Mode,
		Restarts: []int{}, WorkLost: []int{}, Recovery: []float64{}}
	var err error
	if e.dir, err = openDirectory(j); err != nil {
		return nil, err
	}
	ours, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	e.ctx = ours
	e.journal = job.OpenJournal(j)
	defer e.journal.Close()
	defer e.freeSession()
	if err := e.takeOver(); err != nil {
		return nil, err
	}
	from, err := choose(e)
	if err != nil {
		return nil, err
	}
	server, err := coordinator.ServeCommands(j, func(c wire.Command, answers chan<- wire.Reply) { e.post(func() { e.obey(c, answers) }) },
		func(err error) { e.out.Warn(err.Error()) })
	if err != nil {
		return nil, err
	}
	defer server.Close()
	e.scratch = server.Scratch
	if _, err := e.openSession(); err != nil {
		return nil, err
	}
	if !opt.Until.IsZero() {
		e.wall = protocol.NewWalltime(max(time.Millisecond, opt.Until.Sub(e.since)), e.planned.former)
	}
	e.out.Warn(openPort)
	e.begin(from)
	e.loop(ctx)
	return e.settle(cancel)
}

// openPort is what a user has to know who shares the machine.
const openPort = "the coordinator of DMTCP listens on all interfaces, without a password: whoever reaches it can end the program; use it on machines and networks that you trust"

// takeOver ends what an earlier run has left behind, and stores what it had not stored yet.
func (e *engine) takeOver() (err error) {
	if e.state, err = readState(e.job); err != nil {
		return err
	}
	if err := e.holdSession(); err != nil {
		return err
	}
	endLeft(&e.state)
	e.state.Boot, _ = wire.ThisHost()
	e.state.ID = e.spec.ID
	if e.line, err = e.job.Checkpoints(); err != nil {
		return err
	}
	if n := len(e.line); n > 0 {
		e.newest = e.line[n-1]
	}
	if _, err := e.job.Sweep(); err != nil {
		return err
	}
	e.storePending()
	e.keepSpare()
	return nil
}

// choose chooses the checkpoint to begin with, 0 for the newest.
func (e *engine) choose(checkpoint int) (from int, err error) {
	spec, err := job.ReadSpec(e.job)
	if err != nil {
		return 0, err
	}
	m, err := job.ChooseCheckpoint(e.job, spec, checkpoint)
	if err != nil {
		return 0, err
	}
	e.line = slices.DeleteFunc(e.line, func(n int) bool { return n > m.Number })
	e.result.Last, e.planned.former = m.Number, time.Duration(m.Pause*float64(time.Second))
	return m.Number, nil
}

// storePending stores the set that an earlier run could not.
func (e *engine) storePending() {
	set := e.state.Pending
	if set == nil {
		return
	}
	files, err := e.collect(set)
	if err == nil {
		err = e.describe(files)
	}
	if err != nil {
		e.out.Warn("the images that an earlier run has left are no checkpoint: " + err.Error())
		e.state.Pending = nil
		return
	}
	began := time.Now()
	m, err := e.importSet(*set, files, began)
	if err != nil {
		e.out.Warn("the images that an earlier run has left are not stored: " + err.Error())
		return // they stay
	}
	e.stored(*set, m, began, nil, nil)
}

// settle waits for what is under way, cleans up, and makes the result.
func (e *engine) settle(cancel context.CancelFunc) (*coordinator.Result, error) {
	e.phase = stopping
	e.endIncarnation()
	if e.hurried || e.ending.err != nil {
		cancel() // nothing is worth waiting for
	}
	gone := make(chan struct{})
	go func() {
		e.helpers.Wait()
		close(gone)
	}()
	for waiting := true; waiting; {
		select {
		case f := <-e.calls:
			f()
		case <-gone:
			waiting = false
		}
	}
	for len(e.calls) > 0 {
		(<-e.calls)()
	}
	close(e.over)
	for _, r := range e.waiting {
		r.answer(refusal(errors.New("the job has ended")))
	}
	e.startPrunes()
	e.result.Wall = time.Since(e.since).Seconds()
	e.result.App, e.result.NP, e.result.Outcome = e.spec.App, e.spec.NP, e.ending.outcome
	e.tidy()
	if e.began {
		beginning := job.NewBeginning()
		beginning.Started = e.since.UTC().Truncate(time.Millisecond)
		job.RecordEnding(e.job, e.ending.outcome, "", e.ending.err, beginning, &e.result)
	}
	e.journal.Add(&e.result)
	return &e.result, e.ending.err
}

// tidy removes what no later run needs.
func (e *engine) tidy() {
	e.state.Spare = nil
	e.keepSpare()
	errs := []error{e.dir.discard(liveName)}
	if e.ending.outcome == job.StateCompleted {
		errs = append(errs, removeTree(e.state.Session))
	}
	if err := errors.Join(errs...); err != nil {
		e.out.Warn("files of DMTCP stay: " + err.Error())
	}
}
