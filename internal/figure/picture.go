package figure

import (
	"bytes"
	"fmt"
	"image/color"
	"io"
	"os"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Save writes a plot in the format that its name asks for.
func Save(path string, p *Picture) error {
	return SaveAs(path, func(w io.Writer, format string) error { return Write(w, format, p) })
}

// SaveAs writes a Picture in the format that its name asks for.
func SaveAs(path string, write func(w io.Writer, format string) error) error {
	var drawn bytes.Buffer
	err := write(&drawn, strings.TrimPrefix(filepath.Ext(path), "."))
	if err == nil {
		err = os.WriteFile(path, drawn.Bytes(), 0o666)
	}
	if err != nil {
		return fmt.Errorf("plot %s: %w", path, err)
	}
	return nil
}

// A Picture is a plot in the making, with its key.
type Picture struct {
	*plot.Plot
	Key   Key
	Err   error   // the first
	Text  string  // for those who do not see it
	Units [2]Unit // of the axes, x and y

	shapes []plot.Plotter
}

// Add adds plotters.
func (p *Picture) Add(list ...plot.Plotter) {
	p.shapes = append(p.shapes, list...)
	p.Plot.Add(list...)
}

// explained is a plotter that can stand in a key.
type explained interface {
	plot.Plotter
	plot.Thumbnailer
}

// Named adds a plotter, and its name to the key if it has one.
func (p *Picture) Named(name string, e explained) {
	p.Add(e)
	if name != "" {
		p.Key = append(p.Key, Entry{Name: name, Thumb: e})
	}
}

// Line adds a line, unless it has no points.
func (p *Picture) Line(name string, points plotter.XYs, c color.Color, dashes ...vg.Length) {
	if len(points) == 0 {
		return
	}
	l, err := plotter.NewLine(points)
	if err != nil {
		p.Failed(err)
		return
	}
	l.Color, l.Width, l.Dashes = c, vg.Points(1.5), dashes
	p.Named(name, l)
}

// Marks adds points, if there are any.
func (p *Picture) Marks(name string, points plotter.XYs, style draw.GlyphStyle) {
	if len(points) == 0 {
		return
	}
	s, err := plotter.NewScatter(points)
	if err != nil {
		p.Failed(err)
		return
	}
	s.GlyphStyle = style
	p.Named(name, s)
}

// Failed keeps the first error.
func (p *Picture) Failed(err error) {
	if p.Err == nil {
		p.Err = err
	}
}

// Bars adds error bars.
func (p *Picture) Bars(at plotter.XYs, reach plotter.YErrors, c color.Color) {
	bars, err := ErrorBars(at, reach, c)
	if err != nil {
		p.Failed(err)
		return
	}
	p.Add(bars)
}
