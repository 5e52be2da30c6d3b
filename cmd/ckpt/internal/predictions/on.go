package predictions

import (
	"context"
	"math"
	"slices"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/coordinator/tune"
	"ckpt/image/pfs"
	"ckpt/image/plan"
	"ckpt/interval"
	"ckpt/predict"
	"ckpt/predict/fit"
	"ckpt/predict/service"
	"ckpt/zones"
)

// A shared is a described storage that times predictions.
type shared struct {
	ctx        context.Context
	sys        *pfs.System
	background float64
}

// on reads the storage of --on; nil without.
func (o *timeOptions) on(ctx context.Context) (*shared, error) {
	s, err := described(ctx, &o.storage)
	switch {
	case s == nil:
	case o.measure != "":
		return nil, ui.BadUsage("--on and --measure exclude each other: both say how fast the storage is", "give one of them")
	case o.law == string(fit.Thesis):
		return nil, ui.BadUsage("--law thesis has a time of its own, that --on would replace", "leave one of them out")
	}
	return s, err
}

// described reads a storage; nil without a name.
func described(ctx context.Context, o *ui.StorageOptions) (*shared, error) {
	background, err := o.Background()
	if err != nil || o.On == "" {
		return nil, err
	}
	sys, err := o.Load()
	return &shared{ctx, sys, background}, err
}

// Images times the images of another checkpointer: a file of each process, one stream into
// each.
func (s *shared) Images(t *predict.Time) error {
	c := tune.Case{Memory: imagesOf(t), OneStream: true, Mapping: t.Mapping, Settings: plan.Defaults(), Background: s.background, Doubt: t.Doubt()}
	f, err := tune.Predict(s.ctx, s.sys, c)
	if err != nil {
		return err
	}
	t.Simulated(s.sys.Name, f.Storage, factorOf(&f))
	t.Objects = ui.ObjectsOf(&f)
	return nil
}

// A NeedOn says what a described storage does for a job of whose nodes each writes one file. Its waste is
// the one at the best interval, 1 if the job makes no progress, and lies in 95 % between low and high.
type NeedOn struct {
	Name      string  `json:"on"`
	Seconds   float64 `json:"checkpoint_s"`
	Low       float64 `json:"low_s"`
	High      float64 `json:"high_s"`
	Waste     float64 `json:"waste"`
	WasteLow  float64 `json:"waste_low"`
	WasteHigh float64 `json:"waste_high"`
	predict.Objects
}

// Need times the checkpoints of a need, and prices them and what the store holds.
func (s *shared) Need(r *StorageNeed, n *interval.Need) (*NeedOn, error) {
	m := &tune.PlannedMemory{Regions: []string{"image"}}
	c := tune.Case{Memory: m, OneStream: true, Settings: plan.Defaults(), Background: s.background, Doubt: (r.size.High - r.size.Low) / 4 / r.size.Value}
	for node := range r.Nodes {
		bytes := r.Node
		if node > 0 {
			bytes = (r.Bytes - r.Node) / int64(r.Nodes-1)
		}
		m.Sources = append(m.Sources, plan.Source{Rank: node, Node: node, Pieces: []plan.Piece{{Bytes: bytes}}})
		c.Mapping = append(c.Mapping, 1)
	}
	f, err := tune.Predict(s.ctx, s.sys, c)
	if err != nil {
		return nil, err
	}
	objects := ui.ObjectsOf(&f)
	if f.Bill != nil {
		objects.Bill = (*predict.Bill)(s.sys.Bill(*f.Requests, r.Capacity))
	}
	return &NeedOn{s.sys.Name, f.Latency.Value, f.Latency.Low, f.Latency.High, n.WasteOf(f.Latency.Value), n.WasteOf(f.Latency.Low), n.WasteOf(f.Latency.High), objects}, nil
}

// factorOf returns the factor of a forecast's interval.
func factorOf(f *tune.Forecast) float64 {
	if f.Latency.Value <= 0 {
		return 1
	}
	return f.Latency.High / f.Latency.Value
}

// imagesOf gives each rank an image of the predicted size, after compression: those of a
// node that are aggregators first.
func imagesOf(t *predict.Time) *tune.PlannedMemory {
	m := &tune.PlannedMemory{Regions: []string{"image"}}
	share := 1.0
	if t.TotalMiB > 0 {
		share = float64(t.StoredMiB / t.TotalMiB)
	}
	if of := t.RankMiB(); of != nil {
		for node, n := range t.Mapping {
			for range n {
				bytes := zones.PageRound(int64(math.Ceil(of[len(m.Sources)] * share * mebi)))
				m.Sources = append(m.Sources, plan.Source{Rank: len(m.Sources), Node: node, Pieces: []plan.Piece{{Bytes: bytes}}})
			}
		}
		return m
	}
	nodes := make(map[int]int) // by ranks on them
	for _, n := range t.Mapping {
		nodes[n]++
	}
	place := make(map[int]int) // how many such nodes came before
	for node, n := range t.Mapping {
		for _, mib := range t.NodeImages(n, place[n], nodes[n]) {
			bytes := zones.PageRound(int64(math.Ceil(mib * share * mebi)))
			m.Sources = append(m.Sources, plan.Source{Rank: len(m.Sources), Node: node, Pieces: []plan.Piece{{Bytes: bytes}}})
		}
		place[n]++
	}
	return m
}

// Stored times what ckpt stores.
func (s *shared) Stored(m *predict.Model, r predict.Request, p *predict.Stored) error {
	for _, x := range []struct {
		c         *service.Checkpoint
		t         *service.Time
		following bool
		library   float64
		objects   *predict.Objects
	}{{&p.Full, &p.FullTime, false, p.Library.Value, &p.FullObjects}, {&p.Full, &p.RefreshTime, false, 0, nil}, {&p.Next, &p.NextTime, true, 0, &p.NextObjects}} {
		c := s.caseOf(m, r, p, x.c, x.following)
		c.Library = int64(x.library)
		f, err := tune.Predict(s.ctx, s.sys, c)
		if err != nil {
			return err
		}
		s.replace(x.t, &f)
		if x.objects != nil {
			*x.objects = ui.ObjectsOf(&f)
		}
		if c.Memory == nil && (p.Assumed || p.Codec == "auto") {
			wrote(x.c, float64(f.Bytes-c.Library))
		}
	}
	p.Simulated(s.sys.Name, s.sys.Unknown)
	return nil
}

// Part times what some ranks of each node write at the same time.
func (s *shared) Part(t *predict.Time, stored *predict.Stored, perNode []int) (seconds fit.Range, mib float64, err error) {
	c := tune.Case{Settings: plan.Defaults(), OneStream: stored == nil, Background: s.background}
	var all *tune.PlannedMemory
	if stored != nil {
		all, c.Doubt = equalShares(stored, &stored.Next), doubtOf(&stored.Next)
	} else {
		all, c.Doubt = imagesOf(t), t.Doubt()
	}
	c.Memory = &tune.PlannedMemory{Regions: all.Regions}
	left, bytes := slices.Clone(perNode), int64(0)
	for _, n := range perNode {
		if n > 0 {
			c.Mapping = append(c.Mapping, n)
		}
	}
	for _, source := range all.Sources {
		if left[source.Node] == 0 {
			continue
		}
		left[source.Node]--
		node := 0
		for _, n := range perNode[:source.Node] {
			node += min(n, 1)
		}
		source.Node = node
		source.Rank = len(c.Memory.Sources)
		bytes += source.Pieces[0].Bytes
		c.Memory.Sources = append(c.Memory.Sources, source)
	}
	f, err := tune.Predict(s.ctx, s.sys, c)
	if err != nil {
		return fit.Range{}, 0, err
	}
	factor := factorOf(&f)
	return fit.Range{Value: f.Storage, Low: f.Storage / factor, High: f.Storage * factor}, float64(bytes) / mebi, nil
}

// caseOf is a checkpoint as it is simulated.
func (s *shared) caseOf(m *predict.Model, r predict.Request, p *predict.Stored, of *service.Checkpoint, following bool) tune.Case {
	c := tune.Case{Instance: r.App.Instance(), Mapping: p.Mapping, MPI: p.MPI, Settings: plan.Defaults(), Codec: p.Codec, Async: p.Async,
		Incremental: true, Following: following, Background: s.background}
	c.Settings.Layout, c.Settings.Aggregators = plan.Layout(p.Layout), p.Aggregators
	if c.Saved = p.Saved; c.Instance == nil {
		c.Memory, c.Codec = equalShares(p, of), ""
		c.Doubt = doubtOf(of)
		return c
	}
	addContents(m, &p.Size, &c)
	return c
}

// doubtOf is the relative standard deviation of what a checkpoint stores.
func doubtOf(c *service.Checkpoint) float64 {
	if c.Total.Value <= 0 {
		return 0
	}
	return (c.Total.High - c.Total.Low) / 4 / c.Total.Value
}

// equalShares gives each rank as many bytes, where no arrays are known.
func equalShares(p *predict.Stored, of *service.Checkpoint) *tune.PlannedMemory {
	m := &tune.PlannedMemory{Regions: []string{"data"}}
	bytes := zones.PageRound(int64(of.Total.Value / float64(p.NP)))
	for node, n := range p.Mapping {
		for range n {
			m.Sources = append(m.Sources, plan.Source{Rank: len(m.Sources), Node: node, Pieces: []plan.Piece{{Bytes: bytes, Align: true}}})
		}
	}
	return m
}

// wrote has a checkpoint store what was simulated: the storage decides what auto packs, and its
// description may know ratios that no job measured. The interval stays.
func wrote(c *service.Checkpoint, bytes float64) {
	c.Data.Value = max(0, bytes-c.Shared.Value)
	c.Total.Value = bytes + c.Overhead.Value
	for _, r := range []*fit.Range{&c.Data, &c.Total} {
		r.Low, r.High = min(r.Low, r.Value), max(r.High, r.Value)
	}
}

// replace puts the times of a forecast in place of a model's. The model keeps the
// costs of ckpt itself, if the description does not know them.
func (s *shared) replace(t *service.Time, f *tune.Forecast) {
	if s.sys.Service != (pfs.Service{}) {
		t.Coordination, t.Management = f.Coordination, f.Management
	}
	factor := factorOf(f)
	t.Storage, t.Extrapolation, t.Default = f.Storage, 1, false
	total := t.Coordination + t.Management + t.Storage
	t.Total = fit.Range{Value: total, Low: total / factor, High: total * factor}
	t.Pause = t.Total
	if pause := t.Coordination + f.Copy; f.Copy > 0 && pause < total {
		t.Pause = fit.Range{Value: pause, Low: pause / factor, High: pause * factor}
	}
}
