package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot/vg/draw"

	"ckpt/internal/figure"
	"ckpt/iotrace"
	"ckpt/iotrace/analyze"
)

//go:embed page.tmpl
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

type page struct {
	Title, Subtitle string
	Facts           []fact
	Insights        []insight
	Plots           []drawing
	Pattern         string
	Tables          []table
}

type fact struct{ Name, Value string }

type insight struct {
	Code, Severity, Title, File, Advice, Evidence string
	Flags                                         []string
}

type drawing struct {
	SVG     template.HTML
	Caption string
}

var captions = map[Plot]string{
	Sizes:     "Each request with its size, on a logarithmic scale. Ranks that do the same lie upon each other.",
	Offsets:   "Where in its file each request begins and ends. Ranks that do the same lie upon each other.",
	SpaceTime: "Where in its file each request begins and ends, and when.",
	Bandwidth: "Bytes per second; requests count evenly over their time.",
	Histogram: "Requests by size, in Darshan's bins, on a logarithmic scale.",
}

// HTML writes a page about a trace. It calls progress, if not nil, with the number of
// plots drawn.
func HTML(w io.Writer, tr *iotrace.Trace, r *analyze.Report, progress func(done int64)) error {
	p := page{Title: "I/O of " + legal(r.Job), Pattern: patternText(r.Pattern), Facts: facts(r), Tables: tables(r)}
	if r.Job == "" {
		p.Title = "I/O trace"
	}
	p.Subtitle = "Analysis by ckpt of " + figure.Number(float64(r.Events)) + " events"
	if r.Source != "" {
		p.Subtitle += " recorded by " + legal(r.Source)
	}
	if !tr.Origin.IsZero() {
		p.Subtitle += ", from " + tr.Origin.UTC().Format("2006-01-02 15:04:05 UTC")
	}
	for _, i := range r.Insights {
		p.Insights = append(p.Insights, insight{i.Code, i.Severity, i.Title, legal(i.File), i.Advice, evidence(i.Evidence), i.Flags})
	}
	for i, kind := range Plots() {
		if progress != nil {
			progress(int64(i))
		}
		f, err := layOut(kind, tr, r, "", pageMarks)
		if err != nil {
			return err
		}
		c := newCanvas(figure.Width, figure.Height, titles[kind])
		figure.Draw(f, draw.New(c))
		var svg bytes.Buffer
		if _, err := c.WriteTo(&svg); err != nil {
			return err
		}
		// The canvas has escaped the text.
		p.Plots = append(p.Plots, drawing{SVG: template.HTML(svg.String()), Caption: captions[kind]})
	}
	var out bytes.Buffer // a failure writes no part of a page
	if err := pageTemplate.Execute(&out, p); err != nil {
		return fmt.Errorf("report: page: %w", err)
	}
	_, err := out.WriteTo(w)
	return err
}

// patternText returns a pattern with names free of line ends.
func patternText(p analyze.Pattern) string {
	p.Groups = slices.Clone(p.Groups)
	for i := range p.Groups {
		p.Groups[i].File = legal(p.Groups[i].File)
	}
	return p.String()
}

// clocks says how times among the evidence were taken. Wall is the time in which any
// rank was at it, sum that of all ranks one after the other.
var clocks = map[string]string{"encoding_s": ", wall", "writing_s": ", wall", "write_s": ", sum over ranks"}

func evidence(numbers []analyze.Number) string {
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

func facts(r *analyze.Report) []fact {
	out := []fact{
		{"access", string(r.Access)},
		{"spatial pattern", fmt.Sprintf("%s (%s)", r.Spatial, r.Detail)},
		{"ranks", ranksText(r)},
		{"files", figure.Number(float64(len(r.Files)))},
		{"written", fmt.Sprintf("%s, writes: %s", bytesText(float64(r.BytesWritten)), figure.Number(float64(r.Writes)))},
		{"read", fmt.Sprintf("%s, reads: %s", bytesText(float64(r.BytesRead)), figure.Number(float64(r.Reads)))},
		{"request sizes", fmt.Sprintf("%s, mean %s", r.Sizes.Kind, bytesText(r.Sizes.Mean))},
		{"bursts", figure.Number(float64(r.BurstsTotal))},
		{"from first to last, wall", secondsText(r.Wall)},
		{"reading or writing, wall", secondsText(r.Busy)},
		{"ranks at the same time", fmt.Sprintf("%.2f, at most %d", r.Concurrency.Mean, r.Concurrency.Max)},
		{"metadata operations", figure.Number(float64(r.Metadata))},
	}
	if r.Period.Periodic {
		out = append(out, fact{"period", fmt.Sprintf("%s, confidence %.2f", secondsText(r.Period.Period), r.Period.Confidence)})
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
