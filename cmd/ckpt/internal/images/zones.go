package images

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/image/container"
	"ckpt/internal/vfs"
	"ckpt/zones"
	"ckpt/zones/proc"
	"ckpt/zones/source"
)

type zonesOptions struct {
	pid         int
	tree        bool
	areas       bool
	csv         bool
	app         string
	np          int
	measure     string
	rules       string
	withRuntime bool

	run            bool // the arguments are a command
	settle, within string
}

func newZonesCommand(g *ui.Globals) *cobra.Command {
	var o zonesOptions
	cmd := &cobra.Command{
		Use:   "zones FILE|DIR|-... | --pid PID [--tree] | --run -- COMMAND...",
		Short: "Divide memory into zones: library, data, shared, I/O buffer",
		Long: `Show the zones of processes: of live ones with --pid, of checkpoint images of DMTCP
(plain or gzip) and ckpt, of ELF core files, and of saved texts of /proc/PID/smaps
or maps, plain or gzip; - reads such a text from standard input. A directory means all images
in it.

For a live process, sizes are those of a checkpoint that DMTCP would take now; --as
selects another count. --tree adds all descendants, such as the ranks of an mpiexec.
The command stops nothing and writes nothing.

--run starts a command, such as an mpiexec, looks at it and its descendants until
the memory of the ranks has been steady for --settle, and ends it. The output of the
command goes to standard error.

--csv prints a row per program for ckpt predict fit: three rows, of runs with
different numbers of processes, make a model. docs/ZONES.md has the rules that
assign areas to zones, and a tutorial.`,
		Example: `  ckpt zones --pid $(pgrep -o mpiexec) --tree
  ckpt zones ckpt_bt.B.4_*.dmtcp
  ckpt zones --pid 4711 --areas --as resident
  ssh node7 cat /proc/4711/smaps | ckpt zones - --json
  ckpt zones --pid 4711 --tree --csv >> mine.csv
  ckpt zones --run --csv --app heat -- mpiexec -n 4 ./heat`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if (o.pid != 0) == (len(args) > 0) {
				return ui.UsageOf(cmd, errors.New("name files, a process with --pid, or a command after --run --"))
			}
			if !o.run && (cmd.Flags().Changed("settle") || cmd.Flags().Changed("within")) {
				return ui.UsageOf(cmd, errors.New("--settle and --within need --run"))
			}
			if o.tree && o.pid == 0 {
				return ui.UsageOf(cmd, errors.New("--tree needs --pid"))
			}
			if cmd.Flags().Changed("pid") && o.pid < 1 {
				return ui.UsageOf(cmd, fmt.Errorf("--pid %d: want a process id from 1", o.pid))
			}
			if !o.csv && (cmd.Flags().Changed("app") || cmd.Flags().Changed("np")) {
				return ui.UsageOf(cmd, errors.New("--app and --np need --csv"))
			}
			if cmd.Flags().Changed("np") && o.np < 1 {
				return ui.UsageOf(cmd, fmt.Errorf("--np %d: want a number of processes from 1", o.np))
			}
			if o.csv && g.JSON {
				return ui.UsageOf(cmd, errors.New("--csv and --json exclude each other"))
			}
			return runZones(cmd.Context(), g, &o, args)
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.pid, "pid", 0, "a live process")
	f.BoolVar(&o.tree, "tree", false, "with --pid: include all its descendants")
	f.BoolVar(&o.run, "run", false, "start a command, look at its processes, and end it")
	f.StringVar(&o.settle, "settle", "2s", "with --run: time without a change of the memory")
	f.StringVar(&o.within, "within", "2m", "with --run: longest wait for that")
	f.BoolVar(&o.areas, "areas", false, "list the areas")
	f.BoolVar(&o.csv, "csv", false, "print rows for ckpt predict fit")
	f.StringVar(&o.app, "app", "", "with --csv: name of the application, like bt.B (default: that of the program)")
	f.IntVar(&o.np, "np", 0, "with --csv: processes of the job (default: what the launcher told the ranks, or the number seen)")
	f.StringVar(&o.measure, "as", "dmtcp", "how to count the stored bytes of a live process: dmtcp, criu, virtual, resident, dirty")
	ui.Choices(f, "as", "dmtcp", "criu", "virtual", "resident", "dirty")
	f.StringVar(&o.rules, "rules", "", "YAML file with rules of your site")
	f.BoolVar(&o.withRuntime, "with-runtime", false, "count memory of the checkpointer with the library zone")
	return cmd
}

func runZones(ctx context.Context, g *ui.Globals, o *zonesOptions, args []string) error {
	ctx, stop := ui.Interruptible(ctx)
	defer stop()
	rules, err := loadRules(o.rules)
	if err != nil {
		return err
	}
	measure, err := proc.ParseMeasure(o.measure)
	if err != nil {
		return ui.AsUsage(err)
	}
	ps, err := o.read(ctx, g, rules, measure, args)
	if err != nil && len(ps) == 0 {
		return ui.SourceError(err)
	}
	// Show the readable processes; errors of the others decide the exit status.
	return errors.Join(o.show(g, args, ps), ui.SourceError(err))
}

func (o *zonesOptions) show(g *ui.Globals, args []string, ps []*zones.Process) error {
	source.Settle(ps)
	if o.withRuntime {
		for _, p := range ps {
			source.CountRuntime(p)
		}
	}
	checkpoints := source.Checkpoints(ps)
	switch {
	case o.csv:
		return o.printCSV(g, ps, checkpoints)
	case g.JSON:
		return printZonesJSON(g, ps, checkpoints, o.single(args, ps))
	case o.areas:
		return printAreas(g, ps)
	case len(ps) == 1:
		return printProcess(g, ps[0])
	}
	return printProcesses(g, ps, checkpoints)
}

// single reports whether the user named one process, not a list.
func (o *zonesOptions) single(args []string, ps []*zones.Process) bool {
	if len(ps) != 1 || o.tree || o.run {
		return false
	}
	if o.pid != 0 {
		return true
	}
	fi, err := os.Stat(args[0])
	return len(args) == 1 && (err != nil || !fi.IsDir())
}

func (o *zonesOptions) read(ctx context.Context, g *ui.Globals, rules *zones.Rules, measure proc.Measure, args []string) ([]*zones.Process, error) {
	if o.pid != 0 {
		return o.live(ctx, g, rules, measure)
	}
	if o.run {
		return o.running(ctx, g, rules, measure, args)
	}
	r := source.Reader{Rules: rules, Measure: measure, More: []source.Format{{
		Is:   container.IsImage,
		Read: func(name string) ([]*zones.Process, error) { return container.Processes(vfs.OS{}, name) },
	}}}
	var out []*zones.Process
	var failed error
	for _, name := range args {
		ps, err := readSource(ctx, &r, name)
		out, failed = append(out, ps...), errors.Join(failed, err)
	}
	return out, failed
}

// readSource reads a file, a directory, or standard input.
func readSource(ctx context.Context, r *source.Reader, name string) ([]*zones.Process, error) {
	if name == "-" {
		p, err := r.Text("standard input", os.Stdin)
		if err != nil {
			return nil, err
		}
		return []*zones.Process{p}, nil
	}
	fi, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, err
	case fi.IsDir():
		return r.Dir(ctx, name)
	}
	return r.File(ctx, name)
}

func (o *zonesOptions) live(ctx context.Context, g *ui.Globals, rules *zones.Rules, measure proc.Measure) ([]*zones.Process, error) {
	opt := proc.Options{Measure: measure}
	var ps []*zones.Process
	if o.tree {
		var gone []error
		var err error
		ps, gone, err = proc.Tree(ctx, o.pid, opt)
		if err != nil {
			return nil, err
		}
		for _, err := range gone {
			g.Warn("%v", err)
		}
	} else {
		p, err := proc.Read(ctx, o.pid, opt)
		if err != nil {
			return nil, err
		}
		ps = append(ps, p)
	}
	for _, p := range ps {
		rules.Classify(p)
	}
	return ps, nil
}
