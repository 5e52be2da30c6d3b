package pfs_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"ckpt/image/iosched"
	"ckpt/image/pfs"
	"ckpt/internal/testkit"
)

const gib = 1 << 30

// file returns the bytes of a file that has 4 GiB in the thesis. Most ratios are the same
// with fewer.
func file() int64 {
	switch {
	case testkit.Enabled:
		return gib / 16
	case testkit.Nightly():
		return 4 * gib
	}
	return gib / 4
}

// results of the ten applications, by their options.
var results = map[string]*Result{}

// mixed returns how the ten applications ran, which tests share.
func mixed(t testing.TB, o Options) *Result {
	t.Helper()
	key := fmt.Sprintf("%+v", *o.Scheduler)
	if results[key] == nil {
		results[key] = run(t, sophia(t), o, ten()...)
	}
	return results[key]
}

// long skips a test under the race detector, which takes ten times as long and finds
// nothing in one goroutine.
func long(t *testing.T) {
	t.Helper()
	if testkit.Enabled {
		t.Skip("long, and in one goroutine")
	}
}

// strided is a decomposition: 32 processes that take the operations of a file in turn.
func strided(bytes, grain int64) App {
	return App{Name: fmt.Sprintf("%d KiB", grain>>10), Processes: 32, Bytes: bytes, Grain: grain}
}

func writing(a App) App {
	a.Write = true
	return a
}

func named(a App, name string) App {
	a.Name = name
	return a
}

// TestRequests counts the requests of a file. A file of 4 GB has 524,288 requests of 8 KiB, and
// 131,072 of 32 KiB (Lebre 2006, section 4.2).
func TestRequests(t *testing.T) {
	long(t)
	part := int(4 * gib / file())
	for grain, want := range map[int64]int{8 * kib: 524_288, 32 * kib: 131_072, 128 * kib: 131_072, 4 * mib: 131_072} {
		if got := run(t, sophia(t), policy("fifo"), strided(file(), grain)).Units[0].Files[0].Requests; got != want/part {
			t.Errorf("4/%d GB by %d KiB: %d requests, want %d", part, grain/kib, got, want/part)
		}
	}
}

// TestSerialised compares one process that takes operations in random order with 32 that
// take them in turn: the first gains by larger ones, the others do not beyond the request
// of the protocol, so that there is a crossing. Each seek takes 9 ms.
func TestSerialised(t *testing.T) {
	const bytes = gib / 4
	requests := func(n int64) float64 { return float64(bytes) / float64(n) }
	last, crossed := math.Inf(1), false
	for _, grain := range []int64{8, 32, 128, 512, 4096} {
		random := App{Name: "random", Random: true, Processes: 1, Bytes: bytes, Grain: grain * kib}
		alone := run(t, sophia(t), Options{}, random).Makespan
		parallel := run(t, sophia(t), policy("fifo"), strided(bytes, grain*kib)).Makespan
		t.Logf("%4d KiB: random %.1f s, parallel %.1f s", grain, alone, parallel)
		if alone >= last {
			t.Errorf("%d KiB: random order takes %v s, with smaller operations %v", grain, alone, last)
		}
		crossed = crossed || alone < parallel && !math.IsInf(last, 1)
		last = alone
		want := requests(grain*kib)*0.009 + requests(min(grain, 32)*kib)*0.0001 + requests(57*mib)
		if math.Abs(alone/want-1) > 0.005 {
			t.Errorf("%d KiB: random order takes %v s, want %v", grain, alone, want)
		}
		want = requests(min(grain, 32)*kib)*0.009 + requests(57*mib)
		if math.Abs(parallel/want-1) > 0.05 {
			t.Errorf("%d KiB: in parallel %v s, want %v", grain, parallel, want)
		}
	}
	if !crossed {
		t.Error("the times do not cross")
	}
}

// TestSpeedup has 32 processes read and write a file under mlf: 11 times as fast as as
// they come, or more. Above the request of the protocol, aggregates shrink.
func TestSpeedup(t *testing.T) {
	long(t)
	mean := math.Inf(1)
	for _, grain := range []int64{8, 16, 32, 64, 128, 512, 4096} {
		var speedup [2]float64
		for i, a := range []App{strided(file(), grain*kib), writing(strided(file(), grain*kib))} {
			fifo, mlf := run(t, sophia(t), policy("fifo"), a), run(t, sophia(t), policy("mlf"), a)
			speedup[i] = fifo.Makespan / mlf.Makespan
			if f := mlf.Units[0].Files[0]; i == 0 {
				if grain >= 32 && meanAggregate(f) > mean || grain <= 32 && meanAggregate(f) < 16 {
					t.Errorf("%d KiB: aggregates of %.1f requests, smaller operations had %.1f", grain, meanAggregate(f), mean)
				}
				mean = meanAggregate(f)
			}
		}
		t.Logf("%4d KiB: reads × %.1f, writes × %.1f, %.1f requests in an aggregate", grain, speedup[0], speedup[1], mean)
		if speedup[0] < 11 || speedup[1] <= 1 {
			t.Errorf("%d KiB: reads × %.2f, want 11 or more; writes × %.2f, want more than 1", grain, speedup[0], speedup[1])
		}
	}
}

// TestSequentialWriter has one process write. It gains nothing, and loses what the
// scheduler takes for each request: 10 to 40 % in the thesis.
func TestSequentialWriter(t *testing.T) {
	a := App{Name: "a", Write: true, Processes: 1, Bytes: 256 * mib, Grain: 2 * mib}
	plain := run(t, sophia(t), Options{}, a).Makespan
	for _, test := range []struct{ delay, least, most float64 }{{0, 1, 1.001}, {0.0001, 1.10, 1.40}, {0.0002, 1.10, 1.40}} {
		o := policy("mlf")
		o.Scheduler.PerRequest = pfs.Duration(test.delay)
		ratio := run(t, sophia(t), o, a).Makespan / plain
		t.Logf("a delay of %v ms: × %.3f", test.delay*1e3, ratio)
		if ratio < test.least-1e-9 || ratio > test.most {
			t.Errorf("a delay of %v s makes the writer take %v times as long, want %v to %v", test.delay, ratio, test.least, test.most)
		}
	}
}

// TestTwoJobs has two decompositions of 4 GB share the disk, with the operations for
// which the thesis has 150 to 153 s. Larger ones leave it idle for each request.
func TestTwoJobs(t *testing.T) {
	for _, grain := range []int64{8, 16, 32} {
		a := strided(file(), grain*kib)
		r := run(t, sophia(t), policy("mlf"), named(a, "a"), named(a, "b"))
		optimum := float64(2*a.Bytes) / (57 * mib)
		gap := math.Abs(r.Apps[0].End - r.Apps[1].End)
		t.Logf("%d KiB: %.1f s, optimum %.1f, × %.3f, %.2f s apart", grain, r.Makespan, optimum, r.Makespan/optimum, gap)
		if r.Makespan/optimum >= 1.05 || gap > 2 {
			t.Errorf("%d KiB: %v s, optimum %v; %v s apart", grain, r.Makespan, optimum, gap)
		}
	}
}

// TestSmallJob has a process read 16 MB beside a decomposition of 4 GB.
func TestSmallJob(t *testing.T) {
	long(t)
	for _, grain := range []int64{8, 32, 128, 512} {
		apps := []App{named(strided(file(), grain*kib), "large"), {Name: "cat", Processes: 1, Bytes: 16 * mib, Grain: 32 * kib, Start: 0.2}}
		var flow [2]float64
		for i, name := range []string{"fifo", "mlf"} {
			r := run(t, sophia(t), policy(name), apps...)
			flow[i] = r.Apps[1].Flow
			if name == "mlf" {
				bounded(t, r, 500*time.Millisecond)
			}
		}
		t.Logf("%3d KiB: 16 MB in %.1f s under fifo, %.2f s under mlf, × %.0f", grain, flow[0], flow[1], flow[0]/flow[1])
		if flow[1] > 10 || flow[0] < 10*flow[1] || flow[0] > 1000*flow[1] {
			t.Errorf("%d KiB: %v s under fifo, %v s under mlf", grain, flow[0], flow[1])
		}
	}
}

// bounded checks that no request has waited for longer than a window of each file.
func bounded(t *testing.T, r *Result, window time.Duration) {
	t.Helper()
	files := r.Units[0].Files
	most := time.Duration(len(files)) * (window + 20*time.Millisecond) // a seek, and what has begun
	for _, f := range files {
		if f.Longest > most {
			t.Errorf("%s: a request took %v, of %d files", f.File, f.Longest, len(files))
		}
	}
}

// smallJobs are the applications of the mix that move least: 32 and 4 MB.
func smallJobs(r *Result) (longest float64) {
	for _, a := range r.Apps {
		if a.Bytes <= 32*mib {
			longest = max(longest, a.Flow)
		}
	}
	return longest
}

// optimum of the mix, in seconds.
const optimum = 6088. / 57

// TestMix runs the ten applications. The thesis has a makespan of 1.33 of the optimum,
// and every application gains, most the smallest operations.
func TestMix(t *testing.T) {
	fifo, mlf := mixed(t, policy("fifo")), mixed(t, policy("mlf"))
	type gained struct {
		name string
		by   float64
	}
	var gains []gained
	for i, a := range mlf.Apps {
		g := gained{a.Name, fifo.Apps[i].Flow / a.Flow}
		gains = append(gains, g)
		t.Logf("%-20s fifo %7.1f s, mlf %6.1f s, × %.1f", a.Name, fifo.Apps[i].Flow, a.Flow, g.by)
		if g.by <= 1 {
			t.Errorf("%s takes %v s under mlf, %v s under fifo", a.Name, a.Flow, fifo.Apps[i].Flow)
		}
	}
	t.Logf("makespan %.1f s under fifo, %.1f s under mlf, × %.2f of the optimum", fifo.Makespan, mlf.Makespan, mlf.Makespan/optimum)
	if mlf.Makespan < optimum || mlf.Makespan > 1.4*optimum {
		t.Errorf("makespan %v s, optimum %v", mlf.Makespan, optimum)
	}
	// Operations of the applications, not of their clients, decide: 8, 4 and 4 KiB.
	slices.SortFunc(gains, func(a, b gained) int { return int(math.Copysign(1, b.by-a.by)) })
	for _, g := range gains[:3] {
		if g.name[:1] != "3" && g.name[:1] != "5" && g.name[:1] != "6" {
			t.Errorf("%s is among the three that gain most: %v", g.name, gains)
		}
	}
	bounded(t, mlf, 500*time.Millisecond)
	for _, f := range mlf.Units[0].Files {
		t.Logf("%-20s %-5s %5d, %5d / %4d, %3d, %3d, %5d, %4d; mean %.1f, longest %v", f.File, f.Op, f.Requests, f.Sum, f.Aggregates, f.Biggest, f.Last, f.Shift, f.Better, meanAggregate(f), f.Longest)
	}
}

// TestThink runs the mix with processes that come back after up to a millisecond, each
// time another part of it.
func TestThink(t *testing.T) {
	long(t)
	o := policy("mlf")
	o.Think = 0.001
	r := run(t, sophia(t), o, ten()...)
	t.Logf("makespan %.1f s, × %.2f of the optimum", r.Makespan, r.Makespan/optimum)
	if again := run(t, sophia(t), o, ten()...); again.Makespan != r.Makespan {
		t.Errorf("makespan %v s, then %v", r.Makespan, again.Makespan)
	}
	if plain := mixed(t, policy("mlf")).Makespan; r.Makespan <= plain || r.Makespan > 1.4*optimum {
		t.Errorf("makespan %v s, %v without delays, optimum %v", r.Makespan, plain, optimum)
	}
	bounded(t, r, 500*time.Millisecond)
}

// TestPolicies runs the mix under every policy. Under none is the makespan as short as under
// mlf. The sum of the flow times is shorter only under wsjf, whose aim that is.
func TestPolicies(t *testing.T) {
	long(t)
	best := mixed(t, policy("mlf"))
	for _, name := range testkit.Some(4, iosched.Names()...) {
		r := mixed(t, policy(name))
		t.Logf("%-8s makespan %6.1f s, longest flow %6.1f s, sum of flows %7.1f s", name, r.Makespan, r.MaxFlow, r.SumFlow)
		if name != "mlf" && (r.Makespan <= best.Makespan || name != "wsjf" && r.SumFlow <= best.SumFlow) {
			t.Errorf("%s: makespan %v s, sum of flows %v; mlf %v, %v", name, r.Makespan, r.SumFlow, best.Makespan, best.SumFlow)
		}
	}
}

// TestWindows makes windows longer: the disk moves more, and small jobs wait for longer.
func TestWindows(t *testing.T) {
	long(t)
	makespan, small := math.Inf(1), 0.0
	all := []float64{50, 100, 200, 500, 1000}
	if !testkit.Nightly() {
		all = []float64{50, 200, 1000}
	}
	for _, ms := range all {
		o := policy("mlf")
		o.Scheduler.MaxWindow = pfs.Duration(ms / 1000)
		r := run(t, sophia(t), o, ten()...)
		t.Logf("windows of %v ms: makespan %.1f s, small jobs up to %.1f s", ms, r.Makespan, smallJobs(r))
		if r.Makespan > makespan || smallJobs(r) < small {
			t.Errorf("windows of %v ms: %v s after %v; small jobs %v s after %v", ms, r.Makespan, makespan, smallJobs(r), small)
		}
		makespan, small = r.Makespan, smallJobs(r)
	}
}

// TestBaseQuantum makes the base quantum larger where windows do not grow by themselves:
// the disk moves more. Small jobs gain as well up to 8 MiB, since less time is lost.
func TestBaseQuantum(t *testing.T) {
	long(t)
	makespan := math.Inf(1)
	all := []pfs.Bytes{128 * kib, 512 * kib, 2 * mib, 8 * mib}
	if !testkit.Nightly() {
		all = []pfs.Bytes{128 * kib, 2 * mib}
	}
	for _, q := range all {
		o := policy("mlf", "growth")
		o.Scheduler.Quantum = q
		r := run(t, sophia(t), o, ten()...)
		t.Logf("quanta of %s: makespan %.1f s, small jobs up to %.1f s", q, r.Makespan, smallJobs(r))
		if r.Makespan >= makespan {
			t.Errorf("quanta of %s: %v s after %v", q, r.Makespan, makespan)
		}
		makespan = r.Makespan
	}
}

// TestParts switches parts of mlf off, one at a time. The mix takes longer without any
// of them.
func TestParts(t *testing.T) {
	long(t)
	whole := mixed(t, policy("mlf")).Makespan
	for part, least := range map[string]float64{"aggregates": 1, "windows": 2, "shift-wait": 2, "offset-first": 2, "idle-wait": 2} {
		without := mixed(t, policy("mlf", part)).Makespan
		t.Logf("without %-13s %7.1f s, × %.2f", part, without, without/whole)
		if without <= least*whole {
			t.Errorf("without %s: %v s, want more than %v times %v", part, without, least, whole)
		}
	}
}

// TestAggregates compares what aggregates and windows do for two jobs, by the size of
// operations. Under windows requests follow each other without aggregates, too, so these
// are looked at without: they matter up to the request of the protocol, windows always.
func TestAggregates(t *testing.T) {
	long(t)
	bytes := min(file(), gib/4)
	for _, grain := range []int64{8, 32, 64, 128, 512} {
		a := strided(bytes, grain*kib)
		seconds := func(without ...string) float64 {
			return run(t, sophia(t), policy("mlf", without...), named(a, "a"), named(a, "b")).Makespan
		}
		whole, windows, neither := seconds(), seconds("windows"), seconds("windows", "aggregates")
		t.Logf("%3d KiB: %.1f s, without windows %.1f s, without aggregates either %.1f s", grain, whole, windows, neither)
		if windows <= whole {
			t.Errorf("%d KiB: %v s, without windows %v s", grain, whole, windows)
		}
		if gain := neither / windows; grain <= 32 && gain < 1.2 || grain > 32 && gain > 1.05 {
			t.Errorf("%d KiB: without windows %v s, without aggregates either %v s", grain, windows, neither)
		}
	}
}

// meanAggregate is how many requests an aggregate has on average, 0 without one.
func meanAggregate(f iosched.FileStats) float64 {
	return float64(f.Sum) / max(1, float64(f.Aggregates))
}

// TestShortest runs the ten applications under wsjf, which the thesis announces
// (section 6.2): the sum of the flow times is smaller than under mlf, every application
// gains, and the disk is nearly as busy. Without idling for synchronous processes, the
// disk seeks for each request.
func TestShortest(t *testing.T) {
	fifo, mlf, wsjf := mixed(t, policy("fifo")), mixed(t, policy("mlf")), mixed(t, policy("wsjf"))
	without := mixed(t, policy("wsjf", "idle-wait"))
	t.Logf("ΣF %.0f s under fifo, %.0f s under mlf, %.0f s under wsjf; makespan %.1f s, × %.2f; %.1f s without idling", fifo.SumFlow, mlf.SumFlow, wsjf.SumFlow, wsjf.Makespan, wsjf.Makespan/optimum, without.Makespan)
	if wsjf.SumFlow >= mlf.SumFlow || wsjf.Makespan > 1.4*optimum || without.Makespan < 5*wsjf.Makespan {
		t.Errorf("ΣF %v s, under mlf %v s; makespan %v s, optimum %v; without idling %v", wsjf.SumFlow, mlf.SumFlow, wsjf.Makespan, optimum, without.Makespan)
	}
	for i, a := range wsjf.Apps {
		if a.Flow >= fifo.Apps[i].Flow {
			t.Errorf("%s takes %v s under wsjf, %v s under fifo", a.Name, a.Flow, fifo.Apps[i].Flow)
		}
	}
}
