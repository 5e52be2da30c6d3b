// Package report draws traces: as single plots, and as a page with the plots and the
// tables of an analysis.
//
//	r := analyze.Analyze(trace, analyze.Options{})
//	err := report.Draw(file, report.Offsets, "svg", trace, r, "", iotrace.None) // of all files and ranks
//	err := report.HTML(w, trace, r, nil, nil)
//
// The plots are from León's thesis: request size and offset against the order of
// operations (Figures 3.5, 3.14-3.17), offset against time by rank (Figure 5.10),
// bandwidth over time, and a histogram of request sizes in Darshan's bins. A heatmap has
// the bytes by rank and time; other plots show a rank's operations by file, and the
// balance of the ranks. Requests that would cover each other are drawn once. If too many
// are left, the grid becomes coarser.
//
// Promises:
//
//   - A page is one file: it loads nothing, runs its own script and no other one, follows
//     the reader's choice of light or dark, and can be printed. Text from the trace is
//     escaped; control characters and bytes that are not UTF-8 are replaced.
//   - The same trace gives the same bytes.
//   - The size of a plot is bounded for any number of events. A page takes 80 to
//     140 kB for a trace of a few files, 65 of them its script, and is bounded too.
//   - Any trace can be drawn, even an empty one.
//
// Sources: B. León Otero, PhD thesis, UAB 2022.
package report

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"ckpt/internal/figure"
	"ckpt/iotrace"
	"ckpt/iotrace/analyze"
	"ckpt/iotrace/analyze/finding"
	"ckpt/iotrace/analyze/pattern"
)

// HTML writes a page about a trace, with some facts first. It calls progress, if not nil, with
// the number of plots drawn.
func HTML(w io.Writer, tr *iotrace.Trace, r *analyze.Report, first []Fact, progress func(done int64)) error {
	title := "I/O trace"
	if r.Job != "" {
		title = "I/O of " + legal(r.Job)
	}
	out := figure.NewPage(title)
	out.Put("<p class=\"note\">%s</p>\n", subtitle(tr, r))
	figure.Facts(out, append(slices.Clone(first), moreFacts(r)...))
	for _, x := range tr.Warnings {
		out.Put("<p class=\"warn\"><b>Warning:</b> %s</p>\n", legal(x.Text))
	}
	putFindings(out, r.Insights)
	if err := putPlots(out, tr, r, progress); err != nil {
		return err
	}
	if text := patternText(r.Pattern); text != "" {
		out.Heading("Pattern")
		out.Put(`<pre>%s</pre>
<p class="note">4×64 @64·rank/256: four requests of 64 bytes, the first at 64·rank, 256 bytes from start to start; without @ a run begins where the one before ended, without / its requests touch. n×[…]+d is done n times, each time d bytes further.</p>
`, text)
	}
	for _, t := range tables(r) {
		out.Heading(t.Title)
		figure.Table(out, t.Note, t.Head, t.Rows)
	}
	out.End()
	_, err := out.WriteTo(w) // all of a page, or no part of it
	return err
}

func subtitle(tr *iotrace.Trace, r *analyze.Report) string {
	text := "Analysis by ckpt of " + figure.Number(float64(r.Events)) + " events"
	if r.Counted {
		text = "Analysis by ckpt of counters, without events,"
	}
	if r.Source != "" {
		text += " recorded by " + legal(r.Source)
	}
	if !tr.Origin.IsZero() {
		text += ", from " + tr.Origin.UTC().Format("2006-01-02 15:04:05 UTC")
	}
	return text
}

// putFindings writes the findings.
func putFindings(out *figure.Page, all []finding.Finding) {
	out.Heading("Findings")
	if len(all) == 0 {
		out.Put("<p>None.</p>\n")
		return
	}
	out.Put("<ul class=\"findings\">\n")
	for i := range all {
		f := &all[i]
		out.Put(`<li class="%s"><b>%s %s</b>`, f.Severity, f.Code, f.Title)
		if f.File != "" {
			out.Put(` <span class="note">%s</span>`, inFiles(f))
		}
		out.Put("<p>%s</p>", f.Advice)
		if f.Gain != nil {
			out.Put(`<p>Could gain <b>%s</b>. <span class="note">%s</span></p>`, gain(f), f.Model)
		}
		if len(f.Hints) > 0 {
			out.Put("<ul>")
			for _, h := range f.Hints {
				out.Put(`<li>%s <span class="note">[%s]</span></li>`, h.Text, h.Source)
			}
			out.Put("</ul>")
		}
		out.Put(`<p class="note">%s`, evidence(f.Evidence))
		before := " · flags: "
		for _, flag := range f.Flags {
			out.Put("%s<code>%s</code>", before, flag)
			before = ", "
		}
		out.Put("</p></li>\n")
	}
	out.Put("</ul>\n")
}

// putPlots writes the pictures that the trace has, and why it lacks the others.
func putPlots(out *figure.Page, tr *iotrace.Trace, r *analyze.Report, progress func(done int64)) error {
	s, err := newSurvey(tr, r, "", iotrace.None, true, Plots()...)
	if err != nil {
		return err
	}
	note := ""
	if r.Counted {
		note = "This trace has counters only, no operations, so that plots of requests over time or in their order are missing."
		if r.Traceable() {
			note += " Set DXT_ENABLE_IO_TRACE=1 when you run the program again under Darshan, and the log has them."
		}
	}
	if r.Counted && s.load.empty() {
		note += " " + noBalance
	}
	out.Heading("Plots")
	if note != "" {
		out.Put("<p class=\"note\">%s</p>\n", note)
	}
	out.Put("<div class=\"plots\">\n")
	for i, pic := range pictures {
		if r.Counted && pic.events {
			continue
		}
		if progress != nil {
			progress(int64(i))
		}
		p, err := s.layOut(pic.kind)
		if errors.Is(err, errNoBalance) {
			continue
		}
		var c *figure.Chart
		if err == nil {
			c, err = p.Chart()
		}
		if err == nil {
			err = out.Chart(c, pic.caption)
		}
		if err != nil {
			return fmt.Errorf("report: draw %s: %w", pic.kind, err)
		}
	}
	out.Put("</div>\n")
	return nil
}

// A Fact is something about the whole of a trace.
type Fact figure.Fact

// inFiles names the file of a finding, and counts the others that it concerns.
func inFiles(f *finding.Finding) string {
	switch {
	case f.Files == 2:
		return legal(f.File) + " and another file"
	case f.Files > 2:
		return fmt.Sprintf("%s and %s other files", legal(f.File), figure.Number(float64(f.Files-1)))
	}
	return legal(f.File)
}

// patternText returns a pattern with names free of line ends.
func patternText(p pattern.Pattern) string {
	p.Groups = slices.Clone(p.Groups)
	for i := range p.Groups {
		p.Groups[i].File = legal(p.Groups[i].File)
	}
	return p.String()
}

// gain says how much shorter a run could be.
func gain(f *finding.Finding) string {
	if f.Gain == nil {
		return ""
	}
	return secondsText(*f.Gain) + ", " + figure.Number(100**f.GainShare) + " % of the run"
}

// clocks says how times among the evidence were taken. Wall is the time in which any
// rank was at it, sum the times of all ranks together.
var clocks = map[string]string{"encoding_s": ", wall", "writing_s": ", wall", "write_s": ", sum over ranks"}

func evidence(numbers []finding.Number) string {
	var parts []string
	for _, n := range numbers {
		text := strings.ReplaceAll(strings.TrimSuffix(n.Name, "_s"), "_", " ") + clocks[n.Name] + " " + valueText(n.Name, n.Value)
		if n.Limit != 0 {
			text += " (limit " + valueText(n.Name, n.Limit) + ")"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, " · ")
}

// valueText formats a number as its name suggests.
func valueText(name string, x float64) string {
	switch {
	case strings.HasSuffix(name, "_share"):
		return percent(x)
	case strings.HasSuffix(name, "_s"):
		return secondsText(x)
	case strings.Contains(name, "bytes") && !strings.Contains(name, "imbalance"):
		return bytesText(x)
	case x == math.Trunc(x):
		return figure.Number(x)
	}
	return fmt.Sprintf("%.4g", x)
}

func percent(x float64) string { return fmt.Sprintf("%.1f %%", 100*x) }

// moreFacts are what pages say beside the first facts.
func moreFacts(r *analyze.Report) []Fact {
	out := []Fact{{"request sizes", fmt.Sprintf("%s, mean %s", r.Sizes.Kind, bytesText(r.Sizes.Mean))}}
	if !r.Counted { // counters do not say it
		out = append(out, Fact{"ranks at the same time", fmt.Sprintf("%.2f, at most %d", r.Concurrency.Mean, r.Concurrency.Max)})
	}
	switch {
	case r.Period.Periodic:
		out = append(out, Fact{"period", fmt.Sprintf("%s, confidence %.2f", secondsText(r.Period.Period), r.Period.Confidence)})
	case !r.Period.Enough && r.BurstsTotal > 2:
		out = append(out, Fact{"period", "unknown: there are too few phases of I/O"})
	}
	if c := r.Correlation.Write; c != nil {
		out = append(out, Fact{"size and time of writes", fmt.Sprintf("r = %.3f", *c)})
	}
	return out
}
