package interval_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"

	"ckpt/interval"
)

// simulatedHierarchies are machines of two and three levels, with failures that are rare
// and frequent, and with drains that end in the first interval and in later ones.
func simulatedHierarchies() []interval.Hierarchy {
	level := func(name string, cost, restart time.Duration, share float64) interval.StorageLevel {
		return interval.StorageLevel{Name: name, Cost: cost, Restart: restart, Share: share}
	}
	var list []interval.Hierarchy
	for _, mtbf := range []time.Duration{24 * time.Hour, time.Hour} {
		two := interval.Hierarchy{MTBF: mtbf, Downtime: time.Minute, Levels: []interval.StorageLevel{
			level("local", 5*time.Second, 10*time.Second, 0.85), level("store", 2*time.Minute, 5*time.Minute, 1),
		}}
		three := interval.Hierarchy{MTBF: mtbf, Levels: []interval.StorageLevel{
			level("local", 5*time.Second, 10*time.Second, 0.6), level("partner", 15*time.Second, time.Minute, 0.9), level("store", 2*time.Minute, 20*time.Minute, 1),
		}}
		list = append(list, two, three)
		for _, h := range []interval.Hierarchy{two, three} {
			for _, drain := range []time.Duration{time.Minute, 10 * time.Minute} {
				last := len(h.Levels) - 1
				behind := interval.Hierarchy{MTBF: h.MTBF, Downtime: h.Downtime, Levels: append([]interval.StorageLevel{}, h.Levels...)}
				behind.Levels[last].Cost, behind.Levels[last].Drain = time.Second, drain
				list = append(list, behind)
			}
		}
	}
	return list
}

// TestLevelSimulationAgrees with the expectation, which is exact for exponential
// failures.
func TestLevelSimulationAgrees(t *testing.T) {
	var a agreement
	for i, h := range simulatedHierarchies() {
		o, err := h.Optimum()
		if err != nil {
			t.Fatal(err)
		}
		other := interval.Pattern{Interval: 2 * o.Exact.Interval, Every: append([]int{}, o.Exact.Every...)}
		other.Every[0] += 2
		for _, p := range []interval.Pattern{o.Exact, other} {
			for seed := range uint64(3) {
				s := interval.LevelSimulation{Hierarchy: h, Work: 30 * time.Hour, Pattern: p, Shape: 1, Runs: 1000, Seed: seed}
				e, err := s.Run(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				want, err := h.Expected(s.Work, p)
				if err != nil {
					t.Fatal(err)
				}
				a.add(t, fmt.Sprintf("hierarchy %d with %+v, seed %d", i, p, seed), e, want)
			}
		}
	}
	a.check(t)
}

// A plainRun replays a run step by step: each failure looks for the newest checkpoint
// that it leaves. A drain goes on while the job restarts and repeats work, and slows it
// down evenly.
type plainRun struct {
	*interval.LevelSimulation
	rng           *rand.Rand
	between       distuv.Weibull
	span          []int
	now, next     float64 // time, and that to the next failure
	j             int     // intervals done
	stored, older int     // newest checkpoint in the store, and the one before
	safeAt        float64 // when the newest is safe
}

func newPlainRun(s *interval.LevelSimulation, rng *rand.Rand) *plainRun {
	r := &plainRun{LevelSimulation: s, rng: rng, span: []int{1}}
	for _, n := range s.Pattern.Every {
		r.span = append(r.span, r.span[len(r.span)-1]*n)
	}
	r.between = distuv.Weibull{K: s.Shape, Lambda: s.Hierarchy.MTBF.Seconds() / math.Gamma(1+1/s.Shape), Src: rng}
	return r
}

func (r *plainRun) run() float64 {
	w := r.Pattern.Interval.Seconds()
	segments := int(math.Ceil(r.Work.Seconds()/w-1e-9)) - 1
	for r.next = r.between.Rand(); ; {
		need, level := r.slowed(w), 0
		if r.j == segments {
			need, level = r.slowed(r.Work.Seconds()-float64(segments)*w), -1
		}
		for l := range r.Hierarchy.Levels {
			if level >= 0 && (r.j+1)%r.span[l] == 0 {
				level = l
				if r.Hierarchy.Levels[l].Drain == 0 {
					need += r.Hierarchy.Levels[l].Cost.Seconds()
				}
			}
		}
		if r.next < need {
			r.now += r.next
			r.fail()
			continue
		}
		r.now, r.next = r.now+need, r.next-need
		if level < 0 {
			return r.now
		}
		if r.j++; level == len(r.span)-1 {
			r.older, r.stored, r.safeAt = r.stored, r.j, r.now+r.Hierarchy.Levels[level].Drain.Seconds()
		}
	}
}

// slowed is how long work takes that a drain may slow down.
func (r *plainRun) slowed(work float64) float64 {
	left := r.safeAt - r.now
	if left <= 0 {
		return work
	}
	store := &r.Hierarchy.Levels[len(r.span)-1]
	speed := 1 - store.Cost.Seconds()/store.Drain.Seconds()
	if work > left*speed {
		return work + left*(1-speed)
	}
	return work / speed
}

func (r *plainRun) fail() {
	level := 0
	for restarted := false; !restarted; {
		x, l := r.rng.Float64(), 0
		for x >= r.Hierarchy.Levels[l].Share {
			l++
		}
		level = max(level, l)
		struck := r.now
		r.next = r.between.Rand()
		restart := r.Hierarchy.Levels[level].Restart.Seconds()
		r.now += r.Hierarchy.Downtime.Seconds() + min(r.next, restart)
		r.next -= restart
		restarted = r.next >= 0
		if level == len(r.span)-1 && struck < r.safeAt {
			r.stored, r.safeAt = r.older, 0
		}
	}
	r.j = max(r.stored, r.j/r.span[level]*r.span[level])
	if level == len(r.span)-1 {
		r.j = r.stored
	}
}

// TestLevelSimulationIsPlain: replays that leap over what nothing fails in have the mean
// of replays step by step, with failures that cluster, too.
func TestLevelSimulationIsPlain(t *testing.T) {
	for i, h := range simulatedHierarchies() {
		if h.Levels[len(h.Levels)-1].Drain != 0 {
			continue
		}
		for _, shape := range []float64{1, 0.7} {
			o, err := h.Optimum()
			if err != nil {
				t.Fatal(err)
			}
			s := interval.LevelSimulation{Hierarchy: h, Work: 20 * time.Hour, Pattern: o.Exact, Shape: shape, Runs: 2000, Seed: 5}
			compareMeans(t, fmt.Sprintf("hierarchy %d, shape %v", i, shape), &s, 0)
		}
	}
}

// TestDrainBehind: of a drain that goes on while the job restarts, and slows it down
// evenly, the model is a little pessimistic: by an eighth of the ratio of drain to MTBF
// where the job loses a fifth of its speed, and by less where it hardly loses any.
func TestDrainBehind(t *testing.T) {
	for i, h := range simulatedHierarchies() {
		store := &h.Levels[len(h.Levels)-1]
		if store.Drain == 0 {
			continue
		}
		for _, store.Cost = range []time.Duration{store.Cost, store.Drain / 5} {
			o, err := h.Optimum()
			if err != nil {
				t.Fatal(err)
			}
			s := interval.LevelSimulation{Hierarchy: h, Work: 20 * time.Hour, Pattern: o.Exact, Shape: 1, Runs: 4000, Seed: 6}
			compareMeans(t, fmt.Sprintf("hierarchy %d, drains cost %v", i, store.Cost), &s, store.Drain.Seconds()/h.MTBF.Seconds()/8)
		}
	}
}

// compareMeans compares a simulation with replays step by step.
func compareMeans(t *testing.T, name string, s *interval.LevelSimulation, pessimism float64) {
	t.Helper()
	e, err := s.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(17, 4))
	plain := make([]float64, s.Runs)
	for i := range plain {
		plain[i] = newPlainRun(s, rng).run()
	}
	mean, deviation := stat.MeanStdDev(plain, nil)
	errorOf := math.Hypot(deviation, e.StdDev.Seconds()) / math.Sqrt(float64(s.Runs))
	if off := e.Mean.Seconds() - mean; off < -5*errorOf || off > 5*errorOf+pessimism*mean {
		t.Errorf("%s: mean %v, step by step %v s, %.1f standard errors and %.2f %% off", name, e.Mean, mean, off/errorOf, 100*off/mean)
	}
}

// TestLevelPlanIsBest: with failures that cluster, too, a run with the planned pattern
// takes at most 2 % longer than with the best that brute force finds.
func TestLevelPlanIsBest(t *testing.T) {
	for i, h := range simulatedHierarchies()[:2] {
		o, err := h.Optimum()
		if err != nil {
			t.Fatal(err)
		}
		for _, shape := range []float64{1, 0.7} {
			mean := func(p interval.Pattern) float64 {
				s := interval.LevelSimulation{Hierarchy: h, Work: 100 * time.Hour, Pattern: p, Shape: shape, Runs: 2000, Seed: 7, Steady: true}
				e, err := s.Run(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				return e.Mean.Seconds()
			}
			best := math.Inf(1)
			for k := -3; k <= 3; k++ {
				for m := -3; m <= 3; m++ {
					p := interval.Pattern{Interval: seconds(o.Exact.Interval.Seconds() * math.Pow(1.5, float64(k)))}
					for _, n := range o.Exact.Every {
						p.Every = append(p.Every, max(1, int(float64(n)*math.Pow(1.5, float64(m)))))
					}
					best = min(best, mean(p))
				}
			}
			if planned := mean(o.Exact); planned > 1.02*best {
				t.Errorf("hierarchy %d, shape %v: %v s as planned, %v s at best", i, shape, planned, best)
			}
		}
	}
}

func TestLevelSimulationRefuses(t *testing.T) {
	h := simulatedHierarchies()[0]
	good := interval.LevelSimulation{Hierarchy: h, Work: time.Hour, Pattern: interval.Pattern{Interval: time.Hour, Every: []int{2}}, Shape: 1, Runs: 10}
	for quantity, change := range map[string]func(*interval.LevelSimulation){
		"shape":            func(s *interval.LevelSimulation) { s.Shape = 0 },
		"number of runs":   func(s *interval.LevelSimulation) { s.Runs = 1 },
		"interval":         func(s *interval.LevelSimulation) { s.Pattern.Interval = 0 },
		"application time": func(s *interval.LevelSimulation) { s.Work = 0 },
	} {
		s := good
		change(&s)
		_, err := s.Run(t.Context())
		refused(t, err, quantity)
	}
	many := good
	many.Runs, many.Work = 10_000_000, 100000*time.Hour
	_, err := many.Run(t.Context())
	refused(t, err, "number of runs")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := good.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want canceled", err)
	}
}
