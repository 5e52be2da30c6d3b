package predictions

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/levels"
	"ckpt/image/nodes"
	"ckpt/interval"
)

// levelOptions are the flags of ckpt interval for several levels of storage.
type levelOptions struct {
	levels              []string
	async               ui.InFlight
	lag                 string // until a checkpoint behind the job is durable
	shareLocal, fromJob string
	tier                *levels.TierRun // of the job, if its checkpoints went to its nodes first
}

func (o *levelOptions) addFlags(f *pflag.FlagSet) {
	f.StringArrayVar(&o.levels, "storage-level", nil, "storage level, the nearest first, as NAME=COST[,restart=TIME][,share=P%][,drain=TIME][,every=N]; may be repeated")
	f.StringVar(&o.shareLocal, "share-local", "", "share of the failures that checkpoints of the first --storage-level survive, like 85%")
	o.async.AddFlag(f, "checkpoints are written behind the job, which stands still for --cost; with a number, while up to N are in flight")
	f.StringVar(&o.lag, "lag", "", "with --async: time until a checkpoint is durable, like 90s (default: that predicted of APP, or measured of the job)")
	f.StringVar(&o.fromJob, "from-job", "", "take the costs of checkpoints and restarts, or the levels and that share, from a job of the store")
}

// several says that checkpoints go to several levels.
func (o *levelOptions) several() bool { return len(o.levels) > 0 || o.tier != nil || o.async > 0 }

// oneLevelFlags are for checkpoints of one level.
var oneLevelFlags = []string{"cost", "restart", "mode", "logging", "logged", "log-growth", "replay"}

// check refuses flags that do not go together.
func (o *levelOptions) check(f *pflag.FlagSet) error {
	switch {
	case o.async > 0 && (len(o.levels) > 0 || o.shareLocal != ""):
		return ui.BadUsage("--async and --storage-level both say where checkpoints wait until they are safe", "leave one of them out")
	case o.async > 0 && (f.Changed("mode") || f.Changed("logging")):
		return ui.BadUsage("--async with --mode: no closed form has groups of ranks whose checkpoints are in flight", "ckpt predict plan APP --async --mode semi --mtbf 24h simulates their lives")
	case o.async == 0 && o.lag != "":
		return ui.BadUsage("--lag "+o.lag+": the job waits for its checkpoints", "add --async")
	}
	if len(o.levels) > 0 && o.fromJob != "" {
		return ui.BadUsage("--storage-level and --from-job both say what levels cost", "leave one of them out")
	}
	if len(o.levels) == 0 && o.fromJob == "" {
		if o.shareLocal != "" {
			return ui.BadUsage("--share-local "+o.shareLocal+": belongs to several levels of storage", "add them, like --storage-level local=5s --storage-level store=2m")
		}
		return nil
	}
	if len(o.levels) > 0 && f.Changed("mode") {
		return ui.BadUsage("--mode with several levels: no closed form has groups of ranks on them", "ckpt simulate --mode semi --local-rate 4GiB/s simulates their lives")
	}
	for _, name := range oneLevelFlags {
		if f.Changed(name) && o.fromJob != "" {
			return ui.BadUsage("--"+name+" and --from-job exclude each other: the job tells what its checkpoints cost", "leave one of them out")
		}
		if f.Changed(name) {
			return ui.BadUsage("--"+name+" and --storage-level exclude each other: levels have costs and restarts of their own", "leave it out, or write it to the level, like --storage-level local=5s,restart=10s")
		}
	}
	return nil
}

// read adds the levels to h, and returns which counts are given; 0 where they are not.
func (o *levelOptions) read(h *interval.Hierarchy) (every []int, err error) {
	for i, text := range o.levels {
		l, n, err := parseLevel(text)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(h.Levels, func(before interval.StorageLevel) bool { return before.Name == l.Name }) {
			return nil, ui.BadUsage(fmt.Sprintf("--storage-level %s: there is a level %s before", text, l.Name), "give each level its own name, like local, partner, store")
		}
		if i == 0 && n != 0 {
			return nil, ui.BadUsage("--storage-level "+text+": every checkpoint is of the first level", "leave every= out, or write it to a level after this one")
		}
		if i > 0 {
			every = append(every, n)
		}
		h.Levels = append(h.Levels, l)
	}
	return every, o.shares(h.Levels)
}

// shares completes the shares of the failures that levels survive: the first has a flag of
// its own, and the last survives all.
func (o *levelOptions) shares(levels []interval.StorageLevel) error {
	if o.shareLocal != "" {
		var q ui.Quantities
		share := q.Share("--share-local", o.shareLocal)
		switch {
		case q.Err != nil:
			return q.Err
		case len(levels) == 1:
			return ui.BadUsage("--share-local "+o.shareLocal+": a single level has to survive all failures", "add the store, like --storage-level store=2m")
		case levels[0].Share != 0:
			return ui.BadUsage("--share-local and share= of the first --storage-level say the same", "leave one of them out")
		}
		levels[0].Share = share
	}
	last := len(levels) - 1
	for i := range levels[:last] {
		if levels[i].Share == 0 {
			return ui.BadUsage(fmt.Sprintf("the share of the failures that level %s survives is missing", levels[i].Name),
				fmt.Sprintf("add it, like --storage-level %s=%s,share=85%%", levels[i].Name, ui.Span(levels[i].Cost)))
		}
	}
	if levels[last].Share == 0 {
		levels[last].Share = 1
	}
	return nil
}

// parseLevel reads a level.
func parseLevel(text string) (l interval.StorageLevel, every int, err error) {
	bad := func(reason string) error {
		return ui.BadUsage(fmt.Sprintf("--storage-level %q: %s", text, reason), "write --storage-level local=5s,restart=10s,share=85%, or --storage-level store=2m")
	}
	parts := strings.Split(text, ",")
	name, cost, ok := strings.Cut(parts[0], "=")
	if !ok || name == "" {
		return l, 0, bad("want a name and the cost of a checkpoint")
	}
	var q ui.Quantities
	l.Name, l.Cost = name, q.Duration("--storage-level "+name, cost)
	for _, part := range parts[1:] {
		key, value, _ := strings.Cut(part, "=")
		of := "--storage-level " + name + ", " + key
		switch key {
		case "restart":
			l.Restart = q.Duration(of, value)
		case "drain":
			l.Drain = q.Duration(of, value)
		case "share":
			l.Share = q.Share(of, value)
		case "every":
			if every, err = strconv.Atoi(value); err != nil || every < 1 {
				return l, 0, bad("every= is no number from 1")
			}
		default:
			return l, 0, bad(fmt.Sprintf("%q is not known", part))
		}
	}
	return l, every, q.Err
}

// ofLevels answers for several levels.
func (o *intervalOptions) ofLevels(ctx context.Context, g *ui.Globals) (*levelsResult, error) {
	if err := o.checkNodes(); err != nil {
		return nil, err
	}
	mtbf, about, err := o.jobMTBF()
	if err != nil {
		return nil, err
	}
	var q ui.Quantities
	h := interval.Hierarchy{MTBF: mtbf, Downtime: q.Duration("--downtime", o.downtime), Slots: nodes.Slots}
	work, at := q.Duration("--app-time", o.app), q.Duration("--interval", o.at)
	if q.Err != nil {
		return nil, q.Err
	}
	every, fit, err := o.hierarchy(g, &h)
	if err == nil && o.async > 0 {
		err = o.inFlight(&h)
	}
	if err != nil {
		return nil, err
	}
	if err := ui.CheckPlotName(o.plot); err != nil {
		return nil, err
	}
	given := o.at != "" || slices.ContainsFunc(every, func(n int) bool { return n != 0 })
	if o.at != "" && at <= 0 {
		return nil, ui.BadUsage("--interval "+o.at+": must be over 0", "give the time between two checkpoints, like --interval 10m")
	}
	compared, err := h.Compare(work)
	r := &levelsResult{LevelComparison: compared, Fit: fit, Log: o.log, failing: about}
	if err == nil && fit != nil {
		err = r.open()
	}
	if err == nil && given {
		err = r.Given(interval.Pattern{Interval: at, Every: every})
	}
	if err != nil {
		return nil, err
	}
	if fit != nil {
		r.Flags = launchFlags(r.Taken().Levels)
	}
	if o.simulate {
		s := r.Simulation()
		s.Shape, s.Runs, s.Seed, s.Steady = o.shape, o.runs, o.seed, o.steady
		r.Sim, err = o.simulated(ctx, s.Run)
	}
	return r, err
}

// inFlight makes memory and the store the levels of a job with checkpoints in flight.
func (o *intervalOptions) inFlight(h *interval.Hierarchy) error {
	m, err := o.model()
	if err != nil {
		return err
	}
	if o.lag == "" {
		return ui.Missing("--lag", "90s")
	}
	var q ui.Quantities
	*h = *interval.InFlight(m, q.Duration("--lag", o.lag), int(o.async))
	return q.Err
}

// hierarchy reads the levels, from flags or from a job, which then has a fit.
func (o *levelOptions) hierarchy(g *ui.Globals, h *interval.Hierarchy) (every []int, fit *interval.LevelFit, err error) {
	if o.async > 0 {
		return nil, nil, nil
	}
	if o.fromJob == "" {
		every, err = o.read(h)
		if err == nil && h.WaitForDrain() > 0 {
			g.Warn("level %s is alone, with no level to drain from: the job waits until its checkpoints are safe, %s", h.Levels[0].Name, ui.Span(h.Levels[0].Cost))
		}
		return every, nil, err
	}
	fit, err = o.measuredLevels(h)
	return nil, fit, err
}
