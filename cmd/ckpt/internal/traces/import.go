package traces

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/iotrace"
	"ckpt/iotrace/export"
	"ckpt/zones"

	"github.com/spf13/cobra"
)

// exportEvents writes an events file, and says what it read for that.
func (in *traceInput) exportEvents(ctx context.Context, g *ui.Globals, args []string, out string) error {
	if err := in.check(); err != nil {
		return err
	}
	if len(args) == 0 {
		return ui.BadUsage("no trace given", "name a file or a job")
	}
	all, reports, err := in.read(g, args)
	if err != nil {
		return err
	}
	t, err := oneRun(all)
	if err != nil {
		return err
	}
	t, in.aside, err = in.apply(t)
	if err != nil {
		return err
	}
	if err := g.WriteFile(ctx, out, func(w io.Writer) error { return iotrace.WriteTrace(w, t) }); err != nil {
		return err
	}
	in.tell(g, "", t, in.aside)
	if out == "-" {
		return nil
	}
	return in.tellImport(g, t, out, args, reports)
}

// importResult is what ckpt trace record, and export of events, print as JSON.
type importResult struct {
	Output  string         `json:"output"`
	Format  string         `json:"format,omitempty"`
	Bytes   int64          `json:"bytes"`
	Events  int            `json:"events"`
	Ranks   int            `json:"ranks"`
	Files   int            `json:"files"`
	Sources []importSource `json:"sources"`
	scoped
}

type importSource struct {
	Name          string       `json:"name"`
	Format        string       `json:"format"`
	Lines         int64        `json:"lines"`                // of a text
	NotUnderstood int64        `json:"not_understood"`       // lines
	Notes         []importNote `json:"not_understood_lines"` // the first of them
	FailedCalls   int64        `json:"failed_calls"`
	OtherCalls    []otherCalls `json:"other_calls"`              // on what is no file
	UnknownCalls  int64        `json:"unknown_descriptor_calls"` // reads and writes that the trace lacks
	UnknownBytes  int64        `json:"unknown_descriptor_bytes"`
	Cut           string       `json:"cut,omitempty"`
}

type otherCalls struct {
	Name  string `json:"name"`
	Count int64  `json:"count"`
}

type importNote struct {
	Line   int64  `json:"line_number"`
	Reason string `json:"reason"`
	Text   string `json:"text"`
}

// tellImport reports the imported events, and the lines that were not imported.
func (in *traceInput) tellImport(g *ui.Globals, t *iotrace.Trace, out string, names []string, reports []*iotrace.Report) error {
	r, err := in.importResult(t, out, names, reports)
	if err != nil {
		return err
	}
	if g.JSON {
		return g.PrintJSON(r)
	}
	return r.tell(g)
}

// importResult collects the numbers of an import.
func (in *traceInput) importResult(t *iotrace.Trace, out string, names []string, reports []*iotrace.Report) (*importResult, error) {
	fi, err := os.Stat(out)
	if err != nil {
		return nil, err
	}
	r := &importResult{Output: out, Format: "events", Bytes: fi.Size(), Events: len(t.Events), Ranks: len(t.Ranks), Files: len(t.Files), Sources: []importSource{}, scoped: in.scoped(t)}
	for i, rep := range reports {
		s := importSource{Name: names[i], Format: rep.Format.String(), Lines: rep.Lines, NotUnderstood: rep.Unknown, Notes: []importNote{},
			FailedCalls: rep.Failed, OtherCalls: []otherCalls{}, UnknownCalls: rep.Astray, UnknownBytes: rep.AstrayBytes}
		for _, name := range slices.Sorted(maps.Keys(rep.Others)) {
			s.OtherCalls = append(s.OtherCalls, otherCalls{name, rep.Others[name]})
		}
		if rep.Cut != nil {
			s.Cut = rep.Cut.Error()
		}
		for _, n := range rep.Notes {
			s.Notes = append(s.Notes, importNote{n.Line, n.Reason, n.Text})
		}
		r.Sources = append(r.Sources, s)
	}
	return r, nil
}

// tell prints an import in words.
func (r *importResult) tell(g *ui.Globals) error {
	if err := g.Printf("%s: %s of %s on %s, %s\n", r.Output, ui.Count(r.Events, "event"), ui.Plural(r.Ranks, "process", "processes"),
		ui.Count(r.Files, "file"), ui.Count(int(r.Bytes), "byte")); err != nil || g.Quiet {
		return err
	}
	for _, s := range r.Sources {
		if err := tellSource(g, &s); err != nil {
			return err
		}
	}
	return nil
}

// importNotes is the number of lines not understood that are shown without -v.
const importNotes = 5

func tellSource(g *ui.Globals, s *importSource) error {
	words := []string{s.Format}
	if s.Lines > 0 {
		words = append(words, ui.Count(int(s.Lines), "line"))
	}
	if s.FailedCalls > 0 {
		words = append(words, ui.Count(int(s.FailedCalls), "call")+" that failed")
	}
	g.Printf("%s: %s\n", s.Name, strings.Join(words, ", "))
	if len(s.OtherCalls) > 0 {
		var others []string
		for _, what := range s.OtherCalls {
			others = append(others, what.Name+" "+strconv.FormatInt(what.Count, 10))
		}
		g.Printf("  calls that make no event: %s\n", strings.Join(others, ", "))
	}
	if s.Cut != "" {
		g.Printf("  cut: %s\n", ui.OneLine(s.Cut))
	}
	if s.NotUnderstood == 0 {
		return nil
	}
	g.Printf("  %s not understood:\n", ui.Plural(int(s.NotUnderstood), "line", "lines"))
	for i, n := range s.Notes {
		if i == importNotes && !g.Verbose {
			return g.Printf("    … -v shows more\n")
		}
		text := zones.Printable(n.Text)
		if !g.Verbose {
			text = shortLine(text)
		}
		where := ""
		if n.Line > 0 {
			where = fmt.Sprintf("line %d: ", n.Line)
		}
		if text != "" {
			text = ": " + text
		}
		g.Printf("    %s%s%s\n", where, n.Reason, text)
	}
	if more := int(s.NotUnderstood) - len(s.Notes); more > 0 {
		return g.Printf("    … and %d more\n", more)
	}
	return nil
}

// shortLine keeps the beginning of a line.
func shortLine(s string) string {
	if r := []rune(s); len(r) > 60 {
		return string(r[:59]) + "…"
	}
	return s
}

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

// exportNames has the format that the end of a name stands for, unless --format names one.
var exportNames = map[string]string{".csv": "csv", ".json": "chrome", ".jsonl": "jsonl", ".parquet": "parquet"}

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
  ckpt trace export bt.S.4-1 -o bt.json
  ckpt trace export job.strace --format csv -o - | head`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if named, ok := exportNames[filepath.Ext(out)]; ok && !cmd.Flags().Changed("format") {
				format = named
			}
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
	cmd.Flags().StringVar(&format, "format", "events", exportFormats+"; without it a name that ends in .csv, .json, .jsonl or .parquet tells")
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
