package coordinator

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/msglog"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/protocol/channel"
	"ckpt/coordinator/protocol/supervisor"
	"ckpt/image"
	"ckpt/image/nodes"
	"ckpt/internal/durable"
)

// supervisorConfig describes the job to its protocol.
func (d *driver) supervisorConfig(from *image.Manifest) (supervisor.Config, error) {
	// A program has 0 iterations: how many is not known.
	cfg := supervisor.Config{Iterations: d.spec.Iterations, Schedule: d.spec.ProtocolSchedule(), Jitter: d.spec.Jitter, Seed: d.spec.Seed,
		Limits: d.limits, AutoRestart: d.spec.AutoRestart, Async: d.spec.Async || d.spec.Lone(), InFlight: d.spec.InFlight, Lone: d.spec.Lone(), Keep: 2,
		FallBack: d.fallBack}
	for _, g := range d.groups {
		cfg.Groups = append(cfg.Groups, g.ranks)
	}
	var err error
	if cfg.Next, err = d.job.Next(); err != nil {
		return cfg, err
	}
	cfg.Next = max(cfg.Next, d.inventory.Next(), d.groups[0].level.Facts().Next)
	data, _, err := d.spec.Memory()
	if err != nil {
		return cfg, err
	}
	cfg.Cost = d.expectedCost(from != nil, data)
	if cfg.Printed, d.output, err = job.OpenOutput(d.job, len(d.members)); err != nil {
		return cfg, err
	}
	cfg.Start, cfg.StopAt = d.spec.Recut.At(), d.haltsAt
	if len(d.groups) == 1 {
		err := d.addKnown(&cfg, from)
		return cfg, err
	}
	cfg.Log, cfg.Stagger = d.spec.Log, d.spec.Stagger
	if t := d.spec.Tier; t != nil && t.Drain.Mode == nodes.DrainNone {
		cfg.Keep = 1 // the nodes keep no more
	}
	for _, g := range d.groups {
		g.begun = cfg.Next - 1
	}
	if d.baseline, err = job.ReadBaseline(d.job, len(d.groups)); err != nil {
		return cfg, err
	}
	cfg.Base, cfg.Incarnation = d.baseline.Base, d.baseline.Incarnation
	stored, err := job.ReadStored(d.job, d.spec, d.baseline.Base)
	if err != nil {
		return cfg, err
	}
	if !d.baseline.FromScratch() {
		for _, g := range d.groups {
			if err := stored.AddNodes(d, d.spec, &d.baseline, g.level.Versions()); err != nil {
				return cfg, err
			}
		}
		if cfg.Known, err = stored.Known(); err != nil {
			return cfg, err
		}
		if err := d.forgoLogs(cfg); err != nil {
			return cfg, err
		}
	}
	stored.Miss(&d.baseline)
	if len(d.baseline.Taken) != len(d.groups) {
		d.baseline.Taken = make([]int, len(d.groups))
	}
	for _, err := range stored.Passed {
		d.Warn(err.Error())
	}
	d.passed = stored.Reason()
	cfg.Base = d.baseline.Base
	switch {
	case d.baseline.FromScratch():
		cfg.Known = nil
		return cfg, nil
	case d.baseline.Unlogged:
		if err := d.baseline.CheckUnlogged(d.job, cfg); err != nil {
			return cfg, err
		}
		cfg.Known = d.baseline.Only(cfg.Known)
		return cfg, nil
	case !cfg.Log.Logs():
		return cfg, nil
	}
	for g, found := range stored.Found {
		if err := job.CheckLogs(d, d.job, d.spec, g, found); err != nil {
			return cfg, job.OfferLine(d.job.Name(), cfg, err)
		}
	}
	if cfg.Log == channel.Optimistic {
		cfg.Logged, err = job.Logged(context.Background(), d, d.job, d.spec, cfg)
	}
	return cfg, err
}

// addKnown adds the checkpoints that a job of one group may go back to: the one to
// begin with and those before it. Damaged ones may be among them: falling back to one
// falls back further. Later ones are of a future that this run leaves aside.
func (d *driver) addKnown(cfg *supervisor.Config, from *image.Manifest) error {
	if from == nil {
		return nil
	}
	known, err := d.job.Iterations()
	if err != nil {
		return err
	}
	known[from.Number] = from.Iteration
	for n, m := range d.groups[0].level.Versions() {
		known[n] = m.Iteration
	}
	for _, n := range slices.Sorted(maps.Keys(known)) {
		if n <= from.Number && n > d.spec.Recut.Last() {
			cfg.Known = append(cfg.Known, supervisor.Stored{Number: n, Iter: int(known[n])})
		}
	}
	cfg.From = from.Number
	return nil
}

// forgoLogs chooses what the checkpoints alone allow, if that is asked for.
func (d *driver) forgoLogs(cfg supervisor.Config) error {
	l := &d.baseline
	if !d.withoutLog || l.Unlogged {
		return nil
	}
	line, err := supervisor.LineWithoutLogs(cfg)
	if err != nil {
		return err
	}
	l.Base = nil
	for _, c := range line {
		l.Base = append(l.Base, c.Number)
	}
	if slices.Max(l.Base) == 0 {
		for g := range l.Base {
			l.Base[g] = -1 // the job restarts from scratch
		}
		return nil
	}
	l.Taken, l.Unlogged = slices.Clone(l.Base), true
	for g, n := range l.Base {
		l.Leave(g, n, d.groups[g].begun)
	}
	return nil
}

// guessedRate is how many bytes are stored per second, before anything is known.
const guessedRate = 256 << 20

// guessedPause is what the first checkpoint of a program may cost: how much it protects
// is not known before.
const guessedPause = time.Second

// expectedCost is for how long checkpoints will stop the application, before this run
// has measured any: as long as in the runs before, or as predicted, or at a
// guess.
func (d *driver) expectedCost(resumed bool, data int64) protocol.Cost {
	if resumed {
		if cost := d.formerCost(); cost > 0 {
			return protocol.Cost{First: cost, Next: cost}
		}
	}
	if p := d.spec.Prediction; p != nil && p.First.Pause > 0 {
		first, next, high := p.Costs()
		return protocol.Cost{First: seconds(first), FirstHigh: seconds(high), Next: seconds(next)}
	}
	if d.spec.Program != nil {
		return protocol.Cost{First: guessedPause, FirstHigh: guessedPause}
	}
	guess := seconds(float64(data+d.library.bytes) / guessedRate)
	return protocol.Cost{First: guess, FirstHigh: guess}
}

// formerCost is the median of the newest checkpoints of the job, or 0.
func (d *driver) formerCost() time.Duration {
	const newest = 5
	summaries, _ := d.job.Summaries(newest) // those that can be read
	events := job.ReadEvents(d.job, newest)
	var list []float64
	for _, s := range summaries {
		_, pause := events.Describe(s).Costs(d.spec.Async)
		list = append(list, pause)
	}
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return seconds(list[(len(list)-1)/2])
}

// incarnationsPerRun separates the incarnations of one run from the next one's,
// which does not know how many there were.
const incarnationsPerRun = 1 << 20

// takeOver makes the incarnations of this run differ from all earlier ones. It is
// the first step that changes a stored job.
func (d *driver) takeOver() error {
	if err := d.output.Cut(); err != nil {
		return err
	}
	if d.spec.Residuals > 0 {
		_ = d.output.Reserve(0) // if it fails, lines will tell
	}
	if !d.spec.Several() {
		return nil
	}
	if err := d.job.FS().Mkdir(job.LogsDir(d.job)); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	d.baseline.Incarnation += incarnationsPerRun
	err := d.noteBaseline()
	if derr := d.dropBelow(d.baseline.Base); derr != nil {
		d.Warn(job.NotRemoved + derr.Error())
	}
	if !errors.Is(err, durable.ErrStorageFull) {
		return err
	}
	// There may be room now.
	if _, serr := d.job.Sweep(); serr != nil {
		return errors.Join(err, serr)
	}
	if err := d.noteBaseline(); err != nil {
		return d.cannotGoOn(err)
	}
	return nil
}

// noteBaseline writes d.line, and does what follows from it.
func (d *driver) noteBaseline() error {
	if err := job.WriteBaseline(d.job, d.baseline); err != nil || !d.baseline.Unlogged {
		return err
	}
	return d.resetLogs()
}

// resetLogs removes what lies behind the checkpoints that the job resumes from, after
// that was noted: newer checkpoints, and all that was logged. The next frame of a log
// has the number at which the checkpoint was taken. A run that was cut short here is
// taken up again by the next.
func (d *driver) resetLogs() error {
	numbers, err := d.job.Checkpoints()
	if err != nil {
		return err
	}
	if d.spec.Recut != nil && slices.Max(d.baseline.Base) == 0 {
		if err := job.RemoveLogs(d.job); err != nil { // of the ranks before
			return err
		}
	}
	base := d.baseline.Base
	newer := slices.DeleteFunc(d.spec.Later(numbers), func(n int) bool { return n <= base[(n-1)%len(base)] })
	slices.Reverse(newer)
	if err := d.forget(newer); err != nil {
		return err
	}
	for g, number := range base {
		first := make(map[int]uint64)
		if number > 0 {
			_, m, err := d.Reads(number)
			if err != nil {
				return err
			}
			for _, r := range m.Ranks {
				first[r.Rank] = r.LogFrom
			}
		}
		for _, rank := range d.groups[g].ranks {
			id, err := job.LogID(d.job, rank)
			if err != nil {
				return err
			}
			if err := msglog.Reset(d.job.FS(), job.LogDir(d.job, rank), id, msglog.LSN(max(1, first[rank]))); err != nil {
				return err
			}
		}
	}
	d.baseline.Unlogged = false
	return job.WriteBaseline(d.job, d.baseline)
}
