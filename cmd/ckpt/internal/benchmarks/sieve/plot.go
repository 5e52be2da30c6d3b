package sieve

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/plot/plotter"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/internal/figure"
)

// draw draws a row of panels for each access and offset, one for naive and each rule: MiB/s of
// wanted bytes over the hole, a line for each size of blocks. A panel is a cut through a surface
// of figures 5.2 to 5.24 of Zickler's thesis: the panel of naive shows C1 to C5, the panel of romio
// C6 to C8, the panel of the performance model C9 and C10.
func draw(ctx context.Context, g *ui.Globals, path string, r *Result) error {
	if path == "" {
		return nil
	}
	var rows [][]*figure.Picture
	for rest := r.Patterns; len(rest) > 0; {
		n := slices.IndexFunc(rest, func(t Times) bool {
			return t.Access != rest[0].Access || t.View == "" && t.Data < rest[0].Data
		})
		if n < 0 {
			n = len(rest)
		}
		panels, err := panelsOf(rest[:n])
		if err != nil {
			return fmt.Errorf("plot %s: %w", path, err)
		}
		rows = append(rows, panels...)
		rest = rest[n:]
	}
	format := strings.TrimPrefix(filepath.Ext(path), ".")
	return g.WriteFile(ctx, path, func(w io.Writer) error { return figure.WriteGrid(w, format, rows) })
}

// panelsOf draws the rules of one access, two in a row on the same axes.
func panelsOf(rows []Times) (grid [][]*figure.Picture, err error) {
	names := []string{"naive"}
	for _, r := range rows[0].Rules {
		names = append(names, r.Rule.String())
	}
	low, high := rows[0].rate(0), rows[0].rate(0)
	for _, t := range rows {
		for i := range names {
			low, high = min(low, t.rate(i)), max(high, t.rate(i))
		}
	}
	for i, name := range names {
		p := figure.New(rows[0].Access + ", " + name)
		for k := 0; k < len(rows); {
			var line plotter.XYs
			data := rows[k].Data
			for ; k < len(rows) && rows[k].Data == data && (data > 0 || len(line) == 0); k++ {
				x := float64(rows[k].Hole) / 1024
				if data == 0 { // views of the user have no hole
					x = float64(k + 1)
				}
				line = append(line, plotter.XY{X: x, Y: rows[k].rate(i)})
			}
			c := figure.Categories[(len(p.Key))%len(figure.Categories)]
			label := kib(data)
			if data == 0 {
				label = rows[k-1].View
			}
			if len(line) == 1 {
				style := plotter.DefaultGlyphStyle
				style.Color = c
				p.Marks(label, line, style)
			} else {
				p.Line(label, line, c)
			}
		}
		if p.Err != nil {
			return nil, p.Err
		}
		p.X.Label.Text, p.Y.Label.Text = "hole [KiB]", "MiB/s"
		if rows[0].View != "" {
			p.X.Label.Text = "view"
		}
		if figure.Wide(low, high) {
			figure.Logarithmic(&p.Y)
		}
		figure.Include(&p.Y, low, high)
		figure.AddKey(p, p.Key)
		if i%2 == 0 {
			grid = append(grid, []*figure.Picture{p, nil})
		} else {
			grid[len(grid)-1][1] = p
		}
	}
	return grid, nil
}

// rate returns MiB/s of naive, 0, or of a rule.
func (t *Times) rate(i int) float64 {
	seconds := t.Naive
	if i > 0 {
		seconds = t.Rules[i-1].Seconds
	}
	return float64(t.Wanted) / seconds / (1 << 20)
}
