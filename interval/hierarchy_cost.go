package interval

import (
	"math"
	"sort"
	"time"
)

// A shape is a hierarchy with the counts of a pattern.
type shape struct {
	*hrates
	every []int
	span  []int // checkpoints from one of a level to the next of this level or further
	all   int   // checkpoints of the pattern: the span of the last level
}

func (r *hrates) shape(every []int) *shape {
	s := &shape{hrates: r, every: every, span: make([]int, len(r.cost))}
	s.all = 1
	for i := range s.span {
		if i > 0 {
			s.all *= every[i-1]
		}
		s.span[i] = s.all
	}
	return s
}

// elapsed is the time of the first j intervals of a pattern without failures.
func (s *shape) elapsed(w float64, j int) float64 {
	t := float64(j) * w
	for i, c := range s.cost {
		t += c * float64(j/s.span[i])
	}
	return t
}

func (s *shape) period(w float64) float64 { return s.elapsed(w, s.all) }

// shortest is the interval at which a drain takes a whole pattern, or as long as there is
// room for checkpoints beside it: with a shorter one a checkpoint would wait.
func (s *shape) shortest() float64 {
	w := (s.drain - s.period(0)) / float64(s.all)
	if s.slots > 0 && s.slots <= s.all {
		w = max(w, (s.drain-s.elapsed(0, s.slots-1))/float64(s.slots))
	}
	return max(0, w)
}

// repeated is ((1+βx)ⁿ·(1+βy) − 1)/β: the time of n parts of x and one of y, if what
// came before is repeated β times as often as a part.
func repeated(beta, x float64, n int, y float64) float64 {
	if math.IsInf(x, 1) && n > 0 || math.IsInf(y, 1) {
		return math.Inf(1)
	}
	if beta == 0 {
		return float64(n)*x + y
	}
	e := float64(n)*math.Log1p(beta*x) + math.Log1p(beta*y)
	if e > maxExponent {
		return math.Inf(1)
	}
	return math.Expm1(e) / beta
}

// once is the time of an interval of w that ends after a checkpoint of c, in units of A.
func (r *hrates) once(t float64) float64 {
	if t/r.mtbf > maxExponent {
		return math.Inf(1)
	}
	return math.Expm1(t / r.mtbf)
}

// block is κ: the expected time, in units of A, from a checkpoint of a level or further
// to the next, which costs c.
func (s *shape) block(level int, w, c float64) float64 {
	if level == 0 {
		return s.once(w + c)
	}
	n := s.every[level-1] - 1
	part := 0.0
	if n > 0 {
		part = s.block(level-1, w, s.upTo[level-1])
	}
	return repeated(s.beta[level], part, n, s.block(level-1, w, c))
}

// part is the expected time of the first j intervals of a block, which is less than all
// of them, and how many times the next interval weighs: what came before is repeated.
func (s *shape) part(level int, w float64, j int) (sum, weight float64) {
	if level == 0 || j == 0 {
		return 0, 1
	}
	before := 0.0
	if n := j / s.span[level-1]; n > 0 {
		before = repeated(s.beta[level], s.block(level-1, w, s.upTo[level-1]), n, 0)
	}
	sum, weight = s.part(level-1, w, j%s.span[level-1])
	grown := 1 + s.beta[level]*before
	return before + grown*sum, grown * weight
}

// progress is the expected time, in units of A, of the first t seconds of a pattern.
func (s *shape) progress(w, t float64) float64 {
	if t <= 0 {
		return 0
	}
	// The largest j with elapsed(j) ≤ t.
	j := sort.Search(s.all, func(j int) bool { return s.elapsed(w, j+1) > t })
	if j >= s.all {
		return s.whole(w)
	}
	sum, weight := s.part(len(s.cost)-1, w, j)
	return sum + weight*s.once(t-s.elapsed(w, j))
}

// whole is κ of the last level.
func (s *shape) whole(w float64) float64 {
	last := len(s.cost) - 1
	return s.block(last, w, s.upTo[last])
}

// again is how many times a pattern is repeated on average, because a failure destroys
// its checkpoint before that is safe.
func (s *shape) again(w, until float64) float64 {
	if s.drain == 0 {
		return 0
	}
	return s.beta[len(s.beta)-1] * s.progress(w, min(s.drain, until))
}

// pattern is the expected time of one pattern of a long run, in seconds.
func (s *shape) pattern(w float64) float64 {
	return s.unit * s.whole(w) * (1 + s.again(w, math.Inf(1)))
}

// slowness is the expected time of a second of work.
func (s *shape) slowness(w float64) float64 { return s.pattern(w) / (float64(s.all) * w) }

// expected is the time of a run of whole intervals and a rest without a checkpoint.
func (s *shape) expected(work, w float64) float64 {
	full := math.Max(0, math.Ceil(work/w-1e-9)-1) // a remainder of rounding errors is 0
	rest := work - full*w
	patterns := math.Floor(full / float64(s.all))
	j := int(full - patterns*float64(s.all))
	sum, weight := s.part(len(s.cost)-1, w, j)
	total := sum + weight*s.once(rest)
	if patterns > 0 {
		whole := s.whole(w)
		// The run begins with what is safe: its beginning.
		total += whole + (patterns-1)*whole*(1+s.again(w, math.Inf(1)))
		if s.drain > 0 {
			total += whole * s.beta[len(s.beta)-1] * s.partial(w, j, rest)
		}
	}
	return s.unit * total
}

// partial is the progress of the drain in a last pattern of j intervals and a rest.
func (s *shape) partial(w float64, j int, rest float64) float64 {
	end := s.elapsed(w, j)
	if s.drain < end {
		return s.progress(w, s.drain)
	}
	sum, weight := s.part(len(s.cost)-1, w, j)
	return sum + weight*s.once(min(rest, s.drain-end))
}

// Total returns the expected time of a run of work with a pattern that repeats itself:
// every part of a pattern pays its share. Failures are exponential.
func (h *Hierarchy) Total(work time.Duration, p Pattern) (time.Duration, error) {
	if err := h.checkRun(work, p); err != nil {
		return 0, err
	}
	return duration("total time", h.rates().shape(p.Every).slowness(p.Interval.Seconds())*work.Seconds())
}

// Expected returns the expected time of a run of work of whole intervals and a last,
// shorter one without a checkpoint at its end: the run that [LevelSimulation] replays.
// Failures are exponential.
func (h *Hierarchy) Expected(work time.Duration, p Pattern) (time.Duration, error) {
	if err := h.checkRun(work, p); err != nil {
		return 0, err
	}
	if work.Seconds()/p.Interval.Seconds() > maxSegments {
		return 0, outOfRange("interval", p.Interval, "has over 10^15 checkpoints in the run", "give a longer interval")
	}
	return duration("total time", h.rates().shape(p.Every).expected(work.Seconds(), p.Interval.Seconds()))
}

// Waste returns the expected share of the time that is not work, in [0, 1).
func (h *Hierarchy) Waste(p Pattern) (float64, error) {
	if err := h.checkPattern(p); err != nil {
		return 0, err
	}
	slow := h.rates().shape(p.Every).slowness(p.Interval.Seconds())
	if _, err := duration("time of a second of work", slow); err != nil {
		return 0, err
	}
	return math.Max(0, 1-1/slow), nil
}

// Period returns the time from one checkpoint of a level, or further, to the next,
// without failures: the mean, as some of the checkpoints between go further.
func (h *Hierarchy) Period(p Pattern, level int) (time.Duration, error) {
	if err := h.checkPattern(p); err != nil {
		return 0, err
	}
	s := h.rates().shape(p.Every)
	return duration("period", s.period(p.Interval.Seconds())*float64(s.span[level])/float64(s.all))
}

func (h *Hierarchy) checkRun(work time.Duration, p Pattern) error {
	if err := h.checkPattern(p); err != nil {
		return err
	}
	return positive("application time", work)
}

// FirstOrderWaste returns the waste to first order in 1/M: what the pattern costs
// without failures, and the mean loss of a failure of each level. It returns a
// [*RangeError] if that order is not sufficient.
func (h *Hierarchy) FirstOrderWaste(p Pattern) (float64, error) {
	if err := h.checkPattern(p); err != nil {
		return 0, err
	}
	s, w := h.rates().shape(p.Every), p.Interval.Seconds()
	lost := 0.0
	for l, share := range s.share {
		lost += share * (s.down + s.restart[l] + s.since(l, w))
	}
	lost += s.share[len(s.share)-1] * s.drain // a failure before that costs a whole pattern
	if lost >= s.mtbf {
		return 0, outOfRange("loss per failure", time.Duration(lost*1e9), "is not below the MTBF, so the first-order waste means nothing",
			"use the exact waste, or a shorter interval")
	}
	return 1 - float64(s.all)*w/s.period(w)*(1-lost/s.mtbf), nil
}

// since is the mean time since the newest checkpoint of a level or further: half the
// square of the times between two over their sum. These times differ by the cost of the
// checkpoint at their end.
func (s *shape) since(level int, w float64) float64 {
	between := s.elapsed(w, s.span[level]) - s.upTo[level]
	squares := 0.0
	for m := level; m < len(s.cost); m++ {
		count := s.all / s.span[m]
		if m+1 < len(s.cost) {
			count -= s.all / s.span[m+1] // those that go further
		}
		t := between + s.upTo[m]
		squares += float64(count) * t * t
	}
	return squares / 2 / s.period(w)
}

// left is M less what every failure costs that no pattern avoids.
func (r *hrates) left() float64 {
	t := r.mtbf - r.down - r.share[len(r.share)-1]*r.drain
	for l, share := range r.share {
		t -= share * r.restart[l]
	}
	return t
}

// periods are the best times between checkpoints of each level in the first-order waste:
// √(2CM/λ) with the share λ of the failures that need the level. A level whose period
// would be longer than that of the next goes together with it.
func (r *hrates) periods() []float64 {
	type pool struct {
		cost, share float64
		levels      int
	}
	var pools []pool
	for l := range r.cost {
		pools = append(pools, pool{r.cost[l], r.share[l], 1})
		for n := len(pools); n > 1 && pools[n-2].cost*pools[n-1].share >= pools[n-1].cost*pools[n-2].share; n = len(pools) {
			pools[n-2].cost += pools[n-1].cost
			pools[n-2].share += pools[n-1].share
			pools[n-2].levels += pools[n-1].levels
			pools = pools[:n-1]
		}
	}
	var out []float64
	for _, p := range pools {
		for range p.levels {
			out = append(out, math.Sqrt(2*p.cost*max(0, r.left())/p.share))
		}
	}
	return out
}

// firstOrder is the pattern of the first-order waste: whole counts that are nearest to
// the ratios of the periods, and the best interval of these counts. The interval is 0 if
// there is none.
func (r *hrates) firstOrder() (w float64, every []int) {
	periods := r.periods()
	for l := range len(periods) - 1 {
		n := 1.0
		if periods[l] > 0 {
			n = math.Round(periods[l+1] / periods[l])
		}
		every = append(every, int(min(max(n, 1), maxEvery)))
	}
	s := r.shape(every)
	if s.all > maxSpan {
		return 0, nil
	}
	cost := s.period(0)
	loss := 0.0
	for l, share := range r.share {
		loss += share * float64(s.span[l]) / float64(s.all)
	}
	w = (math.Sqrt(2*cost*max(0, r.left())/loss) - cost) / float64(s.all)
	if w <= 0 {
		return 0, nil
	}
	return max(w, s.shortest()), every
}
