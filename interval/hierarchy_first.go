package interval

import (
	"math"
	"time"
)

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
