package interval_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"ckpt/internal/testkit"
	"ckpt/interval"
)

func TestMain(m *testing.M) {
	testkit.Sample(40)
	goleak.VerifyTestMain(m)
}

func model(mtbf time.Duration) interval.Model {
	return interval.Model{Cost: 5 * time.Minute, MTBF: mtbf, Restart: 10 * time.Minute}
}

// withLogs makes a model semi-coordinated.
func withLogs(m interval.Model) interval.Model {
	m.Mode = interval.Semicoordinated
	m.Logging = interval.Logging{Slowdown: 0.04, Share: 0.5, Growth: 0.02, Replay: 3}
	return m
}

func withDowntime(m interval.Model, d time.Duration) interval.Model {
	m.Downtime = d
	return m
}

// TestSimulationAgrees with the expectation, which is exact for exponential
// failures: over models, intervals and seeds its confidence interval must hold
// the expectation about 95 times in 100.
func TestSimulationAgrees(t *testing.T) {
	models := []interval.Model{
		model(24 * time.Hour), model(6 * time.Hour), model(15 * time.Minute),
		withDowntime(model(2*time.Hour), 20*time.Minute), withLogs(model(6 * time.Hour)), withDowntime(withLogs(model(30*time.Minute)), time.Minute),
	}
	var a agreement
	for i, m := range models {
		o, err := m.Optimum()
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range []time.Duration{o.Exact, o.Young, o.Exact / 3, 2 * o.Exact} {
			for seed := range uint64(5) {
				s := interval.Simulation{Model: m, Work: 50 * time.Hour, Interval: at, Shape: 1, Runs: 1000, Seed: seed}
				if m.MTBF < time.Hour {
					s.Work = 5 * time.Hour
				}
				e, err := s.Run(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				want, err := m.Expected(s.Work, at)
				if err != nil {
					t.Fatal(err)
				}
				a.add(t, fmt.Sprintf("model %d at %v, seed %d", i, at, seed), e, want)
				if !(e.Waste >= 0 && e.Waste <= 1) || e.Min > e.Mean || e.Mean > e.Max || e.Min < s.Work {
					t.Errorf("%+v", e)
				}
			}
		}
	}
	a.check(t)
}

// An agreement counts how many confidence intervals hold what they estimate.
type agreement struct{ inside, all int }

func (a *agreement) add(t *testing.T, name string, e *interval.Estimate, want time.Duration) {
	t.Helper()
	a.all++
	if e.Low <= want && want <= e.High {
		a.inside++
	}
	// 5 standard errors: once in a million.
	if off := float64(e.Mean-want) / float64(e.StdDev) * math.Sqrt(float64(e.Runs)); math.Abs(off) > 5 {
		t.Errorf("%s: mean %v, expected %v, %.1f standard errors off", name, e.Mean, want, off)
	}
}

func (a *agreement) check(t *testing.T) {
	t.Helper()
	if share := float64(a.inside) / float64(a.all); share < 0.90 {
		t.Errorf("%d of %d confidence intervals hold the expectation", a.inside, a.all)
	}
}

// TestSimulationAgreesWithDaly on the runs of 500 hours of his Figures 3 to 5:
// so long that the checkpoint that is missing at the end does not matter.
func TestSimulationAgreesWithDaly(t *testing.T) {
	for _, mtbf := range []time.Duration{24 * time.Hour, 6 * time.Hour, 15 * time.Minute} {
		m := model(mtbf)
		o, err := m.Optimum()
		if err != nil {
			t.Fatal(err)
		}
		s := interval.Simulation{Model: m, Work: 500 * time.Hour, Interval: o.Daly, Shape: 1, Runs: 500, Seed: 1}
		e, err := s.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want, err := m.Total(s.Work, s.Interval)
		if err != nil || want < e.Low || want > e.High {
			t.Errorf("MTBF %v: Daly's cost is %v, simulated %v to %v, %v", mtbf, want, e.Low, e.High, err)
		}
		if rate := e.Failures / (e.Mean.Hours() / mtbf.Hours()); math.Abs(rate-1) > 0.02 {
			t.Errorf("MTBF %v: %v failures per MTBF", mtbf, rate)
		}
	}
}

// TestWeibullKeepsMTBF: whatever the shape, a long run has one failure per MTBF.
func TestWeibullKeepsMTBF(t *testing.T) {
	for _, shape := range []float64{0.5, 0.7, 1.5, 3} {
		s := interval.Simulation{Model: model(6 * time.Hour), Work: 5000 * time.Hour, Interval: time.Hour, Shape: shape, Runs: 200, Seed: 2}
		e, err := s.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if rate := e.Failures / (e.Mean.Hours() / 6); math.Abs(rate-1) > 0.02 {
			t.Errorf("shape %v: %v failures per MTBF", shape, rate)
		}
	}
}

// TestSteady: in a machine long in use the mean number of failures in any time
// is that time over the MTBF, whatever the shape; right after a failure there
// are more for a shape below 1, and fewer above.
func TestSteady(t *testing.T) {
	m := interval.Model{Cost: time.Nanosecond, MTBF: 24 * time.Hour}
	runs := 50_000
	if testkit.Nightly() {
		runs = 200_000
	}
	for _, shape := range []float64{0.5, 0.7, 2} {
		// Checkpoints cost nothing and are frequent, so that runs take 5 h.
		s := interval.Simulation{Model: m, Work: 5 * time.Hour, Interval: time.Second, Shape: shape, Runs: runs, Seed: 3, Steady: true}
		steady, err := s.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if want := 5. / 24; math.Abs(steady.Failures/want-1) > 0.02 {
			t.Errorf("shape %v: %v failures, want %v", shape, steady.Failures, want)
		}
		s.Steady = false
		fresh, err := s.Run(t.Context())
		if err != nil || (fresh.Failures > steady.Failures) != (shape < 1) {
			t.Errorf("shape %v: %v failures after a failure, %v in steady state, %v", shape, fresh.Failures, steady.Failures, err)
		}
	}
}

// TestDeterministic: the seed alone decides.
func TestDeterministic(t *testing.T) {
	s := interval.Simulation{Model: withLogs(model(6 * time.Hour)), Work: 20 * time.Hour, Interval: time.Hour, Shape: 0.7, Runs: 3000, Seed: 7, Steady: true}
	run := func(processors int) *interval.Estimate {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
		e, err := s.Run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	one := run(1)
	for _, n := range []int{2, 7} {
		if diff := cmp.Diff(one, run(n)); diff != "" {
			t.Errorf("with %d processors:\n%s", n, diff)
		}
	}
	s.Seed++
	if cmp.Equal(one, run(1)) {
		t.Error("another seed gives the same estimate")
	}
}

func TestSimulationRefuses(t *testing.T) {
	good := interval.Simulation{Model: model(6 * time.Hour), Work: time.Hour, Interval: time.Hour, Shape: 1, Runs: 10}
	for _, c := range []struct {
		quantity string
		change   func(*interval.Simulation)
	}{
		{"shape", func(s *interval.Simulation) { s.Shape = 0 }},
		{"shape", func(s *interval.Simulation) { s.Shape = math.NaN() }},
		{"number of runs", func(s *interval.Simulation) { s.Runs = 1 }},
		{"number of runs", func(s *interval.Simulation) { s.Runs, s.Work = 10_000_000, 10000*time.Hour }},
		{"interval", func(s *interval.Simulation) { s.Interval = 0 }},
		{"interval", func(s *interval.Simulation) {
			s.Model.Cost, s.Model.MTBF, s.Work, s.Interval = 1, 1<<60, 1<<60, 1
		}},
		{"MTBF", func(s *interval.Simulation) { s.Model.MTBF = 0 }},
		// Failures that come like clockwork, four to an interval.
		{"simulated run", func(s *interval.Simulation) {
			s.Shape, s.Model.MTBF, s.Model.Cost, s.Model.Restart, s.Runs = 4, 15*time.Minute, 29*time.Minute, 29*time.Minute, 2
		}},
	} {
		s := good
		c.change(&s)
		_, err := s.Run(t.Context())
		refused(t, err, c.quantity)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := good.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want canceled", err)
	}
}

func ExampleSimulation() {
	m := interval.Model{Cost: 5 * time.Minute, MTBF: 6 * time.Hour, Restart: 10 * time.Minute}
	s := interval.Simulation{Model: m, Work: 24 * time.Hour, Interval: time.Hour, Shape: 0.7, Runs: 10000, Seed: 1}
	e, err := s.Run(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(e.Low < e.Mean, e.Mean < e.High, e.Failures > 4)
	// Output: true true true
}

func BenchmarkSimulation(b *testing.B) {
	for _, shape := range []float64{1, 0.7} {
		b.Run(fmt.Sprintf("shape=%v", shape), func(b *testing.B) {
			s := interval.Simulation{Model: model(6 * time.Hour), Work: 24 * time.Hour, Interval: time.Hour, Shape: shape, Runs: 10_000, Seed: 1}
			for b.Loop() {
				if _, err := s.Run(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
