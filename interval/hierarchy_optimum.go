package interval

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"time"
)

// LevelOptimum are the best patterns of a hierarchy.
type LevelOptimum struct {
	Exact Pattern // least expected time
	// FirstOrder minimises the first-order waste, with whole counts. Its interval is 0 if
	// that has no optimum.
	FirstOrder Pattern
	// Periods are the times between checkpoints of each level, or further, that minimise
	// the first-order waste before the counts are made whole.
	Periods []time.Duration
}

// Optimum returns the best patterns.
func (h *Hierarchy) Optimum() (LevelOptimum, error) {
	exact, err := h.Best(Pattern{})
	if err != nil {
		return LevelOptimum{}, err
	}
	o := LevelOptimum{Exact: exact}
	r := h.rates()
	for _, p := range r.periods() {
		d, err := duration("interval", p)
		if err != nil {
			return LevelOptimum{}, err
		}
		o.Periods = append(o.Periods, d)
	}
	if w, every := r.firstOrder(); w > 0 {
		o.FirstOrder.Every = every
		o.FirstOrder.Interval, err = intervalOf(w)
	}
	return o, err
}

// Best returns the pattern of least expected time among those that have the interval and
// the counts of fixed which are not 0.
func (h *Hierarchy) Best(fixed Pattern) (Pattern, error) {
	if err := h.checkFixed(fixed); err != nil {
		return Pattern{}, err
	}
	q := &quest{rates: h.rates(), w: fixed.Interval.Seconds(), fixed: make([]int, len(h.Levels)-1), known: make(map[string]found)}
	copy(q.fixed, fixed.Every)
	best := q.search()
	if drain := h.Levels[len(h.Levels)-1].Drain; math.IsInf(best.slowness, 1) && fixed.Interval > 0 && drain > 0 {
		return Pattern{}, h.checkPattern(Pattern{Interval: fixed.Interval, Every: best.every})
	}
	if math.IsInf(best.slowness, 1) {
		return Pattern{}, outOfRange("expected time", "over 292 years", "the job makes no progress worth the name",
			"make checkpoints and restarts cheaper, drain faster, or run on fewer nodes")
	}
	p := Pattern{Interval: fixed.Interval, Every: best.every}
	if p.Interval == 0 {
		var err error
		if p.Interval, err = intervalOf(best.w); err != nil {
			return Pattern{}, err
		}
	}
	return p, h.checkPattern(p)
}

func (h *Hierarchy) checkFixed(fixed Pattern) error {
	if err := h.check(); err != nil {
		return err
	}
	if err := notNegative("interval", fixed.Interval); err != nil {
		return err
	}
	if fixed.Every != nil && len(fixed.Every) != len(h.Levels)-1 {
		return h.checkPattern(Pattern{Interval: 1, Every: fixed.Every})
	}
	for i, n := range fixed.Every {
		if n == 0 {
			continue
		}
		if err := h.checkEvery(i+1, n); err != nil {
			return err
		}
	}
	return nil
}

func intervalOf(w float64) (time.Duration, error) {
	d, err := duration("interval", w)
	return max(d, 1), err
}

// A quest looks for the best counts.
type quest struct {
	rates *hrates
	w     float64 // 0 if it is to be found
	fixed []int   // 0 where to be found
	known map[string]found
}

type found struct {
	every    []int
	w        float64
	slowness float64
}

// search goes downhill from several counts, in steps that grow longer while they lead
// down, and then shorter: the time is flat around its minimum, and the counts of the first order are near to it.
func (q *quest) search() found {
	_, first := q.rates.firstOrder()
	if first == nil {
		first = slices.Repeat([]int{1}, len(q.fixed))
	}
	best := found{slowness: math.Inf(1), every: first, w: 1}
	for _, start := range [][]int{first, slices.Repeat([]int{1}, len(q.fixed)), slices.Repeat([]int{30}, len(q.fixed))} {
		if f := q.downhill(start); f.slowness < best.slowness {
			best = f
		}
	}
	return best
}

// leastGain is how much better, relatively, other counts have to be: less is rounding.
const leastGain = 1e-12

func (q *quest) downhill(start []int) found {
	at := q.try(start)
	steps := make([]int, len(at.every))
	for i, n := range at.every {
		steps[i] = max(1, n/2)
	}
	for {
		if next := q.around(at, steps); next.slowness < at.slowness*(1-leastGain) {
			at = next
			for i := range steps {
				steps[i] *= 2
			}
			continue
		}
		if !slices.ContainsFunc(steps, func(s int) bool { return s > 1 }) {
			return at
		}
		for i := range steps {
			steps[i] = max(1, steps[i]/2)
		}
	}
}

// around returns the best of the counts one step away, in all directions.
func (q *quest) around(at found, steps []int) found {
	best := at
	moves := 1
	for range steps {
		moves *= 3
	}
	for m := range moves {
		every := slices.Clone(at.every)
		for i, code := 0, m; i < len(every); i, code = i+1, code/3 {
			every[i] += (code%3 - 1) * steps[i]
		}
		if f := q.try(every); f.slowness < best.slowness {
			best = f
		}
	}
	return best
}

// try returns the best of these counts, as far as they are not fixed.
func (q *quest) try(counts []int) found {
	every := slices.Clone(counts)
	key := make([]byte, 0, 8*len(every))
	span := 1
	for i := range every {
		every[i] = min(max(every[i], 1), maxEvery)
		if q.fixed[i] != 0 {
			every[i] = q.fixed[i]
		}
		if span *= every[i]; span > maxSpan {
			return found{every: every, slowness: math.Inf(1)}
		}
		key = append(key, byte(every[i]), byte(every[i]>>8), byte(every[i]>>16))
	}
	if f, ok := q.known[string(key)]; ok {
		return f
	}
	s := q.rates.shape(every)
	f := found{every: every, w: q.w}
	if q.w == 0 {
		f.w = s.bestInterval()
	}
	if f.slowness = s.slowness(f.w); math.IsNaN(f.slowness) || f.w < s.shortest()*(1-1e-9) {
		f.slowness = math.Inf(1)
	}
	q.known[string(key)] = f
	return f
}

// bestInterval minimises the time of a second of work by golden sections of the
// logarithm of the interval. Without a drain the time of a pattern is convex in the
// interval, so that the minimum is unique.
func (s *shape) bestInterval() float64 {
	loss := 0.0
	for l, share := range s.share {
		loss += share * float64(s.span[l]) / float64(s.all)
	}
	around := math.Log(math.Sqrt(2*s.period(0)*s.mtbf/loss) / float64(s.all))
	least := math.Inf(-1)
	if w := s.shortest(); w > 0 {
		least = math.Log(w)
	}
	lo, hi := max(around-7, least), max(around+3, least+3)
	f := func(x float64) float64 { return s.slowness(math.Exp(x)) }
	if x := Golden(lo, hi, 1e-9, f); f(x) <= f(least) || math.IsInf(least, -1) {
		return math.Exp(x)
	}
	return math.Exp(least)
}

// LevelSimulation replays runs of a job whose checkpoints go to several levels of
// storage, as [Simulation] does for one. Which level a failure needs is drawn for each
// failure alone, by the shares of the levels.
type LevelSimulation struct {
	Hierarchy Hierarchy
	Work      time.Duration // of a run, without checkpoints and failures
	Pattern   Pattern
	Shape     float64 // of the Weibull distribution, 0.2 to 10
	Runs      int     // 2 to 10 million
	Seed      uint64
	Steady    bool // as in Simulation
}

// Run replays the runs, on all processors. The estimate depends on the arguments only.
func (s *LevelSimulation) Run(ctx context.Context) (*Estimate, error) {
	if err := checkRuns(s.Shape, s.Runs); err != nil {
		return nil, err
	}
	expected, err := s.Hierarchy.Expected(s.Work, s.Pattern)
	if err != nil {
		return nil, err
	}
	if err := checkEvents(expected, s.Hierarchy.MTBF, s.Runs); err != nil {
		return nil, err
	}
	sum, err := repeat(ctx, s.replay(), s.Runs, s.Seed)
	if err != nil {
		return nil, err
	}
	return sum.estimate(s.Work, expected, s.Runs)
}

// levelReplay is a simulation in seconds.
type levelReplay struct {
	*shape
	weibull
	w, whole float64 // interval, and the time of a pattern without failures
	patterns float64 // whole ones of the run
	rest     int     // intervals after them that end with a checkpoint
	tail     float64 // work after these
}

func (s *LevelSimulation) replay() *levelReplay {
	r := &levelReplay{shape: s.Hierarchy.rates().shape(s.Pattern.Every), w: s.Pattern.Interval.Seconds()}
	r.weibull = newWeibull(r.mtbf, s.Shape, s.Steady)
	full := math.Max(0, math.Ceil(s.Work.Seconds()/r.w-1e-9)-1)
	r.whole = r.period(r.w)
	r.patterns = math.Floor(full / float64(r.all))
	r.rest = int(full - r.patterns*float64(r.all))
	r.tail = s.Work.Seconds() - full*r.w
	return r
}

// place is how far a run has come.
type place struct {
	pattern float64 // whole patterns done
	j       int     // intervals of this one that are done
	safe    bool    // its first checkpoint is drained
}

// run replays one run.
func (r *levelReplay) run(rng *rand.Rand) (total float64, failures int) {
	quiet := r.first(rng) // time to the next failure
	at := place{safe: true}
	for {
		if at.j == 0 && at.pattern < r.patterns {
			if ahead := min(r.patterns-at.pattern, math.Floor(quiet/r.whole)); ahead > 0 {
				at = place{pattern: at.pattern + ahead}
				total += ahead * r.whole
				quiet -= ahead * r.whole
			}
		}
		end := r.whole
		if at.pattern == r.patterns {
			end = r.until(r.rest) + r.tail
		}
		start := r.until(at.j)
		if quiet >= end-start {
			total += end - start
			quiet -= end - start
			if at.pattern == r.patterns {
				return total, failures
			}
			at = place{pattern: at.pattern + 1}
			continue
		}
		reached := start + quiet
		total += quiet
		at.safe = at.safe || reached >= r.drain
		at.j = r.done(at.j, reached)
		var level int
		var lost float64
		if level, lost, quiet = r.recover(rng, &failures); failures > maxFailures {
			return total, failures
		}
		total += lost
		at = r.back(at, level)
	}
}

// until is when the first j intervals of a pattern are done.
func (r *levelReplay) until(j int) float64 { return r.elapsed(r.w, j) }

// done is how many intervals of a pattern are done at a time, from j on.
func (r *levelReplay) done(j int, t float64) int {
	return j + sort.Search(r.all-1-j, func(i int) bool { return r.until(j+i+1) > t })
}

// recover restarts a job until that succeeds, after a failure. It returns the level that
// the restart needed, what it took, and the time to the next failure.
func (r *levelReplay) recover(rng *rand.Rand, failures *int) (level int, lost, quiet float64) {
	for quiet = -1; quiet < 0; {
		if *failures++; *failures > maxFailures {
			return level, lost, 0
		}
		level = max(level, r.needs(rng))
		next := r.draw(rng)
		lost += r.down + min(next, r.restart[level])
		quiet = next - r.restart[level]
	}
	return level, lost, quiet
}

// needs draws the level that a failure needs.
func (r *levelReplay) needs(rng *rand.Rand) int {
	last := len(r.share) - 1
	if last == 0 {
		return 0
	}
	x := rng.Float64()
	for l, share := range r.share[:last] {
		if x -= share; x < 0 {
			return l
		}
	}
	return last
}

// back is the place from which a job goes on after a restart from a level.
func (r *levelReplay) back(at place, level int) place {
	if level < len(r.share)-1 {
		at.j -= at.j % r.span[level]
		return at
	}
	if !at.safe {
		at.pattern--
	}
	return place{pattern: at.pattern, safe: true}
}
