package rank

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"

	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	client "ckpt/coordinator/process"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/turns"
	"ckpt/coordinator/wire"
	"ckpt/image"
	"ckpt/image/container"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
	"ckpt/zones"
	"ckpt/zones/global"
)

func (p *program) resumed() client.Answer {
	if p.cfg.From == 0 {
		return client.Answer{Status: client.None}
	}
	return client.Answer{Status: client.OK, Value: p.state.step}
}

func (p *program) answer(a client.Answer) {
	p.waiting = nil
	if err := p.client.Answer(a); err != nil {
		p.fail(fmt.Errorf("answer the process: %w", err))
	}
}

// outcome answers a call that the process makes while it computes, with the news of an earlier
// checkpoint, once.
func (p *program) outcome() client.Answer {
	a := p.notice
	p.notice = client.Answer{}
	p.client.SetPending(false)
	return a
}

func (p *program) farewell(k client.Kind) client.Answer {
	if k == client.Boundary || k == client.Restore {
		return client.Answer{Status: client.Stop}
	}
	return client.Answer{Status: client.OK}
}

func (p *program) called(ctx context.Context, c client.Call) {
	p.waiting = &c
	switch {
	case p.left:
		p.finished = p.finished || c.Kind == client.Finalize
		p.answer(p.farewell(c.Kind))
	case c.Kind == client.Query:
		p.answer(p.query(c.Name, c.Number))
	case c.Kind == client.Wait:
		if p.writing == 0 {
			p.answer(p.outcome())
		}
	case c.Kind == client.Finalize:
		if p.writing == 0 {
			p.finalize(ctx)
		}
	case c.Kind == client.Restore && !p.began:
		p.prepare(ctx)
	case c.Kind == client.Restore:
		p.answer(client.Answer{Status: client.Argument, Text: "ckpt_restore was called a second time, or after a boundary"})
	case c.Kind == client.Boundary && !p.began:
		p.step = c.Step
		p.unrestored()
	case c.Kind == client.Boundary && int(c.Count) == p.dies():
		p.link.Send(protocol.InjectDue{Iter: int(c.Count)}) // the coordinator kills the process
	case c.Kind == client.Boundary:
		p.step = c.Step
		p.do(ctx, protocol.Reached{Iter: int(c.Count), Save: c.Save})
		p.client.SetLimit(p.limit())
	}
}

func (p *program) prepare(ctx context.Context) {
	if p.readyTold {
		return
	}
	p.readyTold = true
	go func() {
		if p.cfg.From > 0 {
			if err := p.state.restoreProgram(ctx, p.client); err != nil {
				p.link.Send(protocol.SetupFailed{Damaged: job.Unrestorable(err), Unfit: job.Unfit(err), Text: err.Error(), Body: wire.EncodeError(err)})
				return
			}
		}
		if err := p.makeRoom(ctx); err != nil {
			p.link.Send(protocol.SetupFailed{Text: err.Error(), Body: wire.EncodeError(err), Final: true})
			return
		}
		p.link.Send(protocol.Ready{})
	}()
}

// unrestored begins a program that has reached a boundary without a call of restore.
func (p *program) unrestored() {
	if p.cfg.From > 0 {
		err := fmt.Errorf("rank %d has reached a boundary without ckpt_restore: checkpoint %d would be lost", p.id, p.cfg.From)
		p.link.Send(protocol.SetupFailed{Text: err.Error(), Body: wire.EncodeError(err)})
		return
	}
	if !p.readyTold {
		p.readyTold = true
		p.link.Send(protocol.Ready{})
	}
}

func (p *program) finalize(ctx context.Context) {
	if !p.began { // it has passed no boundary
		p.unrestored()
		return
	}
	p.awaitPrinted(ctx)
	if !p.launcherLives() { // the output that it had to pass on is lost
		p.fail(errLauncher)
		return
	}
	p.finished = true
	p.member.Step(protocol.Computing{Iter: p.spec.Iterations + 1})
	p.do(ctx, protocol.Ended{Body: job.Encode(wire.DoneReport{})})
	p.answer(p.outcome())
}

// note keeps what an abort means for the process until its next call, unless the reason is known
// why this rank could not write.
func (p *program) note(m protocol.Message) {
	a, ok := m.(protocol.Abort)
	if !ok || p.notice.Text != "" {
		return
	}
	p.tell(client.Answer{Status: client.IO, Text: fmt.Sprintf("checkpoint %d was aborted; ckpt launch says why", a.Number)})
}

func (p *program) tell(a client.Answer) {
	p.notice = a
	p.client.SetPending(true)
}

func statusOf(err error) client.Status {
	var damage *durable.DamageError
	switch {
	case errors.Is(err, durable.ErrStorageFull):
		return client.Full
	case errors.As(err, &damage):
		return client.Damage
	}
	return client.IO
}

// newProgramState is newState for a program, whose memory is in another process.
func newProgramState(ctx context.Context, fsys vfs.FS, id int, cfg *wire.Welcome, spec *job.Resolved, tier *nodeTier, taken *turns.Client, progress func(int64)) (*state, error) {
	s, err := openState(fsys, id, cfg, spec, tier, taken, progress)
	if err != nil {
		return nil, err
	}
	if s.copies, err = newCopies(0, 0); err != nil {
		return nil, err
	}
	s.lost = s.findImage(ctx) // told when the program asks for it
	return s, nil
}

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
	defer s.tracing(m.Number)()
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
		opt.Current = c.Fetch
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

// restoreParts fills the regions of a rank from the parts of all ranks of a checkpoint. The next
// checkpoint refers to nothing.
func (s *state) restoreParts(ctx context.Context, m *image.Manifest, regions []zones.Region, opt container.LoadOptions) error {
	if err := job.CheckParts(m, s.spec.NP, s.rank, regions); err != nil {
		return err
	}
	r := s.images.Parts(m, s.rank, opt).WithBlocks(func(region string) ([]global.Held, error) { return s.spec.BlocksOn(m.NP, region) })
	r.WithCells(func(region string) ([]int64, error) {
		i := slices.IndexFunc(regions, func(r zones.Region) bool { return r.Name == global.Listed(region) })
		if i < 0 {
			return nil, fmt.Errorf("region %q has no list of its cells", region)
		}
		list := regions[i].Mem[:regions[i].Size]
		err := opt.Current(list)
		return global.Cells(list), err
	})
	defer r.Close()
	lists := job.Lists(regions)
	for _, region := range regions {
		if lists[region.Name] {
			continue
		}
		if err := r.Load(ctx, region); err != nil {
			return err
		}
	}
	return nil
}

// query says how many bytes a region has in the checkpoint to resume from, which region has a
// number from 1, or without both the step of that checkpoint.
func (p *program) query(name string, number int64) client.Answer {
	none := client.Answer{Status: client.None, Value: -1}
	if p.cfg.From == 0 {
		return none
	}
	if name == "" && number == 0 {
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
	if number > 0 {
		return listed(arrays, number)
	}
	i := slices.IndexFunc(arrays, func(a image.Array) bool { return a.Name == name && a.Zone == zones.Data })
	if i < 0 {
		none.Text = fmt.Sprintf("checkpoint %d has no region %q of rank %d", p.cfg.From, name, p.id)
		return none
	}
	return client.Answer{Status: client.OK, Value: arrays[i].Bytes}
}

// listed answers a query by number: with the name of the region, its bytes and its type.
func listed(arrays []image.Array, number int64) client.Answer {
	for _, a := range arrays {
		if a.Zone != zones.Data {
			continue
		}
		if number--; number == 0 {
			return client.Answer{Status: client.OK, Value: a.Bytes<<4 | int64(a.Elem), Text: a.Name}
		}
	}
	return client.Answer{Status: client.None, Value: -1}
}

// queryOther answers a query about a checkpoint of another number of ranks: the program knows the
// size of its part.
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

// store stores the memory of the process, with Async behind the computation, once it is copied.
func (p *program) store(ctx context.Context, number int, order wire.WriteOrder, net *layoutNetwork, opt container.WriteOptions) (*wire.WriteReport, error) {
	captured := opt.Captured
	opt.Staging, opt.Captured = nil, nil
	if !p.spec.Async {
		opt.Fetch, opt.Release = p.client.Fetch, p.client.Release
	}
	t, err := p.take(ctx, number, order.Base)
	if err != nil {
		return nil, err
	}
	defer t.end()
	if p.spec.Async {
		captured()
	}
	if err := t.ready(ctx); err != nil {
		return nil, err
	}
	opt.Clean = t.clean(order.Base)
	if err = p.state.store(ctx, number, order, net, t.regions, opt, t.report); err == nil {
		p.awaitPrinted(ctx)
		if p.orphan || brokenOutput(p.launchers) {
			err = errLauncher
		}
	}
	return t.report, err
}

// take takes the memory of the process for a checkpoint, which may refer to base or a later one.
// Only the pages written since then are read and compared.
func (p *program) take(ctx context.Context, number, base int) (*taken, error) {
	take := p.client.View
	if p.spec.Async {
		take = p.client.Capture
	}
	c, err := take(ctx, int64(number), int64(base))
	if err != nil {
		return nil, err
	}
	t := &taken{regions: c.Regions, report: &wire.WriteReport{Step: p.step, Regions: len(c.Regions)}, close: c.Release, ready: c.Ready}
	for _, r := range c.Regions {
		t.report.Zones.Add(r.Zone, r.Size)
	}
	tell(t.report, c.Regions)
	for _, n := range p.client.Notes() {
		t.report.Refused = append(t.report.Refused, n.String())
	}
	t.clean = func(base int) func(string, int64, int64) bool {
		if base == 0 || !c.Knows(int64(base)) {
			return nil
		}
		return func(region string, offset, n int64) bool { return c.Clean(int64(base), region, offset, n) }
	}
	return t, nil
}

// makeRoom makes the memory that checkpoints in flight need, or says that this host lacks it.
func (p *program) makeRoom(ctx context.Context) error {
	n, need := p.spec.Flights(), int64(0)
	if !p.spec.Async {
		return nil
	}
	regions, err := p.client.Regions()
	if err != nil {
		return err
	}
	here := int64(p.spec.Mapping[p.spec.Nodes[p.id]])
	for _, r := range regions {
		need += r.Size * int64(n) * here
	}
	have, ok := launch.AvailableMemory()
	if ok && n > 1 && need > have {
		return &launch.MemoryError{Need: need, Have: have, InFlight: n}
	}
	children := os.Getenv(wire.EnvChildren)
	switch children {
	case "", "auto", "always":
		if !ok {
			have = math.MaxInt64
		}
		p.client.LimitForks((have-need)/here/int64(n), children == "always")
	case "never":
		p.client.LimitForks(0, false)
	default:
		return fmt.Errorf("%s=%q is not auto, always or never", wire.EnvChildren, children)
	}
	_ = p.client.Prepare(ctx, n) // the first checkpoint meets the same error, and tells it
	return nil
}
