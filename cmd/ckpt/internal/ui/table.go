package ui

import (
	"slices"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"

	"ckpt/zones"
)

// Table prints rows under a header. It is the only place that knows the
// library behind it. Columns whose name starts with "|" align to the right.
func (g *Globals) Table(header []string, rows [][]string) error {
	align := make([]tw.Align, len(header))
	names := make([]string, len(header))
	for i, name := range header {
		align[i], names[i] = tw.AlignLeft, Text(name)
		if name != "" && name[0] == '|' {
			align[i], names[i] = tw.AlignRight, Text(name[1:])
		}
	}
	t := tablewriter.NewTable(g.Out,
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
		tablewriter.WithPadding(tw.Padding{Left: "", Right: "  ", Overwrite: true}),
	)
	t.Header(names)
	for _, row := range rows {
		for i := range row {
			row[i] = Text(zones.Printable(row[i])) // names come from files
		}
	}
	if err := t.Bulk(rows); err != nil {
		return err
	}
	return t.Render()
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
