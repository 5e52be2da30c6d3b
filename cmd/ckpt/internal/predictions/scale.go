package predictions

import (
	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/job"
	"ckpt/dataset"
	"ckpt/internal/figure"
	"ckpt/predict/plan"
	"fmt"
	"image/color"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

type scaleOptions struct {
	model, mpi, runs, codec, plot, engine string
	np                                    []int
	checkpoints                           int
}

func newPredictScaleCommand(g *ui.Globals) *cobra.Command {
	var o scaleOptions
	cmd := &cobra.Command{
		Use:   "scale APP",
		Short: "Find the fastest number of ranks, with and without checkpoints",
		Long: `Find the number of ranks beyond which more no longer help: alone, with checkpoints,
and with compressed checkpoints. More ranks make a run shorter and its checkpoints
larger, so a protected run is often fastest on fewer ranks.

APP is NAME.CLASS (bt.C). Run times and checkpoints of bt.C and bt.D are built in
(Tables 5.3 to 5.6). For other applications give the times of runs without
checkpoints in a CSV file with the columns n_processes, app_time_s and, if there is
more than one node, n_nodes; the checkpoints are predicted.`,
		Example: `  ckpt predict scale bt.C --plot bt.C.svg
  ckpt predict scale bt.C --np 16,25,36 --mpi openmpi --json
  ckpt predict scale heat.big --runs times.csv --model heat.model --checkpoints 3`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return InputErrors(runPredictScale(g, &o, args[0])) },
	}
	f := cmd.Flags()
	f.StringVar(&o.runs, "runs", "", "CSV file with the times of runs without checkpoints")
	f.StringVar(&o.model, "model", "", "model of ckpt predict fit (default: the built-in tables)")
	addEngineFlag(f, &o.engine)
	f.StringVar(&o.mpi, "mpi", "mpich", "MPI library: mpich or openmpi")
	ui.Choices(f, "mpi", "mpich", "openmpi")
	f.StringVar(&o.codec, "codec", "gzip", "codec of the compressed checkpoints, with --runs: gzip, zstd or s2")
	ui.Choices(f, "codec", "gzip", "zstd", "s2")
	f.IntSliceVar(&o.np, "np", nil, "only these numbers of ranks")
	f.StringVar(&o.plot, "plot", "", "draw the times over the ranks to this .svg, .png, .pdf or .json")
	f.IntVar(&o.checkpoints, "checkpoints", 1, "checkpoints in a run")
	return cmd
}

func runPredictScale(g *ui.Globals, o *scaleOptions, app string) error {
	if name, class, ok := strings.Cut(app, "."); o.runs == "" && (!ok || name == "" || class == "") {
		return ui.BadUsage(fmt.Sprintf("%q is not an application and its class", app), "write it as in bt.C; --np chooses the numbers of ranks")
	}
	if err := ui.CheckPlotName(o.plot); err != nil {
		return err
	}
	s, err := o.scale(app)
	if err != nil {
		return err
	}
	if o.plot != "" {
		if err := plotScale(o.plot, s); err != nil {
			return err
		}
	}
	return g.Show(s, func() error { return printScale(g, s) })
}

func (o *scaleOptions) scale(app string) (*plan.Scale, error) {
	mpi := dataset.MPIName(o.mpi)
	if mpi == "" {
		return nil, ui.BadUsage(fmt.Sprintf("--mpi %q is unknown", o.mpi), "--mpi takes mpich or openmpi")
	}
	if o.runs == "" {
		name, class, _ := strings.Cut(app, ".")
		return plan.MeasuredScale(name, class, mpi, o.np, o.checkpoints)
	}
	m, err := (&jobOptions{model: o.model}).load(app)
	if err != nil {
		return nil, err
	}
	var way plan.Way
	if way.Engine, err = m.EngineOf(dataset.Engine(o.engine)); err != nil {
		return nil, err
	}
	runs, err := o.times()
	if err != nil {
		return nil, err
	}
	return plan.PredictedScale(m, way, app, mpi, runs, o.checkpoints, o.codec)
}

// times reads the run times that the flags choose.
func (o *scaleOptions) times() ([]plan.Run, error) {
	t, err := loadTable(o.runs)
	if err != nil {
		return nil, err
	}
	times, err := dataset.RunTimesOf(t)
	if err != nil {
		return nil, err
	}
	var runs []plan.Run
	for _, r := range times {
		if len(o.np) > 0 && !slices.Contains(o.np, r.NP) {
			continue
		}
		mapping, err := job.EvenMapping(r.NP, r.Nodes)
		if err != nil {
			return nil, err
		}
		runs = append(runs, plan.Run{Mapping: mapping, Seconds: r.Seconds})
	}
	for _, np := range o.np {
		if !slices.ContainsFunc(runs, func(r plan.Run) bool { return r.NP() == np }) {
			return nil, ui.BadUsage(fmt.Sprintf("%s has no run on %d ranks", o.runs, np), "add a line, or leave the number out of --np")
		}
	}
	return runs, nil
}

func printScale(g *ui.Globals, s *plan.Scale) error {
	mark := func(np, fastest int) string {
		if np == fastest {
			return " *"
		}
		return "  "
	}
	text := func(t plan.TimeRange) string {
		if t.Low == t.High {
			return ui.Seconds(t.Seconds)
		}
		return ui.Seconds(t.Seconds) + " (" + times(t.Low, t.High) + ")"
	}
	explainEngine(g, s.Engine, "")
	var rows [][]string
	for _, p := range s.Points {
		rows = append(rows, []string{strconv.Itoa(p.NP), ui.Seconds(p.Alone) + mark(p.NP, s.Fastest.Alone),
			text(p.Protected) + mark(p.NP, s.Fastest.Protected), ui.Percent(p.Overhead), text(p.Compressed) + mark(p.NP, s.Fastest.Compressed)})
	}
	if err := g.Table([]string{"|ranks", "|alone  ", "|protected  ", "|overhead", "|with " + s.Codec + "  "}, rows); err != nil || g.Quiet {
		return err
	}
	of := func(np int, of func(plan.ScalePoint) plan.TimeRange) string {
		if s.Open(np, of) {
			return fmt.Sprintf("%d (others may be as fast)", np)
		}
		return strconv.Itoa(np)
	}
	return g.Printf("\nfastest *  alone %d ranks, protected %s, with %s %s\nsource     %s, %s in a run\n", s.Fastest.Alone,
		of(s.Fastest.Protected, func(p plan.ScalePoint) plan.TimeRange { return p.Protected }), s.Codec,
		of(s.Fastest.Compressed, func(p plan.ScalePoint) plan.TimeRange { return p.Compressed }), s.Source, ui.Count(s.Checkpoints, "checkpoint"))
}

// plotScale draws the times of runs over their ranks, and marks the fastest of each
// kind.
func plotScale(path string, s *plan.Scale) error {
	p, err := scalePlot(s)
	if err != nil {
		return err
	}
	return figure.Save(path, p)
}

func scalePlot(s *plan.Scale) (*figure.Picture, error) {
	p := newPicture(fmt.Sprintf("Scaling of %s under %s, checkpoints in a run: %d", s.App, s.MPI, s.Checkpoints))
	p.X.Label.Text, p.Y.Label.Text = "ranks", "time of a run [s]"
	alone := func(pt plan.ScalePoint) plan.TimeRange {
		return plan.TimeRange{Seconds: pt.Alone, Low: pt.Alone, High: pt.Alone}
	}
	for _, kind := range []struct {
		name    string
		of      func(plan.ScalePoint) plan.TimeRange
		fastest int
		color   color.NRGBA
		dashes  []vg.Length
	}{
		{"alone", alone, s.Fastest.Alone, figure.Green, nil},
		{"protected", func(pt plan.ScalePoint) plan.TimeRange { return pt.Protected }, s.Fastest.Protected, figure.Vermilion, nil},
		{"with " + s.Codec, func(pt plan.ScalePoint) plan.TimeRange { return pt.Compressed }, s.Fastest.Compressed, figure.Blue, []vg.Length{vg.Points(5), vg.Points(3)}},
	} {
		var line plotter.XYs
		var bars plotter.YErrors
		for _, pt := range s.Points {
			t := kind.of(pt)
			line = append(line, plotter.XY{X: float64(pt.NP), Y: t.Seconds})
			bars = append(bars, struct{ Low, High float64 }{t.Low - t.Seconds, t.High - t.Seconds})
		}
		p.Line(fmt.Sprintf("%s: fastest on %d", kind.name, kind.fastest), line, kind.color, kind.dashes...)
		p.intervals(line, bars, kind.color)
		p.Marks("", line, draw.GlyphStyle{Color: kind.color, Radius: vg.Points(2.5), Shape: draw.CircleGlyph{}})
		for _, at := range line {
			if int(at.X) == kind.fastest {
				p.Marks("", plotter.XYs{at}, draw.GlyphStyle{Color: kind.color, Radius: vg.Points(6), Shape: draw.RingGlyph{}})
			}
		}
	}
	if p.Err != nil {
		return nil, p.Err
	}
	p.scaleAxes(s)
	figure.AddKey(p.Picture, p.Key)
	return p.Picture, nil
}

// intervals draws error bars, unless all times are measured.
func (p *picture) intervals(at plotter.XYs, widths plotter.YErrors, c color.NRGBA) {
	known := false
	for _, w := range widths {
		known = known || w.Low < 0 || w.High > 0
	}
	if known {
		p.Bars(at, widths, c)
	}
}

// scaleAxes makes axes logarithmic where the runs span a power of ten.
func (p *picture) scaleAxes(s *plan.Scale) {
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.TickerFunc(figure.WholeTicks), plot.TickerFunc(figure.DecimalTicks)
	first := s.Points[0]
	xLow, xHigh, yLow, yHigh := float64(first.NP), float64(first.NP), first.Alone, first.Alone
	for _, pt := range s.Points {
		xLow, xHigh = min(xLow, float64(pt.NP)), max(xHigh, float64(pt.NP))
		yLow = min(yLow, pt.Alone, pt.Protected.Low, pt.Compressed.Low)
		yHigh = max(yHigh, pt.Alone, pt.Protected.High, pt.Compressed.High)
	}
	if figure.Wide(xLow, xHigh) {
		figure.Logarithmic(&p.X)
	}
	if figure.Wide(yLow, yHigh) {
		figure.Logarithmic(&p.Y)
	} else {
		yLow = 0
	}
	figure.Include(&p.X, xLow, xHigh)
	figure.Include(&p.Y, yLow, yHigh)
}
