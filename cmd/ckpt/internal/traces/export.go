package traces

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/iotrace"
	"ckpt/iotrace/export"
)

// exporters write a trace in some format.
var exporters = map[string]func(w io.Writer, t *iotrace.Trace) error{
	"chrome":  export.WriteChrome,
	"csv":     export.WriteRows,
	"jsonl":   export.WriteJSONRows,
	"parquet": export.WriteParquet,
}

// A lineCounter counts the written lines.
type lineCounter struct {
	w    io.Writer
	n    int64
	tell func(int64)
}

func (c *lineCounter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(bytes.Count(b[:n], []byte("\n")))
	c.tell(c.n)
	return n, err
}

const exportFormats = "chrome, csv, events, jsonl or parquet"

func newExportCommand(g *ui.Globals) *cobra.Command {
	var in traceInput
	var format, out string
	var comments bool
	cmd := &cobra.Command{
		Use:   "export TRACE... -o FILE",
		Short: "Write traces in another format, as one events file by default",
		Long: `Write traces as an events file, the compact format of ckpt, as Chrome trace JSON
(ui.perfetto.dev, chrome://tracing), CSV, lines of JSON, or Parquet (with the
columns of WisIO). Several files are merged as the ranks of one job. Lines of them that are not
understood are counted, and the first ones shown, more with -v.

Run strace with these options: strace -f -ttt -T -y -o FILE COMMAND, or use ckpt
trace record. After strace -ff -o NAME give all files at once, NAME.*; a text
without process numbers is one process.

CSV has the names of the columns and a line per event, jsonl the same as an
object in each line. FILE.meta.json beside it has the job, the ranks, the files
and the warnings; with --comments the CSV has them in front, in lines that begin
with #. ckpt reads them, and lines of them that another program has chosen or
written anew.

Of a Darshan log without requests, CSV is a table of its counters, with a line
per file, rank and interface; ckpt does not read it. Of a log with both, the
table is in FILE.counters.csv.

` + traceInputHelp,
		Example: `  ckpt trace export job.strace -o job.trace
  ckpt trace export bt.S.4-1 --format chrome -o bt.json
  ckpt trace export job.strace --format csv -o - | head`,
		RunE: func(cmd *cobra.Command, args []string) error {
			write, ok := exporters[format]
			if !ok && format != "events" {
				return ui.BadUsage(fmt.Sprintf("--format %s is unknown", format), "--format takes "+exportFormats)
			}
			if comments && format != "csv" {
				return ui.BadUsage("--comments without --format csv", "leave --comments out")
			}
			if comments {
				write = export.WriteCSV
			}
			if out == "" {
				return ui.BadUsage("no output given", "add -o FILE, or -o - for standard output")
			}
			if binary := format == "events" || format == "parquet"; binary && out == "-" && ui.IsTerminal(g.CommandOutput()) {
				return ui.BadUsage("refusing to write "+format+" to a terminal", "add -o FILE, or a pipe")
			}
			if format == "events" {
				return in.exportEvents(cmd.Context(), g, args, out)
			}
			t, err := in.trace(g, args)
			if err != nil {
				return err
			}
			counted := len(t.Events) == 0 && len(t.Counters) > 0
			switch {
			case counted && format == "csv" && !comments:
				write = export.WriteCounters
			case counted && (comments || format == "chrome" || format == "jsonl"):
				return ui.BadUsage("the trace has counters and no events, which "+format+" describes",
					"--format events keeps them, --format csv is a table of them; ckpt trace analyze shows them")
			}
			b := g.NewBar("write", int64(len(t.Events)), false)
			err = g.WriteFile(cmd.Context(), out, func(w io.Writer) error {
				if b != nil && format != "parquet" { // others have an event per line
					w = &lineCounter{w: w, tell: b.Set}
				}
				return write(w, t)
			})
			b.Clear()
			if err == nil && (format == "csv" && !comments || format == "jsonl") && out != "-" {
				err = in.writeBeside(cmd.Context(), g, out, t)
			}
			if err != nil {
				return err
			}
			in.tell(g, "", t, in.aside)
			return in.tellOutput(g, out, format, t, len(t.Events))
		},
	}
	cmd.Flags().BoolVar(&comments, "comments", false, "describe the trace in the CSV itself, in lines that begin with #")
	in.addFlags(cmd.Flags(), true)
	cmd.Flags().StringVar(&format, "format", "events", exportFormats)
	ui.Choices(cmd.Flags(), "format", append(slices.Sorted(maps.Keys(exporters)), "events")...)
	cmd.Flags().StringVarP(&out, "output", "o", "", "file to write, - for standard output")
	g.AddStoreFlag(cmd)
	return cmd
}

// writeBeside writes what has no place among the rows of a CSV of events: a file about
// the trace, and its counters.
func (in *traceInput) writeBeside(ctx context.Context, g *ui.Globals, out string, t *iotrace.Trace) error {
	err := g.WriteFile(ctx, out+".meta.json", func(w io.Writer) error { return export.WriteMeta(w, t) })
	if err == nil && len(t.Events) > 0 && len(t.Counters) > 0 {
		err = g.WriteFile(ctx, out+".counters.csv", func(w io.Writer) error { return export.WriteCounters(w, t) })
	}
	return err
}

// outputResult is what commands that write a file print as JSON.
type outputResult struct {
	Output string `json:"output"`
	Format string `json:"format"`
	Bytes  int64  `json:"bytes"`
	Events int    `json:"events"` // of the trace
	scoped
}

// tellOutput prints it under --json, unless standard output is the output.
func (in *traceInput) tellOutput(g *ui.Globals, name, format string, t *iotrace.Trace, events int) error {
	if !g.JSON || name == "-" {
		return nil
	}
	fi, err := os.Stat(name)
	if err != nil {
		return err
	}
	return g.PrintJSON(outputResult{name, format, fi.Size(), events, in.scoped(t)})
}
