package traces

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/iotrace"
	"ckpt/iotrace/report"

	"github.com/spf13/cobra"
)

func newShowCommand(g *ui.Globals) *cobra.Command {
	var in traceInput
	var most int
	var op, file string
	cmd := &cobra.Command{
		Use:     "show TRACE...",
		Short:   "List the events of a trace",
		Long:    "List the events of a trace in the order in which they began.\n\n" + scopeHelp + "\n\n" + traceInputHelp,
		Example: "  ckpt trace show bt.S.4-1 --op write --first 20\n  ckpt trace show job.trace --file out.nc --json",
		RunE: func(cmd *cobra.Command, args []string) error {
			if op != "" {
				if _, err := iotrace.ParseOp(op); err != nil {
					return ui.BadUsage("--op "+op+": unknown operation", "choose one of "+operations())
				}
			}
			if most < 0 {
				return ui.BadUsage(fmt.Sprintf("--first %d: want a number from 0", most), "")
			}
			t, err := in.trace(g, args)
			if err == nil {
				err = needEvents(t, "show")
			}
			if err != nil {
				return err
			}
			if file != "" && !slices.ContainsFunc(t.Files, func(name string) bool { return strings.Contains(name, file) }) {
				return in.noFile(file, t.Files)
			}
			if err := showEvents(g, t, op, file, most); err != nil {
				return err
			}
			in.tell(g, "", t, in.aside)
			return in.showScope(g, t)
		},
	}
	in.addFlags(cmd.Flags(), false)
	cmd.Flags().IntVar(&most, "first", 0, "show the first N events (default all)")
	cmd.Flags().StringVar(&op, "op", "", "only this operation, like write")
	ui.Choices(cmd.Flags(), "op", strings.Split(operations(), ", ")...)
	cmd.Flags().StringVar(&file, "file", "", "only files whose path contains this, then or after a renaming")
	g.AddStoreFlag(cmd)
	return cmd
}

// operations lists the names of all.
func operations() string {
	var names []string
	for op := iotrace.Op(1); op.Valid(); op++ {
		names = append(names, op.String())
	}
	return strings.Join(names, ", ")
}

// eventLine is an event as --json prints it. Times are in seconds since the first.
type eventLine struct {
	Type       string  `json:"type"` // event
	Op         string  `json:"op"`
	Rank       int     `json:"rank"`
	Node       string  `json:"node_name"`
	File       string  `json:"file,omitempty"`
	Create     bool    `json:"create,omitempty"` // of an open
	RenamedTo  string  `json:"renamed_to,omitempty"`
	Offset     int64   `json:"offset"` // -1: without
	Bytes      int64   `json:"bytes"`
	Start      float64 `json:"start_s"`
	End        float64 `json:"end_s"`
	Checkpoint int32   `json:"checkpoint,omitempty"`
	Round      int32   `json:"round,omitempty"`
}

// showScope prints under --json, in lines after the events, what the trace lacks and
// what was set apart.
func (in *traceInput) showScope(g *ui.Globals, t *iotrace.Trace) error {
	if !g.JSON {
		return nil
	}
	out := json.NewEncoder(g.Out)
	for _, w := range t.Warnings {
		if err := out.Encode(struct {
			Type string `json:"type"`
			iotrace.Warning
		}{"warning", w}); err != nil {
			return err
		}
	}
	if in.aside == (iotrace.Aside{}) {
		return nil
	}
	return out.Encode(struct {
		Type string `json:"type"`
		iotrace.Aside
	}{"aside", in.aside})
}

// eventsOnPage bounds the events of a table, which needs all its rows before it
// prints the first.
const eventsOnPage = 1000

// lastNames returns the events with the last names of their files, if some are asked for
// by name.
func lastNames(t *iotrace.Trace, file string) []iotrace.Event {
	if file == "" || len(t.Renames) == 0 {
		return t.Events
	}
	last := iotrace.Trace{Events: slices.Clone(t.Events), Renames: t.Renames}
	last.FollowRenames()
	return last.Events
}

func showEvents(g *ui.Globals, t *iotrace.Trace, op, file string, most int) error {
	var rows [][]string
	buffer := bufio.NewWriterSize(g.Out, 1<<16)
	out := json.NewEncoder(buffer)
	shown, targets, last := 0, t.Targets(), lastNames(t, file)
	page := func() error {
		header := []string{"|at", "|took", "|rank", "operation", "file", "|offset", "|bytes"}
		fitNames(header, rows, 4)
		err := g.Table(header, rows)
		rows = rows[:0]
		return err
	}
	for i := range t.Events {
		e := &t.Events[i]
		line := eventLine{Type: "event", Op: e.Op.String(), Rank: iotrace.None, Offset: e.Offset, Bytes: e.Bytes, Checkpoint: e.Checkpoint, Round: e.Round,
			Create: e.Op == iotrace.Open && e.Create,
			Start:  float64(e.Start-t.Events[0].Start) / 1e9, End: float64(e.End-t.Events[0].Start) / 1e9}
		if e.Rank >= 0 {
			line.Rank, line.Node = t.Ranks[e.Rank].Rank, t.Ranks[e.Rank].Node
		}
		if e.File >= 0 {
			line.File = t.Files[e.File]
		}
		if to, ok := targets[i]; ok {
			line.RenamedTo = t.Files[to.File]
		}
		if op != "" && line.Op != op || !strings.Contains(line.File, file) && !strings.Contains(line.RenamedTo, file) && !(e.File >= 0 && strings.Contains(t.Files[last[i].File], file)) {
			continue
		}
		if shown++; most > 0 && shown > most {
			break
		}
		if g.JSON {
			if err := out.Encode(line); err != nil {
				return err
			}
			continue
		}
		offset := ""
		if e.Offset >= 0 {
			offset = strconv.FormatInt(e.Offset, 10)
		}
		rank := strconv.Itoa(line.Rank)
		if line.Rank < 0 { // the coordinator, or an unknown process
			rank = cmp.Or(line.Node, "-")
		}
		name, what, elsewhere := line.File, line.Op, ""
		switch {
		case line.Create:
			what += " new"
		case line.RenamedTo == "":
		case path.Dir(line.RenamedTo) == path.Dir(name):
			name += " → " + path.Base(line.RenamedTo)
		default:
			elsewhere = line.RenamedTo
		}
		rows = append(rows, []string{duration(line.Start), duration(line.End - line.Start), rank, what,
			name, offset, strconv.FormatInt(e.Bytes, 10)})
		if elsewhere != "" { // a line of its own, since names lose their beginnings if they are long
			rows = append(rows, []string{"", "", "", "to", elsewhere, "", ""})
		}
		if len(rows) >= eventsOnPage {
			if err := page(); err != nil {
				return err
			}
			g.Printf("\n")
		}
	}
	switch {
	case g.JSON:
		return buffer.Flush()
	case len(rows) > 0 || shown == 0:
		return page()
	}
	return nil
}

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
The page is one file that needs no network.

Into a file that ends in .svg, .png or .pdf, draw one plot, into .json write its data:
request sizes or offsets in the order of the operations (León 2022, Figures 3.5 and 3.14
to 3.17), offsets over time by rank (Figure 5.10), the bandwidth over time, a histogram
of request sizes, the bytes of each rank over time, the timeline of one rank, or bytes
and time of each rank.

` + scopeHelp + `

` + traceInputHelp,
		Example: "  ckpt trace report bt.S.4-1 -o bt.html\n  ckpt trace report bt.S.4-1 --kind offsets -o offsets.svg",
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return ui.BadUsage("no output given", "add -o FILE.html")
			}
			var drawn bytes.Buffer
			format := strings.TrimPrefix(filepath.Ext(out), ".")
			if slices.Contains([]string{"svg", "png", "pdf", "json"}, format) {
				t, err := o.draw(cmd, g, &in, &an, args, format, &drawn)
				if err != nil {
					return err
				}
				return in.keep(cmd, g, &drawn, out, format, t)
			}
			if format != "" && format != "html" && format != "htm" {
				return ui.BadUsage(fmt.Sprintf("no page or plot is a .%s file", format), "name a file ending in .html, .svg, .png, .pdf or .json")
			}
			for _, flag := range []string{"kind", "file", "rank"} {
				if cmd.Flags().Changed(flag) {
					return ui.BadUsage(fmt.Sprintf("--%s is for one plot, and -o %s: want a name that ends in .svg, .png, .pdf or .json", flag, out), "name a file ending in .svg, .png, .pdf or .json")
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
	cmd.Flags().StringVarP(&out, "output", "o", "", "file to write: .html for a page, .svg, .png, .pdf or .json for one plot")
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
