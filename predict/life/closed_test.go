package life_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"ckpt/internal/testkit"
	"ckpt/interval"
	"ckpt/predict/life"
)

// A closed form is a job with a known expected end.
type closed struct {
	name string
	job  life.Job
	m    life.Machine
	want float64
}

// TestClosedForms: where an exact expected time is known, lives have it as their mean, 10,000 within
// 1 %: Daly's for coordinated checkpoints, that of uncoordinated ones with logs (Hérault, Robert
// 2015; Bosilca et al. 2013), and that of several levels (Moody et al. 2010). Checkpoints behind the
// job, decided by the ledger of the nodes, have two more: where no failure loses a node, Daly's;
// where each does, that of checkpoints in flight.
func TestClosedForms(t *testing.T) {
	settings, runs := 5, 400
	if testkit.Nightly() {
		settings, runs = 200, 10_000
	}
	for seed := range settings {
		rng := rand.New(rand.NewPCG(uint64(seed), 43))
		form := []func(*testing.T, *rand.Rand) closed{daly, logs, moody, crashes, lostNodes}[seed%5]
		c := form(t, rng)
		for c.want > 20*c.job.Work { // hardly any progress: a life has too many failures
			c = form(t, rng)
		}
		s, err := life.Simulate(t.Context(), []life.Job{c.job}, c.m, life.Runs{Count: runs, Seed: uint64(seed)})
		if err != nil {
			t.Fatalf("%d %s: %v", seed, c.name, err)
		}
		end := &s.Lives[0].End
		t.Logf("%d %s: %.0f s, expected %.0f: %+.2f %%, %.1f failures", seed, c.name, end.Mean, c.want, 100*(end.Mean/c.want-1), s.Lives[0].Failures)
		// Twice the 95 % interval of the mean; at night 1 % as well.
		off := math.Abs(end.Mean - c.want)
		if off > 2*(end.High-end.Mean) || runs == 10_000 && off > 0.01*c.want {
			t.Errorf("%d %s: %.6g s, expected %.6g; %+v, %+v", seed, c.name, end.Mean, c.want, c.job, c.m)
		}
		sum := 0.0
		for _, share := range s.Lives[0].By {
			sum += share
		}
		if math.Abs(sum-1) > 1e-6 {
			t.Errorf("%d %s: causes add up to %g of the time", seed, c.name, sum)
		}
	}
}

// between draws a number, each power of ten as likely as any other.
func between(rng *rand.Rand, low, high float64) float64 {
	return low * math.Pow(high/low, rng.Float64())
}

func seconds(s float64) time.Duration { return time.Duration(math.Round(s * 1e9)) }

// drawn is a machine and a job of one level; its interval is from half to twice the best.
func drawn(t *testing.T, rng *rand.Rand, m *interval.Model) (life.Job, life.Machine) {
	t.Helper()
	mtbf := between(rng, 1000, 100_000)
	m.MTBF, m.Cost, m.Restart = seconds(mtbf), seconds(mtbf*between(rng, 0.002, 0.2)), seconds(mtbf*between(rng, 0.001, 0.3))
	if rng.IntN(2) == 0 {
		m.Downtime = seconds(mtbf * between(rng, 0.001, 0.5))
	}
	best, err := m.Optimum()
	if err != nil {
		t.Fatal(err)
	}
	count := 1 + rng.IntN(5000)
	j := life.Job{Work: mtbf * between(rng, 20, 100), Interval: best.Exact.Seconds() * between(rng, 0.5, 2), Nodes: count,
		Levels:   []life.Level{{Name: "store", Cost: m.Cost.Seconds(), Restart: m.Restart.Seconds()}},
		Slowdown: m.Logging.Slowdown * m.Logging.Share, Growth: m.Logging.Growth * m.Logging.Share, Replay: m.Logging.Replay}
	return j, life.Machine{NodeMTBF: mtbf * float64(count), Detect: m.Downtime.Seconds(), Spares: -1, Lost: rng.Float64()}
}

func ofModel(t *testing.T, name string, rng *rand.Rand, m interval.Model) closed {
	t.Helper()
	j, machine := drawn(t, rng, &m)
	want, err := m.Expected(seconds(j.Work), seconds(j.Interval))
	if err != nil {
		t.Fatal(err)
	}
	return closed{name, j, machine, want.Seconds()}
}

func daly(t *testing.T, rng *rand.Rand) closed {
	return ofModel(t, "coordinated", rng, interval.Model{})
}

func logs(t *testing.T, rng *rand.Rand) closed {
	return ofModel(t, "with logs", rng, interval.Model{Mode: interval.Uncoordinated,
		Logging: interval.Logging{Slowdown: 0.1 * rng.Float64(), Share: 0.1 + 0.9*rng.Float64(), Growth: 0.1 * rng.Float64(), Replay: 1 + 2*rng.Float64()}})
}

func moody(t *testing.T, rng *rand.Rand) closed {
	var m interval.Model
	j, machine := drawn(t, rng, &m)
	machine.Detect = 0 // the formula has no failures meanwhile, which may need a level further away
	h := interval.Hierarchy{MTBF: m.MTBF}
	p := interval.Pattern{Interval: seconds(j.Interval)}
	j.Levels = nil
	share := 0.0
	for l := range 2 + rng.IntN(2) {
		level := life.Level{Name: string(rune('a' + l)), Cost: m.Cost.Seconds() * (0.2 + rng.Float64()), Restart: m.Restart.Seconds() * (0.2 + rng.Float64()), Every: 1}
		if share += (1 - share) * (0.3 + 0.6*rng.Float64()); l > 0 {
			level.Every = 1 + rng.IntN(6)
			p.Every = append(p.Every, level.Every)
		}
		level.Share = share
		j.Levels = append(j.Levels, level)
	}
	j.Levels[len(j.Levels)-1].Share = 1
	for _, l := range j.Levels {
		h.Levels = append(h.Levels, interval.StorageLevel{Name: l.Name, Cost: seconds(l.Cost), Restart: seconds(l.Restart), Share: l.Share})
	}
	want, err := h.Expected(seconds(j.Work), p)
	if err != nil {
		t.Fatal(err)
	}
	return closed{"levels", j, machine, want.Seconds()}
}

// behind has the checkpoints of a job of one level go to the nodes first.
func behind(j *life.Job, drain float64) {
	store := j.Levels[0]
	j.Levels = []life.Level{{Name: "nodes", Cost: store.Cost, Restart: store.Restart, OnNodes: true}, {Name: "store", Restart: store.Restart, Drain: drain}}
}

// crashes leave the nodes what they have, so that the store is of no use.
func crashes(t *testing.T, rng *rand.Rand) closed {
	c := daly(t, rng)
	behind(&c.job, c.job.Interval*between(rng, 0.01, 0.9))
	c.name, c.m.Lost = "behind, crashes", 0
	if rng.IntN(2) == 0 { // copies survive all losses
		c.m.Lost, c.job.Levels[0].Strength = 1, 64
	}
	return c
}

// lostNodes take with them what only the nodes have.
func lostNodes(t *testing.T, rng *rand.Rand) closed {
	var m interval.Model
	j, machine := drawn(t, rng, &m)
	lag := seconds(j.Interval * between(rng, 0.01, 0.9))
	h := interval.InFlight(m, lag, 2)
	behind(&j, lag.Seconds())
	machine.Lost = 1
	want, err := h.Expected(seconds(j.Work), interval.Pattern{Interval: seconds(j.Interval), Every: []int{1}})
	if err != nil {
		t.Fatal(err)
	}
	return closed{"behind, lost nodes", j, machine, want.Seconds()}
}
