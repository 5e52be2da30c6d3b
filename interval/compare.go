package interval

import (
	"errors"
	"slices"
	"time"
)

// A LevelComparison sets the best pattern over several levels beside others.
type LevelComparison struct {
	Levels   []LevelRow   `json:"storage_level_list"`
	App      float64      `json:"app_s"`
	MTBF     float64      `json:"mtbf_s"` // of the job
	Downtime float64      `json:"downtime_s"`
	Interval float64      `json:"interval_s"` // with this waste and total
	Waste    float64      `json:"waste"`
	Total    float64      `json:"total_s"`
	Patterns []PatternRow `json:"pattern_list"`

	hierarchy *Hierarchy
	work      time.Duration
}

// Compare finds the best pattern for a run of work, and others to compare it with: the best to
// first order, without each level, and of the last level alone.
func (h *Hierarchy) Compare(work time.Duration) (*LevelComparison, error) {
	best, err := h.Optimum()
	if err != nil {
		return nil, err
	}
	c := &LevelComparison{Levels: h.Rows(), App: work.Seconds(), MTBF: h.MTBF.Seconds(), Downtime: h.Downtime.Seconds(), hierarchy: h, work: work}
	if err := c.add("exact", h, best.Exact); err != nil {
		return nil, err
	}
	if best.FirstOrder.Interval > 0 {
		if err := c.add("first order", h, best.FirstOrder); err != nil {
			return nil, err
		}
	}
	c.take(0)
	return c, c.without()
}

// without adds what is left if the job does without a level, and the last level alone.
// Where nothing would make progress there is nothing to add.
func (c *LevelComparison) without() error {
	h, last := c.hierarchy, len(c.hierarchy.Levels)-1
	for l := last - 1; l >= 0 && last > 1; l-- {
		other := h.Without(l)
		if err := c.addBest("no "+h.Levels[l].Name, &other); err != nil {
			return err
		}
	}
	if last == 0 {
		return nil
	}
	alone := *h
	for len(alone.Levels) > 1 {
		alone = alone.Without(0)
	}
	return c.addBest(h.Levels[last].Name+" alone", &alone)
}

// Given adds the pattern that was asked for, and takes it.
func (c *LevelComparison) Given(fixed Pattern) error {
	p, err := c.hierarchy.Best(fixed)
	if err != nil {
		return err
	}
	if err := c.add("given", c.hierarchy, p); err != nil {
		return err
	}
	c.take(len(c.Patterns) - 1)
	return nil
}

// IfFirstSurvives adds the best pattern for another share of the failures that the first level
// survives. A share of 0 or 1 leaves one of the levels without use, and adds nothing.
func (c *LevelComparison) IfFirstSurvives(share float64, rule string) error {
	if share <= 0 || share >= 1 {
		return nil
	}
	h := *c.hierarchy
	h.Levels = slices.Clone(h.Levels)
	h.Levels[0].Share = share
	before := len(c.Patterns)
	err := c.addBest(rule, &h)
	for i := range c.Patterns[before:] {
		c.Patterns[before+i].Other = true
	}
	return err
}

// Simulation is a simulation of the pattern taken.
func (c *LevelComparison) Simulation() LevelSimulation {
	at := c.Taken().Pattern
	return LevelSimulation{Hierarchy: *c.hierarchy, Work: c.work, Pattern: at}
}

// Taken is the row that is the answer: the given pattern, or the best.
func (c *LevelComparison) Taken() *PatternRow {
	for i := range c.Patterns {
		if c.Patterns[i].Rule == "given" {
			return &c.Patterns[i]
		}
	}
	return &c.Patterns[0]
}

// Least is the row that wastes the least, of all whose failures are those of the job.
func (c *LevelComparison) Least() *PatternRow {
	best := &c.Patterns[0]
	for i := range c.Patterns {
		if p := &c.Patterns[i]; p.Rule != "given" && !p.Other && p.Waste < best.Waste-1e-9 {
			best = p
		}
	}
	return best
}

// take makes a row the result.
func (c *LevelComparison) take(i int) {
	c.Interval, c.Waste, c.Total = c.Patterns[i].Interval, c.Patterns[i].Waste, c.Patterns[i].Total
}

// addBest adds the best pattern of a hierarchy, if the job makes progress with one.
func (c *LevelComparison) addBest(rule string, h *Hierarchy) error {
	p, err := h.Best(Pattern{})
	if err == nil {
		err = c.add(rule, h, p)
	}
	if errors.As(err, new(*RangeError)) {
		return nil
	}
	return err
}

func (c *LevelComparison) add(rule string, h *Hierarchy, p Pattern) error {
	row, err := h.Row(c.work, p)
	if err != nil {
		return err
	}
	row.Rule, row.Pattern, row.Hierarchy = rule, p, h
	c.Patterns = append(c.Patterns, row)
	return nil
}

// Ends are the intervals of what an answer rests on; nil is exact.
type Ends struct{ Cost, Restart, MTBF *Estimated }

// A CostRange is what the intervals of cost, restart and MTBF make of an answer.
type CostRange struct {
	IntervalLow float64 `json:"interval_low_s"`
	// IntervalHigh is nil where no interval lets the job go on at an end of what is known.
	IntervalHigh *float64 `json:"interval_high_s"`
	WasteLow     float64  `json:"waste_low"`
	WasteHigh    float64  `json:"waste_high"`
}

// end is the low or high end of a number of seconds.
func (e *Estimated) end(is time.Duration, high bool, least time.Duration) time.Duration {
	switch {
	case e == nil:
		return max(least, is)
	case high:
		return max(least, lasting(e.High))
	}
	return max(least, lasting(e.Low))
}

// Of solves for the ends of the intervals; nil without any. Where a job makes no progress
// at an end, all of its time is wasted. A fixed interval is 0 for the best one.
func (e *Ends) Of(m Model, fixed time.Duration) *CostRange {
	if e.Cost == nil && e.Restart == nil && e.MTBF == nil {
		return nil
	}
	low, high := fixed.Seconds(), fixed.Seconds()
	if o, err := m.Optimum(); fixed == 0 && err == nil {
		low, high = o.Exact.Seconds(), o.Exact.Seconds()
	}
	out := &CostRange{IntervalHigh: &high, WasteLow: 1}
	for _, costly := range []bool{false, true} {
		for _, failsOften := range []bool{false, true} {
			at := m
			at.Cost, at.Restart, at.MTBF = e.Cost.end(m.Cost, costly, 1), e.Restart.end(m.Restart, costly, 0), e.MTBF.end(m.MTBF, !failsOften, 1)
			best, waste := fixed, 1.0
			if best == 0 {
				if o, err := at.Optimum(); err == nil {
					best = o.Exact
				}
			}
			if w, err := at.Waste(best); err == nil && best > 0 {
				waste = w
			}
			switch {
			case best == 0:
				out.IntervalHigh = nil
			case fixed == 0:
				low, high = min(low, best.Seconds()), max(high, best.Seconds())
			}
			out.WasteLow, out.WasteHigh = min(out.WasteLow, waste), max(out.WasteHigh, waste)
		}
	}
	out.IntervalLow = low
	return out
}
