package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/coordinator/levels"
	"ckpt/coordinator/protocol"
	"ckpt/image"
	"ckpt/image/container"
	"ckpt/internal/wording"
)

// trialRanks is for how many ranks the settings of a program are checked before it is
// started.
const trialRanks = 1024

// beginProgram starts the command of a program first: how many ranks it has and where they
// are is known when they come.
func beginProgram(ctx context.Context, spec job.Spec, opt Options) (_ *Result, err error) {
	if opt.input, err = launch.NewInput(opt.Streams.In); err != nil {
		return nil, fmt.Errorf("standard input: %w", err)
	}
	defer opt.input.Close()
	trial, err := spec.WithoutNodes().Located(job.Mapping{trialRanks}, spec.MPI, "", "").Resolve()
	if err != nil {
		return nil, err
	}
	store, err := openForProgram(trial, opt)
	if err != nil {
		return nil, err
	}
	g, err := startProgram(ctx, spec, 0, opt)
	if err != nil {
		return unprotected(spec, err)
	}
	resolved, err := g.locate(spec, opt)
	if err != nil {
		g.close()
		return nil, err
	}
	for _, note := range []string{resolved.FewerAggregators(), resolved.NoCheckpoints()} {
		if note != "" {
			opt.Observer.Warn(note)
		}
	}
	err = checkApart(store.Dir(), resolved)
	var text []byte
	if err == nil {
		text, err = resolved.Encode()
	}
	if err != nil {
		g.close()
		return nil, err
	}
	j, err := createJob(store, opt.Job, resolved.App, text, forsake)
	if err != nil {
		g.close()
		return nil, err
	}
	defer j.Unlock()
	return g.newDriver(resolved, j, store, opt, true).runNew(ctx, opt)
}

// resumeProgram starts the command of a stored job again, which its program continues
// from a checkpoint.
func resumeProgram(ctx context.Context, was *job.Resolved, j *image.Job, store *image.Store, opt RestartOptions) (*Result, error) {
	from, err := opt.choose(j, was)
	if err != nil {
		return nil, err
	}
	if opt.inventory.Has(from.Number) && (opt.NP > 0 || len(opt.Command) > 0) {
		// Other ranks may come, which read it in the store.
		if err := opt.inventory.StoreFirst(ctx, from, withoutLibrary); err != nil {
			return nil, err
		}
	}
	again, np, err := opt.again(was, from)
	if err != nil {
		return nil, err
	}
	if np > 0 {
		if err := job.CheckDealable(j, from, np); err != nil {
			return nil, err
		}
	}
	opt.Nodes = opt.Mapping
	if opt.input, err = opt.inputAgain(j); err != nil {
		return nil, err
	}
	defer opt.input.Close()
	g, err := startProgram(ctx, again, np, opt.Options)
	if err == nil {
		if err = job.CheckDealable(j, from, len(g.come)); err != nil {
			g.close()
			return nil, err
		}
	}
	if err != nil {
		r, err := unprotected(again, err)
		if r != nil {
			r.Job, r.Last = j.Name(), from.Number
		}
		return r, err
	}
	located, err := g.locate(again, opt.Options)
	if err != nil {
		g.close()
		return nil, err
	}
	if now := located.Program; was.Program.Digest != now.Digest && was.Program.Digest != "" {
		opt.Observer.Warn(fmt.Sprintf("%s is not the file that the job was launched with: its checkpoints may not fit", now.Executable))
	}
	located.App, located.MPI = was.App, was.MPI
	return g.newDriver(located, j, store, opt.Options, false).drive(ctx, from, opt.Failures, opt.Interrupts)
}

// again describes the run that continues a job, and returns how many ranks are to come, 0
// for as many as its command starts. By default as many as the checkpoint has.
func (o *RestartOptions) again(was *job.Resolved, from *image.Manifest) (job.Spec, int, error) {
	spec := was.Spec
	spec.AutoRestart = spec.AutoRestart || o.AutoRestart
	program := *spec.Program
	spec.Program = &program
	program.Dir = cmp.Or(o.Dir, program.Dir)
	if len(o.Command) > 0 {
		program.Command = o.Command
		return spec, o.NP, nil
	}
	np := cmp.Or(o.NP, from.NP)
	if np == was.NP {
		return spec, np, nil
	}
	command, ok := launch.WithRanks(program.Command, was.NP, np)
	if !ok {
		return spec, 0, &job.UsageError{Text: wording.Sprintf("{np} %d: the command of the job does not say in one place that it starts %s: %s",
			np, plainRanks(was.NP), strings.Join(program.Command, " ")),
			Fix: wording.Sprintf("give the command that starts %s: {restart %s} {np} %d -- mpiexec -n %d ./program; {np} %d starts that of the job", plainRanks(np), o.Job, np, np, was.NP)}
	}
	program.Command = command
	return spec, np, nil
}

// openForProgram opens the store, and refuses a name of a job that cannot be given,
// before the program is started.
func openForProgram(trial *job.Resolved, opt Options) (*image.Store, error) {
	dir, err := filepath.Abs(opt.Store)
	if err == nil {
		err = checkApart(dir, trial)
	}
	if err != nil {
		return nil, err
	}
	store, err := image.CreateStore(opt.fileSystem(), dir)
	if err != nil || opt.Job == "" {
		return store, err
	}
	if err := image.CheckJobName(opt.Job); err != nil {
		return nil, &job.UsageError{Text: err.Error()}
	}
	if err := store.CheckFree(opt.Job); err != nil {
		return store, err
	}
	if j, err := store.Job(opt.Job); err == nil {
		return store, job.CheckNodes(j)
	}
	return store, nil
}

// startProgram starts the command of a program and waits for its ranks. If one is lost
// meanwhile, that is a failure like any other: with AutoRestart the command is run again.
func startProgram(ctx context.Context, spec job.Spec, want int, opt Options) (*gathering, error) {
	pause := firstPause
	for try := 1; ; try++ {
		g, err := tryProgram(ctx, spec, want, opt)
		if !spec.AutoRestart || !lostEarly(err) || try > opt.limits().Restarts {
			return g, err
		}
		opt.Observer.Warn(fmt.Sprintf("%v; the command is run again", err))
		select {
		case <-time.After(pause):
			pause = min(2*pause, lastPause)
		case <-opt.Interrupts:
			return g, errStopped
		case <-ctx.Done():
			return g, ctx.Err()
		}
	}
}

// The pauses before a command is run again whose ranks did not all come.
const (
	firstPause = 80 * time.Millisecond
	lastPause  = 5 * time.Second
)

// lostEarly reports whether ranks, or the command, died before all ranks had come. Of a
// command that failed before any rank came, nothing says that the next one does better.
func lostEarly(err error) bool {
	var early *EarlyError
	if errors.As(err, &early) {
		return early.Came > 0 || early.Status == 128+int(syscall.SIGKILL)
	}
	var gather *GatherError
	return errors.As(err, &gather) && gather.lost
}

// tryProgram does so once. The gathering may be nil, and is over if there is an
// error.
func tryProgram(ctx context.Context, spec job.Spec, want int, opt Options) (*gathering, error) {
	p, err := launch.NewProgram(*spec.Program, opt.input, opt.Streams)
	if err != nil {
		return nil, err
	}
	if lacks := launch.NotPassed(spec.Program.Command); opt.Listen != "" && lacks != "" {
		opt.Observer.Warn("the command has an option -x: if it is Open MPI's, no other variables reach other hosts; add " + lacks)
	}
	g, err := newGathering(p, want, opt.limits().Silence, opt.Listen, opt.Observer)
	if err != nil {
		return nil, err
	}
	if err := g.gather(ctx, opt.Interrupts); err != nil {
		g.close()
		return g, err
	}
	return g, nil
}

// unprotected ends a run that was over, or interrupted, before the program was protected.
func unprotected(spec job.Spec, err error) (*Result, error) {
	if !errors.Is(err, errStopped) {
		return nil, err
	}
	return &Result{Type: "result", App: spec.App, NP: spec.NP, Mode: spec.Mode, Restarts: []int{}, WorkLost: []int{}, Recovery: []float64{},
		Outcome: job.StateStopped, Interrupted: true}, nil
}

// locate completes the description of a program with what its ranks have told.
func (g *gathering) locate(spec job.Spec, opt Options) (*job.Resolved, error) {
	nodes := g.mapping()
	if opt.Nodes != nil {
		var err error
		if nodes, err = opt.Nodes(len(g.come)); err != nil {
			return nil, err
		}
	}
	first := g.come[0].greeting.Process
	located := spec.Located(nodes, g.implementation(), first.Program, first.Digest)
	if opt.inventory != nil {
		located = levels.Fit(located, opt.Observer.Warn)
	}
	return checkRun(located, opt)
}

// withoutLibrary stands for the library zone, which a program lacks.
func withoutLibrary(int) (*container.File, error) { return nil, nil }

// implementation names the MPI library, as far as the variables of its launcher tell.
func (g *gathering) implementation() string {
	for _, s := range g.come[0].greeting.Process.Sizes {
		if s.Variable == "OMPI_COMM_WORLD_SIZE" {
			return "openmpi"
		}
	}
	return "mpich"
}

// newDriver returns the driver of the job whose ranks have come.
func (g *gathering) newDriver(spec *job.Resolved, j *image.Job, store *image.Store, opt Options, fresh bool) *driver {
	d := opt.newDriver(spec, j, store, libraryID{})
	d.socket = g.socket
	d.run(&programEngine{processes: processes{g.program, d}, gathering: g, input: opt.input, fresh: fresh, first: -1, killed: -1}, opt.alive)
	return d
}

// limits are the limits of the run.
func (o Options) limits() protocol.Limits {
	if o.Limits == (protocol.Limits{}) {
		return protocol.DefaultLimits
	}
	return o.Limits
}

// newDriver returns the driver of a run with these options.
func (o Options) newDriver(spec *job.Resolved, j *image.Job, store *image.Store, library libraryID) *driver {
	d := newDriver(spec, j, store.Dir(), library, o.limits(), o.Observer)
	d.listen = o.Listen
	d.until = o.Until
	d.watch, d.stopOnFull, d.withoutLog, d.demands = o.watch, o.StopOnFull, o.withoutLog, o.Checkpoints
	d.ways, d.inventory = o.ways, o.inventory
	d.startTurns = o.StartTurns
	if o.excused != nil {
		d.excused = o.excused
	}
	if o.Log != nil {
		d.log = o.Log
	}
	return d
}
