package plan

import (
	"errors"
	"math"
	"slices"

	"ckpt/interval"
	"ckpt/predict"
	"ckpt/predict/fit"
	"ckpt/predict/service"
)

// Groups is what a mode and a log cost.
type Groups struct {
	Mode       service.Mode `json:"mode"`
	Log        service.Log  `json:"log"`
	GroupCount int          `json:"group_count"`
	GroupRanks int          `json:"group_ranks"`
	Together   float64      `json:"together_share"` // of the groups that store at the same time
	GroupS     float64      `json:"group_checkpoint_s"`
	CostS      float64      `json:"cost_s"` // CheckpointS
	// LogMiB is logged in an interval by all ranks, and KeptMiB kept by senders. LogS is the
	// time that this costs the job.
	LogMiB    predict.MiB `json:"log_bytes"`
	KeptMiB   predict.MiB `json:"kept_log_bytes"`
	Iteration float64     `json:"iteration_log_bytes"`
	LogS      float64     `json:"log_wait_s"`
	LogLowS   float64     `json:"log_wait_low_s"`
	LogHighS  float64     `json:"log_wait_high_s"`
	// RestartS is the time of a restart with the logs of half an interval.
	RestartS     float64 `json:"restart_s"`
	RestartLowS  float64 `json:"restart_low_s"`
	RestartHighS float64 `json:"restart_high_s"`
	RestartRanks int     `json:"ranks"`
	Domino       bool    `json:"unbounded"`

	ModeCosts service.ModeCost `json:"-"` // before failures are counted
}

// modes adds every mode and log to an option.
func (p *Planning) modes(m *predict.Model, r predict.Request, size *predict.Size, base Option, cost Cost) (out []Option, err error) {
	for _, mode := range p.Modes {
		for _, log := range mode.Logs() {
			if log != service.NoGroups && len(p.Logs) > 0 && !slices.Contains(p.Logs, log) {
				continue
			}
			c, err := p.modeCase(m, r, size, cost, mode, log)
			if err != nil {
				return nil, err
			}
			if one := !slices.ContainsFunc(c.Groups, func(g int) bool { return g != c.Groups[0] }); one && mode != service.Coordinated && len(out) > 0 {
				break // the same as one that is there
			}
			for _, c.Together = range p.Together {
				costs, err := service.CostOf(c)
				if err != nil {
					return nil, err
				}
				o := base
				if err := p.behind(m, c, cost, costs, &o); err != nil {
					return nil, err
				}
				o.Groups = &Groups{Mode: mode, Log: log, Together: c.Together, ModeCosts: *costs}
				if costs.GroupCount == 1 {
					o.Log, o.Together = service.NoGroups, 1
				}
				if err := p.expect(&o); err != nil {
					return nil, err
				}
				out = append(out, o)
				if costs.GroupCount == 1 {
					break
				}
			}
		}
	}
	return out, nil
}

// behind says when checkpoints of groups are safe that are written behind the job, and how long a
// restart reads them from the storage.
func (p *Planning) behind(m *predict.Model, c *service.ModeCase, cost Cost, costs *service.ModeCost, o *Option) error {
	if cost.Stored == nil || !cost.Stored.Async {
		return nil
	}
	here, waiting := *c, *cost.Stored
	if waiting.Async = false; p.Storage != nil {
		here.Store = p.simulated(Cost{Stored: &waiting}, c.Mapping)
	} else {
		here.Store = m.StoredParts(&waiting, p.Probe)
	}
	written, err := service.CostOf(&here)
	if err != nil {
		return err
	}
	if costs.RestartS = written.RestartS; costs.GroupCount > 1 {
		o.lag = &written.AllS
		o.Lag = &Lag{written.AllS.Value, written.AllS.Low, written.AllS.High, max(1, waiting.InFlight)}
	}
	return nil
}

// modeCase describes a mode and log to package service.
func (p *Planning) modeCase(m *predict.Model, r predict.Request, size *predict.Size, cost Cost, mode service.Mode, log service.Log) (*service.ModeCase, error) {
	groups, err := service.Groups(mode, r.Mapping, p.GroupSize)
	if err != nil {
		return nil, fit.Refuse("choose coordinated, semi or uncoordinated", "%v", err)
	}
	c := &service.ModeCase{Mode: mode, Log: log, Mapping: r.Mapping, Groups: groups, Machine: m.Modes, IterationS: p.AppSeconds}
	if p.Storage != nil {
		c.Store = p.simulated(cost, r.Mapping)
	} else if cost.Stored != nil {
		c.Store = m.StoredParts(cost.Stored, p.Probe)
	} else if c.Store, err = m.ImageParts(size, r, cost.Time.Codec, p.Probe); err != nil {
		return nil, err
	}
	// Jobs of ckpt read the data zone: the library is that of the program, and of a segment
	// one page is stored. Where images were timed, restarts were of whole ones.
	if c.ReadMiB = float64(size.Files[0].Zones.Data); cost.Stored == nil && len(m.ImageTimes) > 0 {
		c.ReadMiB = float64(size.Files[0].MiB)
	}
	if s := cost.Stored; s != nil && s.Saved {
		c.ReadMiB = s.Full.Total.Value / float64(r.App.NP) / (1 << 20)
	}
	inst := r.App.Instance()
	if inst != nil {
		c.Traffic, c.IterationS = service.CountTraffic(inst, groups), p.AppSeconds/float64(inst.Iterations)
	}
	unknown := inst == nil || len(inst.Messages) == 0
	counts := slices.DeleteFunc(slices.Clone(m.Exchanges), func(e service.Exchange) bool { return e.App != r.App.Name })
	if i := slices.IndexFunc(counts, func(e service.Exchange) bool { return e.NP == r.App.NP }); i >= 0 && unknown {
		c.Traffic, c.IterationS, unknown = counts[i].Traffic(groups), counts[i].StepS, false
	}
	c.LoggedBytes = m.Modes.Logged(r.App.Name, r.App.Class, r.App.NP, mode, log, groups)
	if unknown && c.LoggedBytes == nil && mode != service.Coordinated && log != service.None {
		if len(counts) > 0 {
			return nil, fit.Refuse("count them in a run on as many (ckpt sdk pmpi), and fit a model to the counts", "the messages of %s were counted on another number of ranks", r.App)
		}
		return nil, fit.Refuse("count them with ckpt sdk pmpi and fit a model to the counts, describe them in a YAML file (docs/WORKLOADS.md), or fit a model to a job with groups", "the messages of %s are not known", r.App)
	}
	return c, nil
}

// simulated is the time of a checkpoint on a described storage: of all ranks as it is known, of
// some of them in a simulation of its own. Coordination and management cost them as much as all.
func (p *Planning) simulated(c Cost, all []int) service.Storing {
	return func(perNode []int, agree int, keptMiB float64) (fit.Range, float64, error) {
		if slices.Equal(perNode, all) {
			if s := c.Stored; s != nil && s.Async {
				return s.NextTime.Pause, s.Next.Total.Value / (1 << 20), nil
			} else if s != nil {
				return s.NextTime.Total, s.Next.Total.Value / (1 << 20), nil
			}
			seconds, mib := c.Mean(1)
			return seconds, float64(mib), nil
		}
		seconds, mib, err := p.Storage.Part(c.Time, c.Stored, perNode)
		if err != nil {
			return seconds, mib, err
		}
		if s := c.Stored; s != nil && s.Async { // ranks copy what they store, each at its processor
			return s.NextTime.Pause, mib, nil
		}
		coordination, management := 0.0, 0.0
		if s := c.Stored; s != nil {
			coordination, management = s.NextTime.Coordination, s.NextTime.Management
		} else {
			coordination, management = c.Time.Latency.Coordination, c.Time.Latency.Management
		}
		if agree > 0 {
			management += coordination
		}
		return kept(seconds, mib, keptMiB, perNode).Plus(fit.Exactly(management)), mib, nil
	}
}

// kept makes a time of storing longer by the messages that each rank keeps.
func kept(seconds fit.Range, mib, keptMiB float64, perNode []int) fit.Range {
	if mib == 0 {
		return seconds
	}
	ranks := 0
	for _, n := range perNode {
		ranks += n
	}
	return seconds.Scale(1 + float64(ranks)*keptMiB/mib)
}

// expect computes what failures make of the costs of a mode.
func (p *Planning) expect(o *Option) (err error) {
	c, g := &o.ModeCosts, o.Groups
	f := failing{lag: o.lag, appS: p.AppSeconds, costS: c.AllS.Value, restartS: c.RestartS.Value, groups: c.GroupCount > 1, slowdown: c.Slowdown.Value,
		growth: c.KeptS.Value, replay: c.ReplaySpeed.Value, intervalS: p.IntervalS, batches: batches(c, g.Together)}
	if o.Lag != nil {
		f.inFlight = o.InFlight
	}
	f.middle = true
	if o.IntervalS, _, _, err = p.expected(f); err != nil {
		return err
	}
	tau := o.IntervalS
	f.middle = false
	f.intervalS = tau
	o.Failing = &Failing{Assumes: append([]string{}, c.Assumed...)}
	lag := o.lag
	restart := c.RestartS.Plus(c.LogReadS.Scale(tau / 2))
	for _, end := range []struct {
		to                                      *Finite
		cost, restart, slowdown, growth, replay float64
		scratch                                 bool
		lag                                     func(fit.Range) float64
	}{
		{&o.Failing.Low, c.AllS.Low, restart.Low, c.Slowdown.Low, c.KeptS.Low, c.ReplaySpeed.High, false, lowEnd},
		{&o.Expected, c.AllS.Value, restart.Value, c.Slowdown.Value, c.KeptS.Value, c.ReplaySpeed.Value, c.Domino, middle},
		{&o.Failing.High, c.AllS.High, restart.High, c.Slowdown.High, c.KeptS.High, c.ReplaySpeed.Low, c.Domino, highEnd},
	} {
		f.costS, f.restartS, f.slowdown, f.growth, f.replay, f.scratch = end.cost, end.restart, end.slowdown, end.growth, end.replay, end.scratch
		if lag != nil {
			at := fit.Exactly(end.lag(*lag))
			f.lag = &at
		}
		_, total, lived, err := p.expected(f)
		if err != nil {
			return err
		}
		if *end.to = Finite(total); end.to == &o.Expected && lived != nil {
			o.Simulated, o.Assumes = lived, append(o.Assumes, LivesAssume)
		}
	}
	o.Failing.order()
	cost := c.Round(tau)
	o.resize(predict.MiB(c.StoredMiB + c.KeptMiBPerS*tau))
	o.CheckpointS, o.LowS, o.HighS, g.CostS = cost.Value, cost.Low, cost.High, cost.Value
	if o.LostS = p.lost(c, tau); o.Lag != nil && c.GroupCount == 1 {
		o.LostS += o.LagS
	}
	o.Count = int(math.Max(0, math.Ceil(p.AppSeconds/(1-c.Slowdown.Value)/tau-1e-9)-1))
	o.TotalS = o.AppS + float64(o.Count)*o.CheckpointS
	behind := func(slowdown float64) float64 { return tau * slowdown / (1 - slowdown) }
	g.GroupCount, g.GroupRanks, g.GroupS, g.RestartRanks, g.Domino = c.GroupCount, c.GroupRanks, c.GroupS.Value, c.RestartRanks, c.Domino
	g.LogMiB, g.KeptMiB, g.Iteration = predict.MiB(c.LogMiBPerS*tau), predict.MiB(c.KeptMiBPerS*tau), c.Logged.Bytes
	if c.GroupCount > 1 { // groups keep two checkpoints each, and logs since the older one
		o.StorageMiB = 2*o.GstoredMiB + 2*g.LogMiB
		o.Fits = p.holds(o.StorageMiB)
	}
	g.LogS, g.LogLowS, g.LogHighS = behind(c.Slowdown.Value), behind(c.Slowdown.Low), behind(c.Slowdown.High)
	g.RestartS, g.RestartLowS, g.RestartHighS = restart.Value, restart.Low, restart.High
	return nil
}

// order keeps the ends of the expected time around it: with a fixed interval between
// checkpoints a cheaper checkpoint need not make the run shorter.
func (f *Failing) order() {
	f.Low, f.High = min(f.Low, f.Expected), max(f.High, f.Expected)
}

// resize says what a checkpoint stores, with the relative interval that it had.
func (o *Option) resize(stored predict.MiB) {
	if o.GstoredMiB > 0 {
		share := stored / o.GstoredMiB
		o.LowMiB, o.HighMiB = o.LowMiB*share, o.HighMiB*share
	}
	o.GstoredMiB = stored
}

// lost is the time of repeating what a failure destroys: on average a little less than half
// of the time between checkpoints, or of the whole run where nothing bounds the way back.
func (p *Planning) lost(c *service.ModeCost, tau float64) float64 {
	mean := func(w float64) float64 { // of an exponential time, if it is below w
		x := w / p.MTBFS
		if x < 1e-6 {
			return w / 2
		}
		return p.MTBFS - w/math.Expm1(x)
	}
	if c.Domino {
		return mean(p.AppSeconds * (1 + c.AllS.Value/tau))
	}
	return mean(tau+c.AllS.Value) / c.ReplaySpeed.Value
}

// A failing job runs on a machine that fails. Times are in seconds.
type failing struct {
	appS     float64
	costS    float64 // that the job loses to one checkpoint of every group
	restartS float64
	groups   bool // only the group that failed rolls back
	// slowdown is the share of the speed that logging costs, growth the seconds that a
	// second of work adds to a checkpoint, replay the speed of repeated work.
	slowdown, growth, replay float64
	// lag is of checkpoints behind the job, up to inFlight at a time; nil without.
	lag      *fit.Range
	inFlight int
	// batches is how many times groups store until each has.
	batches int
	// intervalS is to be used, 0 for the best.
	intervalS float64
	// scratch says that each failure takes the job back to its beginning, middle that costs are in the
	// middle of their ranges: an interval that is too short there is refused.
	scratch, middle bool
}

// expected returns the interval between checkpoints and the expected time of the run, +Inf if
// the job is not expected to end, and the lives that tell it where no closed form does.
func (p *Planning) expected(f failing) (tau, total float64, lived *interval.Simulated, err error) {
	if f.lag != nil && f.groups && !f.scratch {
		return p.live(f.job(f.behind()...), 1)
	}
	tau, total, err = p.closed(f)
	return tau, total, nil, err
}

// closed is expected by a closed form.
func (p *Planning) closed(f failing) (tau, total float64, err error) {
	m := interval.Model{Cost: max(1, interval.Lasting(f.costS)), MTBF: interval.Lasting(p.MTBFS), Restart: interval.Lasting(f.restartS)}
	if f.lag != nil && !f.groups && !f.scratch {
		return p.inFlight(f, m)
	}
	if f.groups && !f.scratch {
		m.Mode = interval.Uncoordinated
		m.Logging = interval.Logging{Slowdown: f.slowdown, Share: 1, Growth: f.growth, Replay: f.replay}
	}
	if tau = f.intervalS; tau == 0 {
		best, err := m.BestUpTo(interval.Lasting(f.appS), affordable(f.appS, f.costS, p.Overhead))
		if err != nil {
			return f.appS, math.Inf(1), outOfRange(err)
		}
		tau = best.Interval.Seconds()
	}
	work, every := f.appS, tau
	if f.scratch {
		work = work/(1-f.slowdown) + math.Ceil(work/tau-1)*f.costS
		every = work
	}
	if work > maxSeconds {
		return tau, math.Inf(1), nil
	}
	t, err := m.Expected(interval.Lasting(work), interval.Lasting(every))
	if err != nil {
		return tau, math.Inf(1), outOfRange(err)
	}
	return tau, t.Seconds(), nil
}

// inFlight is expected of checkpoints behind the job: they follow each other no faster than the
// storage takes them, and a failure also costs what is not durable.
func (p *Planning) inFlight(f failing, m interval.Model) (tau, total float64, err error) {
	h := interval.InFlight(m, interval.Lasting(f.lag.Value), f.inFlight)
	best := interval.Pattern{Interval: interval.Lasting(f.intervalS), Every: []int{1}}
	if f.intervalS == 0 {
		if best, err = h.Best(best); err != nil {
			return f.appS, math.Inf(1), outOfRange(err)
		}
		least := f.lag.Value
		if p.Overhead > 0 {
			least = max(least, f.costS/p.Overhead)
		}
		best.Interval = min(max(best.Interval, interval.Lasting(least)), interval.Lasting(f.appS))
	}
	t, err := h.Expected(interval.Lasting(f.appS), best)
	if short := new(interval.RangeError); f.middle && errors.As(err, &short) && short.Quantity == interval.DrainTime {
		return 0, 0, fit.Refuse(short.Remedy, "%v", err)
	}
	if err != nil {
		return best.Interval.Seconds(), math.Inf(1), outOfRange(err)
	}
	return best.Interval.Seconds(), t.Seconds(), nil
}

// maxSeconds is below the longest time.Duration.
const maxSeconds = 9e9

// affordable is how many checkpoints an accepted overhead pays for, 0 for any overhead.
func affordable(app, cost, overhead float64) int {
	if overhead == 0 || cost == 0 {
		return math.MaxInt32
	}
	return int(min(math.MaxInt32, overhead*app/cost))
}

// outOfRange drops the error of a job that never ends: it is a result here.
func outOfRange(err error) error {
	if errors.As(err, new(*interval.RangeError)) {
		return nil
	}
	return err
}
