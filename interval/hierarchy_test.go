package interval_test

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"ckpt/interval"
)

// drawHierarchy draws hierarchies of one to three levels, some with a drain.
func drawHierarchy(t *rapid.T) interval.Hierarchy {
	n := rapid.IntRange(1, 3).Draw(t, "levels")
	mtbf := math.Pow(10, rapid.Float64Range(2, 6).Draw(t, "log mtbf"))
	time := func(name string, low, high float64) time.Duration {
		return max(1, seconds(mtbf*math.Pow(10, rapid.Float64Range(low, high).Draw(t, name))))
	}
	h := interval.Hierarchy{MTBF: seconds(mtbf), Downtime: time("log downtime", -6, -1)}
	share := 0.0
	for i := range n {
		share += (1 - share) * rapid.Float64Range(0.05, 0.95).Draw(t, "share")
		if i == n-1 {
			share = 1
		}
		h.Levels = append(h.Levels, interval.StorageLevel{Name: "level", Cost: time("log cost", -5, -1.2), Restart: time("log restart", -6, -0.3), Share: share})
	}
	if rapid.Bool().Draw(t, "drains") {
		h.Levels[n-1].Drain = time("log drain", -5, -0.5)
	}
	return h
}

// drawPattern draws a pattern that the drain of h can follow.
func drawPattern(t *rapid.T, h *interval.Hierarchy, most int) interval.Pattern {
	p := interval.Pattern{Every: []int{}}
	for range len(h.Levels) - 1 {
		p.Every = append(p.Every, rapid.IntRange(1, most).Draw(t, "every"))
	}
	w := h.MTBF.Seconds() * math.Pow(10, rapid.Float64Range(-3, 0).Draw(t, "log interval"))
	p.Interval = max(seconds(w), h.Levels[len(h.Levels)-1].Drain)
	return p
}

// byStates is the expected time of a long run per pattern, and of the first pattern, by
// the equations of the states of the Markov chain, one for each interval, with and
// without a safe checkpoint at its beginning: no sum of the package comment is used.
func byStates(h *interval.Hierarchy, p interval.Pattern) (first, next float64) {
	n, mtbf := len(h.Levels), h.MTBF.Seconds()
	all := 1
	span := []int{1}
	for _, k := range p.Every {
		all *= k
		span = append(span, all)
	}
	drain := h.Levels[n-1].Drain.Seconds()
	needs := make([]float64, n)
	for l, before := 0, 0.0; l < n; l++ {
		needs[l] = h.Levels[l].Share - before
		before = h.Levels[l].Share
	}
	// back returns the mean time from a failure to where it struck, if a restart from
	// level l must repeat repeat[l] seconds.
	back := func(repeat []float64) float64 {
		x := make([]float64, n)
		for l := n - 1; l >= 0; l-- {
			ok := math.Exp(-h.Levels[l].Restart.Seconds() / mtbf)
			same, other := 0.0, 0.0
			for m := range n {
				if m <= l {
					same += needs[m]
				} else {
					other += needs[m] * x[m]
				}
			}
			x[l] = (h.Downtime.Seconds() + (1-ok)*mtbf + ok*repeat[l] + (1-ok)*other) / (1 - (1-ok)*same)
		}
		mean := 0.0
		for l := range n {
			mean += needs[l] * x[l]
		}
		return mean
	}
	safe, unsafe := make([]float64, all), make([]float64, all)
	for i := range all {
		repeat := make([]float64, n)
		for l := range n {
			for j := i - i%span[l]; j < i; j++ {
				repeat[l] += safe[j]
			}
		}
		safe[i] = math.Expm1(intervalTime(h, p, span, i)/mtbf) * (mtbf + back(repeat))
		first += safe[i]
	}
	elapsed := 0.0
	for i := range all {
		length := intervalTime(h, p, span, i)
		before, after := make([]float64, n), make([]float64, n)
		for l := range n {
			for j := i - i%span[l]; j < i; j++ {
				before[l] += unsafe[j]
				after[l] += safe[j]
			}
		}
		before[n-1] += first
		x := min(max(drain-elapsed, 0), length) // the drain ends here
		ok := math.Exp(-x / mtbf)
		a := (1 - ok) * (mtbf + back(before))
		b := ok * -math.Expm1(-(length-x)/mtbf) * (mtbf + back(after) + safe[i])
		unsafe[i] = (a + b) / ok
		next += unsafe[i]
		elapsed += length
	}
	return first, next
}

// intervalTime is the time of interval i of a pattern, with its checkpoint.
func intervalTime(h *interval.Hierarchy, p interval.Pattern, span []int, i int) float64 {
	t := p.Interval.Seconds()
	for l, level := range h.Levels {
		if (i+1)%span[l] == 0 {
			t += level.Cost.Seconds()
		}
	}
	return t
}

// near allows for the rounding to nanoseconds, too.
func near(a, b, tolerance float64) bool { return math.Abs(a-b) <= tolerance*math.Abs(b)+2e-9 }

// TestLevelsByStates: the closed form solves the equations of all states.
func TestLevelsByStates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := drawHierarchy(t)
		p := drawPattern(t, &h, 6)
		all := 1
		for _, n := range p.Every {
			all *= n
		}
		work := time.Duration(all) * p.Interval
		first, next := byStates(&h, p)
		if next > 1e9 {
			t.Skip("makes no progress")
		}
		got, err := h.Total(work, p)
		if err != nil || !near(got.Seconds(), next, 1e-9) {
			t.Fatalf("%v, want %v s, %v", got, next, err)
		}
		// The last checkpoint of three patterns is taken if work is left after it.
		got, err = h.Expected(3*work+p.Interval/1000, p)
		rest, errRest := h.Expected(2*work+p.Interval/1000, p)
		if err != nil || errRest != nil || !near((got-rest).Seconds(), next, 1e-6) {
			t.Fatalf("the third pattern takes %v, want %v s, %v, %v", got-rest, next, err, errRest)
		}
		// The first pattern begins with what is safe: the beginning of the run.
		one, err := h.Expected(work+p.Interval/1e6, p)
		if err != nil || !near(one.Seconds(), first, 1e-5) {
			t.Fatalf("the first pattern takes %v, want %v s, %v", one, first, err)
		}
	})
}

// TestOneLevel: with one level everything is that of a Model.
func TestOneLevel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawModel(t)
		m.Mode, m.Logging = interval.Coordinated, interval.Logging{}
		h := interval.Hierarchy{MTBF: m.MTBF, Downtime: m.Downtime, Levels: []interval.StorageLevel{{Name: "store", Cost: m.Cost, Restart: m.Restart, Share: 1}}}
		want, err := m.Optimum()
		if err != nil {
			t.Fatal(err)
		}
		got, err := h.Optimum()
		if err != nil {
			t.Fatal(err)
		}
		if !near(got.Exact.Interval.Seconds(), want.Exact.Seconds(), 1e-4) || !near(got.FirstOrder.Interval.Seconds(), want.FirstOrder.Seconds(), 1e-8) {
			t.Fatalf("optimum %+v, want %+v", got, want)
		}
		at := want.Exact
		p := interval.Pattern{Interval: at, Every: []int{}}
		work := seconds(at.Seconds() * rapid.Float64Range(0.1, 20).Draw(t, "work"))
		compare := func(name string, got time.Duration, err error, want time.Duration, wantErr error) {
			if (err == nil) != (wantErr == nil) || err == nil && !near(got.Seconds(), want.Seconds(), 1e-9) {
				t.Fatalf("%s: %v, %v, want %v, %v", name, got, err, want, wantErr)
			}
		}
		a, errA := h.Total(work, p)
		b, errB := m.Total(work, at)
		compare("total", a, errA, b, errB)
		a, errA = h.Expected(work, p)
		b, errB = m.Expected(work, at)
		compare("expected", a, errA, b, errB)
		x, errX := h.FirstOrderWaste(p)
		y, errY := m.FirstOrderWaste(at)
		if (errX == nil) != (errY == nil) || math.Abs(x-y) > 1e-9 {
			t.Fatalf("first-order waste %v, %v, want %v, %v", x, errX, y, errY)
		}
		x, errX = h.Waste(p)
		y, errY = m.Waste(at)
		if errX != nil || errY != nil || math.Abs(x-y) > 1e-9 {
			t.Fatalf("waste %v, %v, want %v, %v", x, errX, y, errY)
		}
	})
}

// TestLevelsOptimum: no other pattern wastes less, as far as a grid tells.
func TestLevelsOptimum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := drawHierarchy(t)
		o, err := h.Optimum()
		if errors.As(err, new(*interval.RangeError)) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		best, err := h.Waste(o.Exact)
		if err != nil || !(best >= 0 && best < 1) {
			t.Fatalf("waste %v at %+v, %v", best, o.Exact, err)
		}
		for range 30 {
			p := interval.Pattern{Interval: seconds(o.Exact.Interval.Seconds() * math.Pow(10, rapid.Float64Range(-0.7, 0.7).Draw(t, "log factor"))), Every: []int{}}
			for _, n := range o.Exact.Every {
				p.Every = append(p.Every, max(1, int(math.Round(float64(n)*math.Pow(10, rapid.Float64Range(-0.7, 0.7).Draw(t, "log count"))))))
			}
			if waste, err := h.Waste(p); err == nil && waste < best-1e-9 {
				t.Fatalf("%+v wastes %v, the optimum %+v %v", p, waste, o.Exact, best)
			}
		}
		// Each fixed count alone cannot waste less, either.
		if len(o.Exact.Every) > 0 {
			fixed := interval.Pattern{Every: slices.Clone(o.Exact.Every)}
			fixed.Every[0] = max(1, fixed.Every[0]+rapid.IntRange(-3, 3).Draw(t, "other count"))
			p, err := h.Best(fixed)
			if err != nil {
				t.Fatal(err)
			}
			if waste, err := h.Waste(p); err != nil || waste < best-1e-9 || p.Every[0] != fixed.Every[0] {
				t.Fatalf("%+v wastes %v, the optimum %+v %v, %v", p, waste, o.Exact, best, err)
			}
		}
	})
}

// TestLevelsFirstOrder: where failures are rare the optimum has the periods √(2CM/λ) of
// Benoit et al., and the waste is the sum of √(2λC) over the levels, beside restarts.
func TestLevelsFirstOrder(t *testing.T) {
	for _, shares := range [][]float64{{0.85, 1}, {0.6, 0.95, 1}} {
		h := interval.Hierarchy{MTBF: 10000 * time.Hour}
		cost, before, sum := 2*time.Second, 0.0, 0.0
		for _, s := range shares {
			h.Levels = append(h.Levels, interval.StorageLevel{Name: "level", Cost: cost, Share: s})
			sum += math.Sqrt(2 * cost.Seconds() * (s - before) / h.MTBF.Seconds())
			before, cost = s, 20*cost
		}
		o, err := h.Optimum()
		if err != nil {
			t.Fatal(err)
		}
		for l, s := range shares {
			if l > 0 {
				s -= shares[l-1]
			}
			want := math.Sqrt(2 * h.Levels[l].Cost.Seconds() * h.MTBF.Seconds() / s)
			got, err := h.Period(o.Exact, l)
			if err != nil || !near(got.Seconds(), want, 0.05) || !near(o.Periods[l].Seconds(), want, 1e-3) {
				t.Errorf("period of level %d: %v and %v, want %v s, %v", l, got, o.Periods[l], want, err)
			}
		}
		for _, p := range []interval.Pattern{o.Exact, o.FirstOrder} {
			waste, err := h.Waste(p)
			first, errFirst := h.FirstOrderWaste(p)
			if err != nil || errFirst != nil || !near(waste, sum, 0.01) || !near(first, sum, 0.01) {
				t.Errorf("%+v wastes %v, to first order %v, want %v, %v, %v", p, waste, first, sum, err, errFirst)
			}
		}
	}
}

// TestLevelsSaveNothing: a level that costs more than it saves goes with the next one,
// and the job without it wastes less.
func TestLevelsSaveNothing(t *testing.T) {
	h := interval.Hierarchy{MTBF: 24 * time.Hour, Levels: []interval.StorageLevel{
		{Name: "local", Cost: time.Minute, Share: 0.05}, {Name: "store", Cost: 2 * time.Minute, Share: 1},
	}}
	o, err := h.Optimum()
	if err != nil || o.Exact.Every[0] != 1 || o.FirstOrder.Every[0] != 1 || o.Periods[0] != o.Periods[1] {
		t.Fatalf("%+v, %v", o, err)
	}
	with, err := h.Waste(o.Exact)
	if err != nil {
		t.Fatal(err)
	}
	alone := h.Without(0)
	best, err := alone.Best(interval.Pattern{})
	if err != nil {
		t.Fatal(err)
	}
	without, err := alone.Waste(best)
	if err != nil || !(without < with) {
		t.Errorf("with the level %v is wasted, without %v, %v", with, without, err)
	}
}

// TestDrain: a drain costs about the share of the failures that need the store times its
// time, no next one begins before it ends, and alone it is waited for.
func TestDrain(t *testing.T) {
	h := interval.Hierarchy{MTBF: 100 * time.Hour, Levels: []interval.StorageLevel{
		{Name: "local", Cost: 5 * time.Second, Share: 0.85}, {Name: "store", Cost: time.Second, Share: 1},
	}}
	fast, err := h.Optimum()
	if err != nil {
		t.Fatal(err)
	}
	h.Levels[1].Drain = 10 * time.Minute
	slow, err := h.Optimum()
	if err != nil {
		t.Fatal(err)
	}
	a, _ := h.Waste(slow.Exact)
	h.Levels[1].Drain = 0
	b, _ := h.Waste(fast.Exact)
	if want := 0.15 * 600 / h.MTBF.Seconds(); !near(a-b, want, 0.1) {
		t.Errorf("the drain wastes %v, want %v", a-b, want)
	}
	h.Levels[1].Drain = 20 * time.Hour
	o, err := h.Optimum()
	if err != nil {
		t.Fatal(err)
	}
	if period, err := h.Period(o.Exact, 1); err != nil || period < 20*time.Hour-time.Microsecond {
		t.Errorf("drains take 20h, and one begins every %v, %v", period, err)
	}
	if _, err := h.Waste(interval.Pattern{Interval: time.Hour, Every: []int{19}}); err == nil {
		t.Error("a drain that is not done before the next is not refused")
	}
	h.Levels[1].Drain, h.Slots = 2*time.Hour, 2
	if o, err = h.Optimum(); err != nil {
		t.Fatal(err)
	}
	// The checkpoint that drains and one more take both slots.
	if w := o.Exact.Interval; o.Exact.Every[0] < 2 || 2*w+5*time.Second < 2*time.Hour-time.Microsecond {
		t.Errorf("with two slots and drains of two hours: %+v", o.Exact)
	}
	o.Exact.Interval -= time.Second
	_, err = h.Waste(o.Exact)
	refused(t, err, "drain time")
	h.Levels[1].Drain = 20 * time.Hour
	alone := h.Without(0)
	if l := alone.Levels[0]; l.Cost != 20*time.Hour || l.Drain != 0 {
		t.Errorf("the store alone has %+v", l)
	}
}

func TestHierarchyRefuses(t *testing.T) {
	good := func() interval.Hierarchy {
		return interval.Hierarchy{MTBF: time.Hour, Levels: []interval.StorageLevel{
			{Name: "local", Cost: time.Second, Share: 0.5}, {Name: "store", Cost: time.Minute, Share: 1},
		}}
	}
	p := interval.Pattern{Interval: time.Minute, Every: []int{3}}
	for quantity, change := range map[string]func(h *interval.Hierarchy, p *interval.Pattern){
		"number of storage levels":         func(h *interval.Hierarchy, _ *interval.Pattern) { h.Levels = nil },
		"MTBF":                             func(h *interval.Hierarchy, _ *interval.Pattern) { h.MTBF = 0 },
		"number of slots":                  func(h *interval.Hierarchy, _ *interval.Pattern) { h.Slots = -1 },
		"downtime":                         func(h *interval.Hierarchy, _ *interval.Pattern) { h.Downtime = -1 },
		"checkpoint cost of level local":   func(h *interval.Hierarchy, _ *interval.Pattern) { h.Levels[0].Cost = 0 },
		"checkpoint cost of level store":   func(h *interval.Hierarchy, _ *interval.Pattern) { h.Levels[1].Cost = -1 },
		"checkpoint cost of all levels":    func(h *interval.Hierarchy, _ *interval.Pattern) { h.Levels[1].Cost = 2 * time.Hour },
		"restart time of level store":      func(h *interval.Hierarchy, _ *interval.Pattern) { h.Levels[1].Restart = 2 * time.Hour },
		"drain time of level local":        func(h *interval.Hierarchy, _ *interval.Pattern) { h.Levels[0].Drain = 1 },
		"share of failures of level store": func(h *interval.Hierarchy, _ *interval.Pattern) { h.Levels[1].Share = 0.9 },
		"share of failures of level local": func(h *interval.Hierarchy, _ *interval.Pattern) { h.Levels[0].Share = 1 },
		"share of failures of level partner": func(h *interval.Hierarchy, _ *interval.Pattern) {
			h.Levels = slices.Insert(h.Levels, 1, interval.StorageLevel{Name: "partner", Share: 0.5})
		},
		"interval":             func(_ *interval.Hierarchy, p *interval.Pattern) { p.Interval = 0 },
		"pattern":              func(_ *interval.Hierarchy, p *interval.Pattern) { p.Every = nil },
		"count of level store": func(_ *interval.Hierarchy, p *interval.Pattern) { p.Every[0] = 0 },
		"drain time":           func(h *interval.Hierarchy, _ *interval.Pattern) { h.Levels[1].Drain = time.Hour },
	} {
		h, p := good(), interval.Pattern{Interval: p.Interval, Every: slices.Clone(p.Every)}
		change(&h, &p)
		_, err := h.Waste(p)
		refused(t, err, quantity)
	}
	h := good()
	_, err := h.Total(0, p)
	refused(t, err, "application time")
	_, err = h.Best(interval.Pattern{Every: []int{-1}})
	refused(t, err, "count of level store")
	h.Levels[1].Drain = 30 * time.Hour
	_, err = h.Best(interval.Pattern{Interval: time.Second, Every: []int{2}})
	refused(t, err, "drain time")
}

// TestOneLevelSimulation: the same seed gives the same failures.
func TestOneLevelSimulation(t *testing.T) {
	m := withDowntime(model(6*time.Hour), time.Minute)
	h := interval.Hierarchy{MTBF: m.MTBF, Downtime: m.Downtime, Levels: []interval.StorageLevel{{Name: "store", Cost: m.Cost, Restart: m.Restart, Share: 1}}}
	for _, shape := range []float64{1, 0.7} {
		want, err := (&interval.Simulation{Model: m, Work: 100 * time.Hour, Interval: time.Hour, Shape: shape, Runs: 1000, Seed: 3, Steady: true}).Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got, err := (&interval.LevelSimulation{Hierarchy: h, Work: 100 * time.Hour, Pattern: interval.Pattern{Interval: time.Hour}, Shape: shape, Runs: 1000, Seed: 3, Steady: true}).Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		about := cmp.Comparer(func(a, b time.Duration) bool { return near(a.Seconds(), b.Seconds(), 1e-9) })
		if diff := cmp.Diff(want, got, about, cmp.Comparer(func(a, b float64) bool { return near(a, b, 1e-9) })); diff != "" {
			t.Errorf("shape %v:\n%s", shape, diff)
		}
	}
}

// TestInFlight: checkpoints behind the job cost their pause, follow each other no faster than the
// storage takes them, and are better than waiting.
func TestInFlight(t *testing.T) {
	m := interval.Model{Cost: 2 * time.Second, MTBF: 8 * time.Hour}
	h := interval.InFlight(m, 90*time.Second, 4)
	best, err := h.Best(interval.Pattern{Every: []int{1}})
	if err != nil {
		t.Fatal(err)
	}
	behind, err := h.Waste(best)
	if err != nil {
		t.Fatal(err)
	}
	alone := h.Without(0)
	waits, err := alone.Best(interval.Pattern{})
	if err != nil {
		t.Fatal(err)
	}
	// The pause alone costs the square root, and each failure the lag besides.
	want := math.Sqrt(2*2/28800.) + 90/28800.
	if waste, err := alone.Waste(waits); err != nil || behind >= waste/4 || math.Abs(behind-want) > 0.0003 {
		t.Errorf("waste %v behind the job, want %v; %v of one that waits, %v", behind, want, waste, err)
	}
	if _, err := h.Waste(interval.Pattern{Interval: time.Minute, Every: []int{1}}); err == nil {
		t.Error("checkpoints follow each other faster than the storage takes them")
	}
}
