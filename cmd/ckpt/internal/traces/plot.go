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
	var rank int
	var kinds []string
	for _, k := range report.Plots() {
		kinds = append(kinds, string(k))
	}
	cmd := &cobra.Command{
		Use:   "plot TRACE... --kind KIND -o FILE",
		Short: "Draw a trace",
		Long: `Draw request sizes or offsets in the order of the operations (León 2022, Figures
3.5 and 3.14 to 3.17), offsets over time by rank (Figure 5.10), the bandwidth
over time, a histogram of request sizes, the bytes of each rank over time, the
timeline of one rank, bytes and time of each rank, or what MPI-IO makes of the
requests for each file, as SVG, PNG or PDF.

` + scopeHelp + `

` + traceInputHelp,
		Example: "  ckpt trace plot bt.S.4-1 --kind offsets -o offsets.svg\n  ckpt trace plot job.strace --kind sizes -o sizes.png",
		RunE: func(cmd *cobra.Command, args []string) error {
			format := strings.TrimPrefix(filepath.Ext(out), ".")
			if format != "svg" && format != "png" && format != "pdf" {
				return ui.BadUsage(fmt.Sprintf("-o %s: want a name that ends in .svg, .png or .pdf", out), "name a file ending in .svg, .png or .pdf")
			}
			if !slices.Contains(kinds, kind) {
				return ui.BadUsage(fmt.Sprintf("--kind %q is unknown", kind), "--kind takes "+strings.Join(kinds, ", "))
			}
			ofRank := cmd.Flags().Changed("rank")
			if ofRank && report.Plot(kind) != report.Timeline {
				return ui.BadUsage("--rank is for --kind timeline", "add --kind timeline")
			}
			t, r, err := an.read(g, &in, args)
			if err == nil && report.NeedsEvents(report.Plot(kind)) {
				err = needEvents(t, "draw")
			}
			if err != nil {
				return err
			}
			// Find errors of drawing before the file is begun.
			var drawn bytes.Buffer
			if ofRank && !slices.ContainsFunc(t.Ranks, func(k iotrace.Rank) bool { return k.Rank == rank }) {
				return ui.BadUsage(fmt.Sprintf("--rank %d: not in the trace", rank), "the trace has "+rankNumbers(t))
			}
			if !ofRank {
				rank = iotrace.None
			}
			err = report.Draw(&drawn, report.Plot(kind), format, t, r, file, rank)
			if err != nil {
				return ui.AsUsage(err)
			}
			return in.keep(cmd, g, &drawn, out, format, t)
		},
	}
	in.addFlags(cmd.Flags(), false)
	an.addFlags(cmd.Flags())
	cmd.Flags().StringVar(&kind, "kind", kinds[0], "kind of picture: "+strings.Join(kinds, ", "))
	ui.Choices(cmd.Flags(), "kind", kinds...)
	cmd.Flags().StringVar(&file, "file", "", "draw this file only")
	cmd.Flags().IntVar(&rank, "rank", 0, "rank of --kind timeline (default: the slowest, or the first\nat work)")
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

` + scopeHelp + `

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
			err = report.HTML(&drawn, t, r, in.text(in.aside), b.Set)
			b.Clear()
			if err != nil {
				return err
			}
			return in.keep(cmd, g, &drawn, out, "html", t)
		},
	}
	in.addFlags(cmd.Flags(), false)
	an.addFlags(cmd.Flags())
	cmd.Flags().StringVarP(&out, "output", "o", "", "file to write")
	g.AddStoreFlag(cmd)
	return cmd
}

// keep writes what was drawn of a trace to a file.
func (in *traceInput) keep(cmd *cobra.Command, g *ui.Globals, drawn *bytes.Buffer, out, format string, t *iotrace.Trace) error {
	if err := g.WriteFile(cmd.Context(), out, func(w io.Writer) error { _, err := drawn.WriteTo(w); return err }); err != nil {
		return err
	}
	in.tell(g, "", t, in.aside)
	return in.tellOutput(g, out, format, t, len(t.Events))
}

// rankNumbers lists the first ranks of a trace, or the processes of one without ranks.
func rankNumbers(t *iotrace.Trace) string {
	const most = 8
	var numbers []int
	for _, k := range t.Ranks {
		if k.Rank >= 0 {
			numbers = append(numbers, k.Rank)
		}
	}
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	text := listed(numbers[:min(len(numbers), most)])
	if n := len(numbers); n > most {
		text += fmt.Sprintf(" and others up to %d", numbers[n-1])
	}
	return text + "; processes that are no ranks of MPI have their process ids"
}
