package report

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	_ "gonum.org/v1/plot/vg/vgimg" // for png
	_ "gonum.org/v1/plot/vg/vgsvg" // for svg

	"ckpt/internal/figure"
	"ckpt/iotrace"
	"ckpt/iotrace/analyze"
)

// A Plot is the kind of a plot.
type Plot string

// The plots.
const (
	Sizes     Plot = "sizes"     // request size against order, León's Figures 3.5 and 3.14
	Offsets   Plot = "offsets"   // offset against order, Figure 3.17
	SpaceTime Plot = "spacetime" // offset against time, by rank, Figure 5.10
	Bandwidth Plot = "bandwidth" // over time
	Histogram Plot = "histogram" // of request sizes
)

// Plots returns all plots.
func Plots() []Plot {
	return append([]Plot{Sizes, Offsets, SpaceTime, Bandwidth, Histogram}, surveyed...)
}

var titles = map[Plot]string{Sizes: "Request sizes", Offsets: "Offsets", SpaceTime: "Offsets over time, by rank",
	Bandwidth: "Bandwidth over time", Histogram: "Histogram of request sizes",
	Heatmap: "Bytes by rank and time", Timeline: "Timeline of a rank", Balance: "Bytes and time of each rank",
	Layers: "MPI-IO and POSIX, by file"}

const (
	fileMarks = 6000 // of a plot in its own file
	pageMarks = 600  // of a plot in a page
)

// Draw draws a plot as svg, png or pdf. With the name of a file from the report it draws
// only that file; bandwidth is always that of the job.
func Draw(w io.Writer, kind Plot, format string, tr *iotrace.Trace, r *analyze.Report, file string) error {
	if format != "svg" && format != "png" && format != "pdf" {
		return fmt.Errorf("report: format %q: not svg, png or pdf", format)
	}
	p, err := layOut(kind, tr, r, file, fileMarks)
	if err != nil {
		return err
	}
	if err := figure.Write(w, format, p); err != nil {
		return fmt.Errorf("report: draw %s: %w", kind, err)
	}
	return nil
}

// layOut lays out a plot with about limit marks at most.
func layOut(kind Plot, tr *iotrace.Trace, r *analyze.Report, file string, limit int) (*plot.Plot, error) {
	of, err := selectFile(tr, r, file)
	if err != nil {
		return nil, err
	}
	if slices.Contains(surveyed, kind) {
		s := newSurvey(tr, r, file, iotrace.None, false, kind)
		if kind == Balance && s.load.empty() && r.Counted {
			return nil, errors.New("report: " + noBalance)
		}
		return s.layOut(kind), nil
	}
	of.gather(kind)
	return of.layOut(kind, r, limit)
}

// selectFile selects the requests to a file of a report, or to all if it is empty.
func selectFile(tr *iotrace.Trace, r *analyze.Report, file string) (*selection, error) {
	if file == "" {
		return &selection{trace: tr, file: -1, activity: &r.Activity}, nil
	}
	i := slices.IndexFunc(r.Files, func(f analyze.File) bool { return f.Name == file })
	if i < 0 {
		return nil, fmt.Errorf("report: file %q: not in the trace", file)
	}
	return &selection{trace: tr, file: slices.Index(tr.Files, file), activity: &r.Files[i].Activity}, nil
}

// layOut lays out a plot that was gathered.
func (s *selection) layOut(kind Plot, r *analyze.Report, limit int) (*plot.Plot, error) {
	if !slices.Contains(Plots(), kind) {
		return nil, fmt.Errorf("report: plot %q: there are %s", kind, join(Plots()))
	}
	p := figure.New(titles[kind])
	if s.file >= 0 && kind != Bandwidth {
		p.Title.Text += ": " + shorten(legal(s.trace.Files[s.file]), 60)
	}
	var err error
	switch kind {
	case Sizes:
		s.sizes(p, limit)
	case Offsets:
		s.offsets(p, limit)
	case SpaceTime:
		s.spaceTime(p, limit)
	case Bandwidth:
		err = bandwidth(p, &r.Bandwidth)
	case Histogram:
		err = histogram(p, s.activity.Histogram)
	}
	// Keep marks at the edge whole.
	p.Y.Max += (p.Y.Max - p.Y.Min) / 25
	if kind != Histogram {
		p.X.Max += (p.X.Max - p.X.Min) / 50
	}
	return p, err
}

func join(kinds []Plot) string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = string(k)
	}
	return strings.Join(names, ", ")
}

// legal replaces the characters that neither SVG nor a reader can use: control
// characters, and bytes that are not UTF-8.
func legal(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == 0xFFFE || r == 0xFFFF { // XML 1.0, section 2.2
			return utf8.RuneError
		}
		return r
	}, name)
}

// shorten cuts off the beginning of a long path.
func shorten(s string, most int) string {
	r := []rune(s)
	if len(r) <= most {
		return s
	}
	return "…" + string(r[len(r)-most+1:])
}

func bandwidth(p *plot.Plot, b *analyze.Bandwidth) error {
	p.X.Label.Text, p.Y.Label.Text = "time [s]", "bandwidth"
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.TickerFunc(figure.DecimalTicks), plot.TickerFunc(rateTicks)
	p.Y.Min = 0
	var k figure.Key
	for d, rates := range [][]float64{b.Write, b.Read} {
		if len(rates) == 0 || slices.Max(rates) == 0 {
			continue
		}
		var xy plotter.XYs
		for i, y := range rates {
			x := b.Start + float64(i)*b.Bin
			// Keep only the ends of a level stretch.
			if n := len(xy); n >= 2 && xy[n-1].Y == y && xy[n-2].Y == y {
				xy[n-1].X = x + b.Bin
				continue
			}
			xy = append(xy, plotter.XY{X: x, Y: y}, plotter.XY{X: x + b.Bin, Y: y})
		}
		line, err := plotter.NewLine(xy)
		if err != nil {
			return fmt.Errorf("report: bandwidth: %w", err)
		}
		line.Color, line.Width = opColors[d], 1.2
		p.Add(line)
		k = append(k, opKey[d])
	}
	if len(k) == 0 {
		p.X.Min, p.X.Max, p.Y.Max = 0, 1, 1
	}
	figure.AddKey(p, k)
	return nil
}

func histogram(p *plot.Plot, bins []analyze.SizeBin) error {
	p.X.Label.Text, p.Y.Label.Text = "size [bytes]", "requests"
	p.Y.Tick.Marker = plot.TickerFunc(countTicks)
	var names []string
	var counts [2]plotter.Values
	for _, b := range bins {
		names = append(names, b.Bin)
		counts[0], counts[1] = append(counts[0], logCount(b.Writes)), append(counts[1], logCount(b.Reads))
	}
	if len(bins) == 0 {
		names, counts[0], counts[1] = []string{""}, plotter.Values{0}, plotter.Values{0}
	}
	var k figure.Key
	both := slices.Max(counts[0]) > 0 && slices.Max(counts[1]) > 0
	for d, c := range counts {
		if slices.Max(c) == 0 {
			continue
		}
		bars, err := plotter.NewBarChart(c, vg.Points(14))
		if err != nil {
			return fmt.Errorf("report: histogram: %w", err)
		}
		bars.Color, bars.LineStyle = opColors[d], draw.LineStyle{}
		if both {
			bars.Offset = vg.Points(float64(14*d) - 7)
		}
		p.Add(bars)
		k = append(k, opKey[d])
	}
	figure.AddKey(p, k)
	p.X.Tick.Label.Font.Size = 7.5
	p.NominalX(names...)
	p.X.Min, p.X.Max = -0.6, float64(len(names))-0.4
	p.Y.Min, p.Y.Max = 0, max(2, p.Y.Max)
	return nil
}
