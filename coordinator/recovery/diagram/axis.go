package diagram

import (
	"math"

	"ckpt/coordinator/recovery"
)

// An axis says where states are drawn.
type axis struct {
	h        *recovery.History
	of       func(s *recovery.State, k int) float64
	label    string
	min, max float64
	gap      float64 // after the last stored state, where the current one is not known
}

// newAxis takes At if any state has one, else iterations if they grow, else the
// order of the states.
func newAxis(h *recovery.History) axis {
	a := axis{h: h, label: "order of the checkpoints", of: func(_ *recovery.State, k int) float64 { return float64(k) }}
	var iterations, at bool
	each(h, func(s *recovery.State) {
		iterations = iterations || s.Iteration > 0
		at = at || s.At > 0
	})
	switch {
	case at:
		a.label, a.of = "time", func(s *recovery.State, _ int) float64 { return s.At }
	case iterations:
		a.label, a.of = "iteration", func(s *recovery.State, _ int) float64 { return float64(s.Iteration) }
	}
	first := true
	for r := range h.Ranks {
		for k := range len(h.Ranks[r].Checkpoints) + 1 {
			if k == len(h.Ranks[r].Checkpoints) && h.Ranks[r].Current == nil {
				continue
			}
			v := a.at(r, k)
			if first {
				a.min, a.max, first = v, v, false
			}
			a.min, a.max = min(a.min, v), max(a.max, v)
		}
	}
	for _, m := range h.Messages {
		if at {
			a.max = max(a.max, m.SentAt, m.ReceivedAt)
		}
	}
	if a.max <= a.min {
		a.max = a.min + 1
	}
	a.gap = (a.max - a.min) / 25
	for r := range h.Ranks {
		a.max = max(a.max, a.end(r))
	}
	return a
}

func each(h *recovery.History, f func(*recovery.State)) {
	for r := range h.Ranks {
		for k := range h.Ranks[r].Checkpoints {
			f(&h.Ranks[r].Checkpoints[k])
		}
		if now := h.Ranks[r].Current; now != nil {
			f(now)
		}
	}
}

// at returns where state k of a rank is; their number is the current one.
func (a *axis) at(r, k int) float64 {
	rank := &a.h.Ranks[r]
	switch {
	case k < len(rank.Checkpoints):
		return a.of(&rank.Checkpoints[k], k)
	case rank.Current != nil:
		return a.of(rank.Current, k)
	}
	return a.of(&rank.Checkpoints[k-1], k-1) + a.gap
}

// end returns where the line of a rank ends.
func (a *axis) end(r int) float64 { return a.at(r, len(a.h.Ranks[r].Checkpoints)) }

// ticks returns about eight round values.
func (a *axis) ticks() (list []float64) {
	rough := (a.max - a.min) / 8
	unit := math.Pow(10, math.Floor(math.Log10(rough)))
	step := 10 * unit
	for _, k := range []float64{5, 2, 1} {
		if k*unit >= rough {
			step = k * unit
		}
	}
	for i := math.Ceil(a.min / step); i*step <= a.max; i++ {
		list = append(list, math.Round(i*step*1e9)/1e9)
	}
	return list
}
