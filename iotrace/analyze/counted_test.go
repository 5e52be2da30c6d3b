package analyze

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ckpt/iotrace"
	"ckpt/iotrace/analyze/pattern"
)

// countersOf makes a trace of counters for some ranks, and files f and g.
func countersOf(ranks int, counters ...iotrace.Counters) *iotrace.Trace {
	tr := script(ranks)
	tr.Source, tr.Counters, tr.Runtime = "darshan", counters, 10*time.Second
	return tr
}

// writes makes a record of n writes of one size in order from offset 0, one second long.
func writes(m iotrace.Module, file, rank int32, n, size int64) iotrace.Counters {
	c := iotrace.Counters{Module: m, Rank: rank, File: file, Opens: 1, Writes: n, BytesWritten: n * size, LastRead: iotrace.None,
		LastWritten: n*size - 1, ConsecutiveWrites: n - 1, SequentialWrites: n - 1, Alignment: 4096,
		WriteTime: time.Second, MetaTime: time.Millisecond, FirstOpen: ms, FirstRead: iotrace.None, FirstWrite: ms, FirstClose: iotrace.None,
		LastOpen: ms, LastReadEnd: iotrace.None, LastWriteEnd: 1001 * ms, LastClose: iotrace.None,
		Fastest: iotrace.RankWork{Rank: iotrace.None}, Slowest: iotrace.RankWork{Rank: iotrace.None}}
	c.WriteSizes[binOf(size)] = n
	c.Common[0] = iotrace.SizeCount{Size: size, Count: n}
	return c
}

// TestCounted: a trace without events has a report as far as counters tell.
func TestCounted(t *testing.T) {
	a, b := writes(iotrace.POSIX, 0, 0, 100, 4096), writes(iotrace.POSIX, 0, 1, 50, 2<<20)
	b.FirstWrite, b.LastWriteEnd = 2001*ms, 3001*ms
	b.Unaligned, b.Seeks, b.Syncs, b.Stats = 10, 3, 2, 5
	tr := countersOf(4, a, b)
	tr.Striping = []iotrace.Striping{{File: 0, Size: 1 << 20, Count: 4}}
	r := Analyze(tr, Options{})
	if !r.Counted || r.Runtime != 10 || r.Wall != 3 || math.Abs(r.Busy-2) > 1e-9 {
		t.Errorf("counted %v, run %v, wall %v, busy %v", r.Counted, r.Runtime, r.Wall, r.Busy)
	}
	if r.Ranks != 4 || r.ActiveRanks != 2 || r.Access != Shared {
		t.Errorf("%d ranks, %d active, %s", r.Ranks, r.ActiveRanks, r.Access)
	}
	if len(r.Files) != 1 || r.BurstsTotal != 0 || r.Concurrency != (Concurrency{}) || r.Period.Periodic || len(r.Pattern.Groups) != 0 {
		t.Errorf("%+v", r)
	}
	f := r.Files[0]
	if f.Writes != 150 || f.BytesWritten != 100*4096+50*2<<20 || f.Writing.Ranks != 2 || f.WriteDetail != pattern.Contiguous || f.ReadSpatial != "" {
		t.Errorf("%+v", f.Activity)
	}
	if f.Metadata != 7 || f.Opens != 2 || f.Seeks != 3 || f.Syncs != 2 || f.WriteTime != 2 || f.MetadataTime != 0.002 {
		t.Errorf("%+v", f.Activity)
	}
	if s := f.Sizes; s.Small != 100 || s.Medium != 50 || s.Min != 4096 || s.Max != 2<<20 || f.Writing.SmallBytes != 100*4096 {
		t.Errorf("sizes %+v, %+v", s, f.Writing)
	}
	if o := f.Offsets; o.End != 100<<20 || math.Abs(o.UnalignedPage-10./150) > 1e-9 || o.Consecutive != 1 {
		t.Errorf("offsets %+v", o)
	}
	if f.Striping == nil || *f.Striping != (Striping{1 << 20, 4}) {
		t.Errorf("striping %+v", f.Striping)
	}
	// The windows are the only bandwidth: nothing between them.
	if w := r.Bandwidth.Write; len(w) == 0 || w[0] == 0 || w[len(w)/2] != 0 || w[len(w)-1] == 0 {
		t.Errorf("bandwidth %v", w)
	}
}

// TestLayersNotTwice: bytes that MPI-IO and POSIX both count are in the sums once;
// those of STDIO, and of MPI-IO without POSIX, are there.
func TestLayersNotTwice(t *testing.T) {
	tr := countersOf(2,
		writes(iotrace.MPIIO, 0, 0, 10, 1000), writes(iotrace.POSIX, 0, 0, 5, 2000), writes(iotrace.STDIO, 0, 1, 3, 7),
		writes(iotrace.MPIIO, 1, 0, 4, 500))
	r := Analyze(tr, Options{})
	if f, g := r.Files[0], r.Files[1]; f.BytesWritten != 10021 || f.Writes != 8 || g.BytesWritten != 2000 || g.Writes != 4 || r.BytesWritten != 12021 {
		t.Errorf("%d and %d bytes, %d in all", f.BytesWritten, g.BytesWritten, r.BytesWritten)
	}
	if o := r.operation(iotrace.Write); o.Bytes != 12021 || o.Count != 12 {
		t.Errorf("operations %+v", o)
	}
	if o := r.operation(iotrace.Open); o.Count != 3 || r.Opens != 3 {
		t.Errorf("%d opens, %d in all", o.Count, r.Opens)
	}
	if l := r.Layers; len(l) != 3 || l[0].Layer != "MPI-IO" || l[0].BytesWritten != 12000 || l[0].Files != 2 || l[1].BytesWritten != 10000 || l[2].BytesWritten != 21 {
		t.Errorf("layers %+v", l)
	}
	// A record of POSIX that moves nothing, as of a stat, hides no bytes of MPI-IO.
	idle := writes(iotrace.POSIX, 1, 0, 0, 1)
	if r := Analyze(countersOf(2, idle, writes(iotrace.MPIIO, 1, 0, 4, 500)), Options{}); r.BytesWritten != 2000 || r.Opens != 1 {
		t.Errorf("%d bytes, %d opens", r.BytesWritten, r.Opens)
	}
}

// TestAllRanks: a record of all ranks stands for all, or for those that can have done
// its requests.
func TestAllRanks(t *testing.T) {
	all := func(n, size int64, fastest, slowest iotrace.RankWork, variance float64) iotrace.Counters {
		c := writes(iotrace.POSIX, 0, iotrace.None, n, size)
		c.Fastest, c.Slowest, c.VarianceBytes = fastest, slowest, variance
		return c
	}
	const mean = 1000 * 1000 / 64.
	for name, c := range map[string]struct {
		counters iotrace.Counters
		ranks    int
		access   Access
	}{
		"all":      {all(1000, 1000, iotrace.RankWork{Rank: 3, Bytes: 15000}, iotrace.RankWork{Rank: 9, Bytes: 16000}, 1e5), 64, Shared},
		"unknown":  {all(1000, 1000, iotrace.RankWork{Rank: iotrace.None}, iotrace.RankWork{Rank: iotrace.None}, 0), 64, Shared},
		"one":      {all(1000, 1000, iotrace.RankWork{Rank: 3}, iotrace.RankWork{Rank: 9, Bytes: 1e6}, mean*mean*63), 1, Independent},
		"four":     {all(1000, 1000, iotrace.RankWork{Rank: 3}, iotrace.RankWork{Rank: 9, Bytes: 250000}, mean*mean*15), 4, Shared},
		"requests": {all(2, 1000, iotrace.RankWork{Rank: iotrace.None}, iotrace.RankWork{Rank: iotrace.None}, 0), 2, Shared},
	} {
		r := Analyze(countersOf(64, c.counters), Options{})
		if r.Ranks != 64 || r.ActiveRanks != c.ranks || r.Writing.Ranks != c.ranks || r.Files[0].Access != c.access {
			t.Errorf("%s: %d of %d ranks, %s", name, r.ActiveRanks, r.Ranks, r.Files[0].Access)
		}
	}
	// The slowest and the fastest rank say how evenly ranks share the work.
	r := Analyze(countersOf(64, all(1000, 1000, iotrace.RankWork{Rank: 3}, iotrace.RankWork{Rank: 9, Bytes: 250000, Time: time.Second / 2}, mean*mean*15)), Options{})
	if b := r.Balance; math.Abs(b.Imbalance-(1-1./16)) > 0.01 || b.MaxTime != 0.5 {
		t.Errorf("balance %+v", b)
	}
}

// TestCountedOrder: consecutive and sequential requests and strides tell the pattern,
// of each direction alone.
func TestCountedOrder(t *testing.T) {
	stride := func(size, count int64) [4]iotrace.SizeCount { return [4]iotrace.SizeCount{{Size: size, Count: count}} }
	for _, c := range []struct {
		consecutive, sequential int64
		strides                 [4]iotrace.SizeCount
		last                    int64
		want                    pattern.Detail
	}{
		{99, 99, stride(0, 0), 409599, pattern.Contiguous},
		{0, 99, stride(65536, 99), 6893567, pattern.StridedSimple},
		{74, 99, stride(65536, 25), 2047999, pattern.StridedNested},
		{60, 99, [4]iotrace.SizeCount{{Size: 8192, Count: 3}, {Size: 12288, Count: 2}}, 800000, pattern.Sequential},
		{0, 99, stride(0, 0), 500000, pattern.Sequential},
		{0, 99, stride(0, 0), 50000000, pattern.StridedVariable},
		{1, 50, stride(8192, 2), 5000000, pattern.Random},
		{0, 0, stride(0, 0), 4095, pattern.StridedSimple},     // the same place
		{0, 0, stride(0, 0), 409599, pattern.StridedVariable}, // backwards
		{40, 60, stride(8192, 2), 5000000, pattern.Mixed},
	} {
		w := writes(iotrace.POSIX, 0, 0, 100, 4096)
		w.ConsecutiveWrites, w.SequentialWrites, w.Strides, w.LastWritten = c.consecutive, c.sequential, c.strides, c.last
		r := Analyze(countersOf(1, w), Options{})
		if r.WriteDetail != c.want || r.ReadSpatial != "" {
			t.Errorf("%d consecutive, %d sequential, %v: %s, want %s", c.consecutive, c.sequential, c.strides, r.WriteDetail, c.want)
		}
		// Reads in order beside that do not change it.
		w.Reads, w.BytesRead, w.ConsecutiveReads, w.SequentialReads, w.LastRead = 100, 409600, 99, 99, 409599
		w.ReadSizes = w.WriteSizes
		if r := Analyze(countersOf(1, w), Options{}); r.WriteDetail != c.want || r.ReadDetail != pattern.Contiguous {
			t.Errorf("%s and contiguous reads: %s and %s", c.want, r.WriteDetail, r.ReadDetail)
		}
	}
	// Of 10 ranks, 9 begin behind offset 0.
	w := writes(iotrace.POSIX, 0, iotrace.None, 100, 4096)
	w.ConsecutiveWrites, w.SequentialWrites = 45, 54
	if r := Analyze(countersOf(10, w), Options{}); r.WriteDetail != pattern.Mixed {
		t.Errorf("10 ranks: %s", r.WriteDetail)
	}
	// MPI-IO does not count it.
	if r := Analyze(countersOf(1, writes(iotrace.MPIIO, 0, 0, 100, 4096)), Options{}); r.WriteDetail != pattern.NoDetail {
		t.Errorf("MPI-IO: %s", r.WriteDetail)
	}
}

// TestCountedSizes: the bins say what is small where the commonest sizes do not.
func TestCountedSizes(t *testing.T) {
	c := writes(iotrace.POSIX, 0, 0, 20, 1<<20)
	c.WriteSizes, c.BytesWritten = [10]int64{}, 5<<20+15*(32<<20)
	c.WriteSizes[binOf(1<<20)], c.WriteSizes[binOf(32<<20)] = 5, 15
	c.Common = [4]iotrace.SizeCount{{Size: 1 << 20, Count: 5}}
	s := Analyze(countersOf(1, c), Options{}).Sizes
	// One MiB is not small, but at the end of the bin of smaller sizes.
	if s.Small != 0 || s.Medium != 5 || s.Large != 15 || s.Min != 1<<20 || s.Max != 100<<20 {
		t.Errorf("%+v", s)
	}
	// A common size that only one direction can have is of that direction.
	c.Reads, c.BytesRead = 7, 700
	c.ReadSizes[0] = 7
	c.Common[1] = iotrace.SizeCount{Size: 100, Count: 7}
	r := Analyze(countersOf(1, c), Options{})
	if !slices.Equal(r.Reading.CommonSizes, []iotrace.SizeCount{{Size: 100, Count: 7}}) || !slices.Equal(r.Writing.CommonSizes, []iotrace.SizeCount{{Size: 1 << 20, Count: 5}}) {
		t.Errorf("%+v, %+v", r.Reading, r.Writing)
	}
	// STDIO has no sizes: they count as the mean.
	d := writes(iotrace.STDIO, 0, 0, 10, 300)
	d.WriteSizes, d.Common = [10]int64{}, [4]iotrace.SizeCount{}
	if s := Analyze(countersOf(1, d), Options{}).Sizes; s.Small != 10 || s.Min != 300 || s.Max != 300 || s.Mean != 300 {
		t.Errorf("STDIO: %+v", s)
	}
}

// TestMPIIO: what becomes of calls of MPI-IO.
func TestMPIIO(t *testing.T) {
	top := writes(iotrace.MPIIO, 0, iotrace.None, 640, 1000)
	top.CollectiveWrites, top.CollectiveOpens = 640, 64
	tr := countersOf(64, top)
	for _, rank := range []int32{0, 16, 32, 48} {
		below := writes(iotrace.POSIX, 0, rank, 2, 100000)
		below.Reads, below.BytesRead = 1, 100000
		tr.Counters = append(tr.Counters, below)
	}
	r := Analyze(tr, Options{})
	m := r.Files[0].MPIIO
	if m == nil || m.Callers != 64 || m.PosixRanks != 4 || m.Estimated || !slices.Equal(m.Aggregators, []int{0, 16, 32, 48}) {
		t.Fatalf("%+v", m)
	}
	if *m.WriteAmplification != 1.25 || *m.RequestsPerWrite != 8./640 || m.ReadAmplification != nil || m.ExtraRead != 400000 {
		t.Errorf("%+v", m)
	}
	if c := m.Calls; c == nil || *c.CollectiveWriteShare != 1 || c.CollectiveReadShare != nil || c.CollectiveBytesWritten == nil || *c.CollectiveBytesWritten != 640000 {
		t.Errorf("%+v", c)
	}
	if r.Ranks != 64 || r.ActiveRanks != 4 || r.MPIIO == nil || r.MPIIO.Callers != 64 || r.Layers[0].Ranks != 64 || r.Layers[1].Ranks != 4 {
		t.Errorf("job: %d of %d ranks, %+v", r.ActiveRanks, r.Ranks, r.MPIIO)
	}
	// Independent calls have no aggregators, and both kinds hide the bytes of each.
	tr.Counters[0].CollectiveWrites, tr.Counters[0].IndependentWrites = 0, 640
	if m := Analyze(tr, Options{}).MPIIO; len(m.Aggregators) != 0 || *m.Calls.CollectiveWriteShare != 0 || *m.Calls.CollectiveBytesWritten != 0 {
		t.Errorf("independent: %+v", m)
	}
	tr.Counters[0].SplitWrites, tr.Counters[0].IndependentWrites = 320, 320
	if m := Analyze(tr, Options{}).MPIIO; *m.Calls.CollectiveWriteShare != 0.5 || m.Calls.CollectiveBytesWritten != nil {
		t.Errorf("both: %+v", m.Calls)
	}
	// One record for all ranks: their number comes from the variance.
	below := writes(iotrace.POSIX, 0, iotrace.None, 64, 10000)
	below.Fastest, below.Slowest, below.VarianceBytes = iotrace.RankWork{Rank: 1}, iotrace.RankWork{Rank: 2, Bytes: 80000}, 1e8*7
	if m := Analyze(countersOf(64, top, below), Options{}).MPIIO; m.PosixRanks != 8 || !m.Estimated || len(m.Aggregators) != 0 {
		t.Errorf("estimated: %+v", m)
	}
}

// TestMPIIOEvents: DXT tells who writes through which interface; counters add the kinds
// of the calls, and the streams and opens that DXT has not.
func TestMPIIOEvents(t *testing.T) {
	e := func(m iotrace.Module, rank int32, offset, bytes int64) iotrace.Event {
		return iotrace.Event{Op: iotrace.Write, Module: m, Rank: rank, Offset: offset, Bytes: bytes, Start: ms, End: 2 * ms}
	}
	tr := script(4, e(iotrace.MPIIO, 0, 0, 10), e(iotrace.MPIIO, 1, 10, 10), e(iotrace.MPIIO, 2, 20, 10), e(iotrace.POSIX, 2, 0, 60))
	r := Analyze(tr, Options{})
	m := r.MPIIO
	if r.BytesWritten != 60 || m == nil || m.Callers != 3 || m.Calls != nil || !slices.Equal(m.Aggregators, []int{2}) || *m.WriteAmplification != 2 {
		t.Errorf("events: %d bytes, %+v", r.BytesWritten, m)
	}
	top, below := writes(iotrace.MPIIO, 0, iotrace.None, 3, 10), writes(iotrace.POSIX, 0, iotrace.None, 1, 60)
	top.CollectiveWrites, below.Stats = 3, 2
	tr.Counters = []iotrace.Counters{top, below, writes(iotrace.STDIO, 0, 3, 2, 5), writes(iotrace.STDIO, 1, 3, 1, 100)}
	tr.Runtime = time.Minute
	r = Analyze(tr, Options{})
	if r.Counted || r.Runtime != 60 || r.BytesWritten != 60+10+100 || r.Writes != 4 || len(r.Files) != 2 || r.ActiveRanks != 2 {
		t.Errorf("both: %d bytes in %d writes", r.BytesWritten, r.Writes)
	}
	// The file with the most bytes is first.
	if f := r.Files[1]; r.BurstsTotal != 1 || f.Opens != 2 || f.Metadata != 4 || r.operation(iotrace.Stat).Count != 2 {
		t.Errorf("both: %d bursts, %d opens", r.BurstsTotal, f.Opens)
	}
	if m := r.MPIIO; m.Callers != 3 || *m.Calls.CollectiveWriteShare != 1 || !slices.Equal(m.Aggregators, []int{2}) || *m.WriteAmplification != 2 {
		t.Errorf("both: %+v", m)
	}
	// Other operations that events show are not counted again.
	tr.Events = append(tr.Events, iotrace.Event{Op: iotrace.Open, Rank: 2, Start: 3 * ms, End: 3 * ms})
	if f := Analyze(tr, Options{}).Files[1]; f.Opens != 1 || f.Metadata != 1 {
		t.Errorf("%d opens", f.Opens)
	}
}

// nonsenseCounters makes counters of whatever bytes there are, for the trace of the
// same bytes.
func nonsenseCounters(data []byte) *iotrace.Trace {
	tr := nonsense(data[:len(data)/2])
	data = data[len(data)/2:]
	num := func() int64 {
		if len(data) < 3 {
			return -1
		}
		v := int64(binary.LittleEndian.Uint16(data[1:]))
		switch kind := data[0] % 8; {
		case kind == 0:
			v = -1
		case kind == 1:
			v = math.MaxInt64 - v
		case kind == 2:
			v <<= 40
		case kind == 3:
			v = math.MinInt64 + v
		}
		data = data[3:]
		return v
	}
	for len(data) >= 3 {
		c := iotrace.Counters{Module: iotrace.Module(data[0] % 4), Rank: int32(data[1]%6) - 2, File: int32(data[2]%7) - 2}
		data = data[3:]
		if int(c.Rank) >= len(tr.Ranks) || c.Rank < 0 {
			c.Rank = iotrace.None
		}
		for _, n := range []*int64{&c.Writes, &c.Reads, &c.BytesWritten, &c.BytesRead, &c.Opens, &c.LastRead, &c.LastWritten, &c.ConsecutiveReads,
			&c.SequentialReads, &c.ConsecutiveWrites, &c.SequentialWrites, &c.Unaligned, &c.Alignment, &c.ReadSizes[1], &c.ReadSizes[9], &c.WriteSizes[4],
			&c.Common[0].Size, &c.Common[0].Count, &c.Common[3].Size, &c.Common[3].Count, &c.Strides[0].Size, &c.Strides[0].Count,
			&c.CollectiveWrites, &c.IndependentReads, &c.SplitReads, (*int64)(&c.ReadTime), (*int64)(&c.WriteTime), (*int64)(&c.MetaTime),
			&c.FirstRead, &c.LastReadEnd, &c.FirstWrite, &c.LastWriteEnd, &c.FirstOpen, &c.Fastest.Rank, &c.Fastest.Bytes, &c.Slowest.Rank,
			&c.Slowest.Bytes, (*int64)(&c.Slowest.Time), &c.Seeks, &c.Stats} {
			*n = num()
		}
		c.VarianceBytes = math.Float64frombits(uint64(num()))
		tr.Counters = append(tr.Counters, c)
		tr.Striping = append(tr.Striping, iotrace.Striping{File: int32(num()), Size: num(), Count: int32(num())})
	}
	return tr
}

// TestCountedProperties: whatever the counters are, the report has no NaN, adds up, and
// has no bytes that no layer has.
func TestCountedProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		checkCounted(t, rapid.SliceOfN(rapid.Byte(), 0, 800).Draw(t, "data"))
	})
}

func FuzzCounted(f *testing.F) {
	f.Add([]byte{})
	f.Add(make([]byte, 300))
	f.Fuzz(func(t *testing.T, data []byte) { checkCounted(t, data) })
}

func checkCounted(t rapid.TB, data []byte) {
	tr := nonsenseCounters(data)
	checkReport(t, tr)
	r := Analyze(tr, Options{})
	if _, err := json.Marshal(r); err != nil {
		t.Fatal(err)
	}
	var posix, most float64 // bytes
	for _, l := range r.Layers {
		most += float64(l.BytesWritten) + float64(l.BytesRead)
		if l.Layer != "MPI-IO" {
			posix += float64(l.BytesWritten) + float64(l.BytesRead)
		}
	}
	sum := float64(r.BytesWritten) + float64(r.BytesRead)
	if saturated := most >= math.MaxInt64/2; r.Counted && !saturated && (sum > most || sum < posix) {
		t.Fatalf("%v bytes, %v in layers, of which %v not through MPI-IO", sum, most, posix)
	}
}

// TestCountedFindings: counters tell of files that are opened again and again, and of
// large data through streams.
func TestCountedFindings(t *testing.T) {
	opened := writes(iotrace.POSIX, 0, 0, 100, 4096)
	opened.Opens, opened.MetaTime, opened.WriteTime = 5000, 5*time.Second, time.Second
	tr := countersOf(1, opened)
	tr.Runtime = 10 * time.Second
	if i := found(Analyze(tr, Options{}), "CK21"); i == nil || i.Gain == nil || *i.Gain < 4 || *i.Gain > 5 {
		t.Errorf("opened again: %+v", i)
	}
	streams := writes(iotrace.STDIO, 0, 0, 1e6, 4096)
	streams.WriteTime, streams.FirstWrite, streams.LastWriteEnd = 8*time.Second, 0, 9_000_000_000
	tr = countersOf(1, streams)
	tr.Runtime = 10 * time.Second
	if got := codes(Analyze(tr, Options{})); len(got) == 0 || got[0] != "CK25" {
		t.Errorf("streams: %v", got)
	}
}

// TestCountedShares: no share is above one, neither of sums of the largest numbers nor
// of streams beside requests that are seen one by one.
func TestCountedShares(t *testing.T) {
	streams := writes(iotrace.STDIO, 0, 0, 1e6, 4096)
	streams.WriteTime, streams.FirstWrite, streams.LastWriteEnd = 8*time.Second, 0, 9_000_000_000
	tr := countersOf(1, streams)
	for file := range int32(3) {
		c := writes(iotrace.STDIO, file+1, 0, 10, 4096)
		c.BytesWritten = math.MaxInt64 - 1
		tr.Counters = append(tr.Counters, c)
	}
	tr.Runtime = 10 * time.Second
	checkReport(t, tr)
	if found(Analyze(tr, Options{}), "CK25") == nil {
		t.Error("large data through streams was not found")
	}
	beside := streams
	beside.File = 1
	tr = countersOf(1, streams, beside)
	tr.Events = pieces(iotrace.Write, 1, 1, 10, 0)
	checkReport(t, tr)
	if i := found(Analyze(tr, Options{}), "CK25"); i == nil || i.Evidence[0].Value != 1 {
		t.Errorf("streams of a file with other requests: %+v", i)
	}
}
