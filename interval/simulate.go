package interval

import (
	"context"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Simulation replays runs of a job that fails at random.
//
// Times between failures are drawn from a Weibull distribution, from the end of one
// downtime to the next failure. Their mean is the MTBF of the model for any shape.
// Shape 1 is the exponential distribution, for which [Model.Expected] is exact.
// Failures of large machines come in bursts, shape 0.7 to 0.8 (Schroeder, Gibson, DSN
// 2006).
type Simulation struct {
	Model    Model
	Work     time.Duration // of a run, without checkpoints and failures
	Interval time.Duration
	Shape    float64 // of the Weibull distribution, 0.2 to 10
	Runs     int     // 2 to 10 million
	Seed     uint64
	// Steady begins runs on a machine that has been in use for long. Otherwise they
	// begin right after a failure, when more failures are likely with a shape below 1.
	Steady bool
}

// Estimate is the result of a simulation.
type Estimate struct {
	Mean      time.Duration // of the total time
	Low, High time.Duration // 95 % confidence interval of the mean, by Student's t
	StdDev    time.Duration // of the total time of one run
	Min, Max  time.Duration // over the runs
	P5, P95   time.Duration // of one run: 90 of 100 runs take a time between them
	Failures  float64       // per run, on average
	Waste     float64       // 1 − Work/Mean
	Runs      int
	// Expected is the total time of the same runs if their failures are exponential.
	Expected time.Duration
}

const (
	maxRuns     = 10_000_000
	maxFailures = 5_000_000     // per run
	maxEvents   = 2_000_000_000 // failures of all runs, some minutes
	maxSegments = 1e15          // counted in float64
	chunkRuns   = 256
)

// Run replays the runs, on all processors. The estimate depends on the
// arguments only: each run has a random stream of its own, and results are
// summed in the order of the runs.
func (s *Simulation) Run(ctx context.Context) (*Estimate, error) {
	expected, err := s.check()
	if err != nil {
		return nil, err
	}
	sum, err := repeat(ctx, s.replay(), s.Runs, s.Seed)
	if err != nil {
		return nil, err
	}
	return sum.estimate(s.Work, expected, s.Runs)
}

// A runner replays one run and returns its time and its number of failures, which is
// maxFailures+1 if it was stopped.
type runner interface {
	run(rng *rand.Rand) (total float64, failures int)
}

// repeat replays runs on all processors, each with a random stream of its own, and sums
// them up in their order.
func repeat(ctx context.Context, r runner, runs int, seed uint64) (*tally, error) {
	chunks := make([]tally, (runs+chunkRuns-1)/chunkRuns)
	totals := make([]float64, runs)
	var next atomic.Int64
	var failed atomic.Bool
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(chunks)) {
		workers.Go(func() {
			for !failed.Load() {
				i := int(next.Add(1)) - 1
				if i >= len(chunks) {
					return
				}
				from := i * chunkRuns
				if !chunk(ctx, r, seed, from, totals[from:min(from+chunkRuns, runs)], &chunks[i]) {
					failed.Store(true)
				}
			}
		})
	}
	workers.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if failed.Load() {
		return nil, outOfRange("simulated run", "over 5 million failures", "the job makes no progress worth the name",
			"give a shorter interval or work, or a longer MTBF")
	}
	var sum tally
	for i := range chunks {
		sum.merge(&chunks[i])
	}
	slices.Sort(totals)
	sum.p5, sum.p95 = stat.Quantile(0.05, stat.LinInterp, totals, nil), stat.Quantile(0.95, stat.LinInterp, totals, nil)
	return &sum, nil
}

// check returns the expected time of the runs.
func (s *Simulation) check() (expected time.Duration, err error) {
	if err := checkRuns(s.Shape, s.Runs); err != nil {
		return 0, err
	}
	if expected, err = s.Model.Expected(s.Work, s.Interval); err != nil {
		return 0, err
	}
	r := s.Model.rates()
	if full, _, _ := r.divide(s.Work.Seconds(), s.Interval.Seconds()); full > maxSegments {
		return 0, outOfRange("interval", s.Interval, "has over 10^15 checkpoints in the run", "give a longer interval")
	}
	return expected, checkEvents(expected, s.Model.MTBF, s.Runs)
}

func checkRuns(shape float64, runs int) error {
	switch {
	case !(shape >= 0.2 && shape <= 10):
		return outOfRange("shape", shape, "must be 0.2 to 10", "give the shape of the Weibull distribution: 1 is exponential, 0.7 that of large machines")
	case runs < 2 || runs > maxRuns:
		return outOfRange("number of runs", runs, "must be 2 to 10000000", "1000 runs give the mean within some percent, 100000 within some tenths")
	}
	return nil
}

// checkEvents refuses simulations that would take hours.
func checkEvents(expected, mtbf time.Duration, runs int) error {
	if failures := expected.Seconds() / mtbf.Seconds(); failures*float64(runs) > maxEvents {
		return outOfRange("number of runs", runs, "would take hours: every run has many failures", "simulate fewer runs, or less work")
	}
	return nil
}

// weibull are the times between failures.
type weibull struct {
	scale, power float64
	steady       bool
}

func newWeibull(mtbf, shape float64, steady bool) weibull {
	return weibull{scale: mtbf / math.Gamma(1+1/shape), power: 1 / shape, steady: steady}
}

// replay is a simulation in seconds.
type replay struct {
	rates
	weibull
	full, length, rest float64 // segments; see rates.divide
	checkpoint         float64
}

func (s *Simulation) replay() *replay {
	r := &replay{rates: s.Model.rates()}
	r.weibull = newWeibull(r.mtbf, s.Shape, s.Steady)
	r.full, r.length, r.rest = r.divide(s.Work.Seconds(), s.Interval.Seconds())
	r.checkpoint = r.cost + r.growth*r.length
	return r
}

// draw returns the time to the next failure.
func (r *weibull) draw(rng *rand.Rand) float64 {
	x := rng.ExpFloat64()
	if r.power != 1 {
		x = math.Pow(x, r.power)
	}
	return x * r.scale
}

// first returns the time from the start of a run to its first failure. On a machine in
// use for long, that is the residual life: its density is the probability to live that
// long over the mean, so that (x/scale)^shape has the gamma distribution of 1/shape.
func (r *weibull) first(rng *rand.Rand) float64 {
	if !r.steady || r.power == 1 {
		return r.draw(rng)
	}
	return r.scale * math.Pow(distuv.Gamma{Alpha: r.power, Beta: 1, Src: rng}.Rand(), r.power)
}

// run replays one run.
func (r *replay) run(rng *rand.Rand) (total float64, failures int) {
	quiet := r.first(rng) // time to the next failure
	period := r.length + r.checkpoint
	for done := 0.0; done <= r.full; done++ {
		if ahead := min(r.full-done, math.Floor(quiet/period)); ahead > 0 {
			done += ahead
			total += ahead * period
			quiet -= ahead * period
		}
		w, c := r.length, r.checkpoint
		if done == r.full {
			w, c = r.rest, 0
		}
		frontier := 0.0 // how far the segment has been computed once
		for {
			again := frontier / r.replay
			need := again + (w - frontier) + c
			if quiet >= need {
				total += need
				quiet -= need
				break
			}
			total += quiet
			frontier = min(w, frontier+max(0, quiet-again))
			// Failures strike during the restart, too, but not during downtime.
			for quiet = -1; quiet < 0; {
				if failures++; failures > maxFailures {
					return total, failures
				}
				next := r.draw(rng)
				total += r.down + min(next, r.restart)
				quiet = next - r.restart
			}
		}
	}
	return total, failures
}

// chunk replays some runs, the first of which has a number. It returns false if it stopped.
func chunk(ctx context.Context, r runner, seed uint64, from int, totals []float64, t *tally) bool {
	var source rand.PCG
	rng := rand.New(&source)
	for i := range totals {
		if ctx.Err() != nil {
			return false
		}
		source.Seed(seed, uint64(from+i))
		total, failures := r.run(rng)
		totals[i] = total
		if failures > maxFailures {
			return false
		}
		t.merge(&tally{n: 1, mean: total, min: total, max: total, failures: float64(failures)})
	}
	return true
}

// tally sums runs up.
type tally struct {
	n, mean, squares   float64 // squares of the differences from the mean
	min, max, failures float64
	p5, p95            float64 // set once all runs are there
}

// merge adds u to t by the pairwise formula of Chan, Golub, LeVeque (1979),
// which does not cancel.
func (t *tally) merge(u *tally) {
	if t.n == 0 {
		*t = *u
		return
	}
	n, delta := t.n+u.n, u.mean-t.mean
	t.mean += delta * u.n / n
	t.squares += u.squares + delta*delta*t.n*u.n/n
	t.n = n
	t.min, t.max = min(t.min, u.min), max(t.max, u.max)
	t.failures += u.failures
}

func (t *tally) estimate(work, expected time.Duration, runs int) (*Estimate, error) {
	deviation := math.Sqrt(t.squares / (t.n - 1))
	half := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: t.n - 1}.Quantile(0.975) * deviation / math.Sqrt(t.n)
	e := &Estimate{Failures: t.failures / t.n, Waste: max(0, 1-work.Seconds()/t.mean), Runs: runs, Expected: expected}
	for _, v := range []struct {
		to      *time.Duration
		seconds float64
	}{{&e.Mean, t.mean}, {&e.Low, t.mean - half}, {&e.High, t.mean + half}, {&e.StdDev, deviation}, {&e.Min, t.min}, {&e.Max, t.max},
		{&e.P5, t.p5}, {&e.P95, t.p95}} {
		var err error
		if *v.to, err = duration("simulated time", v.seconds); err != nil {
			return nil, err
		}
	}
	return e, nil
}
