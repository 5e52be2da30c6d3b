package interval

import (
	"fmt"
	"math"
	"time"

	"gonum.org/v1/gonum/stat/distuv"
)

// Hierarchy is a job whose checkpoints go to several levels of storage. See the package
// comment for the model.
type Hierarchy struct {
	Levels   []StorageLevel // nearest first; checkpoints of the last survive every failure
	MTBF     time.Duration  // M, of the whole job
	Downtime time.Duration  // D, after every failure, free of failures
	// Slots is how many checkpoints the levels before the last have room for, one of them
	// being drained: with 2 the second checkpoint after it begins when the drain has ended.
	// 0 means that no checkpoint waits for room.
	Slots int
}

// InFlight is a job that computes while up to n of its checkpoints wait in memory or are written,
// which takes lag for each. Cost is the time for which it stands still.
func InFlight(m Model, lag time.Duration, n int) *Hierarchy {
	return &Hierarchy{MTBF: m.MTBF, Downtime: m.Downtime, Slots: n, Levels: []StorageLevel{
		{Name: "memory", Cost: m.Cost, Volatile: true},
		{Name: "store", Restart: m.Restart, Drain: lag, Share: 1},
	}}
}

// StorageLevel is one level of storage.
type StorageLevel struct {
	Name string // for errors
	// Cost is what the application loses to a checkpoint of this level beyond one of the
	// levels before: a checkpoint goes through them, one after the other.
	Cost time.Duration
	// Restart is the time to read a checkpoint back, into the levels before, too.
	Restart time.Duration
	// Share is the share of the failures that checkpoints of this level survive. It grows
	// from level to level, and the last level's is 1.
	Share float64
	// Volatile says that checkpoints of this level survive no failure, as copies in memory do.
	Volatile bool
	// Drain is the time after a checkpoint of the last level until it is safe there: it is
	// copied behind the job, and Cost is how much that slows the job down in all. 0 means
	// that it is safe when the job goes on.
	Drain time.Duration
}

// Pattern says which checkpoints go to which level.
type Pattern struct {
	Interval time.Duration // of work between two checkpoints
	// Every has an entry for each level but the first: every so many checkpoints of the
	// level before, one goes on to this level.
	Every []int
}

// limits of hierarchies and patterns.
const (
	maxLevels = 8
	maxEvery  = 1_000_000
	maxSpan   = 1_000_000_000 // checkpoints of a pattern
)

func (h *Hierarchy) check() error {
	if len(h.Levels) == 0 || len(h.Levels) > maxLevels {
		return outOfRange("number of storage levels", len(h.Levels), "must be 1 to 8", "describe each level, the nearest first")
	}
	if err := positive("MTBF", h.MTBF); err != nil {
		return err
	}
	if err := notNegative("downtime", h.Downtime); err != nil {
		return err
	}
	if h.Slots < 0 {
		return outOfRange("number of slots", h.Slots, "must not be negative", "give how many checkpoints a node has room for, 0 for no limit")
	}
	var total time.Duration
	for i := range h.Levels {
		if err := h.checkLevel(i); err != nil {
			return err
		}
		if total += h.Levels[i].Cost; total/maxRatio >= h.MTBF || total < 0 {
			return outOfRange("checkpoint cost of all levels", total, fmt.Sprintf("is not below twice the MTBF of %v, so hardly any checkpoint would be finished", h.MTBF),
				"make checkpoints cheaper, or run on fewer nodes: a job of half the nodes fails half as often")
		}
	}
	return nil
}

func (h *Hierarchy) checkLevel(i int) error {
	l := &h.Levels[i]
	last := i == len(h.Levels)-1
	of := func(quantity string) string { return quantity + " of level " + l.Name }
	if err := notNegative(of("checkpoint cost"), l.Cost); err != nil {
		return err
	}
	if i == 0 {
		if err := positive(of("checkpoint cost"), l.Cost); err != nil {
			return err
		}
	}
	if err := notNegative(of("restart time"), l.Restart); err != nil {
		return err
	}
	if err := notNegative(of("drain time"), l.Drain); err != nil {
		return err
	}
	switch {
	case l.Restart/maxRatio >= h.MTBF:
		return outOfRange(of("restart time"), l.Restart, fmt.Sprintf("is not below twice the MTBF of %v, so hardly any restart would succeed", h.MTBF),
			"make restarts cheaper, or run on fewer nodes: a job of half the nodes fails half as often")
	case last && l.Share != 1:
		return outOfRange(of("share of failures"), l.Share, "must be 1 for the last level", "name a last level that survives every failure, like a store")
	case !last && !(l.Share > 0 && l.Share < 1) && !(l.Volatile && l.Share == 0):
		return outOfRange(of("share of failures"), l.Share, "must be over 0 and below 1", "give the share of the failures that checkpoints of this level survive, like 85%; a level that survives all is the last")
	case i > 0 && !(l.Share > h.Levels[i-1].Share):
		return outOfRange(of("share of failures"), l.Share, fmt.Sprintf("is not over the %v of the level before, so that the level saves nothing", h.Levels[i-1].Share),
			"give the share with that of the level before, or leave the level out")
	case !last && l.Drain != 0:
		return outOfRange(of("drain time"), l.Drain, "belongs to the last level", "give the drain time of the last level, the store")
	}
	return nil
}

// DrainTime is the quantity of a [RangeError] about a pattern that is faster than the drain.
const DrainTime = "drain time"

func (h *Hierarchy) checkPattern(p Pattern) error {
	if err := h.check(); err != nil {
		return err
	}
	if err := positive("interval", p.Interval); err != nil {
		return err
	}
	if len(p.Every) != len(h.Levels)-1 {
		return outOfRange("pattern", p.Every, fmt.Sprintf("needs %d counts, one for each level but the first", len(h.Levels)-1), "give how many checkpoints of a level there are for one of the next")
	}
	span := 1
	for i, n := range p.Every {
		if err := h.checkEvery(i+1, n); err != nil {
			return err
		}
		if span *= n; span > maxSpan {
			return outOfRange("pattern", p.Every, "has over 10^9 checkpoints", "store more often")
		}
	}
	r := h.rates()
	drain := h.Levels[len(h.Levels)-1].Drain
	if shortest := r.shape(p.Every).shortest(); p.Interval.Seconds() < shortest*(1-1e-9) {
		return outOfRange(DrainTime, drain, fmt.Sprintf("is too long for an interval of %v: checkpoints would wait for a drain to end", p.Interval),
			fmt.Sprintf("give an interval of %v or more, or drain less often", time.Duration(math.Ceil(shortest))*time.Second))
	}
	return nil
}

func (h *Hierarchy) checkEvery(level, n int) error {
	if n >= 1 && n <= maxEvery {
		return nil
	}
	return outOfRange("count of level "+h.Levels[level].Name, n, "must be 1 to 1000000", "give how many checkpoints of the level before there are for one of this level")
}

// Without is the hierarchy without a level that is not the last: what that level
// survived falls to the next.
func (h *Hierarchy) Without(level int) Hierarchy {
	out := *h
	out.Levels = append(append([]StorageLevel{}, h.Levels[:level]...), h.Levels[level+1:]...)
	out.WaitForDrain()
	return out
}

// WaitForDrain has the job wait for as long as the drain takes, if the last level is alone: it
// has no level to drain from. It returns the time of the drain, 0 if nothing changes.
func (h *Hierarchy) WaitForDrain() (drain time.Duration) {
	if last := &h.Levels[0]; len(h.Levels) == 1 && last.Drain > 0 {
		drain = last.Drain
		last.Cost, last.Drain = max(last.Cost, drain), 0
	}
	return drain
}

// hrates are a checked hierarchy in seconds, with the coefficients of the package
// comment. Index 0 is the first level.
type hrates struct {
	mtbf, down, drain float64
	slots             int
	cost, restart     []float64
	upTo              []float64 // cost of a checkpoint of this level: its own and those before
	share             []float64 // of the failures that need this level
	unit              float64   // A
	beta              []float64 // β: B of this level and all after
}

func (h *Hierarchy) rates() *hrates {
	n := len(h.Levels)
	r := &hrates{mtbf: h.MTBF.Seconds(), down: h.Downtime.Seconds(), drain: h.Levels[n-1].Drain.Seconds(), slots: h.Slots,
		cost: make([]float64, n), restart: make([]float64, n), upTo: make([]float64, n), share: make([]float64, n), beta: make([]float64, n)}
	sum, survived := 0.0, 0.0
	for i := range h.Levels {
		l := &h.Levels[i]
		sum += l.Cost.Seconds()
		r.cost[i], r.upTo[i], r.restart[i] = l.Cost.Seconds(), sum, l.Restart.Seconds()
		r.share[i] = l.Share - survived
		survived = l.Share
	}
	r.solve()
	return r
}

// solve finds the mean time from a failure until the job is back where it failed, as a
// constant and a multiple of the work that each level has to repeat. A failure during
// a restart may need a level further away, so the last level comes first.
func (r *hrates) solve() {
	n := len(r.cost)
	fixed := make([]float64, n)   // of a failure that needs this level
	times := make([][]float64, n) // how often it repeats what level j lost
	beyond := 0.0                 // share of the failures that need a level after this one
	for k := n - 1; k >= 0; k-- {
		fails := -math.Expm1(-r.restart[k] / r.mtbf)
		ends := 1 - fails*(1-beyond) // the restart succeeds, or a level after this one takes over
		fixed[k] = r.down + fails*r.mtbf
		times[k] = make([]float64, n)
		times[k][k] = 1 - fails
		for m := k + 1; m < n; m++ {
			fixed[k] += fails * r.share[m] * fixed[m]
			for j := range times[k] {
				times[k][j] += fails * r.share[m] * times[m][j]
			}
		}
		fixed[k] /= ends
		for j := range times[k] {
			times[k][j] /= ends
		}
		beyond += r.share[k]
	}
	r.unit = r.mtbf
	for k := range n {
		r.unit += r.share[k] * fixed[k]
		for j := range n {
			for l := range j + 1 {
				r.beta[l] += r.share[k] * times[k][j]
			}
		}
	}
}

// A LevelRow is a storage level in seconds.
type LevelRow struct {
	Name    string  `json:"name"`
	Cost    float64 `json:"added_cost_s"`
	Restart float64 `json:"restart_s"`
	Share   float64 `json:"survived_share"`
	Drain   float64 `json:"drain_s"`
}

// A PatternRow is a pattern and what it costs.
type PatternRow struct {
	Rule       string         `json:"rule"`
	Interval   float64        `json:"interval_s"`
	Levels     []PatternLevel `json:"pattern_level_list"`
	Waste      float64        `json:"waste"`
	FirstOrder *float64       `json:"waste_first_order"` // null where that order does not suffice
	Total      float64        `json:"total_s"`

	Pattern   Pattern    `json:"-"`
	Hierarchy *Hierarchy `json:"-"`
	Other     bool       `json:"-"` // its failures are not those of the job
}

// A PatternLevel says which checkpoints of a pattern go to a level.
type PatternLevel struct {
	Name   string  `json:"name"`
	Every  int     `json:"every_count"` // of all checkpoints, one of this many has this level
	Period float64 `json:"level_period_s"`
}

// Rows are the levels.
func (h *Hierarchy) Rows() (rows []LevelRow) {
	for _, l := range h.Levels {
		rows = append(rows, LevelRow{l.Name, l.Cost.Seconds(), l.Restart.Seconds(), l.Share, l.Drain.Seconds()})
	}
	return rows
}

// Row is what a run of work costs with a pattern.
func (h *Hierarchy) Row(work time.Duration, p Pattern) (row PatternRow, err error) {
	total, err := h.Total(work, p)
	if err != nil {
		return row, err
	}
	row.Interval, row.Total = p.Interval.Seconds(), total.Seconds()
	if row.Waste, err = h.Waste(p); err != nil {
		return row, err
	}
	if first, err := h.FirstOrderWaste(p); err == nil {
		row.FirstOrder = &first
	}
	every := 1
	for l := range h.Levels {
		if l > 0 {
			every *= p.Every[l-1]
		}
		period, err := h.Period(p, l)
		if err != nil {
			return row, err
		}
		row.Levels = append(row.Levels, PatternLevel{h.Levels[l].Name, every, period.Seconds()})
	}
	return row, nil
}

// A ShareFit is a share of failures that was counted.
type ShareFit struct {
	Count, Of int     // so many of all
	Value     float64 // over 0 and below 1
	// Low and High hold the true share in 95 of 100 cases or more.
	Low, High float64
}

// fewFailures is how many failures leave the share open: of 30, the interval of 85 % is
// 66 to 96 %.
const fewFailures = 30

// FitShare estimates a share from a count. The value is the mean under Jeffreys' prior,
// (count+½)/(of+1), as the share of a level must be neither 0 nor 1; the interval is the
// exact one of Clopper and Pearson (Biometrika 26(4), 1934).
func FitShare(count, of int) (ShareFit, error) {
	if of < 1 || count < 0 || count > of {
		return ShareFit{}, outOfRange("number of failures", of, "does not tell a share", "run the job until failures are counted, or give the share")
	}
	x, n := float64(count), float64(of)
	f := ShareFit{Count: count, Of: of, Value: (x + 0.5) / (n + 1), High: 1}
	if count > 0 {
		f.Low = distuv.Beta{Alpha: x, Beta: n - x + 1}.Quantile(0.025)
	}
	if count < of {
		f.High = distuv.Beta{Alpha: x + 1, Beta: n - x}.Quantile(0.975)
	}
	return f, nil
}

// Few says that the count leaves the share open.
func (f *ShareFit) Few() bool { return f.Of < fewFailures }
