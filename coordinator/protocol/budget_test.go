package protocol

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"ckpt/internal/testkit"
)

// A payment is what a simulated job has paid for a checkpoint.
type payment struct {
	cost, spent time.Duration // spent includes cost
	ran         time.Duration // computing before it
}

// pay runs a job without faults under a budget, whose checkpoints take as long to write
// as costs says. It returns what was paid by the time the ranks stood still, the
// plans that were announced, and the time of the run.
func pay(t *testing.T, seed uint64, cfg Config, slowdown float64, costs func(int) time.Duration) (paid []payment, plans []Plan, took time.Duration) {
	t.Helper()
	cfg.Ranks, cfg.AutoRestart = ranks(3), true
	cfg.Limits = Limits{Silence: time.Second, Phase: time.Hour, Restarts: 1}
	w := &world{t: t, length: cfg.Iterations, seed: seed, rng: rand.New(rand.NewPCG(seed, 2)), committed: map[int]int{0: 0}, damaged: map[int]bool{},
		answers: map[int]int{}, requests: map[int]Request{}, cfg: cfg, costs: costs, slowdown: slowdown, limit: 24 * time.Hour,
		checker: checker{losses: map[int]bool{}}}
	began, spent := time.Duration(0), time.Duration(0)
	w.watch = func(now time.Duration, _ Event, acts []Action) {
		for _, a := range acts {
			r, ok := a.(Report)
			if !ok {
				continue
			}
			switch n := r.Notice; n.Kind {
			case Started:
				began = now
			case CheckpointTaken:
				spent += n.Pause
				paid = append(paid, payment{n.Pause, spent, now - began - spent})
			case IntervalChanged:
				plans = append(plans, *n.Plan)
			}
		}
	}
	w.co = newLone(cfg)
	w.actions(w.co.Begin(0))
	w.toEnd()
	return paid, plans, w.now - began
}

// loopJob has some hundred iterations between two checkpoints of a second.
func loopJob(share float64, iterations int) Config {
	return Config{Iterations: iterations, Schedule: Schedule{Overhead: share}, Cost: Cost{First: time.Second}}
}

// TestBudgetIsKept: whatever checkpoints cost, the job never pays more than the budget
// when one was taken, and most of it in the end. Single slow ones overdraw it; then the
// others wait until it is even.
func TestBudgetIsKept(t *testing.T) {
	const second = float64(time.Second)
	for name, cost := range map[string]func(n int) float64{
		"constant":        func(int) float64 { return 1 },
		"cheap":           func(int) float64 { return 0.2 },
		"full, then less": func(n int) float64 { return map[bool]float64{true: 1, false: 0.2}[n == 1] },
		"growing":         func(n int) float64 { return 0.3 + 0.04*float64(n) },
		"shrinking":       func(n int) float64 { return max(0.1, 1-0.05*float64(n)) },
		"drifting":        func(n int) float64 { return []float64{0.8, 0.9, 1, 1.1, 1.2, 1.1, 1, 0.9}[n%8] },
		"in steps":        func(n int) float64 { return []float64{0.7, 1}[n/20%2] },
	} {
		t.Run(name, func(t *testing.T) {
			costs := func(n int) time.Duration { return time.Duration(cost(n) * second) }
			paid, _, _ := pay(t, 1, loopJob(0.1, 8000), 0, costs)
			for i, p := range paid {
				if float64(p.spent) > 0.1*float64(p.ran) {
					t.Errorf("after checkpoint %d of %v the job has paid %.2f %%", i+1, p.cost, 100*float64(p.spent)/float64(p.ran))
				}
			}
			checkPaid(t, paid)
		})
	}
}

// checkPaid checks what a long run under a budget of 10 % has paid in the end.
func checkPaid(t *testing.T, paid []payment) {
	t.Helper()
	if len(paid) < 10 {
		t.Fatalf("%d checkpoints", len(paid))
	}
	last := paid[len(paid)-1]
	if share := float64(last.spent) / float64(last.ran); share < 0.08 || share > 0.1 {
		t.Errorf("%.2f %% paid by %d checkpoints", 100*share, len(paid))
	}
}

// TestSlowCheckpoint: one that takes 20 times as long as the others overdraws the
// budget. No other is taken until it is even, and then they come as often as before.
func TestSlowCheckpoint(t *testing.T) {
	all := []int{1, 2, 3, 4, 10}
	if !testkit.Nightly() {
		all = []int{1, 2, 10}
	}
	for _, slow := range all {
		t.Run(fmt.Sprint(slow), func(t *testing.T) {
			iterations := 16000
			if slow == 1 {
				iterations = 40000 // it waits until it could pay for a second one like it
			}
			paid, plans, _ := pay(t, 2, loopJob(0.1, iterations), 0, func(n int) time.Duration {
				if n == slow {
					return 20 * time.Second
				}
				return time.Second
			})
			checkPaid(t, paid)
			for i, p := range paid {
				if i+1 != slow && float64(p.spent) > 0.1*float64(p.ran) {
					t.Errorf("after checkpoint %d the job has paid %.2f %%", i+1, 100*float64(p.spent)/float64(p.ran))
				}
			}
			gap := (paid[len(paid)-1].ran - paid[len(paid)-6].ran) / 5
			if gap < 9*time.Second || gap > 12*time.Second {
				t.Errorf("in the end a checkpoint comes every %v of computing", gap)
			}
			if told := plans[len(plans)-1].Interval; told < 9*time.Second || told > 12*time.Second {
				t.Errorf("the interval announced last is %v", told)
			}
		})
	}
}

// TestPredictedCost: before anything was measured the plan follows from the prediction,
// whose error the first checkpoint tells.
func TestPredictedCost(t *testing.T) {
	cfg := loopJob(0.1, 8000)
	cfg.Cost = Cost{First: 2 * time.Second, FirstHigh: 2500 * time.Millisecond, Next: 500 * time.Millisecond}
	paid, plans, _ := pay(t, 3, cfg, 0, func(n int) time.Duration {
		if n == 1 {
			return 4 * time.Second // twice what is predicted
		}
		return time.Second
	})
	if p := plans[0]; p.Interval != 5*time.Second || p.Cost != 500*time.Millisecond || p.Wait != 25*time.Second || p.Measured != 0 {
		t.Errorf("the plan at the start is %+v", p)
	}
	if p := plans[1]; p.Measured != 1 || p.Cost < time.Second || p.Cost > 1100*time.Millisecond {
		t.Errorf("after the first checkpoint the plan is %+v", p)
	}
	if ran := paid[0].ran; ran < 25*time.Second || ran > 26*time.Second {
		t.Errorf("the first checkpoint comes after %v", ran)
	}
	for i, p := range paid[1:] {
		if float64(p.spent) > 0.1*float64(p.ran) {
			t.Errorf("after checkpoint %d the job has paid %.2f %%", i+2, 100*float64(p.spent)/float64(p.ran))
		}
	}
	checkPaid(t, paid)
}

// TestApart: what was saved is not spent on checkpoints close to each other.
func TestApart(t *testing.T) {
	cfg := loopJob(0.1, 8000)
	cfg.Cost.First = 5 * time.Second // ten times too much
	paid, _, _ := pay(t, 4, cfg, 0, func(int) time.Duration { return 500 * time.Millisecond })
	for i := range paid[1:] {
		if gap := paid[i+1].ran - paid[i].ran; gap < 2*time.Second {
			t.Errorf("checkpoints %d and %d are %v apart", i+1, i+2, gap)
		}
	}
	checkPaid(t, paid)
}

// TestPlansAreFew: a plan is announced when the interval changes, and at no other time.
func TestPlansAreFew(t *testing.T) {
	paid, plans, _ := pay(t, 5, loopJob(0.1, 8000), 0, func(n int) time.Duration {
		if n > 10 {
			return 2 * time.Second
		}
		return time.Second
	})
	if len(paid) < 10 || len(plans) < 2 || len(plans) > 4 {
		t.Fatalf("%d plans are announced for %d checkpoints: %+v", len(plans), len(paid), plans)
	}
	if p := plans[0].Interval; p != 10*time.Second {
		t.Errorf("the first interval is %v", p)
	}
	if p := plans[len(plans)-1].Interval; p < 20*time.Second || p > 22*time.Second {
		t.Errorf("the last interval is %v", p)
	}
}

// TestAbortedCost: what an aborted checkpoint has cost is paid, too, and tells nothing
// about the next one.
func TestAbortedCost(t *testing.T) {
	s := newScript(t, Schedule{Overhead: 0.1})
	s.co.cfg.Async = false
	s.at(15).all(Holding{Number: 1, Iter: 4})
	s.write(1, 4)
	s.want("propose 1", "stop-at 1", "drain 1", "write 1")
	s.at(18).rank(0, WriteFailed{Number: 1, Text: "i/o"})
	s.all(Aborted{Number: 1})
	s.want("lost 1", "abort 1", "discard 1", "resume 2")
	// 3 s are paid, 1.5 s are to be saved: after 45 s of computing.
	s.at(47).want()
	s.at(48).want("propose 2")
}

// TestBehindCost: with asynchronous checkpoints the job pays for what they slow it down,
// too: the whole run takes no longer than the budget allows, within the error of the
// pace.
func TestBehindCost(t *testing.T) {
	seeds := uint64(1)
	if testkit.Nightly() {
		seeds = 3
	}
	for seed := range seeds {
		cfg := Config{Iterations: 16000, Async: true}
		_, _, alone := pay(t, seed, cfg, 2, nil)
		cfg.Schedule.Overhead, cfg.Cost.First = 0.1, time.Second
		paid, _, took := pay(t, seed, cfg, 2, func(int) time.Duration { return 4 * time.Second })
		share := float64(took)/float64(alone) - 1
		stood := float64(paid[len(paid)-1].spent) / float64(alone)
		if len(paid) < 10 || share > 0.105 || share < 0.08 || stood > 0.1*share {
			t.Errorf("seed %d: %d checkpoints took %.2f %%, and the job stood still for %.2f %%", seed, len(paid), 100*share, 100*stood)
		}
	}
}

// TestHeldIsNoCost: a checkpoint that other jobs held up by eight of its ten seconds tells
// that the next one costs two. The ten seconds are spent.
func TestHeldIsNoCost(t *testing.T) {
	for _, held := range []time.Duration{0, 8 * time.Second} {
		co := newLone(Config{Ranks: ranks(2), Iterations: 100, Schedule: Schedule{Overhead: 0.1}, Cost: Cost{First: time.Second},
			Limits: Limits{Silence: time.Hour, Phase: time.Hour, Restarts: 5}})
		s := &script{t: t, co: co}
		s.take(s.co.Begin(0))
		s.all(Ready{})
		s.at(15).all(Holding{Number: 1, Iter: 4})
		s.all(Stopped{Number: 1, Iter: 4})
		s.all(Drained{Number: 1})
		s.at(25).rank(0, Written{Number: 1, Held: uint64(held)})
		s.rank(1, Written{Number: 1})
		s.event(Committed{Number: 1})
		if want := 10*time.Second - held; s.co.budget.expected() != want || s.co.budget.spent != 10*time.Second {
			t.Errorf("held up for %v: the next costs %v, want %v; %v are spent, want 10s", held, s.co.budget.expected(), want, s.co.budget.spent)
		}
	}
}
