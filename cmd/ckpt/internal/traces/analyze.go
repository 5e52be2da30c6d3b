package traces

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/olekukonko/tablewriter/pkg/twwarp"
	"github.com/spf13/cobra"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/iotrace"
	"ckpt/iotrace/analyze"
	"ckpt/iotrace/analyze/finding"
	"ckpt/iotrace/analyze/pattern"
	"ckpt/zones"
)

type traceAnalyzeOptions struct {
	traceInput
	analysis
	insights, show bool
	fileList
	file string
}

func newAnalyzeCommand(g *ui.Globals) *cobra.Command {
	var o traceAnalyzeOptions
	cmd := &cobra.Command{
		Use:   "analyze TRACE...",
		Short: "Characterise the I/O of a trace and suggest remedies",
		Long: `Characterise how each file, and the whole trace, is accessed: by one process or
shared; sequential, strided or random; in which request sizes and bursts. Name
the causes of lost time, the seconds that each could save by a stated model, and
what would help. Files come in the order of the
bytes moved, then of the time taken.

` + scopeHelp + `

` + traceInputHelp + ` Several are merged, as recorded by the
ranks of one job. Logs of several runs, and directories of logs, are a set: the
command lists its runs, and the median and the range over them.`,
		Example: `  ckpt trace analyze bt.S.4-1@2
  ckpt trace analyze job.trace --exclude '*.log' --files all
  ckpt trace analyze job.strace --gap 10ms --insights
  ckpt trace analyze job.darshan --json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.show {
				return showThresholds(g)
			}
			if err := o.fileList.read(o.All && !o.flags.Changed("files")); err != nil {
				return err
			}
			return runTraceAnalyze(g, &o, args)
		},
	}
	f := cmd.Flags()
	o.traceInput.addFlags(f, false)
	o.analysis.addFlags(f)
	f.BoolVar(&o.insights, "insights", false, "show the findings only")
	o.fileList.addFlag(f, "list so many files, or all, with the whole pattern (--all does so, too)")
	f.StringVar(&o.file, "file", "", "show the bursts and sizes of the files whose path contains this")
	f.BoolVar(&o.show, "show-thresholds", false, "print the thresholds of findings")
	g.AddStoreFlag(cmd)
	return cmd
}

// showThresholds prints the built-in ones, as --thresholds takes them: JSON is YAML.
func showThresholds(g *ui.Globals) error {
	text := finding.ThresholdsText()
	if !g.JSON {
		return g.Printf("%s", text)
	}
	t, err := finding.ReadThresholds(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return g.PrintJSON(t)
}

// analyzeResult is a report as --json prints it.
type analyzeResult struct {
	*analyze.Report
	scoped
}

func runTraceAnalyze(g *ui.Globals, o *traceAnalyzeOptions, args []string) error {
	opt, err := o.options()
	if err != nil {
		return err
	}
	set, t, err := o.setOf(g, args, opt)
	switch {
	case err != nil:
		return err
	case set != nil:
		if err := showRuns(g, set, o.list); err != nil {
			return err
		}
		return set.failure(o.lenient)
	}
	opt.Codec = o.codec
	r := characterise(g, t, opt)
	if o.file != "" {
		found, err := o.matches(r.Files, o.file)
		if err != nil {
			return err
		}
		return showFiles(g, r.Files, found)
	}
	switch {
	case g.JSON && o.insights:
		return g.PrintJSON(r.Insights)
	case g.JSON:
		return g.PrintJSON(analyzeResult{r, o.scoped(t)})
	case o.insights:
		return showInsights(g, t, r)
	}
	if err := showReport(g, t, r, o); err != nil {
		return err
	}
	if err := showLayers(g, r); err != nil {
		return err
	}
	return showInsights(g, t, r)
}

// showReport prints the whole, then a line per file.
func showReport(g *ui.Globals, t *iotrace.Trace, r *analyze.Report, o *traceAnalyzeOptions) error {
	for i, h := range o.facts(t, r) {
		g.Printf("%s", wrapped(fmt.Sprintf("%-10s  ", h.Name), h.Value))
		if i == 0 {
			summarise(g, r.Insights)
		}
	}
	for i, line := range patternLines(r.Pattern, o.list) {
		name := ""
		if i == 0 {
			name = "pattern"
		}
		g.Printf("%-10s  %s\n", name, line)
	}
	for _, w := range t.Warnings {
		g.Printf("%s", wrapped("warning     ", zones.Printable(warningText(w))))
	}
	return showFileList(g, r, o.list)
}

// summarise names the findings where the reader begins. Details follow the files.
func summarise(g *ui.Globals, all []finding.Finding) {
	const most = 4
	for i := range all[:min(len(all), most)] {
		f := &all[i]
		name := ""
		if i == 0 {
			name = "findings"
		}
		text := f.Code + " " + f.Title
		if f.Gain != nil {
			text += fmt.Sprintf(": %s, %.0f %% of the run", rough(*f.Gain), 100**f.GainShare)
		}
		if i == most-1 && len(all) > most {
			text += fmt.Sprintf("; %d more below", len(all)-most)
		}
		g.Printf("%s", wrapped(fmt.Sprintf("%-10s  ", name), text))
	}
}

// showFileList prints a table of the first files.
func showFileList(g *ui.Globals, r *analyze.Report, most int) error {
	header := []string{"file", "access", "spatial", "|ranks"}
	moves := [2]bool{r.Writes > 0 || r.Reads == 0, r.Reads > 0}
	for d, name := range [2]string{"|writes", "|reads"} {
		if moves[d] {
			header = append(header, name)
		}
	}
	header = append(header, "|MiB")
	if !r.Counted {
		header = append(header, "|bursts")
	}
	var rows [][]string
	for i := range r.Files {
		f := &r.Files[i]
		if i == most {
			break
		}
		row := []string{f.Name, string(f.Access), spatialWord(&f.Activity), strconv.Itoa(f.Ranks)}
		for d, n := range [2]int64{f.Writes, f.Reads} {
			if moves[d] {
				row = append(row, strconv.FormatInt(n, 10))
			}
		}
		row = append(row, ui.MiB(f.Bytes()))
		if !r.Counted {
			row = append(row, strconv.Itoa(f.BurstsTotal))
		}
		rows = append(rows, row)
	}
	if most != math.MaxInt {
		fitNames(header, rows, 0)
	}
	g.Printf("\n")
	g.Table(header, rows)
	if n := len(r.Files) - len(rows); n > 0 {
		return g.Printf("and %s more; --files all shows them\n", ui.Count(n, "file"))
	}
	return nil
}

// patternLines returns the lines of a pattern, of the groups that move the most
// bytes. Unless most is math.MaxInt, each line is cut to fit, with the name in front.
func patternLines(p pattern.Pattern, most int) []string {
	const rest = 36 // columns for the ranks after a long name
	all := most == math.MaxInt
	left := p.Heaviest(most)
	p.More += len(p.Groups) - len(left)
	p.Groups = left
	for i := range p.Groups {
		g := &p.Groups[i]
		name := zones.Printable(g.File)
		g.File = name
		if !all {
			g.File = ""
			head, _, _ := strings.Cut(pattern.Pattern{Groups: []pattern.Group{*g}}.String(), "\n")
			g.File = shorten(name, patternWidth-min(rest, utf8.RuneCountInString(head)))
		}
	}
	text := strings.TrimSpace(p.String())
	if text == "" || len(p.Groups) == 0 {
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
// columns, or names that differ would look the same.
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
	width := max(least, space)
	for collide(rows, names, width) {
		width++
	}
	for _, row := range rows {
		row[names] = shorten(row[names], width)
	}
}

// collide reports whether names that differ are the same if they are shortened.
func collide(rows [][]string, names, width int) bool {
	whole := map[string]string{}
	return slices.ContainsFunc(rows, func(row []string) bool {
		short := shorten(row[names], width)
		other, ok := whole[short]
		whole[short] = row[names]
		return ok && other != row[names]
	})
}

// shorten keeps the end of a path, which distinguishes files. In the C locale the dots before
// it take three columns.
func shorten(name string, most int) string {
	r, dots := []rune(name), ui.Text("…")
	if keep := most - utf8.RuneCountInString(dots); len(r) > most {
		return dots + string(r[len(r)-keep:])
	}
	return name
}

// showInsights prints the findings.
func showInsights(g *ui.Globals, t *iotrace.Trace, r *analyze.Report) error {
	if len(r.Insights) == 0 {
		unseen := ""
		if slices.ContainsFunc(t.Warnings, iotrace.Warning.Lacking) {
			unseen = " in what the trace shows; its warnings say what is missing"
		}
		return g.Printf("\nno findings%s\n", unseen)
	}
	for _, in := range r.Insights {
		where := ""
		if in.File != "" {
			where = " in " + zones.Printable(in.File)
			if in.Files > 1 {
				where += fmt.Sprintf(" and %s more", ui.Count(in.Files-1, "file"))
			}
		}
		g.Printf("\n%s%s", wrapped(in.Code+" "+in.Severity+": ", in.Title+where), wrapped("  ", in.Advice))
		if in.Gain != nil {
			g.Printf("%s", wrapped("  gain: ", fmt.Sprintf("%s, %.0f %% of the run. %s", rough(*in.Gain), 100**in.GainShare, in.Model)))
		}
		var words []string
		for _, n := range in.Evidence {
			word := n.Name + " " + evidence(n.Name, n.Value)
			if n.Limit != 0 {
				word += fmt.Sprintf(" (limit %s)", evidence(n.Name, n.Limit))
			}
			words = append(words, word)
		}
		g.Printf("%s", wrapped("  seen: ", strings.Join(words, ", ")))
		if len(in.Flags) > 0 {
			try := "ckpt launch with " + strings.Join(in.Flags, ", or ")
			if slices.Contains(in.Remedies, finding.Interval) {
				try += "; ckpt interval finds the best interval"
			}
			g.Printf("%s", wrapped("  try:  ", try))
		}
		for _, h := range in.Hints {
			g.Printf("%s", wrapped("  try:  ", h.Text+" ["+h.Source+"]"))
		}
	}
	return nil
}

// isSize reports whether evidence is in bytes.
func isSize(name string) bool {
	return strings.HasSuffix(name, "_bytes") || slices.Contains([]string{"bytes", "bytes_written", "bytes_per_sync"}, name)
}

// evidence formats a number behind a finding: a size with its unit, a count in full, a
// share or a time in four digits.
func evidence(name string, x float64) string {
	whole := math.Round(x)
	switch {
	case whole < math.MaxInt64 && isSize(name):
		n := int64(whole)
		if n%(1<<10) == 0 {
			return ui.Size(n)
		}
		return brief(n)
	case x == whole || math.Abs(x) >= 1e4:
		return strconv.FormatFloat(whole, 'f', 0, 64)
	}
	return strconv.FormatFloat(x, 'g', 4, 64)
}

// wrapped breaks a text into lines of at most 80 columns, indented by the width of
// the prefix of the first line.
func wrapped(first, text string) string {
	lines, _ := twwarp.WrapString(text, 80-len(first))
	return first + strings.Join(lines, "\n"+strings.Repeat(" ", len(first))) + "\n"
}
