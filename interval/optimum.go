// Package interval computes how many checkpoints a run should take, and when.
//
// Two questions have two answers. A user who accepts an overhead asks how many
// checkpoints it pays for: [Budget]. A user who knows how often the machine fails asks
// which interval loses the least time: [Model]. [Simulation] replays runs with random
// failures, to check the second answer and to replace it where no formula holds.
// [Hierarchy] and [LevelSimulation] are the same for several levels of storage.
//
//	b := interval.Budget{Overhead: 0.30, App: app, Checkpoint: ckpt}
//	s, err := b.Schedule() // s.Count checkpoints, one every s.Interval
//
//	m := interval.Model{Cost: 5 * time.Minute, MTBF: 6 * time.Hour, Restart: 10 * time.Minute}
//	o, err := m.Optimum()  // o.Exact; o.Young and o.Daly for comparison
//	total, err := m.Total(24*time.Hour, o.Exact)
//
// # Symbols
//
//	Ts   work: time of the run without checkpoints and failures
//	δ    Cost: time that the application loses to one checkpoint
//	M    MTBF: mean time between failures of the whole job, not of one node
//	R    Restart: time to read a checkpoint back; failures strike then, too
//	D    Downtime: time until the restart begins; no failures strike
//	τ    interval: time from the end of a checkpoint to the begin of the next
//
// # Budget
//
// The rule of León Otero (thesis, UAB 2022, s. 4.1.3; given by its two examples,
// Tables 4.5 and 4.6, not by a formula): the accepted overhead pays for
// n = floor(overhead·Ts/δ) equal intervals of length (1+overhead)·Ts/n, hence
// for n−1 checkpoints, as one at the very end would protect nothing.
//
// # Formulas
//
// docs/INTERVAL.md has Young's, Daly's and the first order's, with their sources.
// Daly's expected total time for exponential failures (FGCS 22, 2006) is exact for whole
// intervals that all end with a checkpoint; with a downtime as in Hérault, Robert
// (Springer 2015):
//
//	T(τ) = (M+D)·e^{R/M}·(e^{(τ+δ)/M} − 1)·Ts/τ
//
// Its exact minimiser, W being Lambert's function; R and D do not move it:
//
//	τ = M·[1 + W(−e^{−1−δ/M})]
//
// # Uncoordinated and semi-coordinated checkpoints
//
// With message logs only the failed process (uncoordinated) or node
// (semi-coordinated) rolls back. The parameters follow Bosilca et al.,
// Unified model for assessing checkpointing protocols at extreme-scale (CCPE
// 2013, doi:10.1002/cpe.3173): logging slows the work down ([Logging.Slowdown], their 1−λ) by the
// share of the messages that are logged, logs lengthen checkpoints by β seconds
// per second of work ([Logging.Growth]), and what is lost is computed again ρ
// times faster, as messages come from logs ([Logging.Replay]). The other
// processes wait meanwhile: the application is tightly coupled. δ is then the
// time that the application loses to one round of checkpoints, R that of
// restarting one process or node. For exponential failures
//
//	T(τ) = (M+D)·e^{R/M}·[(ρ−1)(e^{τ/ρM} − 1) + e^{τ/ρM + (δ+βτ)/M} − 1]·Ts/((1−s)τ)
//
// is exact: a segment whose frontier has come to x costs R + x/ρ to reach it
// again, and integrating over the frontier gives the first term; a checkpoint
// under way is not replayed faster. ρ = 1, β = s = 0 is Daly's. The bracket is
// convex in τ, so that the minimum is unique; it is found by bisection.
//
// # Several levels of storage
//
// A [Hierarchy] has levels 1 to L, the nearest first (local, partner, store). A
// checkpoint of level l costs C_l more than one of level l−1, and a share s_l of the
// failures leaves it usable, s_L = 1: failures that need level l strike with the rate
// λ_l = p_l/M, p_l = s_l − s_{l−1}. After a downtime D the job restarts in R_l from its
// newest checkpoint of level l or further, and has it on all levels up to l again. A
// failure during a restart may need a level further away; otherwise the restart is
// repeated. In a [Pattern] of intervals w every n_l-th checkpoint of level l goes on to
// level l+1, as in SCR (Moody, Bronevetsky, Mohror, de Supinski, Design, modeling, and
// evaluation of a scalable multi-level checkpointing system, SC 2010, whose model is a
// Markov chain of intervals and restarts, too).
//
// The expected time X_l from a failure that needs level l until the job is back where it
// failed is linear in the work S_k that it repeats since its checkpoint of level k. With
// q = e^{−R_l/M} and P the share of the failures that level l survives:
//
//	X_l = [D + (1−q)·M + q·S_l + (1−q)·Σ_{k>l} p_k·X_k] / [1 − (1−q)·P]
//
// so that Σ p_l·X_l = A − M + Σ B_k·S_k with constants A, B_k ≥ 0. An interval that ends
// after t seconds then takes (e^{t/M} − 1)·(A + Σ B_k·S_k), and sums of such times grow
// geometrically. With β_l = Σ_{k≥l} B_k, c_l = C_1 + … + C_l, the expected time from one
// checkpoint of level l to the next, which costs c, is A·κ_l(c):
//
//	κ_1(c) = e^{(w+c)/M} − 1
//	κ_l(c) = {[1 + β_l·κ_{l−1}(c_{l−1})]^{n_{l−1}−1}·[1 + β_l·κ_{l−1}(c)] − 1} / β_l
//
// The time of a pattern is A·κ_L(c_L). That is exact for exponential failures; L = 1 is
// Daly's. It is convex in w, as the sums of products of convex and growing terms are, so
// that the best interval of given counts is unique. The best counts are searched from
// the first order's, downhill in steps that grow longer, then shorter.
//
// A drain copies checkpoints into the last level behind the job, in d seconds. C_L is
// then the time that this slows the job down, counted at its beginning, and a failure
// that needs level L before the drain ends destroys the whole pattern before, too. The
// drain advances with the job: after a failure it repeats what the job repeats. If A·κ_d
// is the expected time of the first d seconds of a pattern, one of a long run takes
//
//	A·κ_L(c_L)·(1 + β_L·κ_d)
//
// which is exact, too: by the equation of the interval in which the drain ends, the
// factor is the same for all intervals before. A drain that does go on during a restart
// wastes less, by at most d/8M of the time if it takes a fifth of the speed, and by less if
// it takes less (TestDrainBehind). The pattern lasts at least d, and longer where nodes
// have room for few checkpoints ([Hierarchy.Slots]).
//
// First-order waste, P_l being the mean time between checkpoints of level l or further,
// and m_l the mean time since the newest, P_l/2 if these times are equal:
//
//	waste = 1 − (1 − Σ C_l/P_l)·(1 − [D + Σ p_l·(R_l + m_l) + p_L·d]/M)
//	P_l = √(2·C_l·M'/p_l)      M' = M − D − Σ p_l·R_l − p_L·d
//
// The periods minimise it for m_l = P_l/2. For M' → M they agree with Benoit, Cavelan,
// Le Fèvre, Robert, Sun (Towards optimal multi-level checkpointing, IEEE TC 66(7), 2017,
// pp. 1212–1226), whose least waste is Σ √(2·λ_l·C_l): Young's formula for each level. Di,
// Bouguerra, Bautista-Gomez, Cappello (Optimization of multi-level checkpoint model for
// large scale HPC applications, IPDPS 2014) find the counts by iteration. A level whose
// period would be longer than that of the next goes together with it, as one of the
// summed costs and shares; whether the job is better off without it, [Hierarchy.Without]
// tells. [Optimum] and [LevelOptimum] agree for one level.
//
// # Promises
//
//   - Quantities out of range are refused with a [*RangeError], which names the
//     quantity and the remedy: no formula is computed outside its range.
//   - The same arguments give the same results on every machine with the same
//     floating-point arithmetic; simulations depend on their seed alone, not on
//     the number of processors.
//   - [Budget.Schedule] is cheap enough to call in the loop of a planner: it
//     neither allocates nor takes a microsecond.
package interval

import (
	"math"
	"time"
)

// Optimum are the best intervals by several formulas.
type Optimum struct {
	Young time.Duration
	Daly  time.Duration // higher order
	Exact time.Duration // the minimiser of the expected time
	// FirstOrder minimises the first-order waste of coordinated checkpoints. It is 0
	// if D+R ≥ M, or if the period does not exceed the cost.
	FirstOrder time.Duration
}

// Optimum returns the best intervals. Only Exact considers logs; Young, Daly and
// FirstOrder hold for coordinated checkpoints of the same cost.
func (m *Model) Optimum() (Optimum, error) {
	if err := m.check(); err != nil {
		return Optimum{}, err
	}
	r := m.rates()
	young := math.Sqrt(2 * r.cost * r.mtbf)
	ratio := r.cost / (2 * r.mtbf)
	daly := young*(1+math.Sqrt(ratio)/3+ratio/9) - r.cost
	exact := r.exact()
	var o Optimum
	var err error
	for _, v := range []struct {
		to      *time.Duration
		seconds float64
	}{{&o.Young, young}, {&o.Daly, daly}, {&o.Exact, exact}} {
		if *v.to, err = duration("interval", v.seconds); err != nil {
			return Optimum{}, err
		}
		*v.to = max(*v.to, 1) // no interval is 0
	}
	if left := r.mtbf - r.down - r.restart; left > 0 {
		if w := math.Sqrt(2*left*r.cost) - r.cost; w > 0 {
			o.FirstOrder = time.Duration(math.Round(w * 1e9))
		}
	}
	return o, nil
}

// A RuleRow is the interval of a rule and its cost.
type RuleRow struct {
	Rule       string   `json:"rule"`
	Interval   float64  `json:"interval_s"`
	Waste      float64  `json:"waste"`
	FirstOrder *float64 `json:"waste_first_order"` // null where that order does not suffice
	Total      float64  `json:"total_s"`
}

// Rules compares the best intervals for a run of work, and given ones.
func (o *Optimum) Rules(m *Model, work time.Duration, given ...time.Duration) (rows []RuleRow, err error) {
	type rule struct {
		name string
		at   time.Duration
	}
	rules := []rule{{"Young", o.Young}, {"Daly", o.Daly}}
	if o.FirstOrder > 0 { // it has an optimum here
		rules = append(rules, rule{"first order", o.FirstOrder})
	}
	rules = append(rules, rule{"exact", o.Exact})
	for _, at := range given {
		rules = append(rules, rule{"given", at})
	}
	for _, rule := range rules {
		total, err := m.Total(work, rule.at)
		if err != nil {
			return nil, err
		}
		waste, err := m.Waste(rule.at)
		if err != nil {
			return nil, err
		}
		row := RuleRow{Rule: rule.name, Interval: rule.at.Seconds(), Waste: waste, Total: total.Seconds()}
		if first, err := m.FirstOrderWaste(rule.at); err == nil {
			row.FirstOrder = &first
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func (r *rates) exact() float64 {
	if r.replay == 1 && r.growth == 0 {
		return r.mtbf * onePlusLambert(r.cost/r.mtbf)
	}
	return r.bisect()
}

// onePlusLambert returns u = 1 + W(−e^{−1−d}) on the principal branch, for
// 0 < d ≤ 2. Computing W and adding 1 would cancel near its branch point, so
// the equation is solved for u itself: (1−u)·e^u = e^{−d}, that is
// −log(1−u) − u = d, by Newton's iteration.
func onePlusLambert(d float64) float64 {
	// The start is Daly's formula: the expansion of u in √(d/2). For small d it is
	// more precise than the equation, which suffers from cancellation.
	s := math.Sqrt(d / 2)
	u := min(2*s*(1+s/3+s*s/9)-d, 1-1e-9)
	if d < 1e-8 {
		return u
	}
	for range 50 { // 6 suffice: the function is convex and the start close
		next := u - (-math.Log1p(-u)-u-d)*(1-u)/u
		done := math.Abs(next-u) <= 1e-15*u
		if u = next; done {
			break
		}
	}
	return u
}

// bisect finds the minimum of segment(w)/w where no closed form is known: the
// only zero of the growing function w·s′(w) − s(w), s being convex.
func (r *rates) bisect() float64 {
	slope := func(w float64) float64 {
		a := 1 / (r.replay * r.mtbf)
		b := a + r.growth/r.mtbf
		if b*w > maxExponent {
			return math.Inf(1)
		}
		derivative := (r.replay-1)*a*math.Exp(a*w) + b*math.Exp(b*w+r.cost/r.mtbf)
		return w*derivative - r.segment(w, r.cost+r.growth*w)
	}
	lo, hi := 0.0, math.Sqrt(2*r.cost*r.mtbf)
	for slope(hi) < 0 {
		lo, hi = hi, 2*hi
	}
	for range 200 {
		mid := lo + (hi-lo)/2
		if mid <= lo || mid >= hi {
			break
		}
		if slope(mid) < 0 {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi
}

// Run is the best division of a run of a given length by checkpoints.
type Run struct {
	Count    int           // checkpoints, none at the end
	Interval time.Duration // of running between two; the whole run without any
	Total    time.Duration // expected time of the run
	// Alone is the expected time without any checkpoint and any message log, 0 if that
	// is over 292 years.
	Alone time.Duration
}

// A RunRow is a [Run] in seconds.
type RunRow struct {
	Count    int      `json:"count"`
	Interval float64  `json:"interval_s"`
	Total    float64  `json:"total_s"`
	Alone    *float64 `json:"unprotected_s"` // expected without checkpoints; null over 292 years
}

// Row is the run in seconds.
func (r *Run) Row() *RunRow {
	row := &RunRow{Count: r.Count, Interval: r.Interval.Seconds(), Total: r.Total.Seconds()}
	if r.Alone > 0 {
		seconds := r.Alone.Seconds()
		row.Alone = &seconds
	}
	return row
}

// Best returns the number of checkpoints that divide a run of work with the least
// expected time. A run that is short against the MTBF is best without any: [Optimum] is
// for a run without end.
func (m *Model) Best(work time.Duration) (Run, error) { return m.BestUpTo(work, maxCount) }

// BestUpTo is Best with at most so many checkpoints.
func (m *Model) BestUpTo(work time.Duration, most int) (Run, error) {
	if err := m.checkRun(work, 1); err != nil {
		return Run{}, err
	}
	r := m.rates()
	run := work.Seconds() / r.speed
	n := r.bestCount(run, max(0, most))
	best := Run{Count: n}
	var err error
	if best.Interval, err = duration("interval", run/float64(n+1)); err != nil {
		return Run{}, err
	}
	if best.Total, err = duration("total time", r.divided(run, n)); err != nil {
		return Run{}, err
	}
	r.speed, r.replay, r.growth = 1, 1, 0
	if alone, err := duration("total time", r.divided(work.Seconds(), 0)); err == nil {
		best.Alone = alone
	}
	return best, nil
}

// divided is the expected time of a run that n checkpoints divide evenly.
func (r *rates) divided(run float64, n int) float64 {
	w := run / float64(n+1)
	sum := r.segment(w, 0)
	if n > 0 { // 0·∞ is not 0
		sum += float64(n) * r.segment(w, r.cost+r.growth*w)
	}
	return r.factor() * sum
}

// bestCount goes downhill from the number of intervals that would be best in a run
// without end.
func (r *rates) bestCount(run float64, most int) int {
	n := int(math.Min(float64(most), math.Max(0, math.Round(run/r.exact())-1)))
	for n > 0 && !(r.divided(run, n-1) > r.divided(run, n)) {
		n--
	}
	for n < most && r.divided(run, n+1) < r.divided(run, n) {
		n++
	}
	return n
}

// Golden finds the x from low to high that makes a loss with one minimum least, by golden
// sections, until the rest is shorter than within. Where two losses are equal, or both
// infinite, it looks below.
func Golden(low, high, within float64, loss func(float64) float64) float64 {
	const golden = 0.6180339887498949
	a, b := high-golden*(high-low), low+golden*(high-low)
	atA, atB := loss(a), loss(b)
	for high-low > within {
		if atA <= atB {
			high, b, atB = b, a, atA
			a = high - golden*(high-low)
			atA = loss(a)
		} else {
			low, a, atA = a, b, atB
			b = low + golden*(high-low)
			atB = loss(b)
		}
	}
	return (low + high) / 2
}
