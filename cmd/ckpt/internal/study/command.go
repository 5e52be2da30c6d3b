package study

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/image/pfs"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

type studyOptions struct {
	Options
	limit  string
	dryRun bool
}

// NewCommand returns the command. It runs the steps with execute.
func NewCommand(g *ui.Globals, execute func(context.Context, []string, ui.Streams) error) *cobra.Command {
	var o studyOptions
	cmd := &cobra.Command{
		Use:   "study [APP]",
		Short: "Run a code small, and predict and plan its checkpoints large, on one page",
		Long: `Choose small runs of a code and run them; characterise their I/O; fit a model, and
check it on each run that it has not seen; predict size and time of a checkpoint of
the large run; plan number and interval. The results are one page of HTML.

APP is NAME.CLASS (bt.A) or a workload file; its jobs are those of ckpt launch. With
--command the study runs any MPI program on this machine, looks at the memory of its
live ranks, and records its I/O with strace. {np} stands for the number of ranks. A
program that does not end by itself is ended. A program that calls ckpt
(docs/PROGRAMS.md) runs to its end and takes its own checkpoints, one every --every
boundaries: its arrays become a workload file, and the plan is for what ckpt stores.

Each step is a command line of ckpt, which --dry-run prints; its output is a file in
the directory of the study. The same command again runs only what is missing, or has
other arguments or inputs. If a step fails, the steps that do not need it still run, the
page has what they say and names the step, and the command fails. docs/METHOD.md walks
through a study.`,
		Example: `  ckpt study bt.A --target 64 --nodes 4 --overhead 10% --app-time 2h --mtbf 24h -o study.html
  ckpt study --command 'mpiexec -n {np} ./heat 4096' --np 2,4,8 --target 512 --nodes 16
  ckpt study --command 'mpiexec -n {np} ./strips 1002 40' --every 10 --target 256 --nodes 16 --on eos-spider2
  ckpt study bt.A --target 64 --dry-run`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := ui.Positive(cmd, "target", "nodes", "every"); err != nil {
				return err
			}
			if err := o.read(cmd, args); err != nil {
				return err
			}
			return runStudy(cmd.Context(), g, &o, execute)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Command, "command", "", "any MPI program in place of APP: its command line, with {np} for the number of ranks")
	f.StringVar(&o.Name, "app", "", "with --command: name of the program (default: that in the command line)")
	f.IntVar(&o.Every, "every", 0, "with --command of a program that calls ckpt: boundaries between checkpoints of the small runs (default 10)")
	f.IntVar(&o.Target, "target", 0, "number of ranks of the large run")
	f.IntVar(&o.Nodes, "nodes", 1, "number of nodes of the large run")
	f.IntSliceVar(&o.NP, "np", nil, "numbers of ranks of the small runs (default: three, chosen)")
	f.StringVar(&o.MPI, "mpi", "", "MPI library: mpich or openmpi (default: that of the program, mpich for APP)")
	ui.Choices(f, "mpi", "mpich", "openmpi")
	f.StringVar(&o.Level, "level", "", "of APP: what checkpoints hold, system or application (default system)")
	ui.Choices(f, "level", string(job.System), string(job.Application))
	f.StringVar(&o.Overhead, "overhead", "", "accepted share of the run time, like 10%, to plan the number of checkpoints")
	f.StringVar(&o.AppTime, "app-time", "", "time of the large run without checkpoints, like 2h")
	o.FailingOptions.AddFlags(f, "for the best interval: ")
	f.StringVar(&o.Capacity, "capacity", "", "size of the store of the large run, like 1TiB (default no limit)")
	f.StringVar(&o.Runs, "runs", "", "CSV file with times of runs without checkpoints, to find the fastest number of ranks")
	f.StringVar(&o.Storage, "storage", "", "directory of a storage: the study replays the pattern there, at the predicted size")
	f.StringVar(&o.On, "on", "", "predict times on this storage, a preset or a file of ckpt bench storage (default: the storage of the small runs)")
	ui.Choices(f, "on", pfs.Presets()...)
	f.StringVar(&o.limit, "limit", "1GiB", "with --storage: the most bytes that the replay writes")
	f.StringVar(&o.Dir, "dir", "", "directory of the study (default: the name of the page with .d for its ending)")
	f.StringVarP(&o.Page, "output", "o", "study.html", "the page")
	f.StringVar(&o.Settle, "settle", "2s", "with --command: time without a change of the memory, after which it is measured")
	f.StringVar(&o.Record, "record", "10s", "with --command: time for which its I/O is recorded")
	f.BoolVar(&o.dryRun, "dry-run", false, "print the command lines of the steps only")
	return cmd
}

// read checks the flags before anything runs.
func (o *studyOptions) read(cmd *cobra.Command, args []string) error {
	if (len(args) == 1) == (o.Command != "") {
		return ui.UsageOf(cmd, errors.New("name an APP, or a program with --command"))
	}
	if len(args) == 1 {
		o.App = args[0]
	}
	for _, flag := range []string{"app", "every", "settle", "record"} {
		if o.Command == "" && cmd.Flags().Changed(flag) {
			return ui.UsageOf(cmd, fmt.Errorf("--%s needs --command", flag))
		}
	}
	switch job.Level(o.Level) {
	case job.System:
		o.Level = ""
	case "", job.Application:
	default:
		return ui.BadUsage(fmt.Sprintf("level %q is unknown", o.Level), "--level takes system or application")
	}
	for flag, given := range map[string]bool{"command": o.Command != "", "mpi": o.MPI != "", "runs": o.Runs != ""} {
		if o.Level != "" && given {
			return ui.BadUsage(fmt.Sprintf("--level application, and --%s: that is for all of the memory", flag), "leave one of them out")
		}
	}
	if o.MPI != "" && o.MPI != "mpich" && o.MPI != "openmpi" {
		return ui.BadUsage(fmt.Sprintf("--mpi %q is unknown", o.MPI), "--mpi takes mpich or openmpi")
	}
	for _, n := range o.NP {
		if n < 1 {
			return ui.BadUsage(fmt.Sprintf("--np %d: want a number of ranks from 1", n), "")
		}
	}
	if o.NP != nil && len(o.NP) < 2 {
		return ui.BadUsage("--np: one run fixes no law and checks none", "name two or three numbers of ranks, like --np 4,9,16")
	}
	var q ui.Quantities
	if o.Overhead != "" {
		q.Share("--overhead", o.Overhead)
	}
	q.Duration("--app-time", o.AppTime)
	q.Duration("--settle", o.Settle)
	q.Duration("--record", o.Record)
	q.Size("--capacity", o.Capacity)
	o.Limit = q.Size("--limit", o.limit)
	if q.Err != nil {
		return q.Err
	}
	if _, err := o.Job(o.Nodes); err != nil {
		return err
	}
	if o.Storage != "" {
		if fi, err := os.Stat(o.Storage); err != nil {
			return ui.AsNotFound(err)
		} else if !fi.IsDir() {
			return ui.BadUsage("--storage "+o.Storage+": not a directory", "name a directory on the storage")
		}
	}
	if o.Page == "-" {
		return ui.BadUsage("-o -: standard output has the summary", "name a file")
	}
	if o.Dir == "" {
		o.Dir = strings.TrimSuffix(o.Page, filepath.Ext(o.Page)) + ".d"
	}
	o.Dir = filepath.Clean(o.Dir)
	return nil
}

func runStudy(ctx context.Context, g *ui.Globals, o *studyOptions, execute func(context.Context, []string, ui.Streams) error) error {
	s, err := New(o.Options)
	if err != nil {
		return err
	}
	if o.dryRun {
		return s.showSteps(g)
	}
	if err := ui.CanWrite(s.Page); err != nil {
		return err
	}
	run := func(ctx context.Context, args []string, out, errs io.Writer) error {
		return execute(ctx, args, ui.Streams{In: strings.NewReader(""), Out: out, Err: errs})
	}
	err = s.Run(ctx, run, func(n, of int, command string, kept bool) {
		switch {
		case g.Quiet:
		case kept:
			fmt.Fprintf(g.Err, "[%*d/%d] done before: %s\n", len(fmt.Sprint(of)), n, of, command)
		default:
			fmt.Fprintf(g.Err, "[%*d/%d] %s\n", len(fmt.Sprint(of)), n, of, command)
		}
	})
	failure, failed := errors.AsType[*StepError](err)
	if err != nil && (!failed || ui.ExitCode(err) == ui.ExitInterrupted) {
		return s.explained(err)
	}
	r, err := s.result()
	if err != nil {
		return err
	}
	if r.failure = failure; failed {
		r.Left = slices.DeleteFunc(r.Left, func(l Left) bool { return l.What == failure.Step.Name })
	}
	page, err := r.page()
	if err == nil {
		err = s.keepPage(page)
	}
	if err != nil {
		return err
	}
	if err := g.WriteFile(ctx, s.Page, page.html); err != nil {
		return err
	}
	if err := g.Show(r, func() error { return r.text(g) }); err != nil || !failed {
		return err
	}
	return s.explained(failure)
}

// explained adds to an error how the study continues.
func (s *Study) explained(err error) error {
	if errors.Is(err, ErrBusy) {
		return ui.WithHint(err, "wait for it, or choose another --dir")
	}
	if damage, ok := errors.AsType[*durable.DamageError](err); ok && damage.File == stateOf(s.Dir) {
		return ui.WithHint(err, "remove it, and all steps run again")
	}
	hint := ui.HintOf(err)
	if hint != "" {
		hint += "; "
	}
	return ui.WithHint(err, hint+"the same ckpt study continues from this step")
}

// showSteps prints the command lines.
func (s *Study) showSteps(g *ui.Globals) error {
	if _, err := (vfs.OS{}).Stat(stateOf(s.Dir)); err == nil {
		if s.state, err = readState(s.Dir); err != nil {
			return err
		}
	}
	if g.JSON {
		r := &Result{App: s.name(), NP: s.Target, Nodes: s.Nodes, Dir: s.Dir, Runs: s.Small, Why: s.Why, Left: s.Left}
		r.steps(s)
		return g.PrintJSON(r)
	}
	for _, command := range s.Commands() {
		if _, err := fmt.Fprintln(g.Out, command); err != nil {
			return err
		}
	}
	return nil
}
