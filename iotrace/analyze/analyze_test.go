package analyze

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"ckpt/iotrace"
	"ckpt/iotrace/analyze/pattern"
	"ckpt/iotrace/iotracetest"
)

func generate(t testing.TB, s iotracetest.Spec) *iotrace.Trace {
	t.Helper()
	tr := iotracetest.Generate(s)
	return tr
}

// TestJSON checks the fields that docs/CLI.md promises of each file.
func TestJSON(t *testing.T) {
	out, err := json.Marshal(builtin(t, "minighost", iotracetest.Params{}))
	if err != nil {
		t.Fatal(err)
	}
	var r struct {
		Files []struct {
			File         string `json:"file"`
			Access       string `json:"access"`
			Spatial      string `json:"spatial"`
			Ranks        int    `json:"ranks"`
			Writes       int    `json:"writes"`
			Reads        int    `json:"reads"`
			BytesWritten int64  `json:"bytes_written"`
			BytesRead    int64  `json:"bytes_read"`
			Bursts       []struct {
				Op    string   `json:"op"`
				Count int      `json:"count"`
				Bytes int64    `json:"bytes"`
				Start *float64 `json:"start_s"`
				End   *float64 `json:"end_s"`
			} `json:"bursts"`
			Common []struct {
				Size  int64 `json:"request_bytes"`
				Count int64
			} `json:"common_sizes"`
			Bins []struct {
				Bin   string
				Count int64
			} `json:"size_histogram"`
		} `json:"file_list"`
	}
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatal(err)
	}
	f := r.Files[0]
	if f.File != "minighost.ckpt" || f.Access != "shared" || f.Spatial != "strided" || f.Ranks != 4 || f.Writes != 26 || f.Reads != 2 ||
		f.BytesWritten != 160001024 || f.BytesRead != 32000000 {
		t.Errorf("%+v", f)
	}
	if b := f.Bursts; len(b) != 3 || b[0].Op != "write" || b[2].Op != "read" || b[1].Count != 10 || b[1].Bytes != 160000000 || b[1].Start == nil || *b[1].End <= *b[1].Start {
		t.Errorf("%+v", f.Bursts)
	}
	if len(f.Common) != 2 || f.Common[0].Size != 64 || f.Common[0].Count != 16 {
		t.Errorf("%+v", f.Common)
	}
	if len(f.Bins) != 10 || f.Bins[0].Bin != "0-100" || f.Bins[0].Count != 16 || f.Bins[7].Count != 12 {
		t.Errorf("%+v", f.Bins)
	}
}

// TestBins: Darshan counts a request of exactly 100 bytes, 1 KiB, … in the lower
// bin.
func TestBins(t *testing.T) {
	var h, none histogram
	for _, n := range []int64{0, 100, 101, 1024, 1025, 10240, 102400, 102401, 1 << 20, 1<<20 + 1, 4 << 20, 10 << 20, 100 << 20, 1 << 30, 1<<30 + 1, math.MaxInt64} {
		h.add(n)
	}
	if want := (histogram{2, 2, 2, 1, 2, 2, 1, 1, 1, 2}); h != want {
		t.Errorf("got %v, want %v", h, want)
	}
	if b := bins(&h, &none); b[9].Bin != "1G+" || b[9].Upto != 0 || b[8].Upto != 1<<30 {
		t.Errorf("%+v", b)
	}
}

// script is a trace of one rank and file.
func script(ranks int, events ...iotrace.Event) *iotrace.Trace {
	tr := &iotrace.Trace{Files: []string{"f", "g"}, Events: events}
	for r := range ranks {
		tr.Ranks = append(tr.Ranks, iotrace.Rank{Rank: r, Node: string(rune('a' + r/2))})
	}
	return tr
}

const ms = int64(time.Millisecond)

// pieces is so many requests of 4 KiB by each of some ranks, strided, a ms each.
func pieces(op iotrace.Op, file int32, ranks, each, from int64) (out []iotrace.Event) {
	for k := range each {
		for r := range ranks {
			at := (from + k) * ms
			out = append(out, iotrace.Event{Op: op, Rank: int32(r), File: file, Offset: (k*ranks + r) * 4096, Bytes: 4096, Start: at, End: at + ms})
		}
	}
	return out
}

func TestBurstGap(t *testing.T) {
	w := func(start int64) iotrace.Event {
		return iotrace.Event{Op: iotrace.Write, Bytes: 4096, Offset: start, Start: start * ms, End: (start + 10) * ms}
	}
	tr := script(1, w(0), w(50), iotrace.Event{Op: iotrace.Sync, Start: 61 * ms, End: 90 * ms}, w(100), w(211), iotrace.Event{Op: iotrace.Read, Bytes: 1, Start: 222 * ms, End: 222 * ms})
	for _, c := range []struct {
		gap  time.Duration
		want []int64
	}{{0, []int64{3, 1, 1}}, {time.Second, []int64{4, 1}}, {20 * time.Millisecond, []int64{1, 1, 1, 1, 1}}} {
		var got []int64
		for _, b := range Analyze(tr, Options{BurstGap: c.gap}).Files[0].Bursts {
			got = append(got, b.Count)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("gap %v: bursts of %v, want %v", c.gap, got, c.want)
		}
	}
}

// TestTurns: ranks that read and write by turns make one burst of both.
func TestTurns(t *testing.T) {
	const ranks, each = 64, 50
	var events []iotrace.Event
	for k := range int64(each) {
		for r := range int64(ranks) {
			at := (k*ranks + r) * ms
			events = append(events, iotrace.Event{Op: iotrace.Read + iotrace.Op((k+r)%2), Rank: int32(r), Offset: k * 4096, Bytes: 4096, Start: at, End: at + ms})
		}
	}
	r := Analyze(script(ranks, events...), Options{})
	for name, a := range map[string]*Activity{"job": &r.Activity, "file": &r.Files[0].Activity} {
		if a.BurstsTotal != 1 || len(a.Bursts) != 1 {
			t.Fatalf("%s: %d bursts", name, a.BurstsTotal)
		}
		b := a.Bursts[0]
		if b.Op != "both" || b.Writes != ranks*each/2 || b.Reads != ranks*each/2 || b.BytesWritten != 4096*b.Writes || b.Ranks != ranks {
			t.Errorf("%s: %+v", name, b)
		}
	}
}

// TestLogBesidePhases: a log that is written all the time does not make one burst of
// all phases that read.
func TestLogBesidePhases(t *testing.T) {
	var events []iotrace.Event
	for k := range int64(1000) {
		at := 50 * k * ms
		events = append(events, iotrace.Event{Op: iotrace.Write, Rank: 1, Offset: 100 * k, Bytes: 100, Start: at, End: at + ms})
		if k%100 < 10 {
			events = append(events, iotrace.Event{Op: iotrace.Read, File: 1, Offset: 4096 * k, Bytes: 4096, Start: at + ms, End: at + 2*ms})
		}
	}
	r := Analyze(script(2, events...), Options{})
	if r.BurstsTotal != 11 || r.Bursts[0].Op != "write" || r.Bursts[0].Count != 1000 || r.Bursts[5].Op != "read" || r.Bursts[5].Count != 10 {
		t.Errorf("%d bursts: %+v", r.BurstsTotal, r.Bursts)
	}
}

// TestManyBursts: only the first ones are kept, all are counted.
func TestManyBursts(t *testing.T) {
	var events []iotrace.Event
	for i := range int64(1000) {
		events = append(events, iotrace.Event{Op: iotrace.Read + iotrace.Op(i%2), Bytes: 10, Offset: 10 * i, Start: i * 1000 * ms, End: i * 1000 * ms})
	}
	f := Analyze(script(1, events...), Options{}).Files[0]
	if f.BurstsTotal != 1000 || len(f.Bursts) != maxBursts || f.Bursts[maxBursts-1].Count != 1 {
		t.Errorf("%d bursts, %d kept", f.BurstsTotal, len(f.Bursts))
	}
	if p := f.Repetition; p == nil || p.Bursts != 2 || p.Times != maxBursts/2 {
		t.Errorf("repetition %+v", p)
	}
}

// TestModules: where both layers were recorded, POSIX counts.
func TestModules(t *testing.T) {
	e := func(file int32, m iotrace.Module, bytes int64) iotrace.Event {
		return iotrace.Event{Op: iotrace.Write, Module: m, File: file, Bytes: bytes}
	}
	r := Analyze(script(1, e(0, iotrace.MPIIO, 100), e(0, iotrace.POSIX, 60), e(0, iotrace.POSIX, 40), e(1, iotrace.MPIIO, 7)), Options{})
	f, g := r.Files[0], r.Files[1]
	if o := r.operation(iotrace.Write); o.Count != 3 || o.Bytes != 107 {
		t.Errorf("counted through both: %+v", o)
	}
	if f.Writes != 2 || f.BytesWritten != 100 || f.MPIIO == nil || f.MPIIO.Writes != 1 || f.MPIIO.BytesWritten != 100 {
		t.Errorf("both: %+v, %+v", f.Activity, f.MPIIO)
	}
	if g.Writes != 1 || g.BytesWritten != 7 || g.MPIIO == nil || g.MPIIO.PosixWrites != 0 {
		t.Errorf("MPI-IO only: %+v", g.Activity)
	}
	if r.BytesWritten != 107 {
		t.Errorf("job: %d bytes", r.BytesWritten)
	}
}

// TestAccess: ranks that only open a file do not share it.
func TestAccess(t *testing.T) {
	open := func(rank, file int32) iotrace.Event {
		return iotrace.Event{Op: iotrace.Open, Rank: rank, File: file, Offset: iotrace.None}
	}
	write := func(rank, file int32) iotrace.Event {
		return iotrace.Event{Op: iotrace.Write, Rank: rank, File: file, Bytes: 1}
	}
	r := Analyze(script(3, open(0, 0), open(1, 0), open(0, 1), open(1, 1), write(1, 0)), Options{})
	if f := r.Files[0]; f.Access != Independent || f.Ranks != 1 || f.Opens != 2 || f.Metadata != 2 {
		t.Errorf("written by one: %+v", f.Activity)
	}
	if f := r.Files[1]; f.Access != Shared || f.Ranks != 2 || f.Detail != pattern.NoDetail {
		t.Errorf("opened by two: %+v", f.Activity)
	}
	if r.Access != Independent || r.Ranks != 3 || r.ActiveRanks != 1 || r.Nodes != 2 {
		t.Errorf("job: %s, %d ranks on %d nodes, %d active", r.Access, r.Ranks, r.Nodes, r.ActiveRanks)
	}
}

// TestUnknownOffsets: requests at a position that is not known, as appends to a file
// of unknown length, follow each other.
func TestUnknownOffsets(t *testing.T) {
	const ms = 1_000_000
	var events []iotrace.Event
	for k := range int64(300) {
		at := k * ms
		if k >= 150 {
			at += 500 * ms // a second burst
		}
		events = append(events, iotrace.Event{Op: iotrace.Write, Rank: int32(k % 6), Offset: iotrace.None, Bytes: 120, Start: at, End: at + 10_000})
	}
	r := Analyze(script(6, events...), Options{})
	f := r.Files[0]
	if f.Spatial != pattern.SequentialAccess || f.Detail != pattern.Sequential || f.Access != Shared || r.Spatial != pattern.SequentialAccess || r.Detail != pattern.Sequential {
		t.Errorf("file %s %s, job %s %s", f.Spatial, f.Detail, r.Spatial, r.Detail)
	}
	for _, b := range f.Bursts {
		if b.Spatial != pattern.SequentialAccess || b.Detail != pattern.Sequential {
			t.Errorf("burst %+v", b)
		}
	}
	if text := r.Pattern.String(); !strings.Contains(text, "sequential: 50 requests") {
		t.Errorf("%s", text)
	}
}

// TestProgress: it goes on, and never beyond its end.
func TestProgress(t *testing.T) {
	tr := generate(t, iotracetest.Spec{Ranks: 4, Ops: 40_000})
	last := int64(-1)
	Analyze(tr, Options{Progress: func(done int64) {
		if done < last || done > Steps(tr) {
			t.Fatalf("%d after %d, of %d", done, last, Steps(tr))
		}
		last = done
	}})
	if last < Steps(tr)*9/10 {
		t.Errorf("%d of %d", last, Steps(tr))
	}
}

// TestAlignment counts what does not begin at a page, or a stripe.
func TestAlignment(t *testing.T) {
	var events []iotrace.Event
	for _, off := range []int64{0, 4096, 8192 + 1, 1 << 20, 3 << 20, iotrace.None} {
		events = append(events, iotrace.Event{Op: iotrace.Write, Offset: off, Bytes: 10})
	}
	o := Analyze(script(1, events...), Options{}).Files[0].Offsets
	if o.UnalignedPage != 0.2 || o.UnalignedStripe != 0.4 {
		t.Errorf("%+v", o)
	}
	if o := Analyze(script(1, events...), Options{StripeSize: 2 << 20}).Files[0].Offsets; o.UnalignedStripe != 0.8 {
		t.Errorf("stripes of 2 MiB: %+v", o)
	}
}

// TestHoles: a request of ten bytes every hundred.
func TestHoles(t *testing.T) {
	var events []iotrace.Event
	for i := range int64(50) {
		events = append(events, iotrace.Event{Op: iotrace.Write, Offset: 7 + 100*i, Bytes: 10})
	}
	o := Analyze(script(1, events...), Options{}).Files[0].Offsets
	if o.Hole != 90 || o.HoleMean != 90 || o.Stride != 100 || o.First != 7 || o.End != 4917 || o.Forward != 1 || o.Backward != 0 {
		t.Errorf("%+v", o)
	}
}

// TestManySizes: the common sizes are exact although too many occur to count all.
func TestManySizes(t *testing.T) {
	var events []iotrace.Event
	for i := range int64(60000) {
		size := 1_000_000 + i
		if i%3 == 1 {
			size = 4096
		} else if i%30 == 2 {
			size = 512
		}
		events = append(events, iotrace.Event{Op: iotrace.Write, Offset: i << 20, Bytes: size, File: int32(i % 2)})
	}
	r := Analyze(script(1, events...), Options{})
	if want := []iotrace.SizeCount{{Size: 4096, Count: 20000}, {Size: 512, Count: 2000}}; !slices.Equal(r.CommonSizes[:2], want) {
		t.Errorf("job: %v", r.CommonSizes)
	}
	// The other file has the larger requests, so that it comes first.
	if want := []iotrace.SizeCount{{Size: 4096, Count: 10000}, {Size: 512, Count: 2000}}; !slices.Equal(r.Files[1].CommonSizes[:2], want) {
		t.Errorf("file: %v", r.Files[1].CommonSizes)
	}
}

func TestPeriod(t *testing.T) {
	// Bursts every so often, each a bit early or late.
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 5))
		n, every := 4+r.IntN(40), 1+20*r.Float64()
		burst := every * (0.02 + 0.4*r.Float64())
		var events []iotrace.Event
		for k := range n {
			at := every * (float64(k) + 0.05*r.NormFloat64())
			for i := range 20 {
				start := int64(max(0, at+burst*float64(i)/20) * 1e9)
				events = append(events, iotrace.Event{Op: iotrace.Write, Bytes: 1 << 20, Offset: int64(i) << 20, Start: start, End: start + int64(burst/20*1e9)})
			}
		}
		slices.SortStableFunc(events, func(a, b iotrace.Event) int { return int((a.Start - b.Start) / max(1, abs(a.Start-b.Start))) })
		p := Analyze(script(1, events...), Options{}).Period
		right := p.Periodic && math.Abs(p.Period-every) <= 0.05*every
		if !right && (p.Periodic || p.Enough || n >= 9) { // fewer may be too few to tell
			t.Errorf("seed %d: %d bursts of %.2f s every %.2f s: %+v", seed, n, burst, every, p)
		}
	}
	// Bursts at random.
	found := 0
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 6))
		var events []iotrace.Event
		at := int64(0)
		for range 5 + r.IntN(20) {
			at += int64(1e9 * (0.3 + 20*r.ExpFloat64()))
			d := int64(1e9 * (0.1 + 2*r.Float64()))
			events = append(events, iotrace.Event{Op: iotrace.Write, Bytes: 1 << 20, Start: at, End: at + d})
			at += d
		}
		if p := Analyze(script(1, events...), Options{}).Period; p.Periodic {
			found++
			t.Logf("seed %d: %d bursts: %+v", seed, len(events), p)
		}
	}
	if found > 4 {
		t.Errorf("%d of 40 random traces are periodic", found)
	}
	// One burst, however regular its requests are.
	if p := Analyze(generate(t, iotracetest.Spec{Ops: 5000, Size: 1 << 20}), Options{}).Period; p.Periodic {
		t.Errorf("one burst: %+v", p)
	}
}

// TestNoPeriod: requests are no phases, at whatever intervals they come.
func TestNoPeriod(t *testing.T) {
	const ms = 1_000_000
	comb := func(n int, every, took float64, ranks int) *iotrace.Trace {
		var events []iotrace.Event
		for k := range n {
			for r := range ranks {
				start := int64((float64(k)*every + 0.1*float64(r)) * ms)
				events = append(events, iotrace.Event{Op: iotrace.Write, Rank: int32(r), Bytes: 4096, Offset: int64(k) << 12, Start: start, End: start + int64(took*ms)})
			}
		}
		return script(ranks, events...)
	}
	poisson := func(seed uint64, n int, mean float64) *iotrace.Trace {
		r := rand.New(rand.NewPCG(seed, 7))
		var events []iotrace.Event
		at := 0.
		for range n {
			at += 2 + mean*r.ExpFloat64()
			events = append(events, iotrace.Event{Op: iotrace.Write, Bytes: 4096, Start: int64(at * ms), End: int64((at + 1) * ms)})
		}
		return script(1, events...)
	}
	traces := map[string]*iotrace.Trace{
		"every 3 ms":         comb(1000, 3, 0.3, 1),
		"every 10 ms":        comb(1000, 10, 0.3, 1),
		"every 10 ms, few":   comb(100, 10, 0.3, 1),
		"every 10 ms, long":  comb(100_000, 10, 0.3, 1),
		"every 13.7 ms":      comb(2000, 13.7, 0.3, 1),
		"every 50 ms":        comb(500, 50, 0.3, 1),
		"8 ranks, 50 ms":     comb(500, 50, 0.3, 8),
		"back to back":       comb(500, 20, 19.9, 1),
		"back to back, long": comb(40, 400, 390, 4),
	}
	for seed := range uint64(20) {
		traces[fmt.Sprintf("Poisson %d", seed)] = poisson(seed, 500, 20)
		traces[fmt.Sprintf("seldom %d", seed)] = poisson(seed, 200, 400)
	}
	for name, tr := range traces {
		p := Analyze(tr, Options{}).Period
		if p.Periodic || p.Period != 0 || p.Confidence > 0.4 {
			t.Errorf("%s: %+v", name, p)
		}
	}
	// Phases every 300 ms, in samples that are not much shorter: theirs or none.
	if p := Analyze(comb(4000, 300, 1, 1), Options{}).Period; p.Periodic && math.Abs(p.Period-0.3) > 0.03 {
		t.Errorf("every 300 ms: %+v", p)
	}
	// Phases of 2 s beside a log that is never silent.
	var events []iotrace.Event
	for k := range int64(1200) {
		events = append(events, iotrace.Event{Op: iotrace.Write, Bytes: 100, Start: k * 50 * ms, End: (k*50 + 1) * ms})
		if k%40 < 5 {
			events = append(events, iotrace.Event{Op: iotrace.Write, Bytes: 1 << 20, Start: k*50*ms + 1, End: (k*50 + 45) * ms})
		}
	}
	if p := Analyze(script(1, events...), Options{}).Period; !p.Periodic || math.Abs(p.Period-2) > 0.02 || p.Confidence < 0.9 {
		t.Errorf("beside a log: %+v", p)
	}
}

func abs(n int64) int64 { return max(n, -n) }

// TestStragglers: a rank that takes twice as long for the same is one, an
// aggregator that writes for the others is none.
func TestStragglers(t *testing.T) {
	var events []iotrace.Event
	for rank := range int32(8) {
		e := iotrace.Event{Op: iotrace.Write, Rank: rank, Offset: int64(rank) << 20, Bytes: 1 << 20, End: 10 * ms}
		switch rank {
		case 5:
			e.End = 25 * ms
		case 7:
			e.Bytes, e.End = 16<<20, 160*ms
		}
		events = append(events, e)
	}
	b := Analyze(script(8, events...), Options{}).Balance
	if b.StragglersTotal != 1 || b.Stragglers[0].Rank != 5 || b.Stragglers[0].Node != "c" || b.Stragglers[0].Factor != 2.5 || b.MedianTime != 0.01 || b.MaxTime != 0.16 {
		t.Errorf("%+v", b)
	}
	if mean := 23. / 8; math.Abs(b.Imbalance-(16-mean)/16) > 1e-12 {
		t.Errorf("imbalance %v", b.Imbalance)
	}
}

// TestManyStreams takes the other way to number streams.
func TestManyStreams(t *testing.T) {
	tr := generate(t, iotracetest.Spec{Pattern: iotracetest.StridedSimple, Ranks: 5, Ops: 40})
	want, _ := json.Marshal(Analyze(tr, Options{}))
	for len(tr.Files) < tableSize/5 {
		tr.Files = append(tr.Files, "unused")
	}
	got, _ := json.Marshal(Analyze(tr, Options{}))
	if string(got) != string(want) {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// TestFileOrder: files come by bytes moved, then by time, then as in the trace.
func TestFileOrder(t *testing.T) {
	var events []iotrace.Event
	for file, c := range []struct{ bytes, took int64 }{{10, 1}, {5000, 1}, {10, 3}, {10, 1}, {0, 2}} {
		events = append(events, iotrace.Event{Op: iotrace.Write, File: int32(file), Bytes: c.bytes, Start: int64(file) * 100 * ms, End: (int64(file)*100 + c.took) * ms})
	}
	tr := script(1, events...)
	tr.Files = []string{"a", "b", "c", "d", "e"}
	var names string
	for _, f := range Analyze(tr, Options{}).Files {
		names += f.Name
	}
	if names != "bcade" {
		t.Errorf("files %s, want bcade", names)
	}
}

// TestUnplaced: requests without offsets are in order where the recorder follows the position
// of each file, and in an unknown order where the format has no offsets.
func TestUnplaced(t *testing.T) {
	warned := []iotrace.Warning{{Code: iotrace.WarnNoOffsets}}
	for _, c := range []struct {
		placed, unplaced int
		warnings         []iotrace.Warning
		want             pattern.Spatial
	}{
		{0, 8, nil, pattern.SequentialAccess}, {0, 8, warned, pattern.UnknownSpatial},
		{8, 0, warned, pattern.SequentialAccess}, {8, 2, warned, pattern.SequentialAccess}, {8, 4, warned, pattern.UnknownSpatial},
	} {
		tr := &iotrace.Trace{Ranks: []iotrace.Rank{{Rank: 0}}, Files: []string{"/d"}, Warnings: c.warnings}
		for i := range int64(c.placed + c.unplaced) {
			e := iotrace.Event{Op: iotrace.Read, Peer: iotrace.None, Offset: i << 20, Bytes: 1 << 20, Start: i/4*1e9 + i, End: i/4*1e9 + i + 1}
			if i >= int64(c.placed) {
				e.Offset = iotrace.None
			}
			tr.Events = append(tr.Events, e)
		}
		r := Analyze(tr, Options{})
		if r.Spatial != c.want || r.ReadSpatial != c.want || r.Files[0].Spatial != c.want || len(r.Files[0].Bursts) < 2 {
			t.Errorf("%d with an offset, %d without, %d warnings: %s, %s, %s, %d bursts, want %s", c.placed, c.unplaced, len(c.warnings),
				r.Spatial, r.ReadSpatial, r.Files[0].Spatial, len(r.Files[0].Bursts), c.want)
		}
		for i, b := range r.Files[0].Bursts {
			if c.placed*c.unplaced == 0 && b.Spatial != c.want {
				t.Errorf("burst %d of %d: %q, want %s", i, c.unplaced, b.Spatial, c.want)
			}
		}
	}
}
