package plan

import (
	"ckpt/dataset"
	"ckpt/predict"
	"ckpt/predict/fit"
	"ckpt/predict/service"
	"slices"
)

// A Way is how checkpoints are written: by which engine, and onto which storage.
type Way struct {
	Engine  dataset.Engine // dmtcp by default; for ckpt Storing says how it stores
	Storing predict.Storing
	Probe   *fit.Probe
	Storage predict.Storage // times each checkpoint, unless it is nil
}

// A Cost is what a checkpoint takes: Stored if ckpt writes it, else Time.
type Cost struct {
	Time   *predict.Time
	Stored *predict.Stored
}

// Cost predicts a checkpoint of a job. It refuses a time that lies too far beyond what was
// measured, so that every command that costs checkpoints does.
func (w Way) Cost(m *predict.Model, r predict.Request) (c Cost, err error) {
	var size *predict.Size
	if w.Engine != dataset.Ckpt {
		if size, err = m.Size(r); err != nil {
			return c, err
		}
	}
	return w.cost(m, r, size)
}

// Size is Cost without times, which may lie too far from what was measured: sizes never do.
func (w Way) Size(m *predict.Model, r predict.Request) (c Cost, err error) {
	if w.Engine == dataset.Ckpt {
		c.Stored, err = m.Stored(r, w.Storing, w.Probe)
		return c, err
	}
	size, err := m.Size(r)
	if err == nil {
		c.Time, err = m.TimeOf(size, r, w.Storing.Codec, w.Probe)
	}
	return c, err
}

// cost is Cost of a job whose images have a known size, unless ckpt writes them.
func (w Way) cost(m *predict.Model, r predict.Request, size *predict.Size) (c Cost, err error) {
	if w.Engine == dataset.Ckpt {
		if c.Stored, err = m.Stored(r, w.Storing, w.Probe); err != nil {
			return c, err
		}
		if w.Storage != nil {
			return c, w.Storage.Stored(m, r, c.Stored)
		}
		return c, c.Stored.TooFar()
	}
	if c.Time, err = m.TimeOf(size, r, w.Storing.Codec, w.Probe); err != nil {
		return c, err
	}
	if w.Storage != nil {
		return c, w.Storage.Images(c.Time)
	}
	return c, c.Time.TooFar()
}

// size predicts the images of one of many requests: the data zone of a rank depends on its
// library alone, and under the law of the thesis on whether there are several nodes.
func (p *Planning) size(m *predict.Model, r predict.Request) (*predict.Size, error) {
	nodes := 1
	if p.Law == fit.Thesis {
		nodes = len(r.Mapping)
	}
	at := zoneOf{r.MPI, nodes}
	zone, ok := p.zones[at]
	if !ok {
		var err error
		if zone, err = m.DataZone(p.App, r.MPI, p.Law, nodes); err != nil {
			return m.Size(r) // of whole files, or the error
		}
		p.zones[at] = zone
	}
	return m.Assemble(r, zone)
}

type zoneOf struct {
	mpi   string
	nodes int
}

// Mean is the time of a checkpoint and what it stores, as means over the first n of a run:
// the first one of ckpt costs more than the others.
func (c Cost) Mean(n int) (seconds fit.Range, size predict.MiB) {
	if s := c.Stored; s != nil {
		return s.MeanCost(n), predict.MiB(s.Mean(n) / (1 << 20))
	}
	if p := c.Time.Pause; p != nil {
		return *p, c.Time.StoredMiB
	}
	return fit.Range{Value: c.Time.Latency.Total, Low: c.Time.LowS, High: c.Time.HighS}, c.Time.StoredMiB
}

// Lag is Mean until a checkpoint is durable that is written behind the job; nil if the job waits.
func (c Cost) Lag(n int) *fit.Range {
	if c.Stored == nil || !c.Stored.Async {
		return nil
	}
	lag := c.Stored.Lag(n)
	return &lag
}

// meanRounds is how often the number of checkpoints is found again from their mean cost.
const meanRounds = 4

// Affordable is how many checkpoints an overhead pays for. Their mean cost depends on that
// number, so it is found by rounds.
func (c Cost) Affordable(overhead, app float64) (n int, err error) {
	n = 1
	for range meanRounds {
		seconds, _ := c.Mean(n)
		if n, _, _, err = budget(overhead, app, seconds.Value, c.Lag(n)); err != nil {
			return 0, err
		}
	}
	return n, nil
}

// all is what a whole checkpoint stores, in MiB, and the seconds of it that no storage
// speeds up. Checkpoints on nodes are complete: no later one refers to an earlier one.
func (c Cost) all() (mib fit.Range, fixed float64) {
	if s := c.Stored; s != nil {
		return s.Full.Total.Scale(1. / (1 << 20)), s.RefreshTime.Coordination + s.RefreshTime.Management
	}
	share, t := 1.0, c.Time
	if t.TotalMiB > 0 {
		share = float64(t.StoredMiB / t.TotalMiB)
	}
	return fit.Range{Value: float64(t.StoredMiB), Low: share * float64(t.LowMiB), High: share * float64(t.HighMiB)},
		t.Latency.Coordination + t.Latency.Management
}

// storage is the time of a whole checkpoint in its storage.
func (c Cost) storage() fit.Range {
	storage, total := 0.0, fit.Range{}
	if s := c.Stored; s != nil {
		storage, total = s.RefreshTime.Storage, s.RefreshTime.Total
	} else {
		storage, total = c.Time.Latency.Storage, fit.Range{Value: c.Time.Latency.Total, Low: c.Time.LowS, High: c.Time.HighS}
	}
	return total.Scale(storage / max(total.Value, 1e-9))
}

// Whole is what a whole checkpoint stores, in MiB, and the share of it that the fullest node
// has.
func (c Cost) Whole() (mib fit.Range, node float64) {
	mib, _ = c.all()
	if s := c.Stored; s != nil {
		mib = mib.Plus(s.Library.Scale(1. / (1 << 20)))
	}
	return mib, c.node()
}

// node is the share of a whole checkpoint that the fullest node has.
func (c Cost) node() float64 {
	if s := c.Stored; s != nil {
		ranks := 0
		for _, n := range s.Mapping {
			ranks = max(ranks, n)
		}
		return float64(ranks) / float64(s.NP)
	}
	node := 0.0
	for _, l := range predict.Loads(&c.Time.Size) {
		node = max(node, l.Total)
	}
	return node / max(float64(c.Time.TotalMiB), 1e-9)
}

// fill fills in what an option stores and takes, and how many checkpoints it has.
func (o *Option) fill(p *Planning, c Cost) error {
	n, rounds := max(1, p.Checkpoints), 1
	if c.Stored != nil {
		rounds = meanRounds
	}
	for range rounds {
		cost, stored := c.Mean(n)
		o.CheckpointS, o.LowS, o.HighS, o.GstoredMiB = cost.Value, cost.Low, cost.High, stored
		o.lag = c.Lag(n)
		if o.lag != nil && p.MTBFS != 0 && p.Checkpoints == 0 { // as the pause of modes
			o.lag = &c.Stored.NextTime.Total
		}
		if err := o.schedule(p); err != nil {
			return err
		}
		n = max(1, o.Count)
	}
	_, o.GstoredMiB = c.Mean(n)
	if l := o.lag; l != nil {
		o.Lag = &Lag{l.Value, l.Low, l.High, max(1, c.Stored.InFlight)}
	}
	if s := c.Stored; s != nil {
		o.Codec, o.Extrapolation, o.Assumed = s.Codec, max(1, s.Extrapolation, s.FullTime.Extrapolation), s.Assumed || s.FullTime.Default
		o.FileMiB = predict.MiB(s.Full.Total.Value / float64(s.Full.Files) / (1 << 20))
		share := s.Mean(n) / s.Next.Total.Value
		o.LowMiB, o.HighMiB = predict.MiB(s.Next.Total.Low*share/(1<<20)), predict.MiB(s.Next.Total.High*share/(1<<20))
		// Kept checkpoints refer to a full one, and a new one is complete before an old
		// one goes.
		o.StorageMiB = predict.MiB((s.Library.Value + s.Full.Total.Value + float64(p.Keep)*s.Next.Total.Value) / (1 << 20))
		o.Objects = s.MeanObjects(n, p.Keep)
		return nil
	}
	t := c.Time
	o.Codec, o.Extrapolation, o.Assumed = t.Codec, t.Extrapolation, t.Assumed
	for _, f := range t.Files {
		o.FileMiB = max(o.FileMiB, f.MiB)
	}
	share := t.StoredMiB / t.TotalMiB
	o.LowMiB, o.HighMiB = t.LowMiB*share, t.HighMiB*share
	o.StorageMiB, o.Objects = predict.MiB(p.Keep+1)*t.StoredMiB, t.Objects.Kept(p.Keep+1)
	return nil
}

// codecs are the ones to try: for files of ckpt the measured jobs', and no codec where the
// arrays are known; else only the law of what jobs stored is known.
func (p *Planning) codecs(app *service.App, size *predict.Size) []string {
	switch {
	case len(p.Codecs) > 0:
		return p.Codecs
	case p.Engine != dataset.Ckpt && size.ZonesUnknown: // no ratio is known
		return []string{"none"}
	case p.Engine != dataset.Ckpt:
		return []string{"none", "gzip"}
	}
	var list []string
	measured := app.Codec()
	if p.App.Instance() != nil || measured == "" {
		list = append(list, "none")
	}
	if measured != "" && !slices.Contains(list, measured) {
		list = append(list, measured)
	}
	return list
}
