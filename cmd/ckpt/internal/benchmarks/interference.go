// Package benchmarks has the commands that measure this machine.
package benchmarks

import (
	"context"
	"errors"
	"fmt"
	"image/color"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ckpt/cmd/ckpt/internal/benchmarks/sieve"
	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator"
	"ckpt/coordinator/job"
	"ckpt/dataset"
	"ckpt/image/iosched"
	"ckpt/internal/figure"
	"ckpt/internal/vfs/slowfs"
	"ckpt/predict/service"

	"github.com/spf13/cobra"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

type interferenceOptions struct {
	jobs, policy, throttle, plot string
	rounds                       int
}

func newBenchInterferenceCommand(g *ui.Globals) *cobra.Command {
	var o interferenceOptions
	cmd := &cobra.Command{
		Use:   "interference [DIR]",
		Short: "Measure what jobs on one disk cost each other, with and without turns",
		Long: `Run jobs on one storage and have them take checkpoints at the same time; then one of
them beside a reader, which reads files again and again; then one alone. Do so without
turns, and with a controller of each policy, in every round. All are real jobs in a
store in DIR; the command removes it.

total is the time until the last of those at work is done. The flow time of a
checkpoint goes from when the ranks of all jobs stand still, ready to write, to its
commit; its stretch is that divided by the flow time of the same job alone. The stretch
of the reader is the mean time of a file divided by that of a file read alone. Ratios
compare a policy with none in the same round; the table has the median of the rounds,
--json also the least and the most.

A fast disk serves all at once, so that turns change little. --throttle makes the
files in DIR as slow as a disk that is described, for all processes together, and
measures both: as it is, and throttled. auto describes a disk on which a checkpoint of
the first job alone takes about a second, with the seeks of a disk of 50 MB/s and 9 ms.`,
		Example: `  ckpt bench interference --jobs bt.A.16,bt.A.16,reader --plot turns.svg /scratch
  ckpt bench interference --policy none,wsjf --throttle 50MB/s,seek=9ms --rounds 3`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := ui.Positive(cmd, "rounds"); err != nil {
				return err
			}
			dir := os.TempDir()
			if len(args) > 0 {
				dir = args[0]
			}
			return runInterference(cmd.Context(), g, dir, &o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.jobs, "jobs", "bt.A.16,bt.A.16,reader", "applications, and reader or reader=SIZE for one that reads files of a size (default 16MiB)")
	f.StringVar(&o.policy, "policy", strings.Join(iosched.TurnPolicies(), ","), "policies to compare; none is without a controller, and always measured")
	f.IntVar(&o.rounds, "rounds", 10, "times that everything is measured")
	f.StringVar(&o.throttle, "throttle", "auto", "a slow disk, like 50MB/s,seek=9ms,unit=1MiB; none; or auto")
	f.StringVar(&o.plot, "plot", "", "draw the result to this .svg, .png, .pdf or .json")
	return cmd
}

// A mixture is what runs at the same time.
type mixture struct {
	apps   []*dataset.Instance
	reader int64 // bytes of a file; 0: no reader
}

const defaultReader = 16 << 20

// parseMixture reads --jobs.
func parseMixture(text string) (m mixture, err error) {
	for word := range strings.SplitSeq(text, ",") {
		word = strings.TrimSpace(word)
		name, size, sized := strings.Cut(word, "=")
		if name != "reader" {
			inst, err := dataset.ParseApp(word, 0)
			if err != nil {
				return m, err
			}
			m.apps = append(m.apps, inst)
			continue
		}
		if m.reader != 0 {
			return m, ui.BadUsage(fmt.Sprintf("--jobs %s: there are two readers", text), "name one reader")
		}
		m.reader = defaultReader
		if sized {
			if m.reader, err = ui.ParseSize("--jobs reader", size); err != nil {
				return m, err
			}
		}
		if m.reader < readerPiece || m.reader%readerPiece != 0 || m.reader > 1<<34 {
			return m, ui.BadUsage(fmt.Sprintf("--jobs %s: files of %d bytes", text, m.reader), "give the reader a multiple of 64KiB, at most 16GiB")
		}
	}
	switch {
	case len(m.apps) == 0:
		return m, ui.BadUsage(fmt.Sprintf("--jobs %s: there is no job", text), "name one, like bt.A.16")
	case len(m.apps) > 8:
		return m, ui.BadUsage(fmt.Sprintf("--jobs %s: %d jobs", text, len(m.apps)), "name at most 8")
	case len(m.apps) == 1 && m.reader == 0:
		return m, ui.BadUsage(fmt.Sprintf("--jobs %s: one job has nothing beside it", text), "name another job, or reader")
	}
	return m, nil
}

func (m *mixture) names() (list []string) {
	for _, inst := range m.apps {
		list = append(list, inst.String())
	}
	if m.reader > 0 {
		list = append(list, "reader="+ui.Size(m.reader))
	}
	return list
}

// none says that a storage has no controller.
const none = "none"

// parsePolicies reads --policy. All policies are compared with the first.
func parsePolicies(text string) ([]string, error) {
	list := []string{none}
	for name := range strings.SplitSeq(text, ",") {
		name = strings.TrimSpace(name)
		if !slices.Contains(iosched.TurnPolicies(), name) {
			hint := "policies: " + strings.Join(iosched.TurnPolicies(), ", ")
			if near := ui.Nearest(name, iosched.TurnPolicies()); near != "" {
				hint = "did you mean " + near + "? " + hint
			}
			return nil, ui.BadUsage(fmt.Sprintf("--policy %s: no policy %q", text, name), hint)
		}
		if !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list, nil
}

// parseThrottle reads --throttle: a disk, nil, or auto.
func parseThrottle(text string) (m *slowfs.Model, auto bool, err error) {
	switch text {
	case "none":
		return nil, false, nil
	case "auto":
		return nil, true, nil
	}
	disk, err := slowfs.Parse(text)
	if err == nil && disk.Dir != "" {
		err = fmt.Errorf("slow disk %q: the directory is that of the command", text)
	}
	if err != nil {
		return nil, false, ui.BadUsage("--throttle: "+err.Error(), "write --throttle 50MB/s,seek=9ms, none or auto")
	}
	return &disk, false, nil
}

func runInterference(ctx context.Context, g *ui.Globals, dir string, o *interferenceOptions) error {
	m, err := parseMixture(o.jobs)
	if err != nil {
		return err
	}
	policies, err := parsePolicies(o.policy)
	if err != nil {
		return err
	}
	disk, auto, err := parseThrottle(o.throttle)
	if err != nil {
		return err
	}
	if err := ui.CheckPlotName(o.plot); err != nil {
		return err
	}
	if o.plot != "" && len(policies) == 1 {
		return ui.BadUsage("--plot compares policies with none, and --policy has no other", "add a policy, like --policy none,"+iosched.DefaultPolicy)
	}
	ctx, stop := ui.Interruptible(ctx)
	defer stop()
	out := &interference{Dir: dir, Jobs: m.names(), Rounds: o.rounds, Policies: policies}
	l := &interferenceLab{g: g, mixture: m, policies: policies, rounds: o.rounds}
	if err := l.measure(ctx, out, dir, disk, auto); err != nil {
		if ctx.Err() != nil {
			return ui.ErrInterrupted
		}
		return err
	}
	if err := g.Show(out, func() error { return out.print(g) }); err != nil {
		return err
	}
	return draw(ctx, g, o.plot, out.panels)
}

// Commands returns the commands of this package.
func Commands(g *ui.Globals) []*cobra.Command { return []*cobra.Command{newBenchCommand(g)} }

func newBenchCommand(g *ui.Globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure this machine",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newBenchWriteCommand(g), newBenchCodecCommand(g), newBenchModesCommand(g), sieve.NewCommand(g), newBenchStorageCommand(g), newBenchTierCommand(g), newBenchInterferenceCommand(g))
	return cmd
}

// inTurns measures several ways in each round, another one first each time, so that
// whatever else the machine does meets all of them alike.
func inTurns(rounds, ways int, measure func(round, way int) error) error {
	for round := range rounds {
		for i := range ways {
			if err := measure(round, (round+i)%ways); err != nil {
				return err
			}
		}
	}
	return nil
}

func medianOf(v []float64) float64 { return service.Median(v) }

// rate returns bytes per second.
func rate(bytes int64, seconds float64) float64 {
	if seconds <= 0 {
		return 0
	}
	return float64(bytes) / seconds
}

func milliseconds(s float64) string { return fmt.Sprintf("%.2f", 1e3*s) }

// percentOff is what a predicted time is off by.
func percentOff(predicted, measured float64) string {
	return fmt.Sprintf("%+.0f %%", 100*(predicted/measured-1))
}

// draw draws rows of plots into a file, in the format that its name asks for. Without a
// path there is nothing to draw.
func draw(ctx context.Context, g *ui.Globals, path string, panels func() ([][]*figure.Picture, error)) error {
	if path == "" {
		return nil
	}
	rows, err := panels()
	if err != nil {
		return fmt.Errorf("plot %s: %w", path, err)
	}
	format := strings.TrimPrefix(filepath.Ext(path), ".")
	return g.WriteFile(ctx, path, func(w io.Writer) error { return figure.WriteGrid(w, format, rows) })
}

// A series is a bar for each name of a panel.
type series struct {
	name   string
	color  color.NRGBA
	values plotter.Values
	ranges plotter.YErrors // around the values, or nil
}

// barPanel draws series that are so far apart, in units of a name.
func barPanel(names []string, list []series, width vg.Length, apart float64) (*figure.Picture, error) {
	p := figure.New("")
	most := 0.0
	for i, s := range list {
		bars, err := plotter.NewBarChart(s.values, width)
		if err != nil {
			return nil, err
		}
		shift := (float64(i) - float64(len(list)-1)/2) * apart
		bars.Color, bars.LineStyle.Width, bars.XMin = s.color, 0, shift
		p.Add(bars)
		at := make(plotter.XYs, len(s.values))
		for k, v := range s.values {
			at[k].X, at[k].Y = float64(k)+shift, v
			most = max(most, v)
			if s.ranges != nil {
				most = max(most, v+s.ranges[k].High)
			}
		}
		if s.ranges == nil {
			continue
		}
		ranges, err := figure.ErrorBars(at, s.ranges, figure.Ink)
		if err != nil {
			return nil, err
		}
		ranges.Width, ranges.CapWidth = vg.Points(0.7), vg.Points(4)
		p.Add(ranges)
	}
	p.NominalX(names...)
	p.X.Min, p.X.Max = -0.6, float64(len(names))-0.4
	p.Y.Tick.Marker = plot.TickerFunc(figure.DecimalTicks)
	figure.Include(&p.Y, 0, most)
	return p, nil
}

// A jobRun is a job that ran once.
type jobRun struct {
	*coordinator.Result
	g           *ui.Globals
	checkpoints outcome
	restarts    []dataset.JobRestart
}

// Warn implements coordinator.Observer.
func (r *jobRun) Warn(text string) { r.g.Warn("%s", ui.OneLine(text)) }

// Event implements coordinator.Observer.
func (r *jobRun) Event(ev any) {
	switch e := ev.(type) {
	case *job.RestartedEvent:
		r.restarts = append(r.restarts, e.Restart())
	case *job.CheckpointEvent:
		r.checkpoints = append(r.checkpoints, *e)
	}
}

// runJob runs a job in a store below dir, which it removes once seen has looked at it.
func runJob(ctx context.Context, g *ui.Globals, dir string, s job.Spec, o coordinator.Options, seen func(store string) error) (r *jobRun, err error) {
	if dir, err = os.MkdirTemp(dir, "ckpt-bench-"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	r = &jobRun{g: g}
	s.Created = time.Now().UTC()
	o.Store, o.Observer, o.Log = dir, r, g.Log()
	if r.Result, err = coordinator.Launch(ctx, s, o); err == nil && seen != nil {
		err = seen(dir)
	}
	return r, err
}

// An outcome is the checkpoints that were measured.
type outcome []job.CheckpointEvent

func (o outcome) median(of func(*job.CheckpointEvent) float64) float64 {
	var v []float64
	for i := range o {
		v = append(v, of(&o[i]))
	}
	return medianOf(v)
}

func (o outcome) latency() float64 {
	return o.median(func(e *job.CheckpointEvent) float64 { return e.Latency.Total })
}

func (o outcome) coordination() float64 {
	return o.median(func(e *job.CheckpointEvent) float64 { return e.Latency.Coordination })
}
