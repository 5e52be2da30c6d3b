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
		return max(least, Lasting(e.High))
	}
	return max(least, Lasting(e.Low))
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

// A LevelFit is what a job measured of its levels of storage.
type LevelFit struct {
	Job      string      `json:"job"`
	Pause    *MeasuredTo `json:"node_pause"`
	Drain    *MeasuredTo `json:"drain_time"`
	Restart  *MeasuredTo `json:"node_restart"`  // null if no failure left the nodes enough
	Stored   *MeasuredTo `json:"store_restart"` // null if no failure needed the store
	Failures int         `json:"failure_count"`
	Own      int         `json:"own_node_failures"`
	Others   int         `json:"other_nodes_failures"`
	Store    int         `json:"store_failures"`
	Share    *ShareRange `json:"fitted_share"` // null without failures
	Few      bool        `json:"too_few_failures"`
	Assumed  []string    `json:"assumption_list"`
}

// MeasuredTo is a median and the range of what was measured.
type MeasuredTo struct {
	Median float64 `json:"median_s"`
	Min    float64 `json:"min_s"`
	Max    float64 `json:"max_s"`
	Count  int     `json:"count"`
}

// ShareRange is a [ShareFit] as it is printed.
type ShareRange struct {
	Value float64 `json:"survived_share"`
	Low   float64 `json:"low_share"`
	High  float64 `json:"high_share"`
}

func newMeasured(list []float64) *MeasuredTo {
	if len(list) == 0 {
		return nil
	}
	return &MeasuredTo{Median: Median(list).Value, Min: slices.Min(list), Max: slices.Max(list), Count: len(list)}
}

// MeasuredRestarts are the times of restarts after failures, by what each needed: the nodes of the
// ranks, other nodes too, or the store.
type MeasuredRestarts struct{ Own, Others, Store []float64 }

// FitLevels fits levels to what a job measured: the pauses for checkpoints on the nodes, the
// drains into the store and the restarts.
func FitLevels(name string, pauses, drains []float64, r *MeasuredRestarts) (*LevelFit, error) {
	fit := &LevelFit{Job: name, Pause: newMeasured(pauses), Drain: newMeasured(drains), Own: len(r.Own), Others: len(r.Others), Store: len(r.Store),
		Restart: newMeasured(slices.Concat(r.Own, r.Others)), Stored: newMeasured(r.Store), Assumed: []string{}}
	fit.Failures = fit.Own + fit.Others + fit.Store
	if fit.Failures == 0 {
		return fit, nil
	}
	s, err := FitShare(fit.Own+fit.Others, fit.Failures)
	fit.Share, fit.Few = &ShareRange{s.Value, s.Low, s.High}, s.Few()
	return fit, err
}

// Levels are the nodes and the store, whose restarts are assumed where none was measured.
func (f *LevelFit) Levels(share float64) []StorageLevel {
	local := StorageLevel{Name: "local", Cost: Lasting(f.Pause.Median), Share: share}
	store := StorageLevel{Name: "store", Drain: Lasting(f.Drain.Median), Share: 1}
	if f.Restart != nil {
		local.Restart = Lasting(f.Restart.Median)
	} else {
		local.Restart = local.Cost
		f.Assumed = append(f.Assumed, "a restart from the nodes takes as long as a checkpoint there")
	}
	if f.Stored != nil {
		store.Restart = Lasting(f.Stored.Median)
	} else {
		store.Restart = local.Restart + store.Drain
		f.Assumed = append(f.Assumed, "a restart from the store takes a drain longer than one from the nodes")
	}
	f.Assumed = append(f.Assumed, "a drain does not slow the job down")
	return []StorageLevel{local, store}
}

// Median returns the median of the values in a list, with its 95 % interval.
func Median(list []float64) Estimated { return MedianOf(slices.Sorted(slices.Values(list))) }

// Simulated is what a simulation found, in seconds, with what it was asked.
type Simulated struct {
	Runs     int      `json:"runs"`
	Seed     uint64   `json:"seed"`
	Shape    float64  `json:"shape"`
	Steady   bool     `json:"steady"`
	Mean     float64  `json:"mean_s"`
	Low      float64  `json:"low_s"` // 95 % confidence interval of the mean
	High     float64  `json:"high_s"`
	StdDev   float64  `json:"stddev_s"`
	Min      float64  `json:"min_s"`
	Max      float64  `json:"max_s"`
	P5       float64  `json:"run_p5_s"` // 90 of 100 runs take a time between these
	P95      float64  `json:"run_p95_s"`
	Failures float64  `json:"mean_failures"`
	Waste    float64  `json:"waste"`
	Expected *float64 `json:"expected_s"` // of the same runs; null unless failures are exponential
	Agrees   *bool    `json:"agrees"`     // whether low_s ≤ expected_s ≤ high_s
}

// Seconds gives the estimate of a simulation with these settings in seconds.
func (e *Estimate) Seconds(shape float64, seed uint64, steady bool) *Simulated {
	s := &Simulated{
		Runs: e.Runs, Seed: seed, Shape: shape, Steady: steady, Mean: e.Mean.Seconds(), Low: e.Low.Seconds(), High: e.High.Seconds(),
		StdDev: e.StdDev.Seconds(), Min: e.Min.Seconds(), Max: e.Max.Seconds(), P5: e.P5.Seconds(), P95: e.P95.Seconds(), Failures: e.Failures, Waste: e.Waste,
	}
	if shape == 1 {
		seconds, agrees := e.Expected.Seconds(), e.Low <= e.Expected && e.Expected <= e.High
		s.Expected, s.Agrees = &seconds, &agrees
	}
	return s
}
