package filecache_test

import (
	"context"
	"fmt"
	"math"
	"testing"

	"gonum.org/v1/gonum/stat"

	"ckpt/internal/testkit"
)

type workload interface {
	Run(ctx context.Context, s Setup) (*Result, error)
}

func mustRun(t testing.TB, w workload, s Setup) *Result {
	t.Helper()
	if s.Machine == nil {
		s.Machine = mustLoad(t, "lap06")
	}
	r, err := w.Run(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// slow marks a test that takes long under the race detector. A cluster is for one
// goroutine, so that nothing can race.
func slow(t *testing.T) {
	t.Helper()
	if testkit.Enabled {
		t.Skip("the race detector makes it slow, and other tests run the same code")
	}
	t.Parallel()
}

// less checks an order.
func less(t *testing.T, what string, small, factor, large float64) {
	t.Helper()
	t.Logf("%s: %.4g, %.4g", what, small, large)
	if !(small*factor <= large) {
		t.Errorf("%s: %.4g, want at most 1/%g of %.4g", what, small, factor, large)
	}
}

// same checks that figures differ by a share of the least at most.
func same(t *testing.T, what string, share float64, figures ...float64) {
	t.Helper()
	low, high := math.Inf(1), math.Inf(-1)
	for _, f := range figures {
		low, high = min(low, f), max(high, f)
	}
	t.Logf("%s: %.4g", what, figures)
	if !(high <= low*(1+share)) {
		t.Errorf("%s: %.4g to %.4g, want a difference of at most %.0f %%", what, low, high, share*100)
	}
}

// line fits y = base + slope x, and checks how well it does.
func fitLine(t *testing.T, what string, x, y []float64, least float64) (base, slope float64) {
	t.Helper()
	base, slope = stat.LinearRegression(x, y, nil, false)
	r2 := stat.RSquared(x, y, nil, base, slope)
	t.Logf("%s: %.4g + %.4g x, R² %.5f, of %.4g", what, base, slope, r2, y)
	if !(r2 >= least) {
		t.Errorf("%s: R² of %.5f for %.4g, want %g", what, r2, y, least)
	}
	return base, slope
}

// The thesis prints few figures of its results, since its plots are what it shows. So
// each shape is an order, a line or a knee. S1 to S11 number them in docs/TIERS.md.

// TestNodes is S1 and S2: the bandwidth of the cache grows in line with the nodes, from
// two; one node has more than the line says, since it needs no network. Plain MPI I/O
// does not grow: the servers limit it.
func TestNodes(t *testing.T) {
	slow(t)
	for _, write := range []bool{false, true} {
		b := Blocks{Requests: 20_000, Bytes: 1024, Write: write}
		var nodes, cached, plain []float64
		for n := 1; n <= 6; n++ {
			nodes = append(nodes, float64(n))
			cached = append(cached, mustRun(t, b, Setup{Nodes: n, Cached: true}).Rate)
			plain = append(plain, mustRun(t, b, Setup{Nodes: n}).Rate)
		}
		what := fmt.Sprintf("writing %v", write)
		base, slope := fitLine(t, what+", S1", nodes[1:], cached[1:], 0.99)
		less(t, what+", S1: from 2 to 6 nodes", cached[1], 1.8, cached[5])
		same(t, what+", S1: plain", 0.05, plain[1:]...)
		same(t, what+", S1: plain, from one node", 0.3, plain...)
		less(t, what+", S2: one node", base+slope, 1.02, cached[0])
	}
}

// threshold returns the size of requests up to which the cache is faster.
func threshold(t *testing.T, write bool) float64 {
	t.Helper()
	last := 0.0
	for bytes := 512.0; bytes <= 64<<10; bytes *= 1.25 {
		b := Blocks{Requests: 5000, Bytes: int64(bytes), Write: write}
		if testkit.Nightly() {
			b.Requests = 10_000
		}
		if mustRun(t, b, Setup{Cached: true}).Rate < mustRun(t, b, Setup{}).Rate {
			return last
		}
		last = bytes
	}
	return last
}

// TestThreshold is S3: the cache is faster for small requests. The thesis has 2 KB for
// reads and 4 KB for writes; a factor of two is allowed.
func TestThreshold(t *testing.T) {
	slow(t)
	read, write := threshold(t, false), threshold(t, true)
	less(t, "S3: threshold of reads, of writes", read, 1, write)
	for _, c := range []struct{ got, thesis float64 }{{read, 2000}, {write, 4000}} {
		less(t, "S3: not below half", c.thesis, 0.5, c.got)
		less(t, "S3: not above twice", c.got, 0.5, c.thesis)
	}
}

// walk is the random walk of the tests: a two-hundredth of the file of the thesis.
var walk = Walk{Iterations: 50, Size: 50e6, Bytes: 512, Steps: 1_000_000}

// TestBreakEven is S4: the cache gains nothing in short runs, since it loads and stores
// the file. The formula says from how many iterations on it does.
func TestBreakEven(t *testing.T) {
	slow(t)
	run := func(n int, cached bool) *Result {
		w := walk
		w.Iterations = n
		return mustRun(t, w, Setup{Cached: cached})
	}
	cached, plain := run(50, true), run(50, false)
	less(t, "S4: a short run, plain and cached", plain.Seconds, 1.05, cached.Seconds)
	even := 50 * (cached.Open + cached.Close - plain.Open - plain.Close) / (plain.Work - cached.Work)
	t.Logf("S4: even at %.0f iterations", even)
	for n, factor := range map[int]float64{int(even * 0.9): 1, int(even * 1.1): 1} {
		c, p := run(n, true).Seconds, run(n, false).Seconds
		if n < int(even) {
			less(t, "S4: before, plain and cached", p, factor, c)
		} else {
			less(t, "S4: after, cached and plain", c, factor, p)
		}
	}
}

// TestFileSize is S5: the time grows in line with the file in the cache, and does not
// depend on it without.
func TestFileSize(t *testing.T) {
	t.Parallel()
	var sizes, cached, plain []float64
	for size := int64(500e6); size <= 2e9; size += 500e6 {
		w := walk
		w.Size = size
		sizes = append(sizes, float64(size))
		cached = append(cached, mustRun(t, w, Setup{Cached: true}).Seconds)
		plain = append(plain, mustRun(t, w, Setup{}).Seconds)
	}
	_, slope := fitLine(t, "S5", sizes, cached, 0.999)
	less(t, "S5: a byte loaded and stored at 1 GB/s", 1e-9, 1.5, slope)
	same(t, "S5: plain", 0.02, plain...)
}

// TestKnee is S6: the cache copes with as many ranks on a node as it has cores for,
// without the manager and the operating system.
func TestKnee(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"lap06", "k2"} {
		m := mustLoad(t, name)
		w := walk
		w.Iterations, w.Remove = 20, true
		var times []float64
		for ranks := 1; ranks <= m.Cores+1; ranks++ {
			times = append(times, mustRun(t, w, Setup{Machine: m, Nodes: 6, PerNode: ranks, Cached: true}).Work)
		}
		knee, sharpest := 0, 0.0
		for i := 1; i+1 < len(times); i++ {
			if bend := times[i+1] - 2*times[i] + times[i-1]; bend > sharpest {
				knee, sharpest = i+1, bend
			}
		}
		t.Logf("%s: %.4g", name, times)
		if knee != m.Cores-2 {
			t.Errorf("S6: %s has its knee at %d ranks, want %d of %d cores", name, knee, m.Cores-2, m.Cores)
		}
		before, after := times[knee-1]-times[knee-2], times[knee]-times[knee-1]
		less(t, "S6: a rank more, before and after", before, 5, after)
	}
}

// TestProtection is S7: the levels of protection cost more in their order, and each node
// with a journal costs more.
func TestProtection(t *testing.T) {
	t.Parallel()
	run := func(p Levels, every int) float64 {
		w := walk
		w.SyncEvery = every
		return mustRun(t, w, Setup{Cached: true, Levels: p}).Seconds
	}
	none, first := run(Levels{}, 0), run(Levels{Records: true}, 0)
	less(t, "S7: none, records", none, 1, first)
	last := first
	for r := 1; r <= 4; r++ {
		next := run(Levels{Replicas: r}, 0)
		less(t, fmt.Sprintf("S7: %d journals", r), last, 1.0001, next)
		last = next
	}
	less(t, "S7: one journal, versions", run(Levels{Replicas: 1}, 0), 1, run(Levels{Versions: true}, 10))
	less(t, "S7: versions, all three", run(Levels{Versions: true}, 10), 1, run(Levels{Records: true, Replicas: 1, Versions: true}, 10))
}

// TestInterval is S8: the overhead of versions falls steeply as they become rarer, and
// then hardly: it is one version times their number.
func TestInterval(t *testing.T) {
	slow(t)
	w := walk
	w.Iterations = 160
	run := func(every int) *Result {
		w.SyncEvery = every
		return mustRun(t, w, Setup{Cached: true, Levels: Levels{Versions: true}})
	}
	without := run(0).Seconds
	var overheads []float64
	for every := 5; every <= 80; every *= 2 {
		r := run(every)
		overheads = append(overheads, r.Seconds-without)
		same(t, fmt.Sprintf("S8: every %d, overhead and syncs", every), 0.05, r.Seconds-without, r.Sync)
	}
	t.Logf("S8: %.4g of %.4g", overheads, without)
	last := len(overheads) - 1
	less(t, "S8: the last fall of the first", overheads[last-1]-overheads[last], 7, overheads[0]-overheads[1])
}

// TestVersions is S9: saving and restoring a version take time in line with the file, and
// restoring less.
func TestVersions(t *testing.T) {
	t.Parallel()
	var sizes, save, restore []float64
	for size := int64(1e9); size <= 8e9; size += 1e9 {
		w := Walk{Iterations: 2, Size: size, Bytes: 512, SyncEvery: 1}
		r := mustRun(t, w, Setup{Cached: true, Levels: Levels{Versions: true}})
		sizes, save, restore = append(sizes, float64(size)), append(save, r.Sync), append(restore, r.Open)
	}
	_, saving := fitLine(t, "S9: saving", sizes, save, 0.9999)
	_, restoring := fitLine(t, "S9: restoring", sizes, restore, 0.9999)
	less(t, "S9: slopes of restoring, of saving", restoring, 1.05, saving)
	same(t, "R23: restoring at 1 GB/s", 0.1, 1/restoring, 1e9)
}

// TestPlaces is S10: requests for one manager are the slowest, local ones the fastest.
func TestPlaces(t *testing.T) {
	t.Parallel()
	seconds := make(map[Place]float64)
	for _, place := range []Place{Own, Anywhere, Hot} {
		r := mustRun(t, Blocks{Requests: 30_000, Bytes: 1024, Write: true, Place: place}, Setup{Cached: true})
		seconds[place] = r.Work
	}
	less(t, "S10: local, anywhere", seconds[Own], 1.3, seconds[Anywhere])
	less(t, "S10: anywhere, one manager", seconds[Anywhere], 3, seconds[Hot])
}

// strip is a twentieth of the image of 500 million pixels of the thesis, with rows as long.
var strip = Images{Width: 22_361, Height: 1_118, Passes: 1}

// TestBuffer is S11: the buffer matters to a filter on plain MPI I/O, up to 512 KiB. It
// does not matter in the cache.
func TestBuffer(t *testing.T) {
	slow(t)
	var cached, plain []float64
	for _, buffer := range []int64{1, 16, 128, 256, 512, 1024} {
		w := strip
		w.Buffer = buffer << 10
		cached = append(cached, mustRun(t, w, Setup{Cached: true}).Seconds)
		plain = append(plain, mustRun(t, w, Setup{}).Seconds)
	}
	same(t, "S11: cached", 0.25, cached...)
	same(t, "S11: cached, from 16 KiB", 0.1, cached[1:]...)
	t.Logf("S11: plain %.4g", plain)
	less(t, "S11: plain with 512 KiB, with 128 KiB", plain[4], 1.4, plain[2])
	less(t, "S11: plain with 1 MiB is no faster", plain[4], 0.95, plain[5])
}

// TestCalibration prints what the thesis prints as figures, R11 to R14, R19 and R21
// (TestVersions has R23), beside the model. They are no bounds: the description
// was not fitted to them.
func TestCalibration(t *testing.T) {
	slow(t)
	w := strip
	w.Buffer = 512 << 10
	for _, c := range []struct {
		what   string
		thesis float64
		change func(m *Machine)
	}{
		{"R11: 400 ns of access in place of 600", -6.5, func(m *Machine) { m.Memory.Access = 400e-9 }},
		{"R12: 1000 ns until durable in place of 2000", -2, func(m *Machine) { m.Memory.Persist = 1000e-9 }},
		{"R13: four times the bandwidth", -2.5, func(m *Machine) { m.Memory.Divisor = 1 }},
	} {
		t.Logf("%s: %+.2f %%, %+.1f %% of a filter that computes nothing; thesis %+.1f %%", c.what,
			gain(t, w, func(*Machine) {}, c.change), gain(t, w, func(m *Machine) { m.Pixel = 0 }, c.change), c.thesis)
	}
}

// TestCalibrationFiles prints R14 and R19: closing files behind, and all protection.
func TestCalibrationFiles(t *testing.T) {
	slow(t)
	w := Images{Width: 33_333, Height: 900, Passes: 10, Buffer: 512 << 10}
	seconds := func(w Images, s Setup) float64 { return mustRun(t, w, s).Seconds }
	cached := seconds(w, Setup{Cached: true})
	behind := w
	behind.Overlap = true
	t.Logf("R14: files closed behind the next pass: %+.1f %%; thesis about -10 %%", 100*(seconds(behind, Setup{Cached: true})/cached-1))
	synced := w
	synced.Sync = true
	all := Levels{Records: true, Replicas: 1, Versions: true}
	plain := seconds(w, Setup{})
	protected := seconds(synced, Setup{Cached: true, Levels: all})
	t.Logf("R19: images, all protection: %+.1f %%, plain MPI I/O %+.1f %%; thesis up to +20 %%, and less than plain", 100*(protected/cached-1), 100*(plain/cached-1))
	less(t, "R19: protected, plain", protected, 1, plain)
	long := walk
	long.Steps *= 10
	bare := mustRun(t, long, Setup{Cached: true})
	for _, c := range []struct {
		what   string
		levels Levels
	}{
		{"R19: random walk, records and one journal", Levels{Records: true, Replicas: 1}},
		{"R21: two journals", Levels{Records: true, Replicas: 2}},
		{"R21: four journals", Levels{Records: true, Replicas: 4}},
	} {
		r := mustRun(t, long, Setup{Cached: true, Levels: c.levels})
		t.Logf("%s: %+.1f %% of an iteration; thesis: negligible with one", c.what, 100*(r.Work/bare.Work-1))
	}
}

// gain is the change of time by one change of a machine that has another already.
func gain(t *testing.T, w workload, base, change func(m *Machine)) float64 {
	t.Helper()
	before, after := mustLoad(t, "lap06"), mustLoad(t, "lap06")
	base(before)
	base(after)
	change(after)
	a, b := mustRun(t, w, Setup{Machine: before, Cached: true}), mustRun(t, w, Setup{Machine: after, Cached: true})
	return 100 * (b.Work/a.Work - 1)
}

// TestCalibrationOthers prints R3, R8, R10, R17 and R18: times of other applications, and
// many nodes.
func TestCalibrationOthers(t *testing.T) {
	slow(t)
	shorter := func(what, thesis string, w workload, change func(m *Machine)) {
		m := mustLoad(t, "lap06")
		change(m)
		cached, plain := mustRun(t, w, Setup{Machine: m, Cached: true}), mustRun(t, w, Setup{Machine: m})
		t.Logf("%s: %+.0f %% of the time; thesis %s", what, 100*(cached.Seconds/plain.Seconds-1), thesis)
		less(t, what, cached.Seconds, 1, plain.Seconds)
	}
	as := func(*Machine) {}
	shorter("R3: 512 B read anywhere", "-33 % on average, up to -83 %", Blocks{Requests: 20_000, Bytes: 512}, as)
	shorter("R3: 256 B written nearby", "the same", Blocks{Requests: 20_000, Bytes: 256, Write: true, Place: Own}, as)
	sobel := strip
	sobel.Buffer = 512 << 10
	shorter("R10: Sobel", "more than -50 %", sobel, func(m *Machine) { m.Pixel *= 2 })
	large := Images{Width: 17_320, Height: 1_443, Passes: 1, Buffer: 512 << 10} // a twelfth
	m := mustLoad(t, "lap06")
	m.Pixel *= 2
	t.Logf("R8: Sobel of 300 million pixels: %.0f s; thesis 32 s", 12*mustRun(t, large, Setup{Machine: m, Cached: true}).Seconds)
	shorter("R17: each process scans its part, 512 B at a time", "-75 %", Blocks{Requests: 20_000, Bytes: 512, Place: Own}, as)
	for _, nodes := range []int{12, 96} {
		w := walk
		w.Iterations, w.Remove, w.Size = 10, true, int64(nodes)<<20
		r := mustRun(t, w, Setup{Machine: mustLoad(t, "k2"), Nodes: nodes, Cached: true})
		t.Logf("R18: %d processes: %.2f ms an iteration; thesis: scales well to 672", nodes*7, 100*r.Work)
	}
}
