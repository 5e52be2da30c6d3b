package traces

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/olekukonko/tablewriter/pkg/twwarp"
	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/iotrace/analyze"
	"ckpt/zones"
)

// traceFiles is the number of files shown without --all.
const traceFiles = 20

type traceAnalyzeOptions struct {
	traceInput
	analysis
	insights, all, show bool
	file                string
}

func newAnalyzeCommand(g *ui.Globals) *cobra.Command {
	var o traceAnalyzeOptions
	cmd := &cobra.Command{
		Use:   "analyze TRACE...",
		Short: "Characterise the I/O of a trace and suggest remedies",
		Long: `Characterise how each file, and the whole trace, is accessed: by one process or
shared; sequential, strided or random; in which request sizes and bursts. Name
the causes of lost time, with the flags of ckpt launch that would help.

` + traceInputHelp + ` Several are merged, as recorded by the
ranks of one job.`,
		Example: `  ckpt trace analyze bt.S.4-1@2
  ckpt trace analyze job.strace --gap 10ms --insights
  ckpt trace analyze --builtin dmtcp --json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.show {
				return showThresholds(g)
			}
			return runTraceAnalyze(g, &o, args)
		},
	}
	f := cmd.Flags()
	o.traceInput.addFlags(f)
	o.analysis.addFlags(f)
	f.BoolVar(&o.insights, "insights", false, "show the findings only")
	f.BoolVar(&o.all, "all", false, fmt.Sprintf("show all files, not the first %d, and the whole pattern", traceFiles))
	f.StringVar(&o.file, "file", "", "show the bursts and sizes of this file")
	f.BoolVar(&o.show, "show-thresholds", false, "print the thresholds of findings")
	g.AddStoreFlag(cmd)
	return cmd
}

// showThresholds prints the built-in ones, as --thresholds takes them: JSON is YAML.
func showThresholds(g *ui.Globals) error {
	text := analyze.ThresholdsText()
	if !g.JSON {
		return g.Printf("%s", text)
	}
	t, err := analyze.ReadThresholds(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return g.PrintJSON(t)
}

func runTraceAnalyze(g *ui.Globals, o *traceAnalyzeOptions, args []string) error {
	_, r, err := o.analysis.read(g, &o.traceInput, args)
	if err != nil {
		return err
	}
	if o.file != "" {
		for i := range r.Files {
			if r.Files[i].Name == o.file {
				return showFile(g, &r.Files[i])
			}
		}
		return ui.WithHint(ui.AsNotFound(fmt.Errorf("--file %s: the trace has no such file", o.file)), "ckpt trace analyze shows their names")
	}
	switch {
	case g.JSON && o.insights:
		return g.PrintJSON(r.Insights)
	case g.JSON:
		return g.PrintJSON(r)
	case o.insights:
		return showInsights(g, r)
	}
	if err := showReport(g, r, o.all); err != nil {
		return err
	}
	return showInsights(g, r)
}

// showReport prints the whole, then a line per file.
func showReport(g *ui.Globals, r *analyze.Report, all bool) error {
	name := r.Job
	if name == "" {
		name = "trace"
	}
	head := [][2]string{
		{"trace", fmt.Sprintf("%s, %s, recorded by %s", zones.Printable(name), ui.Plural(int(r.Events), "event", "events"), zones.Printable(r.Source))},
		{"ranks", fmt.Sprintf("%s; %s", ranksText(r), ui.Count(len(r.Files), "file"))},
		{"access", fmt.Sprintf("%s, %s (%s)", r.Access, r.Spatial, r.Detail)},
		{"written", fmt.Sprintf("%s MiB in %s", ui.MiB(r.BytesWritten), ui.Plural(int(r.Writes), "write", "writes"))},
		{"read", fmt.Sprintf("%s MiB in %s", ui.MiB(r.BytesRead), ui.Plural(int(r.Reads), "read", "reads"))},
		{"metadata", fmt.Sprintf("%s, %s", ui.Plural(int(r.Metadata), "operation", "operations"), ui.Plural(int(r.Syncs), "sync", "syncs"))},
		{"time", fmt.Sprintf("%s, of which %s reading or writing", duration(r.Wall), duration(r.Busy))},
		{"bursts", fmt.Sprintf("%d", r.BurstsTotal)},
		{"sizes", commonSizes(r.CommonSizes)},
	}
	if lines := patternLines(r.Pattern, all); len(lines) > 0 {
		head = append(head, [2]string{"pattern", strings.Join(lines, "\n            ")})
	}
	for _, h := range head {
		g.Printf("%-10s  %s\n", h[0], h[1])
	}
	header := []string{"file", "access", "spatial", "|ranks", "|writes", "|MiB"}
	if r.Reads > 0 {
		header = append(header, "|reads")
	}
	header = append(header, "|bursts")
	var rows [][]string
	for i := range r.Files {
		f := &r.Files[i]
		if !all && i == traceFiles {
			break
		}
		spatial := string(f.Spatial)
		if f.Detail == analyze.NoDetail {
			spatial = "none"
		}
		row := []string{f.Name, string(f.Access), spatial, strconv.Itoa(f.Ranks), strconv.FormatInt(f.Writes, 10), ui.MiB(f.BytesWritten)}
		if r.Reads > 0 {
			row = append(row, strconv.FormatInt(f.Reads, 10))
		}
		rows = append(rows, append(row, strconv.Itoa(f.BurstsTotal)))
	}
	if !all {
		fitNames(header, rows, 0)
	}
	g.Printf("\n")
	g.Table(header, rows)
	if n := len(r.Files) - len(rows); n > 0 {
		return g.Printf("and %s more; --all shows them\n", ui.Count(n, "file"))
	}
	return nil
}

// ranksText returns the number of ranks of the job, and the number that do its I/O
// if those are fewer.
func ranksText(r *analyze.Report) string {
	text := strconv.Itoa(r.Ranks)
	if r.Nodes > 0 {
		text += " on " + ui.Count(r.Nodes, "node")
	}
	if active := r.ActiveRanks; active < r.Ranks && r.Writes+r.Reads > 0 {
		text += fmt.Sprintf(", of which %s", ui.Plural(active, "reads or writes", "read or write"))
	}
	return text
}

// patternLines returns the lines of a pattern. Without all, each is cut to fit, with
// the name in front.
func patternLines(p analyze.Pattern, all bool) []string {
	const rest = 36 // columns for the ranks after a long name
	p.Groups = slices.Clone(p.Groups)
	for i := range p.Groups {
		g := &p.Groups[i]
		name := zones.Printable(g.File)
		g.File = name
		if !all {
			g.File = ""
			head, _, _ := strings.Cut(analyze.Pattern{Groups: []analyze.Group{*g}}.String(), "\n")
			g.File = shorten(name, patternWidth-min(rest, utf8.RuneCountInString(head)))
		}
	}
	text := strings.TrimSpace(p.String())
	if text == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	for i := range lines {
		if !all {
			lines[i] = cutList(lines[i], patternWidth)
		}
	}
	return lines
}

// patternWidth leaves space for the name of the line on a terminal of 80 columns.
const patternWidth = 68

// cutList keeps as much of a list as fits, but at least its first part.
func cutList(line string, most int) string {
	parts := strings.Split(line, ", ")
	n := 1
	for width := utf8.RuneCountInString(parts[0]); n < len(parts); n++ {
		if width += 2 + utf8.RuneCountInString(parts[n]); width > most-3 && (n < len(parts)-1 || width > most) {
			break
		}
	}
	if n == len(parts) {
		return line
	}
	return strings.Join(parts[:n], ", ") + ", …"
}

// fitNames shortens the names in a column of a table until the table fits into 80
// columns.
func fitNames(header []string, rows [][]string, names int) {
	const least = 12
	space := 80 - 2
	for i, h := range header {
		if i == names {
			continue
		}
		width := utf8.RuneCountInString(strings.TrimPrefix(h, "|"))
		for _, row := range rows {
			width = max(width, utf8.RuneCountInString(row[i]))
		}
		space -= width + 2
	}
	for _, row := range rows {
		row[names] = shorten(row[names], max(least, space))
	}
}

// shorten keeps the end of a path, which distinguishes files.
func shorten(name string, most int) string {
	if r := []rune(name); len(r) > most {
		return "…" + string(r[len(r)-most+1:])
	}
	return name
}

func commonSizes(sizes []analyze.SizeCount) string {
	if len(sizes) == 0 {
		return "-"
	}
	var words []string
	for _, s := range sizes {
		words = append(words, fmt.Sprintf("%d × %d B", s.Count, s.Size))
	}
	return strings.Join(words, ", ")
}

// showInsights prints the findings.
func showInsights(g *ui.Globals, r *analyze.Report) error {
	if len(r.Insights) == 0 {
		return g.Printf("\nno findings\n")
	}
	for _, in := range r.Insights {
		where := ""
		if in.File != "" {
			where = " in " + zones.Printable(in.File)
		}
		g.Printf("\n%s %s: %s%s\n%s", in.Code, in.Severity, in.Title, where, wrapped("  ", in.Advice))
		var words []string
		for _, n := range in.Evidence {
			word := fmt.Sprintf("%s %.4g", n.Name, n.Value)
			if n.Limit != 0 {
				word += fmt.Sprintf(" (limit %.4g)", n.Limit)
			}
			words = append(words, word)
		}
		g.Printf("%s", wrapped("  seen: ", strings.Join(words, ", ")))
		if len(in.Flags) > 0 {
			try := "ckpt launch with " + strings.Join(in.Flags, ", or ")
			if slices.Contains(in.Remedies, analyze.Interval) {
				try += "; ckpt interval finds the best interval"
			}
			g.Printf("%s", wrapped("  try:  ", try))
		}
	}
	return nil
}

// wrapped breaks a text into lines of at most 80 columns, indented by the width of
// the prefix of the first line.
func wrapped(first, text string) string {
	lines, _ := twwarp.WrapString(text, 80-len(first))
	return first + strings.Join(lines, "\n"+strings.Repeat(" ", len(first))) + "\n"
}

// showFile prints the bursts and the sizes of one file.
func showFile(g *ui.Globals, f *analyze.File) error {
	if g.JSON {
		return g.PrintJSON(f)
	}
	g.Printf("%s: %s, %s (%s)\n\n", zones.Printable(f.Name), f.Access, f.Spatial, f.Detail)
	var rows [][]string
	for _, b := range f.Bursts {
		rows = append(rows, []string{b.Op, strconv.FormatInt(b.Count, 10), ui.MiB(b.Bytes), duration(b.Start), duration(b.End)})
	}
	g.Table([]string{"burst", "|operations", "|MiB", "|from", "|to"}, rows)
	if n := f.BurstsTotal - len(f.Bursts); n > 0 {
		g.Printf("and %s more\n", ui.Count(n, "burst"))
	}
	rows = nil
	for _, s := range f.Histogram {
		if s.Count > 0 {
			rows = append(rows, []string{s.Bin, strconv.FormatInt(s.Writes, 10), strconv.FormatInt(s.Reads, 10)})
		}
	}
	g.Printf("\n")
	return g.Table([]string{"request bytes", "|writes", "|reads"}, rows)
}
