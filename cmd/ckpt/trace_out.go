package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"ckpt/coordinator"
	"ckpt/iotrace"
	"ckpt/iotrace/analyze"
	"ckpt/iotrace/dxt"
	"ckpt/iotrace/export"
	"ckpt/iotrace/report"
)

// exporters write a trace in some format.
var exporters = map[string]func(w io.Writer, t *iotrace.Trace) (left int64, err error){
	"events":  whole(iotrace.WriteTrace),
	"chrome":  whole(export.WriteChrome),
	"csv":     whole(export.WriteCSV),
	"jsonl":   whole(export.WriteJSON),
	"parquet": whole(export.WriteParquet),
	"dxt":     dxt.Write,
}

const exportFormats = "chrome, csv, dxt, events, jsonl or parquet"

func whole(write func(io.Writer, *iotrace.Trace) error) func(io.Writer, *iotrace.Trace) (int64, error) {
	return func(w io.Writer, t *iotrace.Trace) (int64, error) { return 0, write(w, t) }
}

func newTraceImportCommand(g *globals) *cobra.Command {
	var in traceInput
	var out string
	cmd := &cobra.Command{
		Use:   "import FILE... -o OUT",
		Short: "Make an events file of traces of other tools",
		Long: `Read the text of strace -f or of darshan-dxt-parser, CSV or Parquet, and write an
events file, the compact format of ckpt. Several files are merged, as the ranks of one
job recorded them.

strace has to be told what to write: strace -f -ttt -T -y -o FILE COMMAND, or let
ckpt trace record do it.`,
		Example: "  ckpt trace import job.strace -o job.trace\n  ckpt trace import job.dxt -o job.trace --lenient",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return &coordinator.UsageError{Text: "there is nowhere to write to", Fix: "add -o FILE"}
			}
			t, err := in.trace(g, args)
			if err != nil {
				return err
			}
			if err := g.writeFile(out, func(w io.Writer) error { return iotrace.WriteTrace(w, t) }); err != nil {
				return err
			}
			return g.tellImport(t, out)
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "", "file to write")
	cmd.Flags().BoolVar(&in.lenient, "lenient", false, "take what can be read of a trace that is damaged or cut")
	g.addStoreFlag(cmd)
	return cmd
}

// tellImport says what was imported.
func (g *globals) tellImport(t *iotrace.Trace, out string) error {
	fi, err := os.Stat(out)
	if err != nil {
		return err
	}
	if g.json {
		return g.printJSON(struct {
			Output string `json:"output"`
			Bytes  int64  `json:"bytes"`
			Events int    `json:"events"`
			Ranks  int    `json:"ranks"`
			Files  int    `json:"files"`
		}{out, fi.Size(), len(t.Events), len(t.Ranks), len(t.Files)})
	}
	return g.printf("%s: %s of %s on %s, %s\n", out, count(len(t.Events), "event"), plural(len(t.Ranks), "process", "processes"),
		count(len(t.Files), "file"), plural(int(fi.Size()), "byte", "bytes"))
}

// writeFile makes a file, whole or not at all; - is standard output.
func (g *globals) writeFile(name string, write func(io.Writer) error) (err error) {
	if name == "-" {
		w := bufio.NewWriter(g.out)
		return errors.Join(write(w), w.Flush())
	}
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close(), os.Remove(f.Name()))
		}
	}()
	w := bufio.NewWriterSize(f, 1<<20)
	if err := errors.Join(write(w), w.Flush()); err != nil {
		return err
	}
	if err := f.Chmod(0o644); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), name); err != nil {
		return err
	}
	return f.Close()
}

func newTraceExportCommand(g *globals) *cobra.Command {
	var in traceInput
	var format, out string
	cmd := &cobra.Command{
		Use:   "export TRACE... --format FORMAT -o FILE",
		Short: "Write a trace for other tools",
		Long: `Write a trace as Chrome trace JSON (ui.perfetto.dev, chrome://tracing), Darshan DXT
text, CSV, JSON lines, Parquet (with the columns of WisIO) or an events file.

` + traceInputHelp,
		Example: `  ckpt trace export bt.S.4-1 --format chrome -o bt.json
  ckpt trace export job.strace --format csv -o - | head
  ckpt trace export --builtin minighost --format dxt -o minighost.dxt`,
		RunE: func(cmd *cobra.Command, args []string) error {
			write, ok := exporters[format]
			if !ok {
				return &coordinator.UsageError{Text: fmt.Sprintf("--format %s is unknown", format), Fix: "--format takes " + exportFormats}
			}
			if out == "" {
				return &coordinator.UsageError{Text: "there is nowhere to write to", Fix: "add -o FILE, or -o - for standard output"}
			}
			t, err := in.trace(g, args)
			if err != nil {
				return err
			}
			var left int64
			err = g.writeFile(out, func(w io.Writer) (err error) {
				left, err = write(w, t)
				return err
			})
			if err == nil && left > 0 {
				g.warn("%s no place in the format: left out", plural(int(left), "event has", "events have"))
			}
			return err
		},
	}
	in.addFlags(cmd.Flags())
	cmd.Flags().StringVar(&format, "format", "", exportFormats)
	cmd.Flags().StringVarP(&out, "output", "o", "", "file to write, - for standard output")
	g.addStoreFlag(cmd)
	return cmd
}

func newTracePlotCommand(g *globals) *cobra.Command {
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
		Long: `Draw request sizes or offsets in the order of the operations (León 2022, Figures 3.5
and 3.14 to 3.17), offsets over time by rank (Figure 5.10), the bandwidth over time, or
a histogram of request sizes, as SVG or PNG.

` + traceInputHelp,
		Example: "  ckpt trace plot bt.S.4-1 --kind offsets -o offsets.svg\n  ckpt trace plot --builtin dmtcp --kind sizes -o sizes.png",
		RunE: func(cmd *cobra.Command, args []string) error {
			format := strings.TrimPrefix(filepath.Ext(out), ".")
			if format != "svg" && format != "png" {
				return &coordinator.UsageError{Text: fmt.Sprintf("-o %s: neither .svg nor .png", out), Fix: "name a file ending in .svg or .png"}
			}
			opt, err := an.options()
			if err != nil {
				return err
			}
			t, err := in.trace(g, args)
			if err != nil {
				return err
			}
			r := analyze.Analyze(t, opt)
			err = g.writeFile(out, func(w io.Writer) error { return report.Draw(w, report.Plot(kind), format, t, r, file) })
			if err != nil {
				return errUsage{err}
			}
			return nil
		},
	}
	in.addFlags(cmd.Flags())
	an.addFlags(cmd.Flags())
	cmd.Flags().StringVar(&kind, "kind", kinds[0], "what to draw: "+strings.Join(kinds, ", "))
	cmd.Flags().StringVar(&file, "file", "", "draw this file only")
	cmd.Flags().StringVarP(&out, "output", "o", "", "file to write, .svg or .png")
	g.addStoreFlag(cmd)
	return cmd
}

func newTraceReportCommand(g *globals) *cobra.Command {
	var in traceInput
	var an analysis
	var out string
	cmd := &cobra.Command{
		Use:   "report TRACE... -o FILE.html",
		Short: "Write a page with plots and tables about a trace",
		Long: `Write one HTML page with the analysis, the findings and the plots of a trace. It needs
nothing else: no script, no network.

` + traceInputHelp,
		Example: "  ckpt trace report bt.S.4-1 -o bt.html",
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return &coordinator.UsageError{Text: "there is nowhere to write to", Fix: "add -o FILE.html"}
			}
			opt, err := an.options()
			if err != nil {
				return err
			}
			t, err := in.trace(g, args)
			if err != nil {
				return err
			}
			r := analyze.Analyze(t, opt)
			return g.writeFile(out, func(w io.Writer) error { return report.HTML(w, t, r) })
		},
	}
	in.addFlags(cmd.Flags())
	an.addFlags(cmd.Flags())
	cmd.Flags().StringVarP(&out, "output", "o", "", "file to write")
	g.addStoreFlag(cmd)
	return cmd
}

func newTraceDiffCommand(g *globals) *cobra.Command {
	var in traceInput
	var an analysis
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Compare two traces",
		Long: `Compare operation counts, bytes, bursts and patterns of two traces. Percentages are of
the second one, as León compares tools (Tables 2.5 and 2.6).

` + traceInputHelp,
		Example: "  ckpt trace diff bt.S.4-1@1 bt.S.4-1@2\n  ckpt trace diff cluster.trace cloud.trace --json",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			opt, err := an.options()
			if err != nil {
				return err
			}
			all, err := in.traces(g, args)
			if err != nil {
				return err
			}
			c := analyze.Compare(analyze.Analyze(all[0], opt), analyze.Analyze(all[1], opt))
			if g.json {
				return g.printJSON(c)
			}
			return g.showComparison(c)
		},
	}
	cmd.Flags().BoolVar(&in.lenient, "lenient", false, "take what can be read of a trace that is damaged or cut")
	an.addFlags(cmd.Flags())
	g.addStoreFlag(cmd)
	return cmd
}

func (g *globals) showComparison(c *analyze.Comparison) error {
	rowsOf := func(list []analyze.Difference) (rows [][]string) {
		for _, d := range list {
			a, b := d.TextA, d.TextB
			if a == "" && b == "" {
				a, b = strconv.FormatFloat(d.A, 'g', 8, 64), strconv.FormatFloat(d.B, 'g', 8, 64)
			}
			percent := ""
			if d.Percent != nil && !d.Same {
				percent = fmt.Sprintf("%+.2f %%", *d.Percent)
			}
			rows = append(rows, []string{d.Quantity, a, b, percent})
		}
		return rows
	}
	header := []string{"quantity", "|A", "|B", "|A against B"}
	if err := g.table(header, rowsOf(c.Job)); err != nil {
		return err
	}
	for _, f := range c.Files {
		var differ []analyze.Difference
		for _, d := range f.Differences {
			if !d.Same {
				differ = append(differ, d)
			}
		}
		if len(differ) == 0 {
			continue
		}
		name := f.A
		if f.B != f.A {
			name += " and " + f.B
		}
		if err := g.printf("\n%s\n", name); err != nil {
			return err
		}
		if err := g.table(header, rowsOf(differ)); err != nil {
			return err
		}
	}
	for _, only := range []struct {
		which string
		names []string
	}{{"A", c.OnlyA}, {"B", c.OnlyB}} {
		for _, name := range only.names {
			if err := g.printf("only in %s: %s\n", only.which, name); err != nil {
				return err
			}
		}
	}
	if c.SamePattern {
		return g.printf("\nthe patterns are the same\n")
	}
	return g.printf("\nthe patterns differ\n")
}

func newTraceShowCommand(g *globals) *cobra.Command {
	var in traceInput
	var most int
	var op, file string
	cmd := &cobra.Command{
		Use:     "show TRACE...",
		Short:   "List the events of a trace",
		Long:    "List the events of a trace in the order in which they began.\n\n" + traceInputHelp,
		Example: "  ckpt trace show bt.S.4-1 --op write --first 20",
		RunE: func(cmd *cobra.Command, args []string) error {
			if op != "" {
				if _, err := iotrace.ParseOp(op); err != nil {
					return errUsage{err}
				}
			}
			t, err := in.trace(g, args)
			if err != nil {
				return err
			}
			return g.showEvents(t, op, file, most)
		},
	}
	in.addFlags(cmd.Flags())
	cmd.Flags().IntVar(&most, "first", 0, "show so many (default all)")
	cmd.Flags().StringVar(&op, "op", "", "only this operation, like write")
	cmd.Flags().StringVar(&file, "file", "", "only files whose path contains this")
	g.addStoreFlag(cmd)
	return cmd
}

// eventLine is an event as --json prints it. Times are in seconds since the first.
type eventLine struct {
	Op         string  `json:"op"`
	Rank       int     `json:"rank"`
	Node       string  `json:"node"`
	File       string  `json:"file,omitempty"`
	Offset     int64   `json:"offset"` // -1: none
	Bytes      int64   `json:"bytes"`
	Start      float64 `json:"start_s"`
	End        float64 `json:"end_s"`
	Checkpoint int32   `json:"checkpoint,omitempty"`
	Round      int32   `json:"round,omitempty"`
}

func (g *globals) showEvents(t *iotrace.Trace, op, file string, most int) error {
	var rows [][]string
	out := json.NewEncoder(g.out)
	shown := 0
	for i := range t.Events {
		e := &t.Events[i]
		line := eventLine{Op: e.Op.String(), Rank: iotrace.None, Offset: e.Offset, Bytes: e.Bytes, Checkpoint: e.Checkpoint, Round: e.Round,
			Start: float64(e.Start-t.Events[0].Start) / 1e9, End: float64(e.End-t.Events[0].Start) / 1e9}
		if e.Rank >= 0 {
			line.Rank, line.Node = t.Ranks[e.Rank].Rank, t.Ranks[e.Rank].Node
		}
		if e.File >= 0 {
			line.File = t.Files[e.File]
		}
		if op != "" && line.Op != op || !strings.Contains(line.File, file) {
			continue
		}
		if shown++; most > 0 && shown > most {
			break
		}
		if g.json {
			if err := out.Encode(line); err != nil {
				return err
			}
			continue
		}
		offset := ""
		if e.Offset >= 0 {
			offset = strconv.FormatInt(e.Offset, 10)
		}
		rows = append(rows, []string{duration(line.Start), duration(line.End - line.Start), strconv.Itoa(line.Rank), line.Op,
			shorten(line.File, 24), offset, strconv.FormatInt(e.Bytes, 10)})
	}
	if g.json {
		return nil
	}
	return g.table([]string{"|at", "|took", "|rank", "operation", "file", "|offset", "|bytes"}, rows)
}
