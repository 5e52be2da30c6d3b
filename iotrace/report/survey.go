package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"gonum.org/v1/plot"

	"ckpt/internal/figure"
	"ckpt/iotrace"
	"ckpt/iotrace/analyze"
)

// The plots of ranks and layers.
const (
	Heatmap  Plot = "heatmap"  // bytes by rank and time
	Timeline Plot = "timeline" // operations of a rank by file and time
	Balance  Plot = "balance"  // bytes and time by rank
	Layers   Plot = "layers"   // MPI-IO beside POSIX, by file
)

// surveyed are the plots that a survey draws.
var surveyed = []Plot{Heatmap, Timeline, Balance, Layers}

// A survey has the numbers of the pictures of ranks and layers. One pass over the events
// collects them.
type survey struct {
	trace *iotrace.Trace
	r     *analyze.Report
	file  int    // index into Trace.Files, or -1 for all
	name  string // of that file
	// covered are the files whose POSIX requests are known. Their MPI-IO requests move
	// the same bytes.
	covered []bool
	heat    *heat
	line    *timeline
	load    *load
}

// onPage reports whether a trace has what a plot shows.
func onPage(kind Plot, r *analyze.Report) bool {
	switch kind {
	case Layers:
		return r.MPIIO != nil
	case Sizes, Offsets, SpaceTime, Heatmap, Timeline:
		return !r.Counted
	}
	return true
}

// DrawTimeline draws the timeline of the rank with a number, of one file if it has a
// name.
func DrawTimeline(w io.Writer, format string, tr *iotrace.Trace, r *analyze.Report, rank int, file string) error {
	if !slices.ContainsFunc(tr.Ranks, func(k iotrace.Rank) bool { return k.Rank == rank }) || rank < 0 {
		return fmt.Errorf("report: rank %d: not in the trace", rank)
	}
	if file != "" && !slices.Contains(tr.Files, file) {
		return fmt.Errorf("report: file %q: not in the trace", file)
	}
	if err := figure.Write(w, format, newSurvey(tr, r, file, rank, false, Timeline).layOut(Timeline)); err != nil {
		return fmt.Errorf("report: draw %s: %w", Timeline, err)
	}
	return nil
}

// newSurvey collects what the plots need that are listed.
func newSurvey(tr *iotrace.Trace, r *analyze.Report, file string, rank int, onPage bool, kinds ...Plot) *survey {
	s := &survey{trace: tr, r: r, file: -1, name: file, covered: make([]bool, len(tr.Files))}
	if file != "" {
		s.file = slices.Index(tr.Files, file)
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
	if slices.Contains(kinds, Heatmap) {
		s.heat = newHeat(tr, r, onPage)
	}
	if slices.Contains(kinds, Timeline) {
		s.line = newTimeline(tr, r, rank, onPage)
	}
	if slices.Contains(kinds, Balance) {
		s.load = newLoad(tr)
		s.addCounters()
	}
	if s.heat == nil && s.line == nil && s.load == nil {
		return s
	}
	for i := range tr.Events {
		e := &tr.Events[i]
		if !s.counts(e) {
			continue
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
	return s
}

// addCounters counts the counters of a trace without events.
func (s *survey) addCounters() {
	if len(s.trace.Events) > 0 {
		return
	}
	for i := range s.trace.Counters {
		c := &s.trace.Counters[i]
		if uint(c.File) < uint(len(s.covered)) && (s.file < 0 || int(c.File) == s.file) && (c.Module != iotrace.MPIIO || !s.covered[c.File]) {
			s.load.addCounters(c)
		}
	}
}

// counts reports whether an event is I/O on the files of the pictures, counted once.
func (s *survey) counts(e *iotrace.Event) bool {
	return !e.Op.Step() && uint(e.File) < uint(len(s.covered)) && (s.file < 0 || int(e.File) == s.file) &&
		(e.Module != iotrace.MPIIO || !s.covered[e.File])
}

// layOut lays out one of the plots that were listed.
func (s *survey) layOut(kind Plot) *plot.Plot {
	p := figure.New(titles[kind])
	if s.name != "" {
		p.Title.Text += ": " + shorten(legal(s.name), 60)
	}
	switch title := p.Title.Text; kind {
	case Heatmap:
		s.heat.draw(p)
	case Timeline:
		s.line.draw(p)
		p.Title.Text = "Timeline of " + s.line.whose() + strings.TrimPrefix(title, titles[kind])
	case Balance:
		s.load.draw(p)
	case Layers:
		drawLayers(p, s.r, s.name)
	}
	return p
}

// describe says in words what a plot shows, for readers who cannot see it.
func (s *survey) describe(kind Plot) string {
	switch kind {
	case Heatmap:
		return s.heat.describe()
	case Timeline:
		return s.line.describe()
	case Balance:
		return s.load.describe()
	case Layers:
		return describeLayers(s.r)
	}
	return titles[kind]
}
