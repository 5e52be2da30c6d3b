package ui

import (
	"io"
	"slices"
	"strings"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"

	"ckpt/zones"
)

// Table prints rows under a header. It is the only place that knows the
// library behind it. Columns whose name starts with "|" align to the right; those
// with "~", before that, are left out where the terminal is too narrow.
func (g *Globals) Table(header []string, rows [][]string) error {
	t := newGrid(header, rows)
	if width := g.Columns(); width > 0 {
		return t.narrow(g.Out, width)
	}
	return t.render(g.Out, 2)
}

// A grid is a table whose cells are ready to be printed.
type grid struct {
	names    []string // as printed, perhaps on several lines
	whole    []string // the same on one line
	rows     [][]string
	right    []bool
	optional []bool
}

func newGrid(header []string, rows [][]string) *grid {
	t := &grid{right: make([]bool, len(header)), optional: make([]bool, len(header))}
	for i, name := range header {
		name, t.optional[i] = strings.CutPrefix(name, "~")
		name, t.right[i] = strings.CutPrefix(name, "|")
		t.names = append(t.names, Text(name))
	}
	for _, row := range rows {
		for i := range row {
			row[i] = Text(zones.Printable(row[i])) // names come from files
		}
		t.rows = append(t.rows, row)
	}
	t.whole = slices.Clone(t.names)
	return t
}

// render prints the table with a gap between columns.
func (t *grid) render(w io.Writer, gap int) error {
	align := make([]tw.Align, len(t.names))
	for i := range align {
		align[i] = tw.AlignLeft
		if t.right[i] {
			align[i] = tw.AlignRight
		}
	}
	out := tablewriter.NewTable(w,
		tablewriter.WithRenderer(renderer.NewBlueprint(tw.Rendition{
			Borders:  tw.BorderNone,
			Settings: tw.Settings{Separators: tw.SeparatorsNone, Lines: tw.LinesNone},
		})),
		tablewriter.WithHeaderAutoFormat(tw.Off),
		tablewriter.WithHeaderAutoWrap(tw.WrapNone),
		tablewriter.WithRowAutoWrap(tw.WrapNone),
		tablewriter.WithTrimSpace(tw.Off),
		tablewriter.WithAlignment(align),
		tablewriter.WithHeaderAlignmentConfig(tw.CellAlignment{PerColumn: align}),
		tablewriter.WithPadding(tw.Padding{Left: "", Right: strings.Repeat(" ", gap), Overwrite: true}),
	)
	out.Header(t.names)
	if err := out.Bulk(t.rows); err != nil {
		return err
	}
	return out.Render()
}

// Sparse prints a table without columns of zeros: most processes have neither an I/O
// buffer nor a checkpointer.
func (g *Globals) Sparse(header []string, rows [][]string) error {
	for c := len(header) - 1; c >= 0; c-- {
		empty := true
		for _, row := range rows {
			empty = empty && row[c] == MiB(0)
		}
		if !empty {
			continue
		}
		header = slices.Delete(slices.Clone(header), c, c+1)
		for i := range rows {
			rows[i] = slices.Delete(slices.Clone(rows[i]), c, c+1)
		}
	}
	return g.Table(header, rows)
}
