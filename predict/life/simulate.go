package life

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Runs says how many lives of each job are simulated, and from which seed.
type Runs struct {
	Count int
	Seed  uint64
}

// A Quantity is what lives tell of a number: its mean with the 95 % interval of the mean, and the
// ends between which 90 of 100 lives lie.
type Quantity struct {
	Mean float64 `json:"mean"`
	Low  float64 `json:"mean_low"`
	High float64 `json:"mean_high"`
	P5   float64 `json:"p5"`
	P50  float64 `json:"p50"`
	P95  float64 `json:"p95"`

	Deviation, Min, Max float64 `json:"-"` // of a life
}

// Lives sums the lives of one job up.
type Lives struct {
	End, ETTR, Deepest  Quantity
	By                  [causes]float64 // share of the wall time, on average
	Failures, LostNodes float64         // of a life, on average
	Restarts, FromLast  float64
	Checkpoints, Drains float64
	// More is how much longer a life takes than the best job's with the same failures, as a share
	// of the mean end of the best. Best says that no job is faster.
	More Quantity
	Best bool
}

// A Simulation is of some jobs.
type Simulation struct {
	Lives []Lives // of the jobs, in their order
	// Sure says that every other job takes longer than the best with 95 %.
	Sure bool
}

// Simulate has each job live so often, all with the same failures.
func Simulate(ctx context.Context, jobs []Job, m Machine, runs Runs) (*Simulation, error) {
	if runs.Count < 2 || runs.Count > maxRuns {
		return nil, &RangeError{"number of runs", float64(runs.Count), 2, maxRuns}
	}
	if err := m.check(); err != nil {
		return nil, err
	}
	all := make([][]Life, len(jobs))
	for i := range jobs {
		if err := jobs[i].check(); err != nil {
			return nil, err
		}
		if j := &jobs[i]; m.StoreMTBF > 0 && j.Groups > 1 && j.Levels[0].OnNodes {
			return nil, errRoom
		}
		all[i] = make([]Life, runs.Count)
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for n := range runs.Count {
		g.Go(func() error {
			var t *tape
			for i := range jobs {
				if err := gctx.Err(); err != nil {
					return err
				}
				if j := &jobs[i]; t == nil || t.nodes != j.Nodes {
					t = &tape{of: m.source(j.Nodes, failuresOf(runs.Seed, n)), nodes: j.Nodes}
				}
				l, err := jobs[i].live(&m, &player{tape: t}, outagesOf(runs.Seed, n), nil)
				if stuck := new(StuckError); errors.As(err, &stuck) {
					stuck.Job = i
				}
				if err != nil {
					return err
				}
				all[i][n] = *l
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return compare(all), nil
}

// errRoom: which groups still have a slot on their nodes while the store is away is not simulated.
var errRoom = errors.New("a store that is away is simulated for one group, or for checkpoints that go straight to it")

// live is one life. Outages of the storage are drawn by rng.
func (j *Job) live(m *Machine, src source, rng *rand.Rand, watch func(Moment)) (*Life, error) {
	if j.Bare && j.Groups > 1 {
		return j.bare(m, src, rng, watch)
	}
	if j.Groups > 1 {
		c := newCrowd(j, m, src, rng)
		c.watch = watch
		return c.run()
	}
	r := newRun(j, m, src, rng)
	r.watch = watch
	return r.run()
}

// compare sums lives up, and compares the jobs life by life.
func compare(all [][]Life) *Simulation {
	s := &Simulation{Sure: true}
	best := 0
	for i, lives := range all {
		s.Lives = append(s.Lives, livesOf(lives))
		if s.Lives[i].End.Mean < s.Lives[best].End.Mean {
			best = i
		}
	}
	s.Lives[best].Best = true
	for i := range all {
		more := make([]float64, len(all[i]))
		for n := range more {
			more[n] = (all[i][n].End - all[best][n].End) / s.Lives[best].End.Mean
		}
		s.Lives[i].More = quantity(more)
		s.Sure = s.Sure && (i == best || s.Lives[i].More.Low > 0)
	}
	return s
}

func livesOf(list []Life) (l Lives) {
	n := float64(len(list))
	mean := func(of func(*Life) float64) float64 {
		sum := 0.0
		for i := range list {
			sum += of(&list[i]) / n
		}
		return sum
	}
	each := func(of func(*Life) float64) Quantity {
		values := make([]float64, len(list))
		for i := range list {
			values[i] = of(&list[i])
		}
		return quantity(values)
	}
	l.End = each(func(l *Life) float64 { return l.End })
	l.ETTR, l.Deepest = each((*Life).ETTR), each(func(l *Life) float64 { return l.Deepest })
	for c := range causes {
		l.By[c] = mean(func(l *Life) float64 { return l.By[c] }) / l.End.Mean
	}
	l.Failures, l.LostNodes = mean(func(l *Life) float64 { return float64(l.Failures) }), mean(func(l *Life) float64 { return float64(l.LostNodes) })
	l.Restarts, l.FromLast = mean(func(l *Life) float64 { return float64(l.Restarts) }), mean(func(l *Life) float64 { return float64(l.FromLast) })
	l.Checkpoints, l.Drains = mean(func(l *Life) float64 { return float64(l.Checkpoints) }), mean(func(l *Life) float64 { return float64(l.Drained) })
	return l
}

// quantity sorts values and sums them up.
func quantity(values []float64) Quantity {
	mean, deviation := stat.MeanStdDev(values, nil)
	n := float64(len(values))
	half := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: n - 1}.Quantile(0.975) * deviation / math.Sqrt(n)
	slices.Sort(values)
	at := func(p float64) float64 { return stat.Quantile(p, stat.LinInterp, values, nil) }
	return Quantity{mean, mean - half, mean + half, at(0.05), at(0.5), at(0.95), deviation, values[0], values[len(values)-1]}
}
