package iosched

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// FileStats has the columns of the thesis for one file and operation. All but Bytes
// and Idle are numbers: Sum, Biggest and Last count requests.
type FileStats struct {
	File       string        `json:"file"`
	Op         string        `json:"op"`
	Requests   int           `json:"requests"`   // that came
	Sum        int           `json:"sum"`        // of these, requests that were served in aggregates
	Aggregates int           `json:"aggregates"` // of two requests or more
	Biggest    int           `json:"biggest"`    // requests in the biggest aggregate
	Last       int           `json:"last"`       // requests served together last, 1 for a single one
	Shift      int           `json:"shift"`      // waits for a late process
	Better     int           `json:"better"`     // waits for a longer aggregate
	Seeks      int           `json:"seeks"`      // services that did not begin where the last one ended
	Bytes      int64         `json:"bytes"`      // that were served
	Idle       time.Duration `json:"idle"`       // of the unit, though requests waited
	Longest    time.Duration `json:"longest"`    // from the arrival of a request to the end of its service
}

// AppStats is what an application had of the unit.
type AppStats struct {
	App      string        `json:"app"`
	User     string        `json:"user"`
	Requests int           `json:"requests"`
	Bytes    int64         `json:"bytes"`   // that were served
	Arrival  time.Duration `json:"arrival"` // of its first request
	End      time.Duration `json:"end"`     // when its last service ended
	Service  time.Duration `json:"service"` // time for which the unit worked for it
}

// Flow is the flow time F = C - r: from the first request to the end of the last.
func (a AppStats) Flow() time.Duration { return max(0, a.End-a.Arrival) }

// Stats is what happened at a storage unit.
type Stats struct {
	Unit   string        `json:"unit"`
	Policy string        `json:"policy"`
	Busy   time.Duration `json:"busy"`
	Idle   time.Duration `json:"idle"` // though requests waited
	Files  []FileStats   `json:"files"`
	Apps   []AppStats    `json:"apps"`
}

type row struct {
	file string
	op   Op
}

// counters collects the statistics of a controller.
type counters struct {
	files map[row]*FileStats
	apps  map[string]*AppStats
	busy  time.Duration
	idle  time.Duration

	file string // where the last service ended
	end  int64

	number int // of the wait that goes on
	since  time.Duration
	idler  *FileStats // nil if the unit does not stay idle
}

func newCounters() counters {
	return counters{files: make(map[row]*FileStats), apps: make(map[string]*AppStats), end: -1}
}

func (s *counters) of(file string, op Op) *FileStats {
	f := s.files[row{file, op}]
	if f == nil {
		f = &FileStats{File: file, Op: op.String()}
		s.files[row{file, op}] = f
	}
	return f
}

func (s *counters) arrived(r *Request) {
	s.of(r.File, r.Op).Requests++
	a := s.apps[r.App]
	if a == nil {
		a = &AppStats{App: r.App, User: r.User, Arrival: r.Arrival}
		s.apps[r.App] = a
	}
	a.Requests++
}

// granted counts the aggregates among grants: requests of one file that follow each
// other without a gap.
func (s *counters) granted(now time.Duration, grants []Grant) {
	s.wakes(now)
	for len(grants) > 0 {
		first, n := grants[0].Request, 1
		for n < len(grants) && grants[n].Request.File == first.File && grants[n].Request.Op == first.Op && grants[n].Offset == grants[n-1].End() {
			n++
		}
		f := s.of(first.File, first.Op)
		f.Last = n
		f.Biggest = max(f.Biggest, n)
		if n > 1 {
			f.Sum += n
			f.Aggregates++
		}
		grants = grants[n:]
	}
}

// waits notes that the unit stays idle. A wait that was asked for before goes on.
func (s *counters) waits(now time.Duration, w Wait) {
	if s.idler != nil && s.number == w.Number {
		return
	}
	s.wakes(now)
	f := s.of(w.File, w.Op)
	s.idler, s.since, s.number = f, now, w.Number
	switch w.Reason {
	case Shift:
		f.Shift++
	case Better:
		f.Better++
	}
}

func (s *counters) wakes(now time.Duration) {
	if s.idler != nil {
		s.idler.Idle += now - s.since
		s.idle += now - s.since
		s.idler = nil
	}
}

func (s *counters) served(began, now time.Duration, g Grant) {
	r := g.Request
	f := s.of(r.File, r.Op)
	f.Bytes += g.Bytes
	if s.file != r.File || s.end != g.Offset {
		f.Seeks++
	}
	s.file, s.end = r.File, g.End()
	a := s.apps[r.App]
	a.Bytes += g.Bytes
	a.End = max(a.End, now)
	a.Service += now - began
	s.busy += now - began
}

// Stats returns what has happened so far.
func (c *Controller) Stats() Stats {
	s := Stats{Unit: c.unit, Policy: c.policy.Name(), Busy: c.stats.busy, Idle: c.stats.idle}
	for _, f := range slices.SortedFunc(maps.Values(c.stats.files), func(a, b *FileStats) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Op, b.Op))
	}) {
		s.Files = append(s.Files, *f)
	}
	for _, name := range slices.Sorted(maps.Keys(c.stats.apps)) {
		s.Apps = append(s.Apps, *c.stats.apps[name])
	}
	return s
}
