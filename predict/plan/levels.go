package plan

import (
	"ckpt/interval"
	"ckpt/predict"
	"ckpt/predict/fit"
	"ckpt/predict/service"
	"math"
	"slices"
	"time"
)

// Levels are storage on the nodes that checkpoints go to first, and a store that they are
// copied into behind the job.
type Levels struct {
	// LocalMiBPerS is the rate of the storage of one node, NetworkMiBPerS that between
	// nodes, of one of them; 0: it delays nothing. StoreMiBPerS is the rate of the store, for
	// all nodes together; 0 takes the rate of the described storage.
	LocalMiBPerS, NetworkMiBPerS, StoreMiBPerS float64
	// Redundancy is how many bytes other nodes keep for each byte of a checkpoint.
	Redundancy float64
	// Slowdown is the share of the speed that the job loses while a checkpoint is drained.
	Slowdown float64
	// Share is how much of the failures checkpoints on the nodes survive. Slots is how many
	// of them a node has room for.
	Share float64
	Slots int
}

// A Pattern says which checkpoints go to which level.
type Pattern struct {
	Name   string                  `json:"name"`
	Levels []interval.PatternLevel `json:"pattern_level_list"`
	Waste  float64                 `json:"waste"`

	LevelCosts LevelCosts `json:"-"`
}

// LevelCosts is what checkpoints on levels cost. Times are in seconds.
type LevelCosts struct {
	FixedS  float64   // of each checkpoint: coordination and management, which no storage speeds up
	AllMiB  fit.Range // of the whole checkpoint
	NodeMiB fit.Range // of the fullest node, without redundancy
	LocalS  fit.Range // of a checkpoint on the nodes, with its redundancy
	StoreS  fit.Range // of one that is written into the store while the job waits
	DrainS  fit.Range // of copying one into the store behind the job
	// DrainCostS is what the job loses meanwhile.
	DrainCostS fit.Range
	// LocalRestartS and StoreRestartS are the times until the ranks compute again.
	LocalRestartS, StoreRestartS fit.Range
	// Slowdown is the share of the speed that message logs cost.
	Slowdown fit.Range
	Assumed  []string
	// Local and Store are what groups lose, nil of one group.
	Local, Store *service.ModeCost
}

func (l *Levels) check(described bool) error {
	for _, r := range []struct {
		name string
		rate float64
	}{{"storage of a node", l.LocalMiBPerS}, {"store", l.StoreMiBPerS}} {
		if !(r.rate > 0 && r.rate < 1e12) && !(described && r.rate == 0) {
			return fit.Refuse("give its bytes per second, like 2GiB/s", "a rate of %g MiB/s of the %s is impossible", r.rate, r.name)
		}
	}
	switch {
	case !(l.NetworkMiBPerS >= 0 && l.NetworkMiBPerS < 1e12):
		return fit.Refuse("give its bytes per second, like 10GiB/s", "a rate of %g MiB/s of the network is impossible", l.NetworkMiBPerS)
	case !(l.Slowdown >= 0 && l.Slowdown < 1):
		return fit.Refuse("give the share of the speed that the job loses while a checkpoint is drained, like 2%", "a slowdown of %g is impossible", l.Slowdown)
	case !(l.Redundancy >= 0 && l.Redundancy < 1e6):
		return fit.Refuse("give the bytes for each byte of a checkpoint", "redundancy of %g is impossible", l.Redundancy)
	}
	return nil
}

// costs predicts what checkpoints on the levels cost. The caller gives the rates, so
// that the ranges are of sizes and restarts.
func (l *Levels) costs(m *predict.Model, np int, c Cost) *LevelCosts {
	all, fixed := c.all()
	t := &LevelCosts{FixedS: fixed, AllMiB: all, NodeMiB: all.Scale(c.node())}
	write := t.NodeMiB.Scale((1 + l.Redundancy) / l.LocalMiBPerS)
	if l.NetworkMiBPerS > 0 {
		sent := t.NodeMiB.Scale(l.Redundancy / l.NetworkMiBPerS)
		write = fit.Range{Value: max(write.Value, sent.Value), Low: max(write.Low, sent.Low), High: max(write.High, sent.High)}
	} else if l.Redundancy > 0 {
		t.Assumed = append(t.Assumed, "the network does not delay redundancy")
	}
	t.LocalS = fit.Exactly(fixed).Plus(write)
	if t.DrainS = t.AllMiB.Scale(1 / l.StoreMiBPerS); l.StoreMiBPerS == 0 {
		t.DrainS = c.storage()
	}
	t.StoreS = fit.Exactly(fixed).Plus(t.DrainS)
	t.DrainCostS = t.DrainS.Scale(l.Slowdown)
	if l.Slowdown == 0 {
		t.Assumed = append(t.Assumed, "a drain does not slow the job down")
	}
	starting, assumed := m.Modes.Starting(np)
	t.Assumed = append(append(t.Assumed, assumed...), "reading is as fast as writing")
	if l.Redundancy > 0 {
		t.Assumed = append(t.Assumed, "making the files of a lost node again takes as long as reading them")
	}
	t.LocalRestartS = starting.Plus(t.NodeMiB.Scale(1 / l.LocalMiBPerS))
	t.StoreRestartS = starting.Plus(t.DrainS)
	return t
}

// The ends of ranges.
func middle(r fit.Range) float64  { return r.Value }
func lowEnd(r fit.Range) float64  { return r.Low }
func highEnd(r fit.Range) float64 { return r.High }

// Hierarchy is the nodes and the store, in the middle of all ranges.
func (p *Planning) Hierarchy(c *LevelCosts) *interval.Hierarchy { return p.nodesFirst(c, middle) }

func (p *Planning) nodesFirst(c *LevelCosts, end func(fit.Range) float64) *interval.Hierarchy {
	return &interval.Hierarchy{MTBF: interval.Lasting(p.MTBFS), Slots: p.Levels.Slots, Levels: []interval.StorageLevel{
		{Name: "local", Cost: max(1, interval.Lasting(end(c.LocalS))), Restart: interval.Lasting(end(c.LocalRestartS)), Share: p.Levels.Share},
		{Name: "store", Cost: max(0, interval.Lasting(end(c.DrainCostS))), Restart: interval.Lasting(end(c.StoreRestartS)), Drain: interval.Lasting(end(c.DrainS)), Share: 1},
	}}
}

func (p *Planning) storeAlone(c *LevelCosts, end func(fit.Range) float64) *interval.Hierarchy {
	return &interval.Hierarchy{MTBF: interval.Lasting(p.MTBFS), Levels: []interval.StorageLevel{
		{Name: "store", Cost: max(1, interval.Lasting(end(c.StoreS))), Restart: interval.Lasting(end(c.StoreRestartS)), Share: 1},
	}}
}

// pattern is the best with the interval asked for, or with one that the overhead pays for.
func (p *Planning) pattern(h *interval.Hierarchy, costS float64) (interval.Pattern, error) {
	best, err := h.Best(interval.Pattern{Interval: interval.Lasting(p.IntervalS)})
	if least := interval.Lasting(costS / max(p.Overhead, 1e-9)); err == nil && p.Overhead > 0 && best.Interval < least {
		return h.Best(interval.Pattern{Interval: least})
	}
	return best, err
}

// levels compares the best pattern over nodes and store with the store alone, for each mode.
func (p *Planning) levels(m *predict.Model, r predict.Request, size *predict.Size, base Option, cost Cost) (out []Option, err error) {
	together := p.Levels.costs(m, p.App.NP, cost)
	modes := p.Modes
	if modes == nil {
		modes = []service.Mode{service.Coordinated}
	}
	for _, mode := range modes {
		for _, log := range mode.Logs() {
			c, of := together, base
			if log != service.NoGroups {
				if log == service.None || len(p.Logs) > 0 && !slices.Contains(p.Logs, log) {
					continue // without a log no level bounds the way back
				}
				if c, of.Groups, err = p.ofGroups(m, r, size, cost, together, mode, log); err != nil {
					return nil, err
				}
				if of.GroupCount == 1 {
					continue
				}
			}
			list, err := p.onLevels(of, c)
			if err != nil {
				return nil, err
			}
			out = append(out, list...)
		}
	}
	if len(out) == 0 {
		return nil, fit.Refuse("name a mode of several groups with a log, or coordinated", "no mode that was asked for has groups whose logs bound the way back")
	}
	return out, nil
}

// ofGroups is what a mode makes of the costs of levels. Groups that store at the same time share
// their nodes and the store, and a group restarts alone.
func (p *Planning) ofGroups(m *predict.Model, r predict.Request, size *predict.Size, cost Cost, all *LevelCosts, mode service.Mode, log service.Log) (*LevelCosts, *Groups, error) {
	c, err := p.modeCase(m, r, size, cost, mode, log)
	if err != nil {
		return nil, nil, err
	}
	c.Together = p.Together[0]
	if m.Modes != nil { // what was measured of reading is of another storage
		machine := *m.Modes
		machine.ReadMiBPerS, machine.RestartTimes, c.Machine = nil, nil, &machine
	}
	_, fixed := cost.all()
	at := func(whole, mib fit.Range, share func(perNode []int) float64) (*service.ModeCost, error) {
		c.Store = func(perNode []int, _ int, keptMiB float64) (fit.Range, float64, error) {
			part := mib.Scale(share(perNode))
			return fit.Exactly(fixed).Plus(kept(whole.Scale(share(perNode)), part.Value, keptMiB, perNode)), part.Value, nil
		}
		return service.CostOf(c)
	}
	write, fullest := all.LocalS.Plus(fit.Exactly(-fixed)), float64(slices.Max(r.Mapping))
	local, err := at(write, all.NodeMiB, func(perNode []int) float64 { return float64(slices.Max(perNode)) / fullest })
	if err != nil {
		return nil, nil, err
	}
	store, err := at(all.DrainS, all.AllMiB, func(perNode []int) float64 {
		ranks := 0
		for _, n := range perNode {
			ranks += n
		}
		return float64(ranks) / float64(p.App.NP)
	})
	if err != nil {
		return nil, nil, err
	}
	of := *all
	of.LocalS, of.StoreS, of.LocalRestartS, of.StoreRestartS = local.AllS, store.AllS, local.RestartS, store.RestartS
	of.Slowdown, of.Local, of.Store = local.Slowdown, local, store
	of.Assumed = append(slices.Clone(all.Assumed), LivesAssume)
	for _, a := range local.Assumed {
		if !slices.Contains(of.Assumed, a) {
			of.Assumed = append(of.Assumed, a)
		}
	}
	g := &Groups{Mode: mode, Log: log, Together: c.Together, GroupCount: local.GroupCount, GroupRanks: local.GroupRanks, GroupS: local.GroupS.Value,
		CostS: local.AllS.Value, Iteration: local.Logged.Bytes, RestartRanks: local.RestartRanks, ModeCosts: *local}
	g.RestartS, g.RestartLowS, g.RestartHighS = local.RestartS.Value, local.RestartS.Low, local.RestartS.High
	return &of, g, nil
}

// onLevels compares both patterns of some costs.
func (p *Planning) onLevels(base Option, c *LevelCosts) (out []Option, err error) {
	for _, way := range []struct {
		name string
		cost fit.Range
		of   func(*LevelCosts, func(fit.Range) float64) *interval.Hierarchy
	}{{"nodes, then store", c.LocalS, p.nodesFirst}, {"plain store", c.StoreS, p.storeAlone}} {
		o := base
		o.CheckpointS, o.LowS, o.HighS = way.cost.Value, way.cost.Low, way.cost.High
		never := Finite(math.Inf(1))
		o.Failing = &Failing{Expected: never, Low: never, High: never, Assumes: append([]string{}, c.Assumed...)}
		o.Pattern = &Pattern{Name: way.name, Waste: 1, Levels: []interval.PatternLevel{}, LevelCosts: *c}
		for _, end := range []struct {
			of, other func(fit.Range) float64
			to        *Finite
		}{{middle, middle, &o.Expected}, {lowEnd, highEnd, &o.Failing.Low}, {highEnd, lowEnd, &o.Failing.High}} {
			h := way.of(c, end.of)
			best, err := p.pattern(h, end.of(way.cost))
			var row interval.PatternRow
			if err == nil {
				row, err = h.Row(interval.Lasting(p.AppSeconds), best)
			}
			if err == nil { // this run may take few checkpoints, or none
				var total time.Duration
				total, err = h.Expected(interval.Lasting(p.AppSeconds), best)
				row.Total = total.Seconds()
				row.Waste = 1 - p.AppSeconds/max(row.Total, p.AppSeconds)
			}
			if outOfRange(err) != nil {
				return nil, err
			}
			if err != nil {
				continue // the job makes no progress
			}
			var lived *interval.Simulated
			if c.Local != nil {
				if lived, err = p.livesOnLevels(c, best, end.of, end.other); err != nil {
					return nil, err
				} else if lived == nil {
					continue
				}
				row.Total, row.Waste = lived.Mean, lived.Waste
			}
			*end.to = Finite(row.Total)
			if end.to == &o.Expected {
				o.Simulated = lived
				o.IntervalS, o.LostS, o.Pattern.Levels, o.Waste = row.Interval, row.Interval/2, row.Levels, row.Waste
				o.Count = int(math.Ceil(o.AppS/row.Interval)) - 1
				o.TotalS = o.AppS + float64(o.Count)*o.CheckpointS
			}
		}
		o.Failing.order()
		out = append(out, o)
	}
	return out, nil
}
