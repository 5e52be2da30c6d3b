package traces

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/iotrace"
	"ckpt/iotrace/report"
)

func newPlotCommand(g *ui.Globals) *cobra.Command {
	var in traceInput
	var an analysis
	var kind, out, file string
	var kinds []string
	for _, k := range report.Plots() {
		kinds = append(kinds, string(k))
	}
	cmd := &cobra.Command{
		Use:   "plot TRACE... --kind KIND -o FILE",
		Short: "Draw a trace",
		Long: `Draw request sizes or offsets in the order of the operations (León 2022, Figures
3.5 and 3.14 to 3.17), offsets over time by rank (Figure 5.10), the bandwidth
over time, or a histogram of request sizes, as SVG, PNG or PDF.

` + traceInputHelp,
		Example: "  ckpt trace plot bt.S.4-1 --kind offsets -o offsets.svg\n  ckpt trace plot --builtin dmtcp --kind sizes -o sizes.png",
		RunE: func(cmd *cobra.Command, args []string) error {
			format := strings.TrimPrefix(filepath.Ext(out), ".")
			if format != "svg" && format != "png" && format != "pdf" {
				return ui.BadUsage(fmt.Sprintf("-o %s: want a name that ends in .svg, .png or .pdf", out), "name a file ending in .svg, .png or .pdf")
			}
			if !slices.Contains(kinds, kind) {
				return ui.BadUsage(fmt.Sprintf("--kind %q is unknown", kind), "--kind takes "+strings.Join(kinds, ", "))
			}
			t, r, err := an.read(g, &in, args)
			if err != nil {
				return err
			}
			// Find errors of drawing before the file is begun.
			var drawn bytes.Buffer
			if err := report.Draw(&drawn, report.Plot(kind), format, t, r, file); err != nil {
				return ui.AsUsage(err)
			}
			return keep(cmd, g, &drawn, out, format, t)
		},
	}
	in.addFlags(cmd.Flags())
	an.addFlags(cmd.Flags())
	cmd.Flags().StringVar(&kind, "kind", kinds[0], "kind of picture: "+strings.Join(kinds, ", "))
	ui.Choices(cmd.Flags(), "kind", kinds...)
	cmd.Flags().StringVar(&file, "file", "", "draw this file only")
	cmd.Flags().StringVarP(&out, "output", "o", "", "file to write: .svg, .png or .pdf")
	g.AddStoreFlag(cmd)
	return cmd
}

func newReportCommand(g *ui.Globals) *cobra.Command {
	var in traceInput
	var an analysis
	var out string
	cmd := &cobra.Command{
		Use:   "report TRACE... -o FILE.html",
		Short: "Write a page with plots and tables about a trace",
		Long: `Write one HTML page with the analysis, the findings and the plots of a trace.
The page needs neither script nor network.

` + traceInputHelp,
		Example: "  ckpt trace report bt.S.4-1 -o bt.html",
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return ui.BadUsage("no output given", "add -o FILE.html")
			}
			t, r, err := an.read(g, &in, args)
			if err != nil {
				return err
			}
			b := g.NewBar("draw", int64(len(report.Plots())), false)
			var drawn bytes.Buffer
			err = report.HTML(&drawn, t, r, b.Set)
			b.Clear()
			if err != nil {
				return err
			}
			return keep(cmd, g, &drawn, out, "html", t)
		},
	}
	in.addFlags(cmd.Flags())
	an.addFlags(cmd.Flags())
	cmd.Flags().StringVarP(&out, "output", "o", "", "file to write")
	g.AddStoreFlag(cmd)
	return cmd
}

// keep writes what was drawn of a trace to a file.
func keep(cmd *cobra.Command, g *ui.Globals, drawn *bytes.Buffer, out, format string, t *iotrace.Trace) error {
	if err := g.WriteFile(cmd.Context(), out, func(w io.Writer) error { _, err := drawn.WriteTo(w); return err }); err != nil {
		return err
	}
	return tellOutput(g, out, format, len(t.Events))
}
