package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ckpt/coordinator"
	"ckpt/coordinator/protocol"
	"ckpt/dataset"
)

// placement are the flags that place ranks on nodes.
type placement struct {
	nodes   int
	mapping string
}

func (p *placement) addFlags(f *pflag.FlagSet) {
	f.IntVar(&p.nodes, "nodes", 0, "spread the ranks over this many nodes")
	f.StringVar(&p.mapping, "map", "", "ranks of each node, like 8,8,4")
}

func (p *placement) given() bool { return p.nodes != 0 || p.mapping != "" }

func (p *placement) resolve(np int) (coordinator.Mapping, error) {
	switch {
	case p.nodes != 0 && p.mapping != "":
		return nil, &coordinator.UsageError{Text: "--nodes and --map exclude each other", Fix: "give one of them"}
	case p.mapping != "":
		return coordinator.ParseMapping(p.mapping, np)
	case p.nodes != 0:
		return coordinator.EvenMapping(np, p.nodes)
	}
	return coordinator.Mapping{np}, nil
}

// running are the flags of every command that runs a job.
type running struct {
	fail        []string
	autoRestart bool
	silence     string
}

func (r *running) addFlags(f *pflag.FlagSet) {
	f.StringArrayVar(&r.fail, "fail", nil, "inject a failure: rank=R@iter=I, node=K@iter=I, rank=R@t=DUR, mtbf=DUR[,seed=S]")
	f.BoolVar(&r.autoRestart, "auto-restart", false, "restart from the last checkpoint when a rank dies")
	f.StringVar(&r.silence, "silence", "10s", "declare a rank dead that gives no sign of life for so long")
}

func (r *running) options(g *globals) (coordinator.Options, error) {
	if err := g.checkStore(); err != nil {
		return coordinator.Options{}, err
	}
	g.narrator = &narrator{g: g}
	opt := coordinator.Options{Store: g.store, Limits: protocol.DefaultLimits, Observer: g.narrator, Log: g.log()}
	for _, s := range r.fail {
		f, err := coordinator.ParseFailure(s)
		if err != nil {
			return opt, err
		}
		opt.Failures = append(opt.Failures, f)
	}
	silence, err := coordinator.ParseDuration(r.silence)
	if err != nil || silence < 100*time.Millisecond {
		return opt, &coordinator.UsageError{Text: fmt.Sprintf("--silence %s: not a duration of at least 100ms", r.silence)}
	}
	opt.Limits.Silence = silence
	return opt, nil
}

type launchOptions struct {
	placement
	running
	np, iterations       int
	mpi, mode, job       string
	launcher             string
	every, count         int
	interval, overhead   string
	sharedOnce, libsOnce bool
}

func newLaunchCommand(g *globals) *cobra.Command {
	var o launchOptions
	cmd := &cobra.Command{
		Use:   "launch APP",
		Short: "Run a job under checkpoints",
		Long: `Run a parallel job to its end, taking coordinated checkpoints on the way.

APP is NAME.CLASS.NP (bt.B.4), NAME.CLASS with --np, or a workload file. Built in are ` + strings.Join(dataset.Names(), ", ") + `.
Every rank is a process of its own; nodes are groups of ranks that share memory.
Without --every, --count, --interval or --overhead, checkpoints are taken only
when ckpt checkpoint asks for them.

^C stops the job after a last checkpoint, a second ^C at once; ckpt restart
continues it.`,
		Example: `  ckpt launch bt.S.4 --nodes 2 --every 5 --fail rank=2@iter=12 --auto-restart
  ckpt launch cg.B --np 16 --map 8,8 --overhead 10% --job night
  ckpt launch bt.B.4 --iterations 2 --count 1 --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := positive(cmd, "np", "iterations", "nodes", "every", "count"); err != nil {
				return err
			}
			return runLaunch(cmd.Context(), g, &o, args[0])
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.np, "np", 0, "number of ranks, if APP does not say")
	o.placement.addFlags(f)
	f.StringVar(&o.mpi, "mpi", "mpich", "layout of the shared segment: mpich or openmpi")
	f.IntVar(&o.iterations, "iterations", 0, "number of iterations (default: the class's)")
	f.StringVar(&o.mode, "mode", "coordinated", "how ranks checkpoint: coordinated")
	f.IntVar(&o.every, "every", 0, "checkpoint every so many iterations")
	f.IntVar(&o.count, "count", 0, "take so many checkpoints, evenly spread over the iterations")
	f.StringVar(&o.interval, "interval", "", "checkpoint so long after the previous one")
	f.StringVar(&o.overhead, "overhead", "", "checkpoint as often as this share of the computing time allows, like 10%")
	g.addStoreFlag(cmd)
	f.StringVar(&o.job, "job", "", "name of the job (default: APP-1, APP-2, …)")
	f.StringVar(&o.launcher, "launcher", "local", "what starts the ranks: local, mpiexec or srun, on this machine")
	f.BoolVar(&o.sharedOnce, "shared-once", true, "store the shared segment once per node, not once per rank")
	f.BoolVar(&o.libsOnce, "library-once", true, "store the library zone once per job, not once per rank and checkpoint")
	o.running.addFlags(f)
	return cmd
}

// positive refuses whole numbers below 1 that were given.
func positive(cmd *cobra.Command, flags ...string) error {
	for _, name := range flags {
		f := cmd.Flags().Lookup(name)
		if n, err := strconv.Atoi(f.Value.String()); f.Changed && (err != nil || n < 1) {
			return &coordinator.UsageError{Text: fmt.Sprintf("--%s %s: not a positive number", name, f.Value)}
		}
	}
	return nil
}

// spec describes the job that the flags ask for.
func (o *launchOptions) spec(name string) (coordinator.Spec, error) {
	inst, err := dataset.ParseApp(name, o.np)
	if err != nil {
		return coordinator.Spec{}, err
	}
	s := coordinator.NewSpec(inst)
	if s.Mapping, err = o.resolve(inst.NP); err != nil {
		return s, err
	}
	s.MPI, s.Mode, s.AutoRestart = o.mpi, o.mode, o.autoRestart
	s.Launcher = o.launcher
	s.SharedOnce, s.LibraryOnce = o.sharedOnce, o.libsOnce
	if o.iterations != 0 {
		s.Iterations = o.iterations
	}
	s.Schedule, err = o.schedule()
	return s, err
}

func (o *launchOptions) schedule() (coordinator.Schedule, error) {
	var s coordinator.Schedule
	var err error
	given := 0
	bad := func(flag, value, want string) error {
		return &coordinator.UsageError{Text: fmt.Sprintf("%s %s: %s", flag, value, want)}
	}
	if s.Every = o.every; o.every != 0 {
		given++
	}
	if s.Count = o.count; o.count != 0 {
		given++
	}
	if o.interval != "" {
		given++
		if s.Interval, err = coordinator.ParseDuration(o.interval); err != nil || s.Interval <= 0 {
			return s, bad("--interval", o.interval, "not a positive duration, like 90s or 10m")
		}
	}
	if o.overhead != "" {
		given++
		percent, err := strconv.ParseFloat(strings.TrimSuffix(o.overhead, "%"), 64)
		if s.Overhead = percent / 100; err != nil || !(percent > 0 && percent <= 1000) {
			return s, bad("--overhead", o.overhead, "not a percentage over 0, like 10%")
		}
	}
	if given > 1 {
		return s, &coordinator.UsageError{Text: "--every, --count, --interval and --overhead exclude each other", Fix: "give one of them"}
	}
	return s, nil
}

func runLaunch(ctx context.Context, g *globals, o *launchOptions, app string) error {
	spec, err := o.spec(app)
	if err != nil {
		return err
	}
	opt, err := o.options(g)
	if err != nil {
		return err
	}
	opt.Job = o.job
	return g.runJob(ctx, func(ctx context.Context, interrupts <-chan struct{}) (*coordinator.Result, error) {
		opt.Interrupts = interrupts
		return coordinator.Launch(ctx, spec, opt)
	})
}

type restartOptions struct {
	placement
	running
	checkpoint int
}

func newRestartCommand(g *globals) *cobra.Command {
	var o restartOptions
	cmd := &cobra.Command{
		Use:   "restart JOB[@N]",
		Short: "Continue a job from a checkpoint",
		Long: `Continue a stopped, killed or finished job from a checkpoint, by default the
newest, also under another mapping of ranks to nodes. Every byte that is read is
verified before any rank goes on.`,
		Example: `  ckpt restart bt.S.4-1
  ckpt restart bt.S.4-1@2 --map 1,3`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := positive(cmd, "checkpoint", "nodes"); err != nil {
				return err
			}
			return runRestart(cmd.Context(), g, &o, args[0])
		},
	}
	o.placement.addFlags(cmd.Flags())
	cmd.Flags().IntVar(&o.checkpoint, "checkpoint", 0, "number of the checkpoint (default: the newest)")
	g.addStoreFlag(cmd)
	o.running.addFlags(cmd.Flags())
	return cmd
}

func runRestart(ctx context.Context, g *globals, o *restartOptions, job string) error {
	job, number, err := splitTarget(job)
	if err != nil {
		return err
	}
	if number != 0 && o.checkpoint != 0 && number != o.checkpoint {
		return &coordinator.UsageError{Text: fmt.Sprintf("@%d and --checkpoint %d contradict each other", number, o.checkpoint)}
	}
	if o.checkpoint == 0 {
		o.checkpoint = number
	}
	opt, err := o.options(g)
	if err != nil {
		return err
	}
	opt.Job = job
	r := coordinator.RestartOptions{Options: opt, Checkpoint: o.checkpoint, AutoRestart: o.autoRestart}
	if o.given() {
		r.Mapping = o.resolve
	}
	return g.runJob(ctx, func(ctx context.Context, interrupts <-chan struct{}) (*coordinator.Result, error) {
		r.Interrupts = interrupts
		return coordinator.Restart(ctx, r)
	})
}

// runJob runs a job, passes ^C on to it, and prints its result.
func (g *globals) runJob(ctx context.Context, run func(context.Context, <-chan struct{}) (*coordinator.Result, error)) error {
	signals := make(chan os.Signal, 2)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) { // nohup means it
			signal.Notify(signals, s)
		}
	}
	defer signal.Stop(signals)
	interrupts := make(chan struct{}, 2)
	over := make(chan struct{})
	var relay sync.WaitGroup
	relay.Go(func() {
		for {
			select {
			case <-signals:
				select {
				case interrupts <- struct{}{}:
				default: // it has heard us twice
				}
			case <-over:
				return
			}
		}
	})
	// A reader that goes away, as in ckpt launch … | head, must not end the job.
	signal.Ignore(syscall.SIGPIPE)
	result, err := run(ctx, interrupts)
	close(over)
	relay.Wait()
	g.narrator.bar.clear()
	if result != nil && (err == nil || g.json) {
		if perr := g.printResult(result); perr != nil {
			return errors.Join(err, perr)
		}
	}
	if err == nil && result.Interrupted && result.Outcome != coordinator.StateCompleted {
		hint := "ckpt restart " + result.Job + " continues the job"
		if !result.HasCheckpoint() {
			hint = "job " + result.Job + " has no checkpoint; launch it again"
		}
		return hinted{errInterrupted, hint}
	}
	return err
}

func (g *globals) printResult(r *coordinator.Result) error {
	if g.json {
		return json.NewEncoder(g.out).Encode(r)
	}
	took := time.Duration(r.Wall * float64(time.Second)).Round(time.Millisecond)
	if r.Outcome != coordinator.StateCompleted {
		return g.printf("%s: %s after %v, %s\n", r.Job, r.Outcome, took, checkpoints(r))
	}
	return g.printf("%s: completed %s in %v, %s, %s\ndigest %s\n", r.Job, count(r.Iterations, "iteration"), took,
		checkpoints(r), count(r.Failures, "failure"), r.Digest)
}

// checkpoints counts those of a run.
func checkpoints(r *coordinator.Result) string {
	s := count(r.Checkpoints, "checkpoint")
	if r.Lost > 0 {
		s += fmt.Sprintf(" (%d more given up)", r.Lost)
	}
	return s
}

// narrator tells the story of a job, as lines or as JSON lines, with a bar
// below them on a terminal.
type narrator struct {
	g   *globals
	mu  sync.Mutex
	bar *bar
}

func (n *narrator) Warn(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.bar.clear()
	n.g.warn("%s", oneLine(text))
}

func (n *narrator) Event(ev any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p, ok := ev.(*coordinator.ProgressEvent); ok {
		if n.bar == nil {
			n.bar = n.g.newBar("iteration", int64(p.Iterations), false)
		}
		n.bar.set(int64(p.Iteration))
		return
	}
	n.bar.clear()
	if n.g.json {
		_ = json.NewEncoder(n.g.out).Encode(ev) // a closed pipe must not end the job
		return
	}
	if n.g.quiet {
		return
	}
	_ = n.g.printf("%s\n", describe(ev))
	if cp, ok := ev.(*coordinator.CheckpointEvent); ok && n.g.verbose {
		l := cp.Latency
		_ = n.g.printf("  %s coordination + %s management + %s storage; the application stood still for %s\n",
			seconds(l.Coordination), seconds(l.Management), seconds(l.Storage), seconds(cp.Pause))
	}
}

// describe says in a line what happened.
func describe(ev any) string {
	switch ev := ev.(type) {
	case *coordinator.StartEvent:
		at := "from the beginning"
		if ev.From > 0 {
			at = fmt.Sprintf("from checkpoint %d (iteration %d)", ev.From, ev.Iteration)
		}
		return fmt.Sprintf("%s: %s on %s (%s) compute %s", ev.Job, count(ev.NP, "rank"), count(len(ev.Mapping), "node"), ev.Mapping, at)
	case *coordinator.CheckpointEvent:
		return fmt.Sprintf("checkpoint %d at iteration %d: %s MiB stored in %s", ev.Number, ev.Iteration,
			mib(ev.StoredBytes), seconds(ev.Latency.Total))
	case *coordinator.LostEvent:
		if ev.Rank < 0 {
			return fmt.Sprintf("checkpoint %d was given up: %s", ev.Number, ev.Reason)
		}
		return fmt.Sprintf("checkpoint %d was given up: rank %d: %s", ev.Number, ev.Rank, ev.Reason)
	case *coordinator.FailureEvent:
		if ev.Rank < 0 {
			return "the ranks " + ev.Reason
		}
		return fmt.Sprintf("rank %d on node %d %s at iteration %d", ev.Rank, ev.Node, ev.Reason, ev.Iteration)
	case *coordinator.RestartEvent:
		line := fmt.Sprintf("restarting %s from checkpoint %d (iteration %d)", count(ev.Ranks, "rank"), ev.From, ev.Iteration)
		if ev.From == 0 {
			line = fmt.Sprintf("restarting %s from the beginning", count(ev.Ranks, "rank"))
		}
		if ev.Unusable != "" {
			line = ev.Unusable + "; " + line
		}
		return line
	}
	return fmt.Sprintf("%T", ev)
}

func newRankCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "rank",
		Short:  "Run one rank of a job; started by ckpt launch",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return coordinator.RunRank(cmd.Context(), os.Getenv)
		},
	}
}
