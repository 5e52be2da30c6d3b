package predictions

import (
	"fmt"
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"ckpt/predict"
)

// plotFigure draws measured points, the law with its 95 % interval, and the
// thesis's law. The extrapolated part of the interval is paler.
func plotFigure(path string, f *predict.Figure) error {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = f.Title, f.X, f.Y
	p.Y.Min = 0
	p.Add(plotter.NewGrid())
	for _, part := range []struct {
		outside bool
		alpha   uint8
		name    string
	}{{false, 90, "95 % interval"}, {true, 40, "95 % interval, extrapolated"}} {
		for i, b := range bands(f, part.outside) {
			shape, err := plotter.NewPolygon(b)
			if err != nil {
				return err
			}
			shape.Color, shape.LineStyle.Width = color.NRGBA{0, 114, 178, part.alpha}, 0
			p.Add(shape)
			if i == 0 {
				p.Legend.Add(part.name, shape)
			}
		}
	}
	var curve, thesis plotter.XYs
	for _, b := range f.Curve {
		curve = append(curve, plotter.XY{X: b.X, Y: b.Y})
	}
	for _, t := range f.Thesis {
		thesis = append(thesis, plotter.XY{X: t.X, Y: t.Y})
	}
	for _, l := range []struct {
		name   string
		points plotter.XYs
		color  color.Color
		dashes []vg.Length
	}{{f.CurveName, curve, plotBlue, nil}, {f.ThesisName, thesis, plotOrange, []vg.Length{vg.Points(5), vg.Points(3)}}} {
		if len(l.points) == 0 {
			continue
		}
		line, err := plotter.NewLine(l.points)
		if err != nil {
			return err
		}
		line.Color, line.Width, line.Dashes = l.color, vg.Points(1.5), l.dashes
		p.Add(line)
		p.Legend.Add(l.name, line)
	}
	for _, s := range []struct {
		name   string
		points []predict.XY
		shape  draw.GlyphDrawer
	}{{"measured, fitted", f.Fitted, draw.CircleGlyph{}}, {"measured, held out", f.Held, draw.CrossGlyph{}}} {
		if len(s.points) == 0 {
			continue
		}
		var xy plotter.XYs
		for _, pt := range s.points {
			xy = append(xy, plotter.XY{X: pt.X, Y: pt.Y})
		}
		marks, err := plotter.NewScatter(xy)
		if err != nil {
			return err
		}
		marks.Color, marks.Radius, marks.Shape = plotRed, vg.Points(4), s.shape
		p.Add(marks)
		p.Legend.Add(s.name, marks)
	}
	// The legend goes where a falling or a rising curve leaves space.
	p.Legend.Top, p.Legend.Padding, p.Legend.TextStyle.Font.Size = true, vg.Points(2), vg.Points(10)
	p.Title.Padding = vg.Points(6)
	p.Legend.Left = len(f.Curve) > 1 && f.Curve[0].Y < f.Curve[len(f.Curve)-1].Y
	if err := p.Save(16*vg.Centimeter, 10*vg.Centimeter, path); err != nil {
		return fmt.Errorf("plot %s: %w", path, err)
	}
	return nil
}

// bands are the outlines of the interval inside or outside the points fitted.
func bands(f *predict.Figure, outside bool) []plotter.XYs {
	var out []plotter.XYs
	var run []predict.Band
	flush := func() {
		if len(run) > 1 {
			var outline plotter.XYs
			for _, b := range run {
				outline = append(outline, plotter.XY{X: b.X, Y: b.High})
			}
			for i := len(run) - 1; i >= 0; i-- {
				outline = append(outline, plotter.XY{X: run[i].X, Y: run[i].Low})
			}
			out = append(out, outline)
		}
		run = nil
	}
	for i, b := range f.Curve {
		// A stretch between two points is outside if one of its ends is.
		if i > 0 {
			prev := f.Curve[i-1]
			out := prev.X < f.Low || b.X > f.High
			if out == outside {
				if len(run) == 0 {
					run = append(run, prev)
				}
				run = append(run, b)
				continue
			}
		}
		flush()
	}
	flush()
	return out
}
