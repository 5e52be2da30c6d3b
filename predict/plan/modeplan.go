package plan

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"time"

	"ckpt/dataset"
	"ckpt/interval"
	"ckpt/predict"
	"ckpt/predict/fit"
	"ckpt/predict/modes"
)

// A failing job runs on a machine that fails. Times are in seconds.
type failing struct {
	AppS     float64
	CostS    float64 // that the job loses to one checkpoint of every group
	RestartS float64
	Groups   bool // only the group that failed rolls back
	// Slowdown is the share of the speed that logging costs, Growth the seconds that a
	// second of work adds to a checkpoint, Replay the speed of repeated work.
	Slowdown, Growth, Replay float64
	// IntervalS is to be used, 0 for the best.
	IntervalS float64
	// Scratch says that each failure takes the job back to its beginning.
	Scratch bool
}

// A ModePlanning asks for a comparison of modes and logs.
type ModePlanning struct {
	predict.Request
	Codec     string
	Probe     *fit.Probe
	Engine    dataset.Engine // dmtcp by default; for ckpt Storing says how it stores
	Storing   predict.Storing
	AppS      float64
	MTBFS     float64 // of the whole job
	Modes     []modes.Mode
	Logs      []modes.Log // of modes with groups; all of them by default
	GroupSize int
	Together  float64 // share of the groups that store at the same time
	IntervalS float64 // 0: the best of each mode
	Overhead  float64 // bounds what checkpoints may cost, unless it is 0
}

// A ModeOption is one mode and log of a comparison.
type ModeOption struct {
	Mode modes.Mode
	Log  modes.Log
	modes.Result
	// IntervalS is from the end of a checkpoint to the start of the next, Count how many
	// each group takes. LogMiB is logged in an interval by all ranks, LogS the time that
	// this costs the job.
	IntervalS float64
	Count     int
	LogMiB    float64
	LogS      modes.Range
	// FailS is the time of a restart with the logs of half an interval. LostS is the
	// time of repeating what a failure destroys, on average.
	FailS, LostS modes.Range
	// TotalS is the expected time of the run; +Inf if it does not end.
	TotalS modes.Range
	Best   bool
}

// Modes predicts every mode and log and marks the best by the expected time. Options
// are sorted, the best first.
func Modes(m *predict.Model, p ModePlanning) ([]ModeOption, error) {
	r, err := p.Request.Normal()
	if err != nil {
		return nil, err
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	size, err := m.Size(p.Request)
	if err != nil {
		return nil, err
	}
	var out []ModeOption
	for _, mode := range p.Modes {
		for _, log := range mode.Logs() {
			if log != modes.NoGroups && len(p.Logs) > 0 && !slices.Contains(p.Logs, log) {
				continue
			}
			o, err := modeOption(m, &p, r, size, mode, log)
			if err != nil {
				return nil, err
			}
			out = append(out, *o)
		}
	}
	if len(out) == 0 {
		return nil, fit.Refuse("semi works with the pessimistic logs, uncoordinated with all", "no mode asked for works with the logs asked for")
	}
	slices.SortStableFunc(out, func(a, b ModeOption) int { return cmp.Compare(a.TotalS.Value, b.TotalS.Value) })
	out[0].Best = !math.IsInf(out[0].TotalS.Value, 1)
	return out, nil
}

func (p *ModePlanning) check() error {
	switch {
	case !(p.AppS > 0 && p.AppS < 1e10):
		return fit.Refuse("give the time of the run without checkpoints, like 24h", "a run of %g seconds cannot be planned", p.AppS)
	case !(p.MTBFS > 0 && p.MTBFS < 1e10):
		return fit.Refuse("give the mean time between failures of the job, like 24h", "failures every %g seconds cannot be planned", p.MTBFS)
	case p.Law == fit.Thesis:
		return fit.RefuseFor(fit.UseAutoLaw, "the thesis has no equation for the time of some ranks of a node")
	case p.GroupSize < 0 || p.GroupSize > p.App.NP:
		return fit.Refuse("give 1 to the number of ranks", "groups of %d ranks are impossible for %s", p.GroupSize, p.App)
	case !(p.Together >= 0 && p.Together <= 1):
		return fit.Refuse("give 0% to 100%", "a share of %g of the groups is impossible", p.Together)
	}
	return nil
}

// modeOption predicts one mode and log.
func modeOption(m *predict.Model, p *ModePlanning, r predict.Request, size *predict.Size, mode modes.Mode, log modes.Log) (*ModeOption, error) {
	c, err := modeCase(m, p, r, size, mode, log)
	if err != nil {
		return nil, err
	}
	cost, err := modes.Cost(c)
	if err != nil {
		return nil, err
	}
	o := &ModeOption{Mode: mode, Log: log, Result: *cost}
	if o.GroupCount == 1 {
		o.Log = modes.NoGroups
	}
	return o, o.expect(p)
}

// modeCase describes a mode and log to package modes.
func modeCase(m *predict.Model, p *ModePlanning, r predict.Request, size *predict.Size, mode modes.Mode, log modes.Log) (*modes.Case, error) {
	groups, err := modes.Groups(mode, r.Mapping, p.GroupSize)
	if err != nil {
		return nil, fit.Refuse("choose coordinated, semi or uncoordinated", "%v", err)
	}
	c := &modes.Case{Mode: mode, Log: log, Mapping: r.Mapping, Groups: groups, Together: p.Together, Machine: m.Modes, IterationS: p.AppS}
	if p.Engine == dataset.Ckpt {
		c.Store, err = m.StoredParts(r, p.Storing, p.Probe)
	} else {
		c.Store, err = m.ImageParts(size, r, p.Codec, p.Probe)
	}
	if err != nil {
		return nil, err
	}
	// Rates are measured on jobs of ckpt. These read the data zone: the library is that of
	// the program, and of a segment one page is stored.
	c.ReadMiB = size.Files[0].Zones.Data
	if inst := r.App.Instance(); inst != nil {
		c.Traffic, c.IterationS = modes.Count(inst, groups), p.AppS/float64(inst.Iterations)
	}
	c.LoggedBytes = m.Modes.Logged(r.App.Name, r.App.Class, r.App.NP, mode, log, groups)
	if mode != modes.Coordinated && (r.App.Instance() == nil || len(r.App.Instance().Messages) == 0) && c.LoggedBytes == nil && log != modes.None {
		return nil, fit.Refuse("describe its messages in a YAML file, see docs/WORKLOADS.md, or fit a model to a job with groups", "the messages of %s are not known", r.App)
	}
	return c, nil
}

// expect computes what failures make of the costs.
func (o *ModeOption) expect(p *ModePlanning) error {
	f := failing{AppS: p.AppS, CostS: o.AllS.Value, RestartS: o.RestartS.Value, Groups: o.GroupCount > 1, Slowdown: o.Slowdown.Value,
		Growth: o.KeptS.Value, Replay: o.ReplaySpeed.Value, IntervalS: p.IntervalS}
	var err error
	if o.IntervalS, o.TotalS.Value, err = p.failing(f); err != nil {
		return err
	}
	tau := o.IntervalS
	o.Count = int(math.Max(0, math.Ceil(p.AppS/(1-f.Slowdown)/tau-1e-9)-1))
	o.LogMiB = o.LogMiBPerS * tau
	o.LogS = modes.Range{Value: behind(o.Slowdown.Value, tau), Low: behind(o.Slowdown.Low, tau), High: behind(o.Slowdown.High, tau)}
	o.FailS = o.RestartS.Plus(o.LogReadS.Scale(tau / 2))
	o.LostS = o.lost(p, tau)
	f.IntervalS = tau
	for _, end := range []struct {
		to                                      *float64
		cost, restart, slowdown, growth, replay float64
		scratch                                 bool
	}{
		{&o.TotalS.Low, o.AllS.Low, o.FailS.Low, o.Slowdown.Low, o.KeptS.Low, o.ReplaySpeed.High, false},
		{&o.TotalS.Value, o.AllS.Value, o.FailS.Value, o.Slowdown.Value, o.KeptS.Value, o.ReplaySpeed.Value, o.Domino},
		{&o.TotalS.High, o.AllS.High, o.FailS.High, o.Slowdown.High, o.KeptS.High, o.ReplaySpeed.Low, o.Domino},
	} {
		f.CostS, f.RestartS, f.Slowdown, f.Growth, f.Replay, f.Scratch = end.cost, end.restart, end.slowdown, end.growth, end.replay, end.scratch
		if _, *end.to, err = p.failing(f); err != nil {
			return err
		}
	}
	return nil
}

// behind is the time that a slowdown adds to a time of work.
func behind(slowdown, work float64) float64 { return work * slowdown / (1 - slowdown) }

// lost is the time of repeating what a failure destroys: on average a little less than half
// of the time between checkpoints, or of the whole run where nothing bounds the way back.
func (o *ModeOption) lost(p *ModePlanning, tau float64) modes.Range {
	mean := func(w float64) float64 { // of an exponential time, if it is below w
		x := w / p.MTBFS
		if x < 1e-6 {
			return w / 2
		}
		return p.MTBFS - w/math.Expm1(x)
	}
	l := modes.Exactly(mean(tau + o.AllS.Value)).Over(o.ReplaySpeed)
	if o.Domino {
		l.Value = mean(p.AppS * (1 + o.AllS.Value/tau))
		l.High = l.Value
	}
	return l
}

// failing returns the interval between checkpoints and the expected time of the run, +Inf if
// the job is not expected to end.
func (p *ModePlanning) failing(f failing) (tau, total float64, err error) {
	m := interval.Model{Cost: durationOf(f.CostS), MTBF: durationOf(p.MTBFS), Restart: durationOf(f.RestartS)}
	if f.Groups && !f.Scratch {
		m.Mode = interval.Uncoordinated
		m.Logging = interval.Logging{Slowdown: f.Slowdown, Share: 1, Growth: f.Growth, Replay: f.Replay}
	}
	if tau = f.IntervalS; tau == 0 {
		best, err := m.BestUpTo(durationOf(f.AppS), affordable(f.AppS, f.CostS, p.Overhead))
		if err != nil {
			return f.AppS, math.Inf(1), outOfRange(err)
		}
		tau = best.Interval.Seconds()
	}
	work, every := f.AppS, tau
	if f.Scratch {
		work = work/(1-f.Slowdown) + math.Ceil(work/tau-1)*f.CostS
		every = work
	}
	if work > maxSeconds {
		return tau, math.Inf(1), nil
	}
	expected, err := m.Expected(durationOf(work), durationOf(every))
	if err != nil {
		return tau, math.Inf(1), outOfRange(err)
	}
	return tau, expected.Seconds(), nil
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

func durationOf(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }
