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

	"github.com/spf13/cobra"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator"
	"ckpt/coordinator/job"
	"ckpt/dataset"
	"ckpt/internal/figure"
)

// Commands returns the commands of this package.
func Commands(g *ui.Globals) []*cobra.Command { return []*cobra.Command{newBenchCommand(g)} }

func newBenchCommand(g *ui.Globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure this machine",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newBenchWriteCommand(g), newBenchCodecCommand(g), newBenchModesCommand(g), ui.Moved("sieve", "bench write --sieve"), newBenchStorageCommand(g), newBenchTierCommand(g), newBenchInterferenceCommand(g))
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

func medianOf(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

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
func draw(ctx context.Context, g *ui.Globals, path string, panels func() ([][]*plot.Plot, error)) error {
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
func barPanel(names []string, list []series, width vg.Length, apart float64) (*plot.Plot, error) {
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
