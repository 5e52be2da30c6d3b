package jobs

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"ckpt/cmd/ckpt/internal/predictions"
	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator"
	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/coordinator/program"
	"ckpt/dataset"
	"ckpt/image/dmtcp"
	"ckpt/image/nodes"
)

// programOptions are the flags for programs of the user.
type programOptions struct {
	fromLauncher bool
	grace        string
}

func (o *programOptions) addFlags(f *pflag.FlagSet) {
	f.BoolVar(&o.fromLauncher, "nodes-from-launcher", true, "of a program: the nodes are the hosts of its ranks; --nodes and --map say otherwise")
	f.StringVar(&o.grace, "grace", "60s", "of a program: the time to end in after it was told to stop")
}

// programSpec describes the job that runs a command.
func (o *launchOptions) programSpec(g *ui.Globals, command []string) (job.Spec, error) {
	if err := job.CheckCombinations(o.lookup(o.ranksOf())); err != nil {
		return job.Spec{}, err
	}
	if len(command) == 0 {
		return job.Spec{}, ui.BadUsage("no command after --", "ckpt launch -- mpiexec -n 4 ./program")
	}
	dir, err := os.Getwd()
	if err != nil {
		return job.Spec{}, err
	}
	p := job.Program{Command: command, Dir: dir}
	if p.Grace, err = ui.ParseDuration("--grace", o.grace); err != nil {
		return job.Spec{}, err
	}
	if p.Grace < 100*time.Millisecond {
		return job.Spec{}, ui.BadUsage(fmt.Sprintf("--grace %s: want a duration of at least 100ms", o.grace), "")
	}
	p.Boundaries = o.iterations
	s := job.NewProgramSpec(p)
	s.Seed = o.seed
	if o.jitter != "" {
		if s.Jitter, err = ui.ParseShare("--jitter", o.jitter); err != nil {
			return s, err
		}
	}
	s.AutoRestart = o.autoRestart
	if err := o.common(&s); err != nil {
		return s, err
	}
	noticeFlags(g, o.flags, command)
	if s.Schedule == (job.Schedule{}) && o.interval != noInterval {
		s.Schedule.Interval = usualInterval
		g.Warn("no --every, --interval or --overhead: a checkpoint every %s; --interval none takes none", usualIntervalText)
	}
	return s, nil
}

// A program without a schedule takes a checkpoint so often: seldom enough to cost next to
// nothing, often enough that a failure loses little.
const (
	usualInterval     = 10 * time.Minute
	usualIntervalText = "10m"
)

// launcherFlags are flags of ckpt that commands which start programs have as well.
var launcherFlags = []string{"np", "nodes", "map", "mpi", "help", "verbose", "quiet"}

// simulatedOnly says that a program cannot have a flag.
func simulatedOnly(name string) bool {
	err := job.CheckCombinations(func(of string) (value string, given bool) {
		if of == "ranks" {
			return "program", true
		}
		return "", of == name
	})
	return err != nil
}

// noticeFlags tells of flags of ckpt that stand behind --, where the program gets them.
func noticeFlags(g *ui.Globals, f *pflag.FlagSet, command []string) {
	for i, arg := range command {
		name, long := strings.CutPrefix(arg, "--")
		name, _, whole := strings.Cut(name, "=")
		flag := f.Lookup(name)
		if i == 0 || !long || flag == nil || flag.Changed || simulatedOnly(name) || slices.Contains(launcherFlags, name) {
			continue
		}
		if !whole && flag.NoOptDefVal == "" && i+1 < len(command) {
			arg += " " + command[i+1]
		}
		g.Warn("%s stands behind --: the program gets it, and ckpt does not; write it before -- if ckpt is to have it", arg)
	}
}

func runLaunchProgram(ctx context.Context, g *ui.Globals, o *launchOptions, command []string) error {
	spec, err := o.programSpec(g, command)
	if err == nil {
		err = o.underDMTCP(&spec)
	}
	if err == nil {
		err = o.tuneSpec(ctx, &spec)
	}
	if err != nil {
		return err
	}
	g, streams := forProgram(g)
	opt, err := o.options(g)
	if err != nil {
		return err
	}
	opt.Job, opt.Streams = o.job, streams
	if o.model != "" {
		opt.Predict = func(s *job.Spec) (*job.Prediction, error) { return predictions.ForJob(o.model, s.App, s.NP, s) }
	}
	switch {
	case o.Given():
		opt.Nodes = o.Resolve
	case !o.fromLauncher:
		opt.Nodes = func(np int) (job.Mapping, error) { return job.Mapping{np}, nil }
	}
	return o.usage(o.run(ctx, g, &opt, func() (*coordinator.Result, error) { return coordinator.Launch(ctx, spec, opt) }))
}

// forProgram returns what ckpt itself writes to, and the streams of a program: its output
// passes through, and what ckpt says goes to standard error. With --json the events are
// on standard output, and all of the program's output on standard error.
func forProgram(g *ui.Globals) (*ui.Globals, launch.Streams) {
	s := launch.Streams{In: g.In, Out: plain(g.Out), Err: plain(g.Err)}
	if f, ok := g.In.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		s.In = nil // a program in the background of a terminal would stop when it reads
	}
	ours := *g
	if g.JSON {
		s.Out = s.Err
	} else {
		ours.Out = g.Err
	}
	return &ours, s
}

// stored returns the description of a stored job, nil if it cannot be read.
func stored(g *ui.Globals, name string) *job.Resolved {
	store, err := g.OpenStore()
	if err != nil {
		return nil
	}
	j, err := store.Job(name)
	if err != nil {
		return nil
	}
	spec, err := job.ReadSpec(j)
	if err != nil {
		return nil
	}
	return spec
}

// programStatus is the exit status of a program that has completed, if it is an error.
func programStatus(r *coordinator.Result) error {
	if r.Outcome != job.StateCompleted || r.ProgramStatus == nil || *r.ProgramStatus == 0 {
		return nil
	}
	return &program.ExitError{Status: *r.ProgramStatus}
}

// plain returns the file behind a stream that notices errors, which a program may have as
// its own.
func plain(w io.Writer) io.Writer {
	if n, ok := w.(*ui.Noticing); ok {
		return n.Unwrap()
	}
	return w
}

// engineOptions are the flags for the engine that takes the checkpoints of a program.
type engineOptions struct{ engine string }

func (o *engineOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.engine, "engine", string(dataset.Ckpt), "of a program: ckpt, if it calls ckpt; dmtcp, for one that is not changed")
	ui.Choices(f, "engine", string(dataset.Ckpt), string(dataset.DMTCP))
}

// underDMTCP has a program run under DMTCP, if that is asked for.
func (o *launchOptions) underDMTCP(s *job.Spec) error {
	switch dataset.Engine(o.engine) {
	case dataset.Ckpt:
		return nil
	case dataset.DMTCP:
		s.Origin, s.Program.Local, s.Tier = dmtcp.Origin, s.Tier, nil
		return nil
	}
	return ui.BadUsage("--engine "+o.engine+": want ckpt or dmtcp", "")
}

// tierOptions are the flags for directories of the nodes, which take checkpoints first.
type tierOptions struct {
	local, protect, domains string
	drain, drainRate        string
	next                    []string
}

// addFlags adds the flags of every command that starts a job.
func (o *tierOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.local, "local", "", "directory of each node that takes checkpoints first, like '/nvme/{node}'; they go to the store behind the job")
	f.StringVar(&o.protect, "protect", "none", "with --local: what survives a lost node: none, partner[:K] (copies on K other nodes), xor:N (a parity in groups of N nodes) or rs:K+M (M parities in groups of K+M)")
	f.StringVar(&o.domains, "domains", "", "with --local: the failure domain of each node, like 0,0,1,1 (default: each node its own)")
	f.StringVar(&o.drain, "drain", nodes.DrainBehind, "with --local: which checkpoints go to the store: behind (the newest, one after the other), every=N or none")
	f.StringVar(&o.drainRate, "drain-rate", "", "with --local: bytes per second that all ranks together copy into the store, like 200MiB (default: no limit)")
	ui.AddNext(f, &o.next, "store into which checkpoints are copied on from --store, behind the job; with ,every=N only one of so many, with ,keep=N, ,keep-hourly=N and ,keep-daily=N only those stay there")
}

// setting reads the flags; nil: the job has no such directories.
func (o *tierOptions) setting() (*nodes.Setting, error) {
	if o.local == "" {
		return nil, nil
	}
	dir, err := filepath.Abs(o.local) // ranks run in directories of their own
	if err != nil {
		return nil, err
	}
	s := &nodes.Setting{Dir: dir}
	if s.Protect, err = nodes.Parse(o.protect); err != nil {
		return nil, ui.BadUsage("--protect "+o.protect+": want none, partner, partner:K, xor:N or rs:K+M", "--protect partner keeps a copy on another node")
	}
	if s.Drain, err = nodes.ParseDrain(o.drain); err != nil {
		return nil, ui.BadUsage("--drain "+o.drain+": want behind, every=N or none", "--drain behind stores each checkpoint while the job computes")
	}
	if o.domains != "" {
		for word := range strings.SplitSeq(o.domains, ",") {
			n, err := strconv.Atoi(strings.TrimSpace(word))
			if err != nil || n < 0 {
				return nil, ui.BadUsage(fmt.Sprintf("--domains %s: want a number for each node, like 0,0,1,1", o.domains), "")
			}
			s.Domains = append(s.Domains, n)
		}
	}
	if o.drainRate != "" {
		if s.Rate, err = ui.ParseSize("--drain-rate", strings.TrimSuffix(o.drainRate, "/s")); err != nil {
			return nil, err
		}
		if s.Rate == 0 {
			return nil, ui.BadUsage("--drain-rate "+o.drainRate+": nothing would ever be stored", "--drain none stores nothing")
		}
	}
	return s, nil
}

// tier adds the directories of the nodes to a description.
func (o *launchOptions) tier(s *job.Spec) (err error) {
	if s.Next, err = ui.ParseNext(o.next); err == nil {
		s.Tier, err = o.tierOptions.setting()
	}
	return err
}
