package report

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"ckpt/internal/figure"
	"ckpt/iotrace"
	"ckpt/iotrace/analyze"
)

// A Plot is the kind of a picture.
type Plot string

// The pictures.
const (
	Sizes     Plot = "sizes"     // request size against order, León's Figures 3.5 and 3.14
	Offsets   Plot = "offsets"   // offset against order, Figure 3.17
	SpaceTime Plot = "spacetime" // offset against time, by rank, Figure 5.10
	Bandwidth Plot = "bandwidth" // over time
	Histogram Plot = "histogram" // of request sizes
	Heatmap   Plot = "heatmap"   // bytes by rank and time
	Timeline  Plot = "timeline"  // operations of a rank by file and time
	Balance   Plot = "balance"   // bytes and time by rank
)

// A picture is a kind with what it says and how it is drawn.
type picture struct {
	kind           Plot
	title, caption string
	events         bool // it needs events; counters are not enough
	draw           func(*survey, *figure.Picture) error
	describe       func(*survey) string // in words; nil: its title
}

var pictures = []picture{
	{kind: Sizes, title: "Request sizes", events: true, draw: (*survey).sizes,
		caption: "Each request with its size, on a logarithmic scale. Ranks that do the same lie upon each other."},
	{kind: Offsets, title: "Offsets", events: true, draw: (*survey).offsets,
		caption: "Where in its file each request begins and ends. Ranks that do the same lie upon each other."},
	{kind: SpaceTime, title: "Offsets over time, by rank", events: true, draw: (*survey).spaceTime,
		caption: "Where in its file each request begins and ends, and when."},
	{kind: Bandwidth, title: "Bandwidth over time", draw: (*survey).bandwidth,
		caption: "Bytes per second; requests count evenly over their time."},
	{kind: Histogram, title: "Histogram of request sizes", draw: (*survey).histogram,
		caption: "Requests by size, in Darshan's bins, on a logarithmic scale."},
	{kind: Heatmap, title: "Bytes by rank and time", events: true,
		draw: (*survey).drawHeat, describe: (*survey).describeHeat,
		caption: "Each row is a rank, or the mean of ranks that follow each other; bright cells move the " +
			"most bytes. A row that differs is a rank with more or less to do; a column, a phase of all."},
	{kind: Timeline, title: "Timeline of a rank", events: true,
		draw: (*survey).drawLine, describe: (*survey).describeLine,
		caption: "Each row is a file, in the order of first use, and shows when one rank uses it: the " +
			"slowest if one is much slower than others, otherwise the first at work. Gaps are time without I/O."},
	{kind: Balance, title: "Bytes and time of each rank",
		draw: (*survey).drawLoad, describe: (*survey).describeLoad,
		caption: "Bytes and time of I/O of each rank, as multiples of the mean. Even bars are good; long " +
			"orange beside even blue is a slow rank. Where ranks share a bar, it reaches from the least to " +
			"the most of them."},
}

// Plots returns all kinds.
func Plots() []Plot {
	all := make([]Plot, len(pictures))
	for i := range pictures {
		all[i] = pictures[i].kind
	}
	return all
}

// NeedsEvents reports whether counters are not enough for a kind.
func NeedsEvents(kind Plot) bool {
	return slices.ContainsFunc(pictures, func(p picture) bool { return p.kind == kind && p.events })
}

const (
	fileMarks = 6000 // of a picture in its own file
	pageMarks = 2000 // of a picture in a page
)

// Draw draws a picture as svg, png or pdf, or writes it as data, json. With the name of a file from the report it draws
// only that file; bandwidth is always the job's. rank is the rank of a timeline; without
// one (iotrace.None) it takes the slowest, or else the first at work.
func Draw(w io.Writer, kind Plot, format string, tr *iotrace.Trace, r *analyze.Report, file string, rank int) error {
	if !slices.Contains([]string{"svg", "png", "pdf", "json"}, format) {
		return fmt.Errorf("report: format %q: not svg, png, pdf or json", format)
	}
	s, err := newSurvey(tr, r, file, rank, false, kind)
	if err != nil {
		return err
	}
	p, err := s.layOut(kind)
	if err == nil {
		err = figure.Write(w, format, p)
	}
	if err != nil {
		return fmt.Errorf("report: draw %s: %w", kind, err)
	}
	return nil
}

// A survey has the numbers of some pictures. One pass over the events collects them.
type survey struct {
	trace    *iotrace.Trace
	r        *analyze.Report
	file     int    // index into Trace.Files, or -1 for all
	name     string // of that file
	activity *analyze.Activity
	limit    int // of marks
	// covered are the files whose POSIX requests are known. Their MPI-IO requests move
	// the same bytes.
	covered  []bool
	requests *requests
	heat     *heat
	line     *timeline
	load     *load
}

// newSurvey collects what the pictures of some kinds need.
func newSurvey(
	tr *iotrace.Trace, r *analyze.Report, file string, rank int, onPage bool, kinds ...Plot,
) (*survey, error) {
	s := &survey{trace: tr, r: r, file: -1, name: file, activity: &r.Activity, limit: fileMarks,
		covered: make([]bool, len(tr.Files))}
	if onPage {
		s.limit = pageMarks
	}
	if file != "" {
		i := slices.IndexFunc(r.Files, func(f analyze.File) bool { return f.Name == file })
		if i < 0 {
			return nil, fmt.Errorf("report: file %q: not in the trace", file)
		}
		s.file, s.activity = slices.Index(tr.Files, file), &r.Files[i].Activity
	}
	if rank != iotrace.None && !slices.ContainsFunc(tr.Ranks, func(k iotrace.Rank) bool { return k.Rank == rank }) {
		return nil, fmt.Errorf("report: rank %d: not in the trace", rank)
	}
	posix := map[string]bool{}
	for i := range r.Files {
		if m := r.Files[i].MPIIO; m != nil && m.PosixWrites+m.PosixReads > 0 {
			posix[r.Files[i].Name] = true
		}
	}
	for i, name := range tr.Files {
		s.covered[i] = posix[name]
	}
	for _, kind := range kinds {
		switch kind {
		case Sizes, Offsets, SpaceTime:
			if s.requests == nil {
				s.requests = newRequests(tr)
			}
			s.requests.grids[kind] = newGrid(kind == Sizes)
			if kind == SpaceTime {
				s.requests.colourRanks(tr, s.active())
			}
		case Heatmap:
			s.heat = newHeat(tr, r, onPage)
		case Timeline:
			s.line = newTimeline(tr, r, rank, onPage)
		case Balance:
			s.load = newLoad(tr)
		}
	}
	if s.requests != nil || s.heat != nil || s.line != nil || s.load != nil {
		s.collect()
	}
	return s, nil
}

// collect passes over the events, or over the counters of a trace without events.
func (s *survey) collect() {
	for i := range s.trace.Events {
		e := &s.trace.Events[i]
		if !s.counts(e.File, e.Module) || e.Op.Step() {
			continue
		}
		if s.requests != nil && e.Op.Data() {
			s.requests.add(e)
		}
		if s.heat != nil && e.Op.Data() {
			s.heat.add(e)
		}
		if s.line != nil {
			s.line.add(e)
		}
		if s.load != nil {
			s.load.add(e)
		}
	}
	for i := range s.trace.Counters {
		c := &s.trace.Counters[i]
		if len(s.trace.Events) == 0 && s.load != nil && s.counts(c.File, c.Module) {
			s.load.addCounters(c)
		}
	}
}

// counts reports whether I/O on a file through a module belongs to the pictures. The same
// bytes through MPI-IO and POSIX count once.
func (s *survey) counts(file int32, m iotrace.Module) bool {
	return uint(file) < uint(len(s.covered)) && (s.file < 0 || int(file) == s.file) &&
		(m != iotrace.MPIIO || !s.covered[file])
}

// active returns which processes have requests. Only those matter that are no ranks.
func (s *survey) active() []bool {
	out := make([]bool, len(s.trace.Ranks))
	if !slices.ContainsFunc(s.trace.Ranks, func(r iotrace.Rank) bool { return r.Rank < 0 }) {
		return out
	}
	for i := range s.trace.Events {
		e := &s.trace.Events[i]
		if e.Op.Data() && s.counts(e.File, e.Module) && uint(e.Rank) < uint(len(out)) {
			out[e.Rank] = true
		}
	}
	return out
}

// layOut lays out one of the pictures that were listed.
func (s *survey) layOut(kind Plot) (*figure.Picture, error) {
	i := slices.IndexFunc(pictures, func(p picture) bool { return p.kind == kind })
	if i < 0 {
		return nil, fmt.Errorf("plot %q: there are %s", kind, strings.ReplaceAll(strings.Trim(fmt.Sprint(Plots()), "[]"), " ", ", "))
	}
	p := figure.New(pictures[i].title)
	if kind == Timeline {
		p.Title.Text = "Timeline of " + s.line.whose()
	}
	if s.name != "" && kind != Bandwidth {
		p.Title.Text += ": " + shorten(legal(s.name), 60)
	}
	if err := pictures[i].draw(s, p); err != nil {
		return nil, err
	}
	if pictures[i].describe != nil {
		p.Text = pictures[i].describe(s)
	}
	return p, nil
}

// noBalance says why there is no picture.
const noBalance = "The trace has sums over all ranks, and none of single ranks: it does not say how even they are."

var errNoBalance = errors.New(noBalance)

// legal replaces the characters that SVG and readers cannot use: control
// characters, and bytes that are not UTF-8.
func legal(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == 0xFFFE || r == 0xFFFF { // XML 1.0, section 2.2
			return utf8.RuneError
		}
		return r
	}, name)
}

// shorten cuts off the beginning of a long path.
func shorten(s string, most int) string {
	r := []rune(s)
	if len(r) <= most {
		return s
	}
	return "…" + string(r[len(r)-most+1:])
}
