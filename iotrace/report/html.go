package report

import (
	_ "embed"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg/draw"

	"ckpt/internal/figure"
	"ckpt/iotrace"
	"ckpt/iotrace/analyze"
	"ckpt/iotrace/analyze/finding"
)

//go:embed page.css
var pageStyle string

type page struct {
	Title, Subtitle string
	Facts           []fact
	Warnings        []string
	Insights        []insight
	Plots           []drawing
	PlotsNote       string // which plots the trace lacks, and why
	Pattern         string
	Tables          []table
}

type fact struct{ Name, Value string }

type insight struct {
	Code, Severity, Title, File, Advice, Evidence string
	Gain, Model                                   string
	Flags                                         []string
	Hints                                         []finding.Hint
}

type drawing struct {
	canvas  *canvas
	caption string
}

var captions = map[Plot]string{
	Sizes:     "Each request with its size, on a logarithmic scale. Ranks that do the same lie upon each other.",
	Offsets:   "Where in its file each request begins and ends. Ranks that do the same lie upon each other.",
	SpaceTime: "Where in its file each request begins and ends, and when.",
	Bandwidth: "Bytes per second; requests count evenly over their time.",
	Histogram: "Requests by size, in Darshan's bins, on a logarithmic scale.",
	Heatmap:   "Each row is a rank, or the mean of ranks that follow each other; bright cells move the most bytes. A row that differs is a rank with more or less to do; a column, a phase of all.",
	Timeline:  "Each row is a file, in the order of first use, and shows when one rank uses it: the slowest if one is much slower than others, otherwise the first at work. Gaps are time without I/O.",
	Balance:   "Bytes and time of I/O of each rank, as multiples of the mean. Even bars are good; long orange beside even blue is a slow rank. Where ranks share a bar, it reaches from the least to the most of them.",
	Layers:    "Bars compare the bytes and requests that the program asks of MPI-IO with those that reach the file system, file by file. Fewer, larger POSIX requests: collective calls work. More bytes: data sieving moves holes.",
}

// HTML writes a page about a trace. It calls progress, if not nil, with the number of
// plots drawn. Aside, if not empty, says which part of the trace was set apart.
func HTML(w io.Writer, tr *iotrace.Trace, r *analyze.Report, aside string, progress func(done int64)) error {
	p := page{Title: "I/O of " + legal(r.Job), Pattern: patternText(r.Pattern), Facts: facts(r), Tables: tables(r)}
	if r.Job == "" {
		p.Title = "I/O trace"
	}
	p.Subtitle = "Analysis by ckpt of " + figure.Number(float64(r.Events)) + " events"
	if r.Counted {
		p.Subtitle = "Analysis by ckpt of counters, without events,"
	}
	if r.Source != "" {
		p.Subtitle += " recorded by " + legal(r.Source)
	}
	if !tr.Origin.IsZero() {
		p.Subtitle += ", from " + tr.Origin.UTC().Format("2006-01-02 15:04:05 UTC")
	}
	if aside != "" {
		p.Facts = append(p.Facts, fact{"set apart", aside})
	}
	for _, x := range tr.Warnings {
		p.Warnings = append(p.Warnings, legal(x.Text))
	}
	for _, i := range r.Insights {
		p.Insights = append(p.Insights, insight{i.Code, i.Severity, i.Title, inFiles(&i), i.Advice, evidence(i.Evidence), gain(&i), i.Model, i.Flags, i.Hints})
	}
	all, err := selectFile(tr, r, "")
	if err != nil {
		return err
	}
	all.gather(Plots()...)
	of := newSurvey(tr, r, "", iotrace.None, true, surveyed...)
	if r.Counted {
		p.PlotsNote = "This trace has counters only, no operations, so that plots of requests over time or in their order are missing."
		if r.Traceable() {
			p.PlotsNote += " Set DXT_ENABLE_IO_TRACE=1 when you run the program again under Darshan, and the log has them."
		}
	}
	for i, kind := range Plots() {
		if !onPage(kind, r) {
			continue
		}
		if kind == Balance && r.Counted && of.load.empty() {
			p.PlotsNote += " " + noBalance
			continue
		}
		if progress != nil {
			progress(int64(i))
		}
		var f *plot.Plot
		if slices.Contains(surveyed, kind) {
			f = of.layOut(kind)
		} else if f, err = all.layOut(kind, r, pageMarks); err != nil {
			return err
		}
		c := newCanvas(figure.Width, figure.Height, of.describe(kind))
		figure.Draw(f, draw.New(c))
		p.Plots = append(p.Plots, drawing{c, captions[kind]})
	}
	out, err := p.html() // a failure writes no part of a page
	if err == nil {
		_, err = out.WriteTo(w)
	}
	return err
}

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
func patternText(p analyze.Pattern) string {
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
// rank was at it, sum that of all ranks one after the other.
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

// spatialText has the patterns of writes and reads apart where they differ.
func spatialText(r *analyze.Report) string {
	if r.Writes > 0 && r.Reads > 0 && r.WriteSpatial != r.ReadSpatial {
		return fmt.Sprintf("writes %s, reads %s", r.WriteSpatial, r.ReadSpatial)
	}
	return fmt.Sprintf("%s (%s)", r.Spatial, r.Detail)
}

func facts(r *analyze.Report) []fact {
	out := []fact{
		{"access", string(r.Access)},
		{"spatial pattern", spatialText(r)},
		{"ranks", ranksText(r)},
		{"files", figure.Number(float64(len(r.Files)))},
		{"written", fmt.Sprintf("%s, writes: %s", bytesText(float64(r.BytesWritten)), figure.Number(float64(r.Writes)))},
		{"read", fmt.Sprintf("%s, reads: %s", bytesText(float64(r.BytesRead)), figure.Number(float64(r.Reads)))},
		{"request sizes", fmt.Sprintf("%s, mean %s", r.Sizes.Kind, bytesText(r.Sizes.Mean))},
		{"from first to last, wall", secondsText(r.Wall)},
		{"reading or writing, wall", secondsText(r.Busy)},
	}
	metadata := fact{"metadata operations", figure.Number(float64(r.Metadata))}
	if r.MetadataTime > 0 {
		metadata = fact{"metadata operations, sum", metadata.Value + " in " + secondsText(r.MetadataTime)}
	}
	out = append(out, metadata)
	if r.Runtime > 0 {
		out = append(out, fact{"run", secondsText(r.Runtime)})
	}
	if r.RecorderCall > 0 {
		out = append(out, fact{"of each operation the recorder's, in no gain", secondsText(r.RecorderCall)})
	}
	switch {
	case r.SyncTime > 0:
		out = append(out, fact{"syncs, sum", fmt.Sprintf("%s in %s", figure.Number(float64(r.Syncs)), secondsText(r.SyncTime))})
	case r.Syncs > 0:
		out = append(out, fact{"syncs", figure.Number(float64(r.Syncs))})
	}
	if !r.Counted { // counters do not say it
		out = append(out, fact{"bursts", figure.Number(float64(r.BurstsTotal))},
			fact{"ranks at the same time", fmt.Sprintf("%.2f, at most %d", r.Concurrency.Mean, r.Concurrency.Max)})
	}
	switch {
	case r.Period.Periodic:
		out = append(out, fact{"period", fmt.Sprintf("%s, confidence %.2f", secondsText(r.Period.Period), r.Period.Confidence)})
	case !r.Period.Enough && r.BurstsTotal > 2:
		out = append(out, fact{"period", "unknown: there are too few phases of I/O"})
	}
	if c := r.Correlation.Write; c != nil {
		out = append(out, fact{"size and time of writes", fmt.Sprintf("r = %.3f", *c)})
	}
	return out
}

func ranksText(r *analyze.Report) string {
	text := figure.Number(float64(r.Ranks))
	switch r.Nodes {
	case 0:
		return text
	case 1:
		return text + " on a node"
	}
	return fmt.Sprintf("%s on %d nodes", text, r.Nodes)
}
