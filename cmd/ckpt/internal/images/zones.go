package images

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/image/container"
	"ckpt/internal/family"
	"ckpt/internal/vfs"
	"ckpt/iotrace/read"
	"ckpt/zones"
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
	every          string // "": one look
	limited        bool   // --within is given
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

--every looks again and again until the process ends or ^C, and says at which moment a
checkpoint is smallest, which is when to take it.

--csv prints a row per program for ckpt predict fit: three rows, of runs with
different numbers of processes, make a model. docs/ZONES.md has the rules that
assign areas to zones, and a tutorial.`,
		Example: `  ckpt zones --pid $(pgrep -o mpiexec) --tree
  ckpt zones ckpt_bt.B.4_*.dmtcp
  ckpt zones --pid 4711 --areas --as resident
  ckpt zones --pid 4711 --every 1s --within 1m
  ssh node7 cat /proc/4711/smaps | ckpt zones - --json
  ckpt zones --pid 4711 --tree --csv >> mine.csv
  ckpt zones --run --csv --app heat -- mpiexec -n 4 ./heat`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if (o.pid != 0) == (len(args) > 0) {
				return ui.UsageOf(cmd, errors.New("name files, a process with --pid, or a command after --run --"))
			}
			if !o.run && (cmd.Flags().Changed("settle") || o.every == "" && cmd.Flags().Changed("within")) {
				return ui.UsageOf(cmd, errors.New("--settle needs --run, --within needs --run or --every"))
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
			o.limited = cmd.Flags().Changed("within")
			return runZones(cmd.Context(), g, &o, args)
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.pid, "pid", 0, "a live process")
	f.BoolVar(&o.tree, "tree", false, "with --pid: include all its descendants")
	f.BoolVar(&o.run, "run", false, "start a command, look at its processes, and end it")
	f.StringVar(&o.settle, "settle", "2s", "with --run: time without a change of the memory")
	f.StringVar(&o.within, "within", "2m", "with --run: longest wait for that; with --every: how long to look (default: until the process ends)")
	f.StringVar(&o.every, "every", "", "with --pid: look again and again, and say when a checkpoint is smallest")
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
	measure, err := source.ParseMeasure(o.measure)
	if err != nil {
		return ui.AsUsage(err)
	}
	if o.every != "" {
		every, within, err := o.everyAndWithin()
		if err != nil {
			return ui.AsUsage(err)
		}
		return o.watched(ctx, g, rules, measure, every, within)
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
	for _, p := range ps {
		if device := p.Accelerator(); device != "" {
			g.Warn("%s maps %s: memory of the GPU is not in the image. Before a checkpoint, copy it to the host and protect the copy (docs/PROGRAMS.md, GPUs)", zones.Printable(p.Name), zones.Printable(device))
			break // one says it for all
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

func (o *zonesOptions) read(ctx context.Context, g *ui.Globals, rules *zones.Rules, measure source.Measure, args []string) ([]*zones.Process, error) {
	if o.pid != 0 {
		return o.live(ctx, g, rules, measure)
	}
	if o.run {
		return o.running(ctx, g, rules, measure, args)
	}
	r := source.Reader{Rules: rules, Measure: measure, Unpack: read.Unpack, More: []source.Format{{
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

func (o *zonesOptions) live(ctx context.Context, g *ui.Globals, rules *zones.Rules, measure source.Measure) ([]*zones.Process, error) {
	opt := source.LiveOptions{Measure: measure}
	var ps []*zones.Process
	if o.tree {
		var gone []error
		var err error
		ps, gone, err = source.Tree(ctx, o.pid, opt)
		if err != nil {
			return nil, err
		}
		for _, err := range gone {
			g.Warn("%v", err)
		}
	} else {
		p, err := source.ReadLive(ctx, o.pid, opt)
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

const (
	lookEvery   = 200 * time.Millisecond
	steadyShare = 0.005 // memory that changes less is steady
)

// running starts a command, looks at its processes until their memory is steady, and ends it.
func (o *zonesOptions) running(ctx context.Context, g *ui.Globals, rules *zones.Rules, measure source.Measure, command []string) ([]*zones.Process, error) {
	settle, err := ui.ParseDuration("--settle", o.settle)
	if err != nil {
		return nil, err
	}
	within, err := ui.ParseDuration("--within", o.within)
	if err != nil {
		return nil, err
	}
	if err := ui.CheckProgram(command[0]); err != nil {
		return nil, err
	}
	out := &gate{to: g.Err}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = out, out
	p, err := family.Start(cmd)
	if err != nil {
		return nil, err
	}
	defer p.End()
	defer out.shut.Store(true)
	w := watch{settle: settle}
	deadline := time.After(within)
	for ticks := time.NewTicker(lookEvery); ; {
		select {
		case <-ctx.Done():
			return nil, ui.ErrInterrupted
		case <-p.Over():
			return w.ended(g, command[0], p.Err())
		case <-deadline:
			if w.best == nil {
				return nil, fmt.Errorf("%s: no process had its memory within %s", command[0], o.within)
			}
			g.Warn("%s: its memory was not steady within %s; the largest is shown", command[0], o.within)
			return w.best, nil
		case <-ticks.C:
		}
		ps, _, err := source.Tree(ctx, p.PID(), source.LiveOptions{Measure: measure})
		if err != nil {
			continue // it ends, or has just begun
		}
		for _, q := range ps {
			rules.Classify(q)
		}
		if w.steady(ps, time.Now()) {
			return ps, nil
		}
	}
}

// A gate lets output through until it is shut: that a command was ended is no news.
type gate struct {
	to   io.Writer
	shut atomic.Bool
}

func (g *gate) Write(b []byte) (int, error) {
	if g.shut.Load() {
		return len(b), nil
	}
	return g.to.Write(b)
}

// A watch decides when the memory of a program is steady.
type watch struct {
	settle time.Duration
	since  time.Time // when the memory last changed
	ranks  int
	bytes  int64
	best   []*zones.Process // the look with the most memory
	most   int64
}

// steady notes a look, and reports whether number and memory of the ranks have settled.
func (w *watch) steady(ps []*zones.Process, now time.Time) bool {
	source.Settle(ps)
	ranks, bytes := 0, int64(0)
	for _, p := range ps {
		if p.Role == zones.RoleRank {
			ranks++
			bytes += p.Image()
		}
	}
	if ranks > 0 && bytes > w.most {
		w.best, w.most = ps, bytes
	}
	if ranks == 0 || ranks != w.ranks || math.Abs(float64(bytes-w.bytes)) > steadyShare*float64(w.bytes) {
		w.ranks, w.bytes, w.since = ranks, bytes, now
		return false
	}
	return now.Sub(w.since) >= w.settle
}

// ended returns what was seen of a program that ended before its memory was steady.
func (w *watch) ended(g *ui.Globals, name string, err error) ([]*zones.Process, error) {
	switch {
	case w.best == nil && err != nil:
		return nil, fmt.Errorf("%s ended before its memory was seen: %w", name, err)
	case w.best == nil:
		return nil, ui.WithHint(errors.New(name+" ended before its memory was seen"), "let it run for some seconds")
	}
	g.Warn("%s ended before its memory was steady; the largest is shown", name)
	return w.best, nil
}
