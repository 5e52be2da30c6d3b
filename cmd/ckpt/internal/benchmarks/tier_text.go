package benchmarks

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/internal/figure"
)

// tierReport is a workload on a described machine, as --json prints it.
type tierReport struct {
	Machine  string `json:"machine"`
	Workload string `json:"tier_workload"`
	Ranks    int    `json:"ranks"`
	Nodes    int    `json:"nodes"`
	Bytes    int64  `json:"each_rank_bytes"`
	Lines    any    `json:"model_list"`
}

func (m *tierModel) report(workload string) tierReport {
	return tierReport{m.setup.Machine.Name, workload, m.ranks, m.setup.Nodes, m.bytes, m.lines}
}

func (m *tierModel) print(g *ui.Globals) error {
	g.Printf("%s: %s\n%s on %s\n\n", m.setup.Machine.Name, m.setup.Machine.Title, ui.Count(m.ranks, "rank"), ui.Count(m.setup.Nodes, "node"))
	if err := g.Table(m.table.header, m.table.rows); err != nil || m.note == "" {
		return err
	}
	return g.Printf("\n%s\n", m.note)
}

// tierPlot is what a picture shows: curves, or bars.
type tierPlot struct {
	x, y   string
	wide   bool // both axes are logarithmic
	curves []tierCurve
	bars   []tierBar
}

type tierCurve struct {
	name   string
	points plotter.XYs
}

type tierBar struct {
	name  string
	value float64
}

// add puts a point on a curve.
func (t *tierPlot) add(name string, x, y float64) {
	i := slices.IndexFunc(t.curves, func(c tierCurve) bool { return c.name == name })
	if i < 0 {
		i = len(t.curves)
		t.curves = append(t.curves, tierCurve{name: name})
	}
	t.curves[i].points = append(t.curves[i].points, plotter.XY{X: x, Y: y})
}

// draw draws the result of the workload.
func (m *tierModel) draw(ctx context.Context, g *ui.Globals, path string) error {
	p := figure.New(fmt.Sprintf("%s: %s on %s", m.setup.Machine.Name, ui.Count(m.ranks, "rank"), ui.Count(m.setup.Nodes, "node")))
	p.X.Label.Text, p.Y.Label.Text = m.plot.x, m.plot.y
	draw := m.plot.drawCurves
	if len(m.plot.bars) > 0 {
		draw = m.plot.drawBars
	}
	if err := draw(p); err != nil {
		return fmt.Errorf("plot %s: %w", path, err)
	}
	return g.WriteFile(ctx, path, func(w io.Writer) error {
		return figure.Write(w, strings.TrimPrefix(filepath.Ext(path), "."), p)
	})
}

func (t *tierPlot) drawCurves(p *plot.Plot) error {
	var key figure.Key
	if t.wide {
		figure.Logarithmic(&p.X)
		figure.Logarithmic(&p.Y)
	}
	for i, c := range t.curves {
		line, err := plotter.NewLine(c.points)
		if err != nil {
			return err
		}
		line.Color, line.Width = figure.Categories[i%len(figure.Categories)], vg.Points(1.5)
		p.Add(line)
		key = append(key, figure.Entry{Name: c.name, Thumb: line})
	}
	figure.AddKey(p, key)
	return nil
}

func (t *tierPlot) drawBars(p *plot.Plot) error {
	var values plotter.Values
	var names []string
	most := 0.0
	for _, b := range t.bars {
		values, names, most = append(values, b.value), append(names, b.name), max(most, b.value)
	}
	bars, err := plotter.NewBarChart(values, vg.Centimeter)
	if err != nil {
		return err
	}
	bars.Color, bars.LineStyle.Width = figure.Categories[0], 0
	p.Add(bars)
	p.NominalX(names...)
	p.X.Min, p.X.Max = -0.6, float64(len(names))-0.4
	p.Y.Tick.Marker = plot.TickerFunc(figure.DecimalTicks)
	figure.Include(&p.Y, 0, most)
	return nil
}
