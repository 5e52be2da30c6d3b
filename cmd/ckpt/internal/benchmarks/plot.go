package benchmarks

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/internal/figure"
)

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
