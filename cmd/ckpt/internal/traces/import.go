package traces

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/iotrace"
	"ckpt/zones"
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
