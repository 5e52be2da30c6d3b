package analyze

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gonum.org/v1/gonum/stat"
	"pgregory.net/rapid"

	"ckpt/iotrace"
	"ckpt/iotrace/analyze/pattern"
	"ckpt/iotrace/iotracetest"
)

// nonsense makes events of whatever bytes there are, with numbers that are small,
// missing, huge or negative.
func nonsense(data []byte) *iotrace.Trace {
	tr := &iotrace.Trace{Job: "x", Files: []string{"a1", "b\x00", "", "a2\xff"}, Ranks: []iotrace.Rank{{Rank: 1}, {Rank: 0, Node: "n"}, {Rank: -5}}}
	if len(data) > 0 && data[0]%8 == 0 {
		tr.Files, tr.Ranks = nil, nil
	}
	next := func(n int) []byte {
		b := make([]byte, n)
		m := copy(b, data)
		data = data[m:]
		return b
	}
	num := func() int64 {
		b := next(3)
		v := int64(binary.LittleEndian.Uint16(b[1:]))
		switch b[0] % 8 {
		case 0:
			return -1
		case 1:
			return math.MaxInt64 - v
		case 2:
			return math.MinInt64 + v
		case 3:
			return v << 40
		case 4:
			return -v
		case 5:
			return 4096 * (v % 64)
		}
		return v
	}
	for len(data) > 0 {
		b := next(4)
		e := iotrace.Event{Op: iotrace.Op(b[0] % 20), Module: iotrace.Module(b[1] & 1), Rank: int32(b[2]%6) - 2, File: int32(b[3]%7) - 2,
			Offset: num(), Bytes: num(), Start: num(), End: num()}
		if b[1]&2 != 0 {
			e.Op = iotrace.Write
		}
		tr.Events = append(tr.Events, e)
	}
	return tr
}

// checkReport holds a report of any trace against what must be true of it. That
// its numbers are finite, json.Marshal checks.
func checkReport(t rapid.TB, tr *iotrace.Trace) {
	t.Helper()
	r := Analyze(tr, Options{})
	out, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := json.Marshal(Analyze(tr, Options{})); !bytes.Equal(out, again) {
		t.Fatal("two reports of one trace differ")
	}
	_ = r.Pattern.String()
	if c, err := json.Marshal(Compare(r, r)); err != nil {
		t.Fatal(err)
	} else if bytes.Contains(c, []byte(`"same":false`)) {
		t.Fatalf("a trace differs from itself: %s", c)
	}
	activities := []*Activity{&r.Activity}
	for i := range r.Files {
		activities = append(activities, &r.Files[i].Activity)
	}
	for _, a := range activities {
		var binned, small int64
		for _, b := range a.Histogram {
			binned += b.Count
		}
		if binned != a.Writes+a.Reads {
			t.Fatalf("%d requests in bins, %d in all", binned, a.Writes+a.Reads)
		}
		if small = a.Sizes.Small + a.Sizes.Medium + a.Sizes.Large; small != binned {
			t.Fatalf("%d small, medium and large requests, %d in all", small, binned)
		}
		if a.BurstsTotal == len(a.Bursts) && a != &r.Activity && len(tr.Counters) == 0 {
			var n int64
			for _, b := range a.Bursts {
				n += b.Count
			}
			if n != binned {
				t.Fatalf("%d requests in bursts, %d in all", n, binned)
			}
		}
		for _, x := range []float64{a.Offsets.Consecutive, a.Offsets.Forward, a.Offsets.Backward, a.Offsets.UnalignedPage, a.Offsets.UnalignedStripe, a.SharedStripes} {
			if x < 0 || x > 1 {
				t.Fatalf("share %v in %+v", x, a)
			}
		}
		if !slices.Contains([]pattern.Spatial{pattern.SequentialAccess, pattern.StridedAccess, pattern.RandomAccess, pattern.MixedSpatial}, a.Spatial) {
			t.Fatalf("spatial %q", a.Spatial)
		}
	}
	for _, i := range r.Insights {
		for _, n := range i.Evidence {
			if strings.HasSuffix(n.Name, "_share") && !(n.Value >= 0 && n.Value <= 1) {
				t.Fatalf("%s: %s %v", i.Code, n.Name, n.Value)
			}
		}
	}
	if r.Concurrency.Max > len(tr.Ranks)+1 || r.Concurrency.Mean > float64(len(tr.Ranks)+1)+1e-6 {
		t.Fatalf("concurrency %+v of %d ranks", r.Concurrency, len(tr.Ranks))
	}
	if r.Period.Confidence < 0 || r.Period.Confidence > 1+1e-9 {
		t.Fatalf("period %+v", r.Period)
	}
}

func FuzzAnalyze(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("one event only, perhaps"))
	f.Add(bytes.Repeat([]byte{3, 2, 2, 2, 5, 1, 0, 6, 0, 16, 7, 1, 1, 7, 2, 2}, 40))
	f.Fuzz(func(t *testing.T, data []byte) {
		checkReport(t, nonsense(data))
	})
}

func TestAnalyzeAnything(t *testing.T) {
	checkReport(t, &iotrace.Trace{})
	rapid.Check(t, func(t *rapid.T) {
		checkReport(t, nonsense(rapid.SliceOfN(rapid.Byte(), 0, 800).Draw(t, "data")))
	})
}

// TestBytes: what is written and read comes out in every sum.
func TestBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tr := iotracetest.Generate(iotracetest.Spec{
			Pattern: rapid.SampledFrom(iotracetest.Patterns()).Draw(t, "pattern"), Shared: rapid.Bool().Draw(t, "shared"), Read: rapid.Bool().Draw(t, "read"),
			Variable: rapid.Bool().Draw(t, "variable"), Ranks: rapid.IntRange(2, 5).Draw(t, "ranks"), Ops: rapid.IntRange(1, 40).Draw(t, "ops"),
			Bursts: rapid.IntRange(1, 3).Draw(t, "bursts"), Noise: 0.1, Seed: rapid.Uint64().Draw(t, "seed")})
		checkReport(t, tr)
		var want float64
		var sizes, times []float64
		for _, e := range tr.Events {
			if e.Op.Data() {
				want += float64(e.Bytes)
				sizes, times = append(sizes, float64(e.Bytes)), append(times, float64(e.End-e.Start)/1e9)
			}
		}
		r := Analyze(tr, Options{})
		var flow, files float64
		for i := range r.Bandwidth.Write {
			flow += (r.Bandwidth.Write[i] + r.Bandwidth.Read[i]) * r.Bandwidth.Bin
		}
		for _, f := range r.Files {
			files += float64(f.BytesWritten + f.BytesRead)
		}
		if got := float64(r.BytesWritten + r.BytesRead); got != want || files != want || math.Abs(flow-want) > 1e-3*want+1 {
			t.Fatalf("%v bytes; report has %v, files %v, bandwidth %v", want, got, files, flow)
		}
		c := r.Correlation.Write
		if c == nil {
			c = r.Correlation.Read
		}
		ref := stat.Correlation(sizes, times, nil)
		if math.IsNaN(ref) || math.IsInf(ref, 0) || stat.Variance(sizes, nil) == 0 {
			return
		}
		if c == nil || math.Abs(*c-ref) > 1e-9 {
			t.Fatalf("correlation %v, want %v", c, ref)
		}
	})
}

// TestCounter holds the counter of common values against exact counts.
func TestCounter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOf(rapid.Int64Range(0, 30)).Draw(t, "values")
		limit := rapid.IntRange(1, 40).Draw(t, "limit")
		c := newCounter(limit)
		exact := map[int64]int64{}
		merged := rapid.Bool().Draw(t, "merged")
		for _, v := range values {
			exact[v]++
			if !merged {
				c.add(v, 1)
				continue
			}
			part := newCounter(limit)
			part.add(v, 1)
			c.merge(part)
		}
		got := map[int64]int64{}
		for _, x := range c.most(1000) {
			got[x.value] = x.count
		}
		if !c.lossy {
			if diff := cmpDiff(exact, got); diff != "" {
				t.Fatal(diff)
			}
		}
		if len(got) > 2*limit || !merged && len(got) > limit {
			t.Fatalf("%d values of at most %d", len(got), limit)
		}
		for v, n := range exact {
			if n*int64(limit+1) > int64(len(values)) && got[v] == 0 {
				t.Fatalf("value %d, %d of %d, is lost", v, n, len(values))
			}
			if got[v] > n {
				t.Fatalf("value %d counted %d times, occurs %d times", v, got[v], n)
			}
		}
	})
}

func cmpDiff(a, b map[int64]int64) string { return cmp.Diff(a, b) }

func cmpDiffOf[T any](want, got T) string { return cmp.Diff(want, got) }

// TestConcurrency counts ranks at work by brute force.
func TestConcurrency(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const ranks, span = 4, 60
		n := rapid.IntRange(1, 30).Draw(t, "n")
		var starts []int
		for range n {
			starts = append(starts, rapid.IntRange(0, span/2).Draw(t, "start"))
		}
		slices.Sort(starts)
		c := newConcurrent(ranks)
		var at [span][ranks]bool
		for _, s := range starts {
			r := rapid.IntRange(0, ranks-1).Draw(t, "rank")
			d := rapid.IntRange(1, span/2-1).Draw(t, "duration")
			c.add(r, int64(s)*1e9, int64(s+d)*1e9)
			for k := s; k < s+d; k++ {
				at[k][r] = true
			}
		}
		var sum, any float64
		most := 0
		for _, now := range at {
			k := 0
			for _, busy := range now {
				if busy {
					k++
				}
			}
			sum += float64(k)
			if k > 0 {
				any++
			}
			most = max(most, k)
		}
		if c.max != most || math.Abs(c.sum-sum) > 1e-9 || math.Abs(c.any-any) > 1e-9 {
			t.Fatalf("max %d, sum %v, any %v; want %d, %v, %v", c.max, c.sum, c.any, most, sum, any)
		}
	})
}
