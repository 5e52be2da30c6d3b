package analyze

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"ckpt/iotrace"
	"ckpt/iotrace/analyze/finding"
	"ckpt/iotrace/analyze/pattern"
)

// TestFindingsOfCounters: what counters tell of syncs, alignment, status requests, phases,
// and of requests that the MPI library makes by itself.
func TestFindingsOfCounters(t *testing.T) {
	synced := writes(iotrace.POSIX, 0, 0, 200, 64<<10)
	synced.Syncs = 200
	rare := writes(iotrace.POSIX, 0, 0, 200, 64<<20)
	rare.Syncs = 60 // one for 213 MiB

	// Each write begins within a stripe and touches one more than it needs.
	off := writes(iotrace.POSIX, 0, 0, 400, 4<<20)
	off.ConsecutiveWrites, off.SequentialWrites = 0, 399
	off.Unaligned, off.Alignment, off.WriteTime, off.LastWriteEnd = 400, 1<<20, 5*time.Second, 5001*ms
	// The same numbers, but each begins where the one before ended: a header is before.
	contiguous := off
	contiguous.ConsecutiveWrites = 399

	asked := writes(iotrace.POSIX, 0, 0, 10, 4<<20)
	asked.Stats, asked.MetaTime = 5000, 2*time.Second

	var steps []iotrace.Counters
	for k := range int64(4) {
		c := writes(iotrace.POSIX, int32(k%2), int32(k), 10, 64<<20)
		c.FirstWrite, c.LastWriteEnd = (1+3*k)*1000*ms, (2+3*k)*1000*ms
		c.FirstOpen, c.LastOpen = c.FirstWrite, c.FirstWrite
		steps = append(steps, c)
	}
	once := slices.Clone(steps)
	for k := range once {
		once[k].FirstWrite, once[k].LastWriteEnd = 1000*ms, 2000*ms
	}

	// One phase, and hints that are read two seconds before.
	slight := slices.Clone(once)
	hints := writes(iotrace.POSIX, 1, 0, 10, 8)
	hints.FirstWrite, hints.LastWriteEnd = 0, 10*ms
	slight = append(slight, hints)

	// The library reads before each write, and writes four times the bytes.
	calls := writes(iotrace.MPIIO, 0, iotrace.None, 1000, 256<<10)
	calls.CollectiveWrites = 1000
	sieved := writes(iotrace.POSIX, 0, iotrace.None, 1000, 1<<20)
	sieved.Reads, sieved.BytesRead, sieved.ReadTime, sieved.Switches = 1000, 0, 500*time.Millisecond, 2000
	plain := writes(iotrace.POSIX, 0, iotrace.None, 250, 1<<20)

	for _, c := range []struct {
		name     string
		counters []iotrace.Counters
		code     string
		evidence string
		value    float64
		gain     float64 // at most
	}{
		{"a sync after each write", []iotrace.Counters{synced}, "CK12", "eager_syncs", 199, 1},
		{"rare syncs", []iotrace.Counters{rare}, "", "", 0, 0},
		{"off the stripes", []iotrace.Counters{off}, "CK02", "misaligned", 400, 1.01},
		{"contiguous", []iotrace.Counters{contiguous}, "", "", 0, 0},
		{"status requests", []iotrace.Counters{asked}, "CK22", "stats_again", 4999, 2},
		{"phases", steps, "CK09", "bursts", 4, 4},
		{"one phase", once, "", "", 0, 0},
		{"one phase, and 80 bytes", slight, "", "", 0, 0},
		{"data sieving", []iotrace.Counters{calls, sieved}, "CK15", "unasked_reads", 1000, 1.5},
		{"no data sieving", []iotrace.Counters{calls, plain}, "", "", 0, 0},
	} {
		r := Analyze(countersOf(4, c.counters...), Options{})
		var got []string
		for _, f := range r.Insights {
			if slices.Contains([]string{"CK12", "CK02", "CK22", "CK09", "CK15"}, f.Code) {
				got = append(got, f.Code)
			}
		}
		if c.code == "" {
			if len(got) > 0 {
				t.Errorf("%s: %v", c.name, got)
			}
			continue
		}
		f := found(r, c.code)
		if f == nil {
			t.Errorf("%s: %v", c.name, codes(r))
			continue
		}
		if math.Abs(evidence(f, c.evidence)-c.value) > 1e-9 || *f.Gain > c.gain || !strings.HasSuffix(f.Model, ".") {
			t.Errorf("%s: %+v, gain %g", c.name, f, *f.Gain)
		}
		if len(got) != 1 {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// TestUnalignedMemory: the share of requests from memory that is not aligned.
func TestUnalignedMemory(t *testing.T) {
	c := writes(iotrace.POSIX, 0, 0, 100, 4096)
	c.UnalignedMemory = 25
	r := Analyze(countersOf(1, c), Options{})
	if got := r.Offsets.UnalignedMemory; got != 0.25 || r.Files[0].Offsets.UnalignedMemory != 0.25 {
		t.Errorf("%v", got)
	}
	c.UnalignedMemory = iotrace.None
	if got := Analyze(countersOf(1, c), Options{}).Offsets.UnalignedMemory; got != 0 {
		t.Errorf("unknown: %v", got)
	}
}

// TestOneAggregator: a single rank that moves the bytes of all, as the library chooses
// for a file on one target. More stripes bring more aggregators.
func TestOneAggregator(t *testing.T) {
	calls := writes(iotrace.MPIIO, 0, iotrace.None, 1<<16, 64<<10)
	calls.CollectiveWrites = calls.Writes
	posix := writes(iotrace.POSIX, 0, iotrace.None, 4<<10, 1<<20)
	posix.WriteTime, posix.LastWriteEnd = 8*time.Second, 8001*ms
	posix.Slowest = iotrace.RankWork{Rank: 0, Bytes: posix.BytesWritten, Time: posix.WriteTime}
	tr := countersOf(64, calls, posix)
	tr.Striping = []iotrace.Striping{{File: 0, Size: 1 << 20, Count: 1, OSTs: []int64{3}, End: iotrace.None}}
	r := Analyze(tr, Options{})
	f := found(r, "CK24")
	if f == nil || *f.Gain != 6 || r.Insights[0].Code != "CK24" {
		t.Fatalf("%v: %+v", codes(r), f)
	}
	if text := f.Advice + f.Hints[0].Text; !strings.Contains(text, "aggregator") || !strings.Contains(text, "lfs setstripe") {
		t.Error(text)
	}
	// Without stripes known, and uneven: aggregators come first, not calls that the
	// program makes already.
	posix.Slowest.Bytes -= 1 << 20
	posix.Fastest = iotrace.RankWork{Rank: 1, Bytes: 1}
	r = Analyze(countersOf(64, calls, posix), Options{})
	if f := found(r, "CK20"); f == nil || !strings.Contains(f.Hints[0].Text, "cb_nodes") || !strings.Contains(f.Advice, "aggregator") {
		t.Errorf("%v: %+v", codes(r), f)
	}
}

// TestTruncatedEvents: counters go on where the memory for requests was full. Findings
// are about all requests.
func TestTruncatedEvents(t *testing.T) {
	c := writes(iotrace.POSIX, 0, 0, 100_000, 16)
	c.WriteTime, c.LastWriteEnd = 4*time.Second, 4001*ms
	tr := countersOf(1, c)
	for k := range int64(500) { // of 100,000
		tr.Events = append(tr.Events, iotrace.Event{Op: iotrace.Write, Offset: 16 * k, Bytes: 16, Start: ms + 40_000*k, End: ms + 40_000*(k+1)})
	}
	r := Analyze(tr, Options{})
	f := found(r, "CK01")
	if f == nil || evidence(f, "small") != 100_000 || *f.Gain < 3.9 || *f.Gain > 4 {
		t.Errorf("%+v", f)
	}
	// The totals are those of all requests, too.
	for _, a := range []*Activity{&r.Activity, &r.Files[0].Activity} {
		if a.Writes != 100_000 || a.BytesWritten != 1_600_000 || math.Abs(a.WriteTime-4) > 1e-9 || a.Writing.Ranks != 1 || a.Sizes.Small != 100_000 ||
			a.WriteDetail != pattern.Contiguous || a.Histogram[0].Writes != 100_000 || a.CommonSizes[0].Count != 100_000 {
			t.Errorf("%+v", a)
		}
	}
	if o := r.operation(iotrace.Write); o.Count != 100_000 || o.Bytes != 1_600_000 || math.Abs(o.Time-4) > 1e-9 || math.Abs(r.Busy-4) > 0.01 {
		t.Errorf("%+v, busy %v s", o, r.Busy)
	}
	// One record for all ranks: those with events have done the rest.
	tr.Counters[0].Rank = iotrace.None
	tr.Ranks = append(tr.Ranks, iotrace.Rank{Rank: 1})
	if r := Analyze(tr, Options{}); r.Writes != 100_000 || r.ActiveRanks != 1 || r.Files[0].Access != Independent {
		t.Errorf("%d writes of %d ranks, %s", r.Writes, r.ActiveRanks, r.Files[0].Access)
	}
	// Events that have everything are not counted again.
	tr.Counters[0].Writes = 500
	if r := Analyze(tr, Options{}); r.Writes != 500 || r.BytesWritten != 8000 || math.Abs(r.Busy-0.02) > 1e-9 {
		t.Errorf("%d writes, busy %v s", r.Writes, r.Busy)
	}
}

// TestMetadataBesideEvents: DXT has reads and writes only, so that the other operations
// come from counters, unless events show them.
func TestMetadataBesideEvents(t *testing.T) {
	c := writes(iotrace.POSIX, 0, 0, 200, 64<<10)
	c.Stats, c.MetaTime, c.Syncs, c.WriteTime = 5000, 2*time.Second, 200, 3*time.Second
	tr := countersOf(1, c)
	for k := range int64(200) { // 1 s
		tr.Events = append(tr.Events, iotrace.Event{Op: iotrace.Write, Offset: k << 16, Bytes: 64 << 10, Start: k * 40 * ms, End: k*40*ms + 5*ms})
	}
	r := Analyze(tr, Options{})
	if f := found(r, "CK22"); f == nil || evidence(f, "stats_again") != 4999 || math.Abs(*f.Gain-2) > 0.01 {
		t.Errorf("%v: %+v", codes(r), f)
	}
	if f := found(r, "CK12"); f == nil || evidence(f, "eager_syncs") != 199 || *f.Gain < 1.9 || *f.Gain > 2 {
		t.Errorf("%v: %+v", codes(r), f)
	}
	tr.Events = append(tr.Events, iotrace.Event{Op: iotrace.Open, Start: 8000 * ms, End: 8000 * ms})
	if r := Analyze(tr, Options{}); found(r, "CK22") != nil || found(r, "CK12") != nil {
		t.Errorf("counted twice: %v", codes(r))
	}

	// Processes with the same rank spend more than the time of the run on small files.
	// No second is gained twice.
	tr = countersOf(1)
	for i := range int32(200) {
		c := writes(iotrace.POSIX, i, 0, 1, 100)
		c.MetaTime, c.WriteTime = time.Second, time.Millisecond
		tr.Counters = append(tr.Counters, c)
		for int(i) >= len(tr.Files) {
			tr.Files = append(tr.Files, fmt.Sprint("file", i))
		}
	}
	sum := 0.
	for _, f := range Analyze(tr, Options{}).Insights {
		sum += *f.Gain
	}
	if sum > 10 || sum < 9 {
		t.Errorf("%v s of 10 could be gained", sum)
	}
}

// TestExchange: the time of calls of MPI-IO beyond that of the slowest rank in the
// requests below.
func TestExchange(t *testing.T) {
	calls := writes(iotrace.MPIIO, 0, iotrace.None, 64, 1<<20)
	calls.CollectiveWrites, calls.CollectiveOpens, calls.WriteTime = 64, 4, 16*time.Second // 4 s of each rank
	below := func(rank int32, took time.Duration) iotrace.Counters {
		c := writes(iotrace.POSIX, 0, rank, 2, 16<<20)
		c.WriteTime = took
		return c
	}
	for _, c := range []struct {
		name string
		tr   *iotrace.Trace
		gain float64 // 0: none is found
	}{
		{"exchange", countersOf(4, calls, below(0, time.Second), below(2, time.Second)), 3},
		{"a late rank", countersOf(4, calls, below(0, time.Second), below(2, 100*time.Millisecond)), 0},
		{"slow storage", countersOf(4, calls, below(0, 3*time.Second), below(2, 3*time.Second)), 0},
		{"no requests below", countersOf(4, calls), 0},
	} {
		f := found(Analyze(c.tr, Options{}), "CK27")
		if c.gain == 0 {
			if f != nil {
				t.Errorf("%s: %+v", c.name, f)
			}
			continue
		}
		if f == nil || math.Abs(*f.Gain-c.gain) > 1e-9 || f.File != "f" || f.Files != 1 {
			t.Errorf("%s: %+v, want a gain of %v s", c.name, f, c.gain)
		}
	}
	// Not even half of the time, but much of it.
	if f := found(Analyze(countersOf(4, calls, below(0, 2500*time.Millisecond), below(2, 2500*time.Millisecond)), Options{}), "CK27"); f == nil || math.Abs(*f.Gain-1.5) > 1e-9 {
		t.Errorf("a third of the time: %+v", f)
	}
	calls.CollectiveWrites, calls.IndependentWrites = 0, 64
	f := found(Analyze(countersOf(4, calls, below(0, time.Second), below(2, time.Second)), Options{}), "CK27")
	if f == nil || math.Abs(*f.Gain-3) > 1e-9 || strings.Contains(f.Title, "collective") || !strings.Contains(f.Advice, "independent") {
		t.Errorf("calls of each rank by itself: %+v", f)
	}
}

// TestSplitCollective: small requests of independent calls beside large collective ones,
// and those of a few aggregators, are no collective calls that gather nothing.
func TestSplitCollective(t *testing.T) {
	calls := writes(iotrace.MPIIO, 0, iotrace.None, 1000, 64<<10)
	calls.CollectiveWrites = 1000
	split := writes(iotrace.POSIX, 0, iotrace.None, 1000, 64<<10)
	split.WriteTime, split.LastWriteEnd = 400*time.Second, 8001*ms

	mixed := calls
	mixed.Writes, mixed.IndependentWrites = 6000, 5000
	large := split // 1,000 of 16 MiB, 5,000 of 512 bytes
	large.Writes, large.WriteSizes, large.Common = 6000, [10]int64{1: 5000, 7: 1000}, [4]iotrace.SizeCount{}
	large.BytesWritten = 1000*16<<20 + 5000*512
	gathered := large
	gathered.Writes, gathered.WriteSizes = 5010, [10]int64{1: 5000, 7: 10}

	few := split // of 8 of 64 ranks
	mean := float64(few.BytesWritten) / 64
	few.Fastest, few.VarianceBytes = iotrace.RankWork{Rank: 1}, 7*mean*mean

	for _, c := range []struct {
		name     string
		counters []iotrace.Counters
		found    bool
	}{
		{"each rank by itself", []iotrace.Counters{calls, split}, true},
		{"small independent calls", []iotrace.Counters{mixed, large}, false},
		{"collective calls are gathered", []iotrace.Counters{mixed, gathered}, false},
		{"aggregators", []iotrace.Counters{calls, few}, false},
	} {
		if f := found(Analyze(countersOf(64, c.counters...), Options{}), "CK19"); (f != nil) != c.found {
			t.Errorf("%s: %+v", c.name, f)
		}
	}
}

// TestReferenceOfCounters: what the gain of small writes is measured against.
func TestReferenceOfCounters(t *testing.T) {
	small := writes(iotrace.POSIX, 0, iotrace.None, 100_000, 4096)
	small.WriteTime, small.LastWriteEnd = 400*time.Second, 8001*ms
	medium := writes(iotrace.POSIX, 1, iotrace.None, 1000, 500_000)
	large := writes(iotrace.POSIX, 1, iotrace.None, 600, 100) // and 100 of 16 MB
	large.Writes, large.BytesWritten, large.WriteSizes[7] = 700, 1_600_000_000, 100
	for _, c := range []struct {
		name     string
		counters []iotrace.Counters
		ranks    int
		says     string
	}{
		{"few ranks", []iotrace.Counters{small}, 8, "tells none (1 GB/s)"},
		{"many ranks share the storage", []iotrace.Counters{small}, 200, "tells none (100 MB/s)"},
		{"medium writes", []iotrace.Counters{small, medium}, 8, "those from 100 KiB on (500 MB/s)"},
		{"large ones have the bytes", []iotrace.Counters{small, large}, 8, "the large ones of this trace (1.6 GB/s)"},
	} {
		r := Analyze(countersOf(c.ranks, c.counters...), Options{})
		if !slices.ContainsFunc(r.Insights, func(f finding.Finding) bool { return strings.Contains(f.Model, c.says) }) {
			t.Errorf("%s: %+v", c.name, r.Insights)
		}
	}
	// 16 MB take a rank of 2,000 1.6 s on a storage of 20 GB/s: no time is left.
	large.WriteTime, large.LastWriteEnd = 150*time.Second, 2001*ms
	if f := found(Analyze(countersOf(2000, large), Options{}), "CK01"); f != nil {
		t.Errorf("large requests take all of the time: %+v", f)
	}
}

// TestFewMove: aggregators are those that move nearly all bytes, though all ranks make
// small requests as well.
func TestFewMove(t *testing.T) {
	calls := writes(iotrace.MPIIO, 0, iotrace.None, 1000, 1<<20)
	calls.CollectiveWrites = 1000
	all := []iotrace.Counters{calls}
	for rank := range int32(16) {
		c := writes(iotrace.POSIX, 0, rank, 1000, 512)
		if rank%4 == 0 {
			c = writes(iotrace.POSIX, 0, rank, 250, 1<<20)
			c.WriteTime = 4 * time.Second
		}
		all = append(all, c)
	}
	if f := found(Analyze(countersOf(16, all...), Options{}), "CK05"); f != nil {
		t.Errorf("%+v", f)
	}
	all[0].CollectiveWrites, all[0].IndependentWrites = 0, 1000
	if f := found(Analyze(countersOf(16, all...), Options{}), "CK05"); f == nil {
		t.Error("uneven bytes of independent calls are not found")
	}
}
