package interval_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ckpt/interval"
)

// TestGolden are minutes for a cost of 5 and a restart of 10 minutes, the cases
// of Figures 3 to 5 of Daly (2006), who prints 117, 57 and 9.1.
func TestGolden(t *testing.T) {
	for _, c := range []struct {
		mtbf               time.Duration
		young, daly, exact string
	}{
		{24 * time.Hour, "120.00", "116.69", "116.69"},
		{6 * time.Hour, "60.00", "56.71", "56.71"},
		{15 * time.Minute, "12.25", "9.14", "9.17"},
	} {
		m := interval.Model{Cost: 5 * time.Minute, MTBF: c.mtbf, Restart: 10 * time.Minute}
		o, err := m.Optimum()
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprintf("%.2f %.2f %.2f", o.Young.Minutes(), o.Daly.Minutes(), o.Exact.Minutes())
		if want := c.young + " " + c.daly + " " + c.exact; got != want {
			t.Errorf("MTBF %v: %s, want %s", c.mtbf, got, want)
		}
	}
}

// TestTotal compares with Daly's formula as it is printed.
func TestTotal(t *testing.T) {
	m := interval.Model{Cost: 5 * time.Minute, MTBF: 6 * time.Hour, Restart: 10 * time.Minute}
	got, err := m.Total(100*time.Hour, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	want := 21600 * math.Exp(600./21600) * (math.Exp(3900./21600) - 1) * 100
	if math.Abs(got.Seconds()-want) > 1e-6 {
		t.Errorf("%v s, want %v s", got.Seconds(), want)
	}
}

// drawModel draws models of all modes; costs from 1e−9 to almost 2 MTBF.
func drawModel(t *rapid.T) interval.Model {
	mtbf := math.Pow(10, rapid.Float64Range(1, 8).Draw(t, "log mtbf"))
	share := func(name string, lowest float64) time.Duration {
		s := seconds(mtbf * math.Pow(10, rapid.Float64Range(lowest, math.Log10(1.99)).Draw(t, name)))
		return max(s, 1)
	}
	m := interval.Model{MTBF: seconds(mtbf), Cost: share("log cost", -9), Restart: share("log restart", -9), Downtime: share("log downtime", -6)}
	if m.Mode = interval.Mode(rapid.IntRange(0, 2).Draw(t, "mode")); m.Mode != interval.Coordinated {
		m.Logging = interval.Logging{
			Slowdown: rapid.Float64Range(0, 0.5).Draw(t, "slowdown"), Share: rapid.Float64Range(0.01, 1).Draw(t, "share"),
			Growth: rapid.Float64Range(0, 0.2).Draw(t, "growth"), Replay: rapid.Float64Range(1, 5).Draw(t, "replay"),
		}
	}
	return m
}

// TestExactIsMinimal: no other interval wastes less, and the waste is a share.
func TestExactIsMinimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawModel(t)
		o, err := m.Optimum()
		if err != nil {
			t.Fatal(err)
		}
		best, err := m.Waste(o.Exact)
		if err != nil || !(best >= 0 && best <= 1) {
			t.Fatalf("waste %v, %v", best, err)
		}
		factor := math.Pow(10, rapid.Float64Range(-3, 1).Draw(t, "log factor"))
		for _, other := range []time.Duration{o.Young, o.Daly, seconds(o.Exact.Seconds() * factor), seconds(o.Exact.Seconds() / 1.01), seconds(o.Exact.Seconds() * 1.01)} {
			waste, err := m.Waste(max(1, other))
			if err != nil || !(waste >= 0 && waste <= 1) || waste < best-1e-12 {
				t.Fatalf("at %v %v is wasted, at the optimum %v %v, %v", other, waste, o.Exact, best, err)
			}
		}
	})
}

// TestDalyApproachesYoung as cost/MTBF → 0, and the exact minimum approaches
// both: the ratios are 1 to first order in √(δ/2M).
func TestDalyApproachesYoung(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mtbf := rapid.Float64Range(1e4, 1e8).Draw(t, "mtbf")
		ratio := math.Pow(10, rapid.Float64Range(-9, -1).Draw(t, "log cost/mtbf"))
		m := interval.Model{MTBF: seconds(mtbf), Cost: max(1, seconds(mtbf*ratio))}
		o, err := m.Optimum()
		if err != nil {
			t.Fatal(err)
		}
		s := math.Sqrt(ratio / 2)
		if off := 1 - o.Daly.Seconds()/o.Young.Seconds(); off < 0 || off > s {
			t.Fatalf("Daly %v, Young %v", o.Daly, o.Young)
		}
		// Daly's is the expansion of the exact one to the third order.
		if off := math.Abs(o.Exact.Seconds()/o.Daly.Seconds() - 1); off > s*s*s+1e-7 {
			t.Fatalf("Daly %v, exact %v", o.Daly, o.Exact)
		}
	})
}

// TestClosedFormAgrees with the bisection: logs that cost and bring nothing
// but an imperceptible growth force the latter.
func TestClosedFormAgrees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawModel(t)
		m.Mode, m.Logging = interval.Coordinated, interval.Logging{}
		a, err := m.Optimum()
		if err != nil {
			t.Fatal(err)
		}
		m.Mode, m.Logging = interval.Uncoordinated, interval.Logging{Share: 1, Growth: 1e-15}
		b, err := m.Optimum()
		if err != nil {
			t.Fatal(err)
		}
		if diff := math.Abs(float64(a.Exact - b.Exact)); diff > 2+1e-9*float64(a.Exact) {
			t.Fatalf("closed form %v, bisection %v", a.Exact, b.Exact)
		}
		wa, _ := m.Waste(a.Exact)
		m.Mode, m.Logging = interval.Coordinated, interval.Logging{}
		if wb, _ := m.Waste(a.Exact); math.Abs(wa-wb) > 1e-12 {
			t.Fatalf("wastes %v and %v", wa, wb)
		}
	})
}

// TestExpected: whole intervals of a run that also ends with a checkpoint are
// Daly's cost; without the last checkpoint a run takes less.
func TestExpected(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawModel(t)
		o, err := m.Optimum()
		if err != nil {
			t.Fatal(err)
		}
		n := rapid.IntRange(1, 1000).Draw(t, "intervals")
		speed := 1 - m.Logging.Slowdown*m.Logging.Share
		work := seconds(float64(n) * o.Exact.Seconds() * speed)
		if work == 0 || work > 1e17 {
			t.Skip("no such run")
		}
		daly, err1 := m.Total(work, o.Exact)
		run, err2 := m.Expected(work, o.Exact)
		if err1 != nil || err2 != nil {
			t.Skip("over 292 years")
		}
		// One segment more of this length with its checkpoint, less one without.
		if run > daly+2 {
			t.Fatalf("%v without, %v with a last checkpoint", run, daly)
		}
		one, _ := m.Total(seconds(o.Exact.Seconds()*speed), o.Exact)
		if float64(daly-run) > float64(one)*(1+1e-6)+10 {
			t.Fatalf("%v without, %v with a last checkpoint, one interval is %v", run, daly, one)
		}
	})
}

// TestFirstOrderWaste approaches the exact waste for rare failures, and its
// best period is where it is said to be.
func TestFirstOrderWaste(t *testing.T) {
	m := interval.Model{Cost: time.Minute, MTBF: 1000 * time.Hour, Restart: 2 * time.Minute, Downtime: time.Minute}
	o, err := m.Optimum()
	if err != nil {
		t.Fatal(err)
	}
	exact, _ := m.Waste(o.Exact)
	first, err := m.FirstOrderWaste(o.Exact)
	if err != nil || math.Abs(first/exact-1) > 0.01 {
		t.Errorf("first-order waste %v, exact %v, %v", first, exact, err)
	}
	best, _ := m.FirstOrderWaste(o.FirstOrder)
	for _, f := range []float64{0.9, 1.1} {
		if other, _ := m.FirstOrderWaste(seconds(o.FirstOrder.Seconds() * f)); other <= best {
			t.Errorf("first-order waste %v at %v of its optimum, %v there", other, f, best)
		}
	}
	// One failure in P costs ρ times less, the slowdown applies to all.
	m.Mode, m.Logging = interval.Semicoordinated, interval.Logging{Slowdown: 0.04, Share: 0.5, Growth: 0.001, Replay: 2}
	exact, _ = m.Waste(o.Exact)
	first, err = m.FirstOrderWaste(o.Exact)
	if err != nil || math.Abs(first/exact-1) > 0.01 {
		t.Errorf("with logs: first-order waste %v, exact %v, %v", first, exact, err)
	}
	// The cost of failures is right to first order, also of failures during a
	// checkpoint.
	frequent := m
	frequent.Cost, m.Cost, m.MTBF = 20*time.Minute, 20*time.Minute, 2_000_000*time.Hour
	never, _ := m.FirstOrderWaste(time.Hour)
	exact, _ = frequent.Waste(time.Hour)
	first, _ = frequent.FirstOrderWaste(time.Hour)
	if math.Abs(exact-first) > 0.01*(first-never) {
		t.Errorf("first-order waste %v, exact %v, without failures %v", first, exact, never)
	}
	short := interval.Model{Cost: 5 * time.Minute, MTBF: 15 * time.Minute, Restart: 10 * time.Minute}
	_, err = short.FirstOrderWaste(10 * time.Minute)
	refused(t, err, "loss per failure")
}

func TestLogsPay(t *testing.T) {
	// Replaying twice as fast is worth more than 2 % of the speed where a
	// tenth of the time is lost to failures.
	co := interval.Model{Cost: 10 * time.Minute, MTBF: 5 * time.Hour, Restart: 10 * time.Minute}
	un := co
	un.Mode, un.Logging = interval.Uncoordinated, interval.Logging{Slowdown: 0.02, Share: 1, Replay: 2}
	a, _ := co.Optimum()
	b, _ := un.Optimum()
	wa, _ := co.Waste(a.Exact)
	wb, _ := un.Waste(b.Exact)
	if !(wb < wa && b.Exact > a.Exact) {
		t.Errorf("coordinated wastes %v at %v, uncoordinated %v at %v", wa, a.Exact, wb, b.Exact)
	}
}

func TestModelRefuses(t *testing.T) {
	good := interval.Model{Cost: time.Minute, MTBF: time.Hour, Restart: time.Minute}
	logs := interval.Logging{Slowdown: 0.02, Share: 1}
	for _, c := range []struct {
		quantity string
		change   func(*interval.Model)
	}{
		{"checkpoint cost", func(m *interval.Model) { m.Cost = 0 }},
		{"checkpoint cost", func(m *interval.Model) { m.Cost = 2 * time.Hour }},
		{"checkpoint cost", func(m *interval.Model) { m.Cost = math.MaxInt64 }},
		{"MTBF", func(m *interval.Model) { m.MTBF = -time.Hour }},
		{"restart time", func(m *interval.Model) { m.Restart = -1 }},
		{"restart time", func(m *interval.Model) { m.Restart = 2 * time.Hour }},
		{"downtime", func(m *interval.Model) { m.Downtime = -1 }},
		{"mode", func(m *interval.Model) { m.Logging = logs }},
		{"mode", func(m *interval.Model) { m.Mode = 9 }},
		{"logged share", func(m *interval.Model) { m.Mode = interval.Uncoordinated }},
		{"logged share", func(m *interval.Model) {
			m.Mode, m.Logging = interval.Uncoordinated, logs
			m.Logging.Share = math.NaN()
		}},
		{"logging slowdown", func(m *interval.Model) {
			m.Mode, m.Logging = interval.Semicoordinated, logs
			m.Logging.Slowdown = 1
		}},
		{"log growth", func(m *interval.Model) {
			m.Mode, m.Logging = interval.Semicoordinated, logs
			m.Logging.Growth = -1
		}},
		{"replay speed", func(m *interval.Model) {
			m.Mode, m.Logging = interval.Semicoordinated, logs
			m.Logging.Replay = 0.5
		}},
	} {
		m := good
		c.change(&m)
		_, err := m.Optimum()
		refused(t, err, c.quantity)
	}
	_, err := good.Total(0, time.Minute)
	refused(t, err, "application time")
	_, err = good.Waste(0)
	refused(t, err, "interval")
	_, err = good.Total(time.Hour, 100*time.Hour)
	refused(t, err, "total time")
	_, err = good.Expected(math.MaxInt64, 700*time.Hour)
	refused(t, err, "total time")
}

// TestAnything: whatever is asked, the answer is a number or a RangeError.
func TestAnything(t *testing.T) {
	anyTime := rapid.OneOf(rapid.Int64(), rapid.Int64Range(-2, 1000), rapid.Int64Range(0, int64(1000*time.Hour)))
	anyShare := rapid.OneOf(rapid.Float64(), rapid.Float64Range(0, 1), rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), -1, 0, 1}))
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) time.Duration { return time.Duration(anyTime.Draw(t, name)) }
		m := interval.Model{Cost: draw("cost"), MTBF: draw("mtbf"), Restart: draw("restart"), Downtime: draw("downtime")}
		if m.Mode = interval.Mode(rapid.IntRange(0, 3).Draw(t, "mode")); m.Mode != interval.Coordinated {
			m.Logging = interval.Logging{Slowdown: anyShare.Draw(t, "slowdown"), Share: anyShare.Draw(t, "share"), Growth: anyShare.Draw(t, "growth"), Replay: 1 + anyShare.Draw(t, "replay")}
		}
		work, at := draw("work"), draw("interval")
		check := func(err error, ok bool) {
			var r *interval.RangeError
			if err == nil && !ok || err != nil && !errors.As(err, &r) {
				t.Fatalf("%v", err)
			}
		}
		o, err := m.Optimum()
		check(err, o.Young > 0 && o.Daly > 0 && o.Exact > 0 && o.FirstOrder >= 0)
		total, err := m.Total(work, at)
		check(err, total >= 0)
		total, err = m.Expected(work, at)
		check(err, total >= 0)
		waste, err := m.Waste(at)
		check(err, waste >= 0 && waste <= 1)
		waste, err = m.FirstOrderWaste(at)
		check(err, waste >= 0 && waste <= 1)
		s := interval.Simulation{Model: m, Work: work, Interval: at, Shape: 5 * anyShare.Draw(t, "shape"), Runs: 2}
		if total < 1000*m.MTBF || m.MTBF > time.Hour { // the others take long
			e, err := s.Run(context.Background())
			check(err, err == nil && e.Mean >= 0)
		}
	})
}

func ExampleModel_Optimum() {
	m := interval.Model{Cost: 5 * time.Minute, MTBF: 6 * time.Hour, Restart: 10 * time.Minute}
	o, err := m.Optimum()
	if err != nil {
		fmt.Println(err)
		return
	}
	waste, err := m.Waste(o.Exact)
	fmt.Printf("Young %.2f, Daly %.2f, exact %.2f min; %.1f %% wasted, %v\n", o.Young.Minutes(), o.Daly.Minutes(), o.Exact.Minutes(), 100*waste, err)
	// Output: Young 60.00, Daly 56.71, exact 56.71 min; 18.1 % wasted, <nil>
}

func ExampleRangeError() {
	m := interval.Model{Cost: 30 * time.Minute, MTBF: 15 * time.Minute}
	_, err := m.Optimum()
	fmt.Println(err)
	// Output: checkpoint cost of 30m0s: is not below twice the MTBF of 15m0s, so hardly any checkpoint would be finished
}

func BenchmarkOptimum(b *testing.B) {
	m := interval.Model{Cost: 5 * time.Minute, MTBF: 6 * time.Hour, Restart: 10 * time.Minute}
	for b.Loop() {
		if _, err := m.Optimum(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOptimumWithLogs(b *testing.B) {
	m := interval.Model{
		Cost: 5 * time.Minute, MTBF: 6 * time.Hour, Restart: 10 * time.Minute, Mode: interval.Uncoordinated,
		Logging: interval.Logging{Slowdown: 0.02, Share: 1, Growth: 0.01, Replay: 2},
	}
	for b.Loop() {
		if _, err := m.Optimum(); err != nil {
			b.Fatal(err)
		}
	}
}
