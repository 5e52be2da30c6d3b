package rank

import (
	"context"
	"fmt"
	"slices"

	"ckpt/coordinator/job"
	client "ckpt/coordinator/process"
	"ckpt/coordinator/turns"
	"ckpt/coordinator/wire"
	"ckpt/image"
	"ckpt/image/container"
	"ckpt/internal/vfs"
	"ckpt/zones"
)

// newProgramState is newState for a program: its memory is that of another process.
func newProgramState(ctx context.Context, fsys vfs.FS, id int, cfg *wire.Welcome, spec *job.Resolved, tier *nodeTier, taken *turns.Client, progress func(int64)) (*state, error) {
	s := &state{fs: fsys, tier: tier, turns: taken, wrote: map[bool]int64{}, progress: progress, rank: id, cfg: cfg, spec: spec, node: spec.Nodes[id],
		codec: container.NewCodec(spec.Codec, 0), way: spec.Way(), joint: spec.Layouts[spec.GroupOf[id]]}
	if spec.Incremental {
		s.history = container.NewHistory()
	}
	store, err := image.OpenStore(fsys, cfg.StoreDir)
	if err != nil {
		return nil, err
	}
	if s.job, err = store.Job(cfg.Job); err != nil {
		return nil, err
	}
	s.fs = s.job.FS()
	s.lost = s.findImage(ctx) // told when the program asks for it
	return s, nil
}

// restoreProgram puts a checkpoint into the memory that the process has protected.
func (s *state) restoreProgram(ctx context.Context, c *client.Process) error {
	if s.lost != nil {
		return s.lost
	}
	defer s.measure()()
	m, err := s.manifest()
	if err != nil {
		return err
	}
	defer s.reading(ctx, m)()
	opt := container.LoadOptions{Progress: s.progress, Loaded: func(mem []byte) error {
		if err := c.Put(mem); err != nil {
			return fmt.Errorf("put the memory of rank %d back: %w", s.rank, err)
		}
		c.Release(mem)
		return nil
	}}
	regions, err := c.Regions()
	if err != nil {
		return err
	}
	s.step = s.cfg.Step
	if job.Dealt(m, s.spec.NP, s.rank, regions) {
		return s.restoreParts(ctx, m, regions, opt)
	}
	was, err := job.RankOf(s.images, m, s.rank)
	if err != nil {
		return err
	}
	if err := s.images.Load(ctx, m, was.File, s.rank, regions, opt); err != nil {
		return err
	}
	return s.recall(m, was)
}

// restoreParts fills the regions of a rank that did not hold the same ones, from those of
// all ranks. The next checkpoint refers to nothing: what this rank has is stored nowhere.
func (s *state) restoreParts(ctx context.Context, m *image.Manifest, regions []zones.Region, opt container.LoadOptions) error {
	if err := job.CheckParts(m, s.spec.NP, s.rank, regions); err != nil {
		return err
	}
	r := s.images.Parts(m, s.rank, opt)
	defer r.Close()
	for _, region := range regions {
		if err := r.Load(ctx, region); err != nil {
			return err
		}
	}
	return nil
}

// query says how many bytes a region has in the checkpoint to resume from, and the step of
// that checkpoint if no region is named.
func (p *program) query(name string) client.Answer {
	none := client.Answer{Status: client.None, Value: -1}
	if p.cfg.From == 0 {
		return none
	}
	if name == "" {
		return client.Answer{Status: client.OK, Value: p.cfg.Step}
	}
	if err := p.state.lost; err != nil {
		return client.Answer{Status: statusOf(err), Value: -1, Text: err.Error()}
	}
	m, err := p.state.manifest()
	if err != nil {
		return client.Answer{Status: statusOf(err), Value: -1, Text: err.Error()}
	}
	if m.NP != p.spec.NP {
		return p.queryOther(m, name)
	}
	arrays, err := p.state.images.Arrays(m, p.id)
	if err != nil {
		return client.Answer{Status: statusOf(err), Value: -1, Text: err.Error()}
	}
	i := slices.IndexFunc(arrays, func(a image.Array) bool { return a.Name == name && a.Zone == zones.Data })
	if i < 0 {
		none.Text = fmt.Sprintf("checkpoint %d has no region %q of rank %d", p.cfg.From, name, p.id)
		return none
	}
	return client.Answer{Status: client.OK, Value: arrays[i].Bytes}
}

// queryOther answers a query about a checkpoint of another number of ranks: the size of a
// part is for the program to say.
func (p *program) queryOther(m *image.Manifest, name string) client.Answer {
	a := client.Answer{Status: client.None, Value: -1, Text: fmt.Sprintf("checkpoint %d has no region %q of all ranks", p.cfg.From, name)}
	for _, r := range m.Ranks {
		if slices.ContainsFunc(r.Global, func(g image.GlobalPart) bool { return g.Region == name }) {
			a.Status = client.Mismatch
			a.Text = fmt.Sprintf("checkpoint %d is of %d ranks: how much of array %q a rank holds follows from its part now", p.cfg.From, m.NP, name)
			return a
		}
	}
	first := m.Ranks[0]
	if !slices.Contains(first.Replicated, name) {
		return a
	}
	bytes, err := p.state.images.RegionBytes(m, first.File, first.Rank, name)
	if err != nil {
		return client.Answer{Status: statusOf(err), Value: -1, Text: err.Error()}
	}
	return client.Answer{Status: client.OK, Value: bytes}
}

// store stores the memory of the process: with Async, once it is copied, behind the
// computation.
func (p *program) store(ctx context.Context, number int, order wire.WriteOrder, net *layoutNetwork, opt container.WriteOptions) (*wire.WriteReport, error) {
	report := &wire.WriteReport{Step: p.step}
	taken, err := p.take(ctx, number, order, &opt)
	if err != nil {
		return nil, err
	}
	for _, r := range taken.Regions {
		report.Zones.Add(r.Zone, r.Size)
	}
	tell(report, taken.Regions)
	report.Regions = len(taken.Regions)
	for _, n := range p.client.Notes() {
		report.Refused = append(report.Refused, n.String())
	}
	return report, p.state.store(ctx, number, order, net, taken.Regions, opt, report)
}

// take takes the memory of the process, and sets the options that depend on how. Pages
// that were not written since the base of the order are neither read nor compared. That
// the order names the checkpoint taken before as its base tells that it was committed.
func (p *program) take(ctx context.Context, number int, order wire.WriteOrder, opt *container.WriteOptions) (client.Capture, error) {
	if p.taken > 0 && order.Base == p.taken {
		p.client.Committed(int64(p.taken))
	} else {
		p.client.Aborted()
	}
	p.taken = 0
	take, captured := p.client.View, opt.Captured
	opt.Staging, opt.Captured = nil, nil
	if p.spec.Async {
		take = p.client.Capture
	} else {
		opt.Fetch, opt.Release = p.client.Fetch, p.client.Release
	}
	c, err := take(ctx)
	if err != nil {
		return c, err
	}
	p.taken = number
	if base, ok := c.Base(); ok && order.Base > 0 && base == int64(order.Base) {
		opt.Clean = c.Clean
	}
	if p.spec.Async {
		captured()
	}
	return c, nil
}
