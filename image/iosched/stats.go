package iosched

import (
	"cmp"
	"fmt"
	"maps"
	"math"
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

// A Way is how processes access blocks of a file that do not touch.
type Way string

// The ways.
const (
	PlainAccess      Way = "plain"      // one call for each block
	SievedAccess     Way = "sieved"     // each process moves all from its first block to its last, and picks its blocks
	CollectiveAccess Way = "collective" // each process moves a contiguous part of the file, for all
)

// Pattern is what several processes want of one file at the same time: each Blocks
// blocks of Block bytes, with holes between them. The letters are from Lebre 2006,
// appendix A. Rates are in bytes per second, and 0 is no limit, but for Disk.
type Pattern struct {
	Processes int   // p
	Blocks    int64 // n, of each process
	Block     int64 // C, bytes
	// Span is C' of a process that sieves: the bytes from its first block to the end of
	// its last. Domain is C' of a process in a collective access: its part of the bytes
	// that all want together, with the holes between them; 0: the same as Span.
	Span, Domain int64
	// Buffer is how many bytes are copied at a time; 0: as many as there are.
	Buffer int64
	// Write says that blocks are written. A process that writes over holes reads them
	// before; the thesis looks at reads only.
	Write bool

	Seek    float64 // S, seconds
	Disk    float64 // D
	Copy    float64 // Q, of a copy in memory
	Network float64 // B
	// Request and Answer are R and L: the bytes that two processes exchange for a block
	// of a collective access, before it and after it.
	Request, Answer int64
	// Parallel says that the processes of a collective access move their parts at the
	// same time, over a network and to a storage that suffice for all.
	Parallel bool
}

// Continuity says whether it pays to join the accesses of a pattern.
type Continuity struct {
	// Plain, Sieved and Collective are the seconds that each way takes all processes.
	Plain, Sieved, Collective float64
	// Degree is the degree of continuity, at most 1: the share of the time of plain
	// accesses that the better of the other ways saves. Below 0 both lose.
	Degree float64
	Way    Way
}

// Continuity computes the degree of continuity
//
//	β = 1 − min(T1′, Tn′) / T_S
//
// and decides: plain accesses up to 0, else the faster of the other two. The thesis does
// not define T_S, the time of simple accesses. Here it is T1 of one process and Tn of
// several; then T1′ is for all of them, one after the other as in Tn.
func (p *Pattern) Continuity() (Continuity, error) {
	if err := p.check(); err != nil {
		return Continuity{}, err
	}
	processes := float64(p.Processes)
	c := Continuity{Plain: processes * p.PlainTime(), Sieved: processes * p.SievedTime(), Collective: p.CollectiveTime(), Way: PlainAccess}
	best, way := c.Sieved, SievedAccess
	if p.Processes > 1 && c.Collective < c.Sieved {
		best, way = c.Collective, CollectiveAccess
	}
	c.Degree = 1 - best/c.Plain
	if c.Degree > 0 {
		c.Way = way
	}
	return c, nil
}

// PlainTime is T1: the seconds of one process that accesses each block alone.
func (p *Pattern) PlainTime() float64 {
	return float64(p.Blocks) * (p.Seek + float64(p.Block)/p.Disk)
}

// SievedTime is T1′: the seconds of one process that moves its whole span.
func (p *Pattern) SievedTime() float64 { return p.sieved(p.Span) }

// sieved is T1′ of a covering range of so many bytes. Where a hole fills the copy buffer,
// each fill has one block at most, and nothing is joined (A.5 of the thesis).
func (p *Pattern) sieved(span int64) float64 {
	n := float64(p.Blocks)
	copies := n * rated(p.Block, p.Copy)
	if p.Buffer > 0 && p.hole(span) >= p.Buffer {
		filled := (p.Block + p.Buffer - 1) / p.Buffer * p.Buffer
		return n*p.moves(filled, filled > p.Block) + copies
	}
	return p.moves(span, span > p.Blocks*p.Block) + copies
}

// moves is the time to move a range, with a read before if it is written over holes.
func (p *Pattern) moves(bytes int64, holes bool) float64 {
	once := p.Seek + float64(bytes)/p.Disk
	if p.Write && holes {
		return 2 * once
	}
	return once
}

// hole is the mean hole between two blocks of a range.
func (p *Pattern) hole(span int64) int64 {
	if p.Blocks < 2 {
		return 0
	}
	return (span - p.Blocks*p.Block) / (p.Blocks - 1)
}

// CollectiveTime is Tn′: the seconds of all processes together, which exchange two
// messages for each block and move their parts of the file.
func (p *Pattern) CollectiveTime() float64 {
	domain := p.Domain
	if domain == 0 {
		domain = p.Span
	}
	one := float64(p.Blocks)*(rated(p.Request, p.Network)+rated(p.Answer, p.Network)) + p.sieved(domain)
	if p.Parallel {
		return one
	}
	return float64(p.Processes) * one
}

// rated is the time of bytes at a rate.
func rated(bytes int64, rate float64) float64 {
	if rate == 0 {
		return 0
	}
	return float64(bytes) / rate
}

// mostBytes bounds a pattern, so that no product overflows.
const mostBytes = 1 << 60

// check refuses patterns that no file has.
func (p *Pattern) check() error {
	positive := func(v float64) bool { return v >= 0 && !math.IsInf(v, 1) }
	switch {
	case p.Processes < 1 || p.Blocks < 1 || p.Block < 1:
		return fmt.Errorf("continuity: %d processes with %d blocks of %d bytes: want at least 1 of each", p.Processes, p.Blocks, p.Block)
	case p.Block > mostBytes/p.Blocks:
		return fmt.Errorf("continuity: %d blocks of %d bytes: want at most 2^60 bytes of a process", p.Blocks, p.Block)
	case p.Span < p.Blocks*p.Block || p.Span > mostBytes:
		return fmt.Errorf("continuity: a span of %d bytes around %d blocks of %d: want at least the bytes of the blocks, at most 2^60", p.Span, p.Blocks, p.Block)
	case p.Domain != 0 && p.Domain < p.Blocks*p.Block || p.Domain > mostBytes:
		return fmt.Errorf("continuity: a part of %d bytes of a collective access of %d blocks of %d: want at least the bytes of the blocks, at most 2^60, or 0", p.Domain, p.Blocks, p.Block)
	case p.Buffer < 0 || p.Buffer > mostBytes || p.Request < 0 || p.Answer < 0:
		return fmt.Errorf("continuity: buffer %d, request %d, answer %d: want no negative size, and a buffer of at most 2^60 bytes", p.Buffer, p.Request, p.Answer)
	case !positive(p.Seek) || !positive(p.Copy) || !positive(p.Network):
		return fmt.Errorf("continuity: seek %g s, copy %g bytes/s, network %g bytes/s: want finite numbers from 0", p.Seek, p.Copy, p.Network)
	case !positive(p.Disk) || p.Disk == 0:
		return fmt.Errorf("continuity: disk %g bytes/s: want a finite rate above 0", p.Disk)
	}
	return nil
}
