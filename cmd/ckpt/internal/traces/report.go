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

// plotOptions say what of a trace is drawn.
type plotOptions struct {
	kind, file string
	rank       int
	kinds      []string
}

func newReportCommand(g *ui.Globals) *cobra.Command {
	var in traceInput
	var an analysis
	var o plotOptions
	var out string
	for _, k := range report.Plots() {
		o.kinds = append(o.kinds, string(k))
	}
	cmd := &cobra.Command{
		Use:   "report TRACE... -o FILE",
		Short: "Write a page with plots and tables about a trace, or draw one plot",
		Long: `Write one HTML page with the analysis, the findings and the plots of a trace.
The page needs neither script nor network.

Into a file that ends in .svg, .png or .pdf, draw one plot: request sizes or offsets in
the order of the operations (León 2022, Figures 3.5 and 3.14 to 3.17), offsets over time
by rank (Figure 5.10), the bandwidth over time, a histogram of request sizes, the bytes
of each rank over time, the timeline of one rank, or bytes and time of each rank.

` + scopeHelp + `

` + traceInputHelp,
		Example: "  ckpt trace report bt.S.4-1 -o bt.html\n  ckpt trace report bt.S.4-1 --kind offsets -o offsets.svg",
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return ui.BadUsage("no output given", "add -o FILE.html")
			}
			var drawn bytes.Buffer
			format := strings.TrimPrefix(filepath.Ext(out), ".")
			if format == "svg" || format == "png" || format == "pdf" {
				t, err := o.draw(cmd, g, &in, &an, args, format, &drawn)
				if err != nil {
					return err
				}
				return in.keep(cmd, g, &drawn, out, format, t)
			}
			if format != "" && format != "html" && format != "htm" {
				return ui.BadUsage(fmt.Sprintf("no page or plot is a .%s file", format), "name a file ending in .html, .svg, .png or .pdf")
			}
			for _, flag := range []string{"kind", "file", "rank"} {
				if cmd.Flags().Changed(flag) {
					return ui.BadUsage(fmt.Sprintf("--%s is for one plot, and -o %s: want a name that ends in .svg, .png or .pdf", flag, out), "name a file ending in .svg, .png or .pdf")
				}
			}
			t, r, err := an.read(g, &in, args)
			if err != nil {
				return err
			}
			b := g.NewBar("draw", int64(len(report.Plots())), false)
			err = report.HTML(&drawn, t, r, in.facts(t, r), b.Set)
			b.Clear()
			if err != nil {
				return err
			}
			return in.keep(cmd, g, &drawn, out, "html", t)
		},
	}
	in.addFlags(cmd.Flags(), false)
	an.addFlags(cmd.Flags())
	cmd.Flags().StringVar(&o.kind, "kind", o.kinds[0], "plot to draw: "+strings.Join(o.kinds, ", "))
	ui.Choices(cmd.Flags(), "kind", o.kinds...)
	cmd.Flags().StringVar(&o.file, "file", "", "draw this file only")
	cmd.Flags().IntVar(&o.rank, "rank", 0, "rank of --kind timeline (default: the slowest, or the first\nat work)")
	cmd.Flags().StringVarP(&out, "output", "o", "", "file to write: .html for a page, .svg, .png or .pdf for one plot")
	g.AddStoreFlag(cmd)
	return cmd
}

// draw draws one plot, before the file for it is begun.
func (o *plotOptions) draw(cmd *cobra.Command, g *ui.Globals, in *traceInput, an *analysis, args []string, format string, to io.Writer) (*iotrace.Trace, error) {
	kind := report.Plot(o.kind)
	if !slices.Contains(o.kinds, o.kind) {
		return nil, ui.BadUsage(fmt.Sprintf("--kind %q is unknown", o.kind), "--kind takes "+strings.Join(o.kinds, ", "))
	}
	ofRank := cmd.Flags().Changed("rank")
	if ofRank && kind != report.Timeline {
		return nil, ui.BadUsage("--rank is for --kind timeline", "add --kind timeline")
	}
	t, r, err := an.read(g, in, args)
	if err == nil && report.NeedsEvents(kind) {
		err = needEvents(t, "draw")
	}
	if err != nil {
		return nil, err
	}
	rank := iotrace.None
	if ofRank {
		if rank = o.rank; !slices.ContainsFunc(t.Ranks, func(k iotrace.Rank) bool { return k.Rank == rank }) {
			return nil, ui.BadUsage(fmt.Sprintf("--rank %d: not in the trace", rank), "the trace has "+rankNumbers(t))
		}
	}
	if err := report.Draw(to, kind, format, t, r, o.file, rank); err != nil {
		return nil, ui.AsUsage(err)
	}
	return t, nil
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

// Commands returns the commands of this package, but for the benchmark.
func Commands(g *ui.Globals) []*cobra.Command { return []*cobra.Command{newTraceCommand(g)} }

func newTraceCommand(g *ui.Globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "trace",
		Short: "Record, analyse, draw, export and replay I/O",
		Long: `Characterise the I/O of a checkpoint, or of any program, so that it can be
compared, predicted and replayed elsewhere. ckpt records its own checkpoints
(ckpt launch --trace). docs/TRACE.md explains patterns, findings and formats.`,
		Example: `  ckpt trace analyze bt.S.4-1
  ckpt trace record -o job.trace -- ./a.out
  ckpt trace export job.trace --format chrome -o job.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newRecordCommand(g), newAnalyzeCommand(g), newShowCommand(g),
		newDiffCommand(g), newExportCommand(g), newReportCommand(g), newReplayCommand(g), ui.Moved("import", "trace export"), ui.Moved("plot", "trace report"))
	return cmd
}
