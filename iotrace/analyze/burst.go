package analyze

import (
	"math"
	"slices"

	"ckpt/iotrace"
	"ckpt/iotrace/analyze/pattern"
)

// A Burst is a phase of the job, or of a file: writes of any ranks, or reads, until a
// silence longer than Options.BurstGap. Other operations do not end it. While the
// others go on, with requests of the other direction, a silence may be ten times as
// long, so that a rank that reads and writes by turns makes no burst of each request.
//
// A burst of writes and one of reads that share at least half of the time of the two
// are one burst of both. Those that share less are two that go on at the same time: a
// log, written while a phase reads, does not make all phases one.
type Burst struct {
	Op    string `json:"op"` // write, read, or both
	Count int64  `json:"count"`
	Bytes int64  `json:"bytes"`
	// Count and Bytes add up writes and reads.
	Writes       int64 `json:"writes"`
	Reads        int64 `json:"reads"`
	BytesWritten int64 `json:"bytes_written"`
	BytesRead    int64 `json:"bytes_read"`

	Start float64 `json:"start_s"`
	End   float64 `json:"end_s"`
	// Kind is metadata if the requests have less than a KiB on average and a MiB
	// in all, as the 44 writes, 8192 bytes, that begin DMTCP's images (León,
	// Figure 5.14); else data.
	Kind  string `json:"kind"`
	Ranks int    `json:"ranks"` // that take part; 0 for other processes only
	// pattern.Spatial, Detail and Sizes describe the burst as they do a file. Bursts of the
	// job lack them.
	Spatial pattern.Spatial `json:"spatial,omitempty"`
	Detail  pattern.Detail  `json:"detail,omitempty"`
	Sizes   string          `json:"size_kind,omitempty"`
}

// A Repetition is a period in the list of bursts: each unit of bursts is like the unit
// before, with the same operations, and counts and bytes within a tenth.
type Repetition struct {
	Bursts int `json:"unit_bursts"` // in a unit
	Times  int `json:"times"`       // occurrences of the unit
	// Interval is the mean time between starts. Deviation is its standard deviation
	// divided by the mean.
	Interval  float64 `json:"interval_s"`
	Deviation float64 `json:"interval_deviation"`
}

const (
	maxBursts     = 256     // kept of a file
	allBursts     = 200_000 // of all files
	metadataMean  = 1 << 10
	metadataBytes = 1 << 20
)

// rawBurst is a burst under construction. Pairs are of writes and reads.
type rawBurst struct {
	count, bytes [2]int64
	start, end   int64 // ns
	ranks        int   // of the job
	into         int32 // of one that was joined to another: the place of that; else -1
}

// An openBurst is the last burst of a direction.
type openBurst struct {
	rawBurst
	open  bool
	place int32 // in the list, or -1
	// The burst of the other direction that shares most time with it, and is over.
	otherStart, otherEnd int64
	otherPlace           int32
	shared               float64 // s; 0 without such a burst
}

// A stint is a burst that has requests of a direction.
type stint struct {
	first int32 // event
	place int32 // in the list
}

// bursts finds the bursts of a file, or of the job, from the events in order.
type bursts struct {
	cur     [2]openBurst // writes and reads
	list    []rawBurst   // in the order of their starts
	stints  [2][]stint
	cut     [2]int32 // first event of the first burst that is not kept, or 0
	total   int
	started [2]int32 // bursts of each direction, whether they were joined or not
	since   int64    // end of the last silence of both directions
	until   int64    // end of the requests so far
	joined  func(write, read int32) int
}

// patience is how many silences a direction may pause while the other goes on.
const patience = 10

// add adds an event.
func (b *bursts) add(e *iotrace.Event, i int32, gap int64, budget *int) {
	d := direction(e.Op == iotrace.Read)
	c := &b.cur[d]
	if b.total == 0 || after(b.until, e.Start, gap) {
		b.since, b.until = e.Start, e.Start
	}
	pause := gap
	if gap <= math.MaxInt64/patience && c.end >= b.since {
		pause = patience * gap // the other direction went on
	}
	if !c.open || after(c.end, e.Start, pause) {
		b.close(d)
		*c = openBurst{rawBurst: rawBurst{start: e.Start, end: e.Start, into: -1}, open: true, place: -1}
		b.begin(d, i, budget)
	}
	c.count[d]++
	c.bytes[d] = iotrace.Sum(c.bytes[d], max(e.Bytes, 0))
	c.end = max(c.end, e.End)
	b.until = max(b.until, e.End)
}

// begin gives a new burst a place in the list, up to the limit.
func (b *bursts) begin(d int, i int32, budget *int) {
	c := &b.cur[d]
	b.total++
	b.started[d]++
	switch {
	case b.cut[d] != 0:
	case len(b.list) == maxBursts || *budget == 0:
		b.cut[d] = i
	default:
		c.place = int32(len(b.list))
		b.list = append(b.list, c.rawBurst)
		b.stints[d] = append(b.stints[d], stint{first: i, place: c.place})
		*budget--
	}
}

// close ends the last burst of a direction.
func (b *bursts) close(d int) {
	c := &b.cur[d]
	if !c.open {
		return
	}
	c.open = false
	if c.shared >= 0.5*seconds(min(c.start, c.otherStart), max(c.end, c.otherEnd)) && c.shared > 0 {
		b.join(d)
		return
	}
	if c.place >= 0 {
		b.list[c.place] = c.rawBurst
	}
	// The other direction is judged when it ends.
	if o := &b.cur[1-d]; o.open {
		if s := seconds(max(c.start, o.start), min(c.end, o.end)); s > o.shared {
			o.shared, o.otherStart, o.otherEnd, o.otherPlace = s, c.start, c.end, c.place
		}
	}
}

// join makes one burst of the last one of a direction and the one of the other
// direction that shares its time.
func (b *bursts) join(d int) {
	c := &b.cur[d]
	b.total--
	if c.place < 0 && c.otherPlace < 0 {
		return
	}
	if c.place < 0 || c.otherPlace < 0 { // only one is kept, without the numbers of the other
		if c.place >= 0 {
			b.list[c.place] = c.rawBurst
		}
		return
	}
	b.list[c.place] = c.rawBurst
	to, from := min(c.place, c.otherPlace), max(c.place, c.otherPlace)
	x, y := &b.list[to], &b.list[from]
	for k := range 2 {
		x.count[k] += y.count[k]
		x.bytes[k] = iotrace.Sum(x.bytes[k], y.bytes[k])
	}
	x.start, x.end = min(x.start, y.start), max(x.end, y.end)
	x.ranks = max(x.ranks, y.ranks)
	if b.joined != nil {
		x.ranks = max(x.ranks, b.joined(b.started[0], b.started[1]))
	}
	y.into = to
}

// finish ends the last bursts, and removes those that were joined to others from the
// list.
func (b *bursts) finish() {
	b.close(0)
	b.close(1)
	places := make([]int32, len(b.list))
	n := int32(0)
	for i := range b.list {
		if x := &b.list[i]; x.into >= 0 {
			places[i] = places[x.into]
			continue
		}
		places[i] = n
		b.list[n] = b.list[i]
		n++
	}
	b.list = b.list[:n]
	for d := range b.stints {
		for i := range b.stints[d] {
			r := &b.stints[d][i]
			r.place = places[r.place]
		}
	}
}

func (b *rawBurst) report() Burst {
	out := Burst{Op: "both", Writes: b.count[0], Reads: b.count[1], BytesWritten: b.bytes[0], BytesRead: b.bytes[1],
		Count: b.count[0] + b.count[1], Bytes: iotrace.Sum(b.bytes[0], b.bytes[1]), Start: float64(b.start) / 1e9, End: float64(b.end) / 1e9,
		Kind: "data", Ranks: b.ranks}
	switch {
	case out.Reads == 0:
		out.Op = iotrace.Write.String()
	case out.Writes == 0:
		out.Op = iotrace.Read.String()
	}
	if out.Bytes < metadataBytes && float64(out.Bytes) < metadataMean*float64(out.Count) {
		out.Kind = "metadata"
	}
	return out
}

// phasesAmong counts the bursts that move a thousandth of the largest one or
// more: a few bytes of settings or of a log are no phase.
func phasesAmong(bytes []int64) (n int) {
	if len(bytes) == 0 {
		return 0
	}
	least := slices.Max(bytes) / 1000
	for _, b := range bytes {
		if b >= least {
			n++
		}
	}
	return n
}

// repetition finds the shortest unit that occurs at least twice and covers nine of ten
// bursts.
func repetition(list []Burst) *Repetition {
	alike := func(a, b *Burst) bool {
		near := func(x, y int64) bool {
			return math.Abs(float64(x)-float64(y)) <= 0.1*max(math.Abs(float64(x)), math.Abs(float64(y)))
		}
		return a.Op == b.Op && near(a.Count, b.Count) && near(a.Bytes, b.Bytes)
	}
	n := len(list)
	for unit := 1; unit <= n/2; unit++ {
		same := 0
		for i := unit; i < n; i++ {
			if alike(&list[i], &list[i-unit]) {
				same++
			}
		}
		if same*10 < 9*(n-unit) {
			continue
		}
		var m moments
		for i := unit; i < n; i += unit {
			m.add(list[i].Start-list[i-unit].Start, 0)
		}
		return &Repetition{Bursts: unit, Times: n / unit, Interval: m.meanX,
			Deviation: ratio(math.Sqrt(m.varX/m.n), m.meanX)}
	}
	return nil
}
