package benchmarks

import (
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"ckpt/internal/figure"
)

// An interferenceBar is one measure of all policies, as a ratio to none.
type interferenceBar struct {
	name  string
	color color.NRGBA
	of    func(*interferenceRatios) *spread
}

var (
	jobBars = []interferenceBar{
		{"total time", figure.Categories[0], promises[0].of},
		{"mean flow time", figure.Categories[1], promises[1].of},
	}
	readerBars = []interferenceBar{
		{"total time with the reader", figure.Categories[0], promises[2].of},
		{"stretch of the reader", figure.Categories[2], promises[3].of},
	}
)

// panels has a row for each storage: what the policies make of the jobs, and of the
// reader.
func (b *interference) panels() ([][]*plot.Plot, error) {
	var rows [][]*plot.Plot
	for _, s := range b.Storages {
		var row []*plot.Plot
		for _, bars := range [][]interferenceBar{jobBars, readerBars} {
			if bars[0].of(&s.List[0].interferenceRatios) == nil {
				continue
			}
			p, err := s.panel(bars)
			if err != nil {
				return nil, err
			}
			p.Title.Text = s.Name
			if s.Disk != "" {
				p.Title.Text += " to " + s.Disk
			}
			row = append(row, p)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// panel draws the bars of each policy side by side, with the range of the middle half of
// the rounds.
func (s *interferenceStorage) panel(bars []interferenceBar) (*plot.Plot, error) {
	p := figure.New("")
	p.Y.Label.Text = "of that without turns"
	names, most := []string{}, 1.0
	for _, l := range s.List[1:] {
		names = append(names, l.Policy)
	}
	key := figure.Key{}
	width := min(vg.Points(14), 6*vg.Centimeter/vg.Length(len(names)*len(bars)))
	for i, bar := range bars {
		var values plotter.Values
		var at plotter.XYs
		var widths plotter.YErrors
		shift := (float64(i) - float64(len(bars)-1)/2)
		for k, l := range s.List[1:] {
			r := bar.of(&l.interferenceRatios)
			if r == nil { // too little was measured for a ratio: no bar
				r = &spread{}
			}
			values, most = append(values, r.Median), max(most, r.High)
			at = append(at, plotter.XY{X: float64(k) + shift*0.32, Y: r.Median})
			widths = append(widths, struct{ Low, High float64 }{r.Low - r.Median, r.High - r.Median})
		}
		chart, err := plotter.NewBarChart(values, width)
		if err != nil {
			return nil, err
		}
		chart.Color, chart.LineStyle.Width = bar.color, 0
		chart.XMin = shift * 0.32
		p.Add(chart)
		ranges, err := figure.ErrorBars(at, widths, figure.Ink)
		if err != nil {
			return nil, err
		}
		ranges.Width, ranges.CapWidth = vg.Points(0.7), vg.Points(4)
		p.Add(ranges)
		key = append(key, figure.Entry{Name: bar.name, Color: bar.color})
	}
	one, err := plotter.NewLine(plotter.XYs{{X: -0.6, Y: 1}, {X: float64(len(names)) - 0.4, Y: 1}})
	if err != nil {
		return nil, err
	}
	one.Color, one.Width, one.Dashes = figure.Ink, vg.Points(0.7), []vg.Length{vg.Points(3), vg.Points(2)}
	p.Add(one)
	p.NominalX(names...)
	p.X.Min, p.X.Max = -0.6, float64(len(names))-0.4
	p.Y.Tick.Marker = plot.TickerFunc(figure.DecimalTicks)
	figure.Include(&p.Y, 0, most)
	figure.AddKey(p, key)
	return p, nil
}
