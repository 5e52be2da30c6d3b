package analyze

import (
	"math"

	"ckpt/iotrace"
)

// A Burst is a run of reads, or of writes, that ends with an operation of the other
// kind or with a silence longer than Options.BurstGap. Other operations do not end it.
type Burst struct {
	Op    string  `json:"op"` // write or read
	Count int64   `json:"count"`
	Bytes int64   `json:"bytes"`
	Start float64 `json:"start_s"`
	End   float64 `json:"end_s"`
	// Kind is metadata if the requests have less than a KiB on average and a MiB
	// in all, as the 44 writes, 8192 bytes, that begin DMTCP's images (León,
	// Figure 5.14); else data.
	Kind  string `json:"kind"`
	Ranks int    `json:"ranks"` // that take part; 0 for other processes only
	// Spatial, Detail and Sizes describe the burst as they do a file. Bursts of the
	// job have none.
	Spatial Spatial `json:"spatial,omitempty"`
	Detail  Detail  `json:"detail,omitempty"`
	Sizes   string  `json:"size_kind,omitempty"`
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

// rawBurst is a burst under construction.
type rawBurst struct {
	write        bool
	count, bytes int64
	start, end   int64 // ns
	first        int32 // event
	ranks        int
}

// bursts finds the bursts of a file, or of the job, from the events in order.
type bursts struct {
	cur   rawBurst // the last one, if total is not 0
	list  []rawBurst
	total int
	cut   int32 // first event of the first burst that is not kept, or 0
}

// add adds an event.
func (b *bursts) add(e *iotrace.Event, i int32, gap int64, budget *int) {
	write := e.Op == iotrace.Write
	if b.total == 0 || b.cur.write != write || after(b.cur.end, e.Start, gap) {
		b.keep(budget)
		b.cur = rawBurst{write: write, start: e.Start, end: e.Start, first: i}
		b.total++
	}
	b.cur.count++
	b.cur.bytes = add(b.cur.bytes, max(e.Bytes, 0))
	b.cur.end = max(b.cur.end, e.End)
}

// keep appends the last burst to the list, up to the limit.
func (b *bursts) keep(budget *int) {
	switch {
	case b.total == 0 || len(b.list) < b.total-1:
		return
	case len(b.list) == maxBursts || *budget == 0:
		b.cut = b.cur.first
		return
	}
	b.list = append(b.list, b.cur)
	*budget--
}

func (b *rawBurst) report() Burst {
	out := Burst{Op: iotrace.Read.String(), Count: b.count, Bytes: b.bytes, Start: float64(b.start) / 1e9,
		End: float64(b.end) / 1e9, Kind: "data", Ranks: b.ranks}
	if b.write {
		out.Op = iotrace.Write.String()
	}
	if b.bytes < metadataBytes && float64(b.bytes) < metadataMean*float64(b.count) {
		out.Kind = "metadata"
	}
	return out
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
