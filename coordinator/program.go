package coordinator

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/coordinator/levels"
	"ckpt/coordinator/program"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/wire"
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
	if err := checkName(trial, opt); err != nil {
		return nil, err
	}
	g, err := startProgram(ctx, spec, 0, false, opt)
	if err != nil {
		return unprotected(spec, err)
	}
	resolved, err := opt.locate(g, spec)
	if err != nil {
		g.Close()
		return nil, err
	}
	for _, note := range []string{resolved.FewerAggregators(), resolved.NoCheckpoints()} {
		if note != "" {
			opt.Observer.Warn(note)
		}
	}
	j, err := opt.newJob(resolved.Spec, forsake)
	if err != nil {
		g.Close()
		return nil, err
	}
	defer j.Unlock()
	return opt.ofProgram(g, resolved, j, true).runNew(ctx, opt)
}

// resumeProgram starts the command of a stored job again, which its program continues
// from a checkpoint.
func resumeProgram(ctx context.Context, was *job.Resolved, j *image.Job, opt RestartOptions) (*Result, error) {
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
		err := job.CheckDealable(j, from, np)
		if bad, ok := errors.AsType[*job.DealError](err); ok && opt.NP > 0 {
			return nil, job.Clash(job.ClashArrays, bad.Text, bad.Fix)
		}
		if err != nil {
			return nil, err
		}
	}
	opt.Nodes = opt.Mapping
	if opt.input, err = opt.inputAgain(j); err != nil {
		return nil, err
	}
	defer opt.input.Close()
	g, err := startProgram(ctx, again, np, true, opt.Options)
	if err == nil {
		if err = job.CheckDealable(j, from, g.Count()); err != nil {
			g.Close()
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
	located, err := opt.locate(g, again)
	if err != nil {
		g.Close()
		return nil, err
	}
	if now := located.Program; was.Program.Digest != now.Digest && was.Program.Digest != "" {
		opt.Observer.Warn(fmt.Sprintf("%s is not the file that the job was launched with: its checkpoints may not fit", now.Executable))
	}
	located.App, located.MPI = was.App, was.MPI
	return opt.ofProgram(g, located, j, false).drive(ctx, from, opt.Failures, opt.Interrupts)
}

// again describes the run that continues a job, and returns how many ranks are to come, 0
// for as many as its command starts. By default as many as the checkpoint has.
func (o *RestartOptions) again(was *job.Resolved, from *image.Manifest) (job.Spec, int, error) {
	spec := was.Spec
	spec.AutoRestart = spec.AutoRestart || o.AutoRestart
	again := *spec.Program
	spec.Program = &again
	again.Dir = cmp.Or(o.Dir, again.Dir)
	if len(o.Command) > 0 {
		again.Command = o.Command
		return spec, o.NP, nil
	}
	np := cmp.Or(o.NP, from.NP)
	if np == was.NP {
		return spec, np, nil
	}
	command, ok := launch.WithRanks(again.Command, was.NP, np)
	if !ok {
		text := wording.Sprintf("{np} %d: %s", np, strings.Join(again.Command, " "))
		return spec, 0, job.Clash(job.ClashCommand, text, wording.Sprintf("give the command that starts %s: {restart %s} {np} %d -- mpiexec -n %d ./program; {np} %d starts that of the job", program.RanksText(np), o.Job, np, np, was.NP))
	}
	again.Command = command
	return spec, np, nil
}

// checkName refuses a store, and a name of a job that cannot be given, before the program is
// started.
func checkName(trial *job.Resolved, opt Options) error {
	store, err := opt.createStore(&trial.Spec)
	if err != nil || opt.Job == "" {
		return err
	}
	if err := image.CheckJobName(opt.Job); err != nil {
		return &job.UsageError{Text: err.Error()}
	}
	if err := store.CheckFree(opt.Job); err != nil {
		return err
	}
	if j, err := store.Job(opt.Job); err == nil {
		return job.CheckNodes(j)
	}
	return nil
}

// startProgram starts the command of a program and waits for its ranks, of which want are to
// come, 0 if that is not known.
func startProgram(ctx context.Context, spec job.Spec, want int, known bool, opt Options) (*program.Gathering, error) {
	l := opt.limits()
	return program.Start(ctx, &spec, program.Options{Want: want, Known: known, Input: opt.input, Streams: opt.Streams, Listen: opt.Listen,
		Silence: l.Silence, Restarts: l.Restarts, Interrupts: opt.Interrupts, Warn: opt.Observer.Warn})
}

// unprotected ends a run that was over, or interrupted, before the program was protected.
func unprotected(spec job.Spec, err error) (*Result, error) {
	if !errors.Is(err, program.ErrStopped) {
		return nil, err
	}
	return &Result{Type: "result", App: spec.App, NP: spec.NP, Mode: spec.Mode, Restarts: []int{}, WorkLost: []int{}, Recovery: []float64{},
		Outcome: job.StateStopped, Interrupted: true}, nil
}

// locate completes the description of a program with what its ranks have told.
func (o Options) locate(g *program.Gathering, spec job.Spec) (*job.Resolved, error) {
	nodes := g.Mapping()
	if o.Nodes != nil {
		var err error
		if nodes, err = o.Nodes(g.Count()); err != nil {
			return nil, err
		}
	}
	first := g.First()
	located := spec.Located(nodes, g.Implementation(), first.Program, first.Digest)
	if o.inventory != nil {
		located = levels.Fit(located, o.Observer.Warn)
	}
	if o.Predict != nil {
		var err error
		if located.Prediction, err = o.Predict(&located); err != nil {
			return nil, err
		}
	}
	return checkRun(located, o)
}

// withoutLibrary stands for the library zone, which a program lacks.
func withoutLibrary(int) (*container.File, error) { return nil, nil }

// ofProgram returns the driver of a job whose ranks have come. A fresh one keeps its input.
func (o Options) ofProgram(g *program.Gathering, spec *job.Resolved, j *image.Job, fresh bool) *driver {
	d := o.newDriver(spec, j, libraryID{})
	d.socket = g.Socket
	e := program.NewEngine(g, d, j, d.limits.Silence, o.input, fresh)
	d.run(&programEngine{Engine: e}, o.alive)
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
func (o Options) newDriver(spec *job.Resolved, j *image.Job, library libraryID) *driver {
	d := newDriver(spec, j, j.Store().Dir(), library, o.limits(), o.Observer)
	d.listen = o.Listen
	d.until = o.Until
	d.watch, d.stopOnFull, d.withoutLog, d.demands = o.watch, o.StopOnFull, o.withoutLog, o.Checkpoints
	d.halts, d.haltsAt = o.halts, o.haltsAt
	d.fallBack = o.fallBack
	d.ways, d.inventory, d.disk = o.ways, o.inventory, o.fileSystem()
	d.startTurns = o.StartTurns
	if o.excused != nil {
		d.excused = o.excused
	}
	if o.Log != nil {
		d.log = o.Log
	}
	return d
}

// inputAgain returns the standard input of a job that is restarted. Where it cannot be given
// again, a command of its own has the one of this run.
func (o *RestartOptions) inputAgain(j *image.Job) (*launch.Input, error) {
	kept, err := job.ReadInput(j)
	if err == nil && kept != nil {
		err = kept.Check(j)
	}
	switch {
	case err != nil && len(o.Command) == 0:
		return nil, err
	case err != nil || kept == nil:
		return launch.NewInput(o.Streams.In)
	}
	return launch.Again(kept)
}

// A programEngine runs a program of the user that calls ckpt.
type programEngine struct {
	*program.Engine
	reporting
}

// Ended is closed when the loop has ended.
func (l *loop) Ended() <-chan struct{} { return l.done }

// Stopping reports whether the job ends since it was asked to.
func (e *end) Stopping() bool {
	return e.outcome != nil && e.outcome.Result == protocol.StoppedByRequest
}

// Serve serves a connection that has shown its greeting.
func (d *driver) Serve(conn net.Conn, r *bufio.Reader, g wire.Greeting) { d.serveGreeted(conn, r, g) }

// Incarnation is the present one of a job of one group.
func (d *driver) Incarnation() int { return d.groups[0].incarnation }

// Members are the ranks of the present incarnation.
func (d *driver) Members() []program.Member {
	all := make([]program.Member, len(d.members))
	for rank, m := range d.members {
		if m != nil {
			all[rank] = program.Member{Here: true, Linked: m.link != nil, Closed: m.closed, Done: m.done, Gone: m.gone}
		}
	}
	return all
}

// Closed notes that the connection of a rank has ended.
func (d *driver) Closed(rank int) { d.members[rank].closed = true }

// Left is how long the run may still take, if it has a limit.
func (d *driver) Left() (left time.Duration, limited bool) {
	if d.wall == nil {
		return 0, false
	}
	return d.wall.Left(d.now()), true
}

// Exited takes the exit status of the command.
func (d *driver) Exited(status int) { d.result.ProgramStatus = &status }
