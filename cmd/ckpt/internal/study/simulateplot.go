package study

import (
	"image/color"
	"io"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg/draw"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/internal/figure"
	"ckpt/predict/life"
)

// draw draws one life of the best way, and the waste over the interval.
func (r *simulateResult) draw(path string) error {
	below, err := r.wastePlot()
	if err != nil {
		return err
	}
	above, err := r.lifePlot()
	if err != nil {
		return err
	}
	return figure.SaveAs(path, func(w io.Writer, format string) error {
		return figure.WriteGrid(w, format, [][]*figure.Picture{{above}, {below}})
	})
}

// best is the try whose mean run ends first.
func (r *simulateResult) best() (i int) {
	for k := range r.tries {
		if r.tries[k].waste.mean < r.tries[i].waste.mean {
			i = k
		}
	}
	return i
}

var lifeColors = []color.Color{figure.Blue, figure.Vermilion, figure.Green, figure.Purple, figure.Orange, figure.Sky}

// lifePlot draws what the time of the first life has gone to until each moment, and its failures.
func (r *simulateResult) lifePlot() (*figure.Picture, error) {
	i := r.best()
	moments := []life.Moment{{}}
	_, err := life.One(r.jobs[i], r.machine, r.Seed, 0, func(m life.Moment) { moments = append(moments, m) })
	if err != nil {
		return nil, ui.AsUsage(err)
	}
	p := figure.New("A life: " + r.tries[i].way.name() + " every " + ui.Seconds(r.tries[i].interval))
	p.X.Label.Text, p.Y.Label.Text = "days", "hours that were no work"
	end := moments[len(moments)-1]
	var failures plotter.XYs
	lines, used := map[life.Cause]plotter.XYs{}, 0
	for _, m := range moments {
		if m.Failure {
			failures = append(failures, plotter.XY{X: m.At / 86400})
		}
		for c, seconds := range m.By {
			if c := life.Cause(c); c != life.Work && end.By[c] > 0.002*end.At {
				lines[c] = append(lines[c], plotter.XY{X: m.At / 86400, Y: seconds / 3600})
			}
		}
	}
	for c := range end.By {
		if points := lines[life.Cause(c)]; len(points) > 0 {
			p.Line(life.Cause(c).String(), points, lifeColors[used%len(lifeColors)])
			used++
		}
	}
	p.Marks("failures", failures, draw.GlyphStyle{Color: figure.Vermilion, Radius: 2, Shape: draw.CrossGlyph{}})
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.TickerFunc(figure.DecimalTicks), plot.TickerFunc(figure.DecimalTicks)
	figure.Include(&p.X, 0, end.At/86400)
	figure.Include(&p.Y, 0, math.Max(1, p.Y.Max))
	figure.AddKey(p, p.Key)
	return p, p.Err
}

// wastePlot draws the waste of each way over its interval, with 95 % intervals.
func (r *simulateResult) wastePlot() (*figure.Picture, error) {
	p := figure.New("Waste of the mean run")
	p.X.Label.Text, p.Y.Label.Text = "interval", "waste [%]"
	var order []way
	of := map[way]plotter.XYs{}
	reach := map[way]plotter.YErrors{}
	low, high := math.Inf(1), 0.0
	for _, t := range r.tries {
		if of[t.way] == nil {
			order = append(order, t.way)
		}
		of[t.way] = append(of[t.way], plotter.XY{X: t.interval, Y: 100 * t.waste.mean})
		reach[t.way] = append(reach[t.way], struct{ Low, High float64 }{100 * (t.waste.mean - t.waste.low), 100 * (t.waste.high - t.waste.mean)})
		low, high = min(low, t.interval), max(high, t.interval)
	}
	for i, w := range order {
		c := lifeColors[i%len(lifeColors)]
		p.Marks(w.name(), of[w], draw.GlyphStyle{Color: c, Radius: 2.5, Shape: draw.CircleGlyph{}})
		p.Bars(of[w], reach[w], c)
	}
	p.X.Scale, p.X.Tick.Marker, p.Units[0] = plot.LogScale{}, plot.TickerFunc(figure.DurationTicks), figure.Seconds
	p.Y.Tick.Marker = plot.TickerFunc(figure.DecimalTicks)
	figure.Include(&p.X, low/1.5, high*1.5)
	figure.Include(&p.Y, 0, p.Y.Max)
	figure.AddKey(p, p.Key)
	return p, p.Err
}
