package rank

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"runtime/debug"
	"slices"
	"sync"

	"ckpt/coordinator/job"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/turns"
	"ckpt/coordinator/wire"
	"ckpt/image"
	"ckpt/image/container"
	"ckpt/image/nodes"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
	"ckpt/zones"
)

// openTier opens the directories of the nodes, if the job has some.
func (r *process) openTier(ctx context.Context) error {
	if r.spec.Tier == nil {
		return nil
	}
	store, err := image.OpenStore(r.fs, r.cfg.StoreDir)
	if err != nil {
		return err
	}
	j, err := store.Job(r.cfg.Job)
	if err != nil {
		return err
	}
	t, err := r.spec.OpenTier(j, func(node int) vfs.FS { return r.reach(ctx, node) }, r.spec.Mapping)
	if err != nil {
		return err
	}
	t.For(nil) // the coordinator has checked, and the store may look like a copy from this host
	p, err := r.openParity(t)
	r.tier = &nodeTier{t, p, j}
	return err
}

const sourceStored = "stored"

// findImage finds the nearest place to read the checkpoint from, and puts the file of this rank
// in place on its node if it is missing there.
func (s *state) findImage(ctx context.Context) error {
	s.images = s.job
	if s.tier == nil || s.cfg.From == 0 {
		return nil
	}
	s.restored.Source = sourceStored
	if !s.cfg.Local {
		return nil
	}
	m, from, err := s.recover(ctx)
	for _, p := range from.Passed {
		if node := (*nodes.NodeError)(nil); errors.Is(p, fs.ErrNotExist) || errors.As(p, &node) && node.Whole {
			continue // a node that was lost has nothing, and a warning tells why it is
		}
		s.restored.Passed = append(s.restored.Passed, p.Error())
	}
	switch {
	case err == nil:
		s.images, s.found, s.restored.Source = from.Job, m, string(from.Source)
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case s.cfg.Stored:
		if len(from.Passed) == 0 {
			s.restored.Passed = append(s.restored.Passed, err.Error())
		}
		return nil
	case errors.Is(err, nodes.ErrNotHere) || job.Unrestorable(err):
		if !slices.ContainsFunc(from.Passed, damaged) {
			err = errors.New(err.Error()) // nothing is damaged: it is lost
		}
		return &job.MissingError{What: fmt.Sprintf("the part of rank %d in checkpoint %d, which was not in the store yet", s.rank, s.cfg.From), Cause: err, OnNodes: true}
	}
	return err
}

func damaged(err error) bool {
	return errors.As(err, new(*durable.DamageError)) && !errors.Is(err, fs.ErrNotExist)
}

// recover puts the file of this rank in place on its node, or on another that can take it.
func (s *state) recover(ctx context.Context) (*image.Manifest, nodes.From, error) {
	m, err := s.tier.Manifest(s.node, s.cfg.From, s.cfg.ID)
	if err != nil {
		return nil, nodes.From{}, err
	}
	from, err := s.tier.Recover(ctx, m, s.rank)
	return m, from, err
}

func (s *state) manifest() (*image.Manifest, error) {
	if s.found != nil {
		return s.found, nil
	}
	return s.images.Manifest(s.cfg.From)
}

// writeLocal writes the file of this rank into its node's directory, and what protects it to
// other nodes, durably.
func (s *state) writeLocal(ctx context.Context, h container.Header, regions []zones.Region, opt container.WriteOptions, report *wire.WriteReport) (container.FileInfo, error) {
	sinks, err := s.tier.Copies(h.Number, s.rank)
	if err != nil {
		return container.FileInfo{}, err
	}
	var coded *nodes.Contribution
	var set nodes.Set
	if s.tier.parity != nil {
		if coded, set, err = s.tier.parity.contribution(ctx, h.Number); err != nil {
			return container.FileInfo{}, err
		}
		sinks = append(sinks, coded)
	}
	w, err := s.tier.Writer(ctx, h.Number, s.rank, sinks...)
	if err != nil {
		for _, k := range sinks { // else the others of the set wait for this rank
			k.Abort()
		}
		return container.FileInfo{}, err
	}
	info, err := container.Write(ctx, w.FS(), w.Path(), h, regions, opt)
	if err == nil {
		err = w.Finish(ctx)
	}
	if err != nil {
		return info, errors.Join(err, w.Abort())
	}
	if coded != nil {
		report.Parities = parityFiles(h.Number, set, coded)
	}
	return info, nil
}

// writeNothing takes the part of this rank in the coding of its set, if it has no file.
func (s *state) writeNothing(ctx context.Context, number int, report *wire.WriteReport) error {
	if s.tier.parity == nil {
		return nil
	}
	coded, set, err := s.tier.parity.contribution(ctx, number)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, coded.Abort)() // else it may wait for ever
	if err := coded.Finish(0); err != nil {
		coded.Abort()
		return err
	}
	report.Parities = parityFiles(number, set, coded)
	return nil
}

// A drain is a copy of this rank's part of a checkpoint into the store, beside the computation.
type drain struct {
	number   int
	ctx      context.Context
	end      context.CancelFunc
	together meeting
}

func newDrain(ctx context.Context, number int) *drain {
	d := &drain{number: number, together: newMeeting()}
	d.ctx, d.end = context.WithCancel(ctx)
	return d
}

// of reports whether a drain, which may be nil, is of a checkpoint.
func (d *drain) of(number int) bool { return d != nil && d.number == number }

// storePart makes a copy, and tells of it.
func (r *process) storePart(d *drain, m protocol.Store) {
	defer d.end()
	defer d.together.close()
	var o wire.StoreOrder
	err := json.Unmarshal(m.Body, &o)
	var report wire.StoreReport
	if err == nil {
		report, err = r.copyPart(d, o)
	}
	if err != nil {
		r.link.Send(protocol.StoreFailed{Number: m.Number, Text: err.Error(), Body: wire.EncodeError(err)})
		return
	}
	r.link.Send(protocol.Stored{Number: m.Number, Body: job.Encode(report)})
}

func (r *process) copyPart(d *drain, o wire.StoreOrder) (report wire.StoreReport, err error) {
	ctx := d.ctx
	var net *layoutNetwork
	var joint *job.JointLayout
	if len(o.Group) > 0 {
		if joint, err = r.spec.JointAs(r.spec.GroupOf[r.id], o.Way); err == nil {
			net, err = r.open(ctx, &d.together, d.number, joint.Ranks)
		}
		if err != nil {
			return report, err
		}
	}
	m, err := r.tier.Manifest(r.spec.Nodes[r.id], d.number, o.ID)
	if err != nil {
		return report, err
	}
	turn := begin(ctx, r.turns.Load(), nil, turns.Burst{Kind: turns.Drain, File: drainFile(o), Bytes: job.PartBytes(m, r.id)})
	part := job.Part{Nodes: r.tier.Tier, Version: m, Rank: r.id, Store: r.tier.store, Through: turn.FS(r.tier.store.FS()),
		Path: o.Path, Basis: o.Basis, Limit: nodes.NewLimiter(o.Rate, nodes.RealClock())}
	if joint == nil {
		report.Copied, err = part.Copy(ctx)
	} else {
		report.Copied, err = part.CopyJoint(ctx, container.Joint{Settings: joint.Settings, Ranks: joint.Ranks, Rank: r.id, Paths: o.Group,
			Network: net, Buffers: &r.state.buffers}, joint.Kind())
	}
	told := turn.end()
	report.TurnWait, report.TurnPassed = told.Waited, told.Passed
	return report, err
}

// drainFile is the file that a turn to copy is asked for.
func drainFile(o wire.StoreOrder) string {
	if len(o.Group) > 0 {
		return container.JobPath(o.Group[0])
	}
	return container.JobPath(o.Path)
}

type nodeTier struct {
	*nodes.Tier
	parity *parity // nil: nothing is coded
	store  *image.Job
}

// A parity is this rank's part in the coding of files: it holds parity of its own set and, as the
// first rank of its node, of sets without a rank there. It contributes to the parity that the
// others of its set hold.
type parity struct {
	id     int
	ranks  []int // of the group
	tier   *nodes.Tier
	sets   []nodes.Set
	client func(rank int) *wire.PeerClient

	mu       sync.Mutex
	encoders map[parityKey]*nodes.Encoder
}

// codingGC is how much garbage a rank that codes may have, in percent of what it uses. With the
// usual 100 a rank would take more than 64 MiB beside its job, for 16 MiB of parity and the bytes
// that others add.
const codingGC = 50

type parityKey struct{ number, set, index int }

func (r *process) openParity(t *nodes.Tier) (*parity, error) {
	sets := t.Sets(r.group)
	if len(sets) == 0 {
		return nil, nil
	}
	if r.served == nil || len(r.cfg.Served) != r.spec.NP {
		return nil, errors.New("the ranks serve no parities")
	}
	debug.SetGCPercent(codingGC)
	p := &parity{id: r.id, ranks: r.group, tier: t, sets: sets, client: r.client, encoders: map[parityKey]*nodes.Encoder{}}
	r.served.parity.Store(p)
	return p, nil
}

// holder returns the rank whose process holds a parity of a set: the member on that node, or else
// its first rank of the group, or else a member, which writes to that node.
func (p *parity) holder(set nodes.Set, index int) int {
	if rank := set.Members[index]; rank >= 0 {
		return rank
	}
	for _, rank := range p.ranks {
		if p.tier.Topology().NodeOf[rank] == set.Nodes[index] {
			return rank
		}
	}
	return slices.Max(set.Members)
}

// serve opens the contribution of another rank to a parity that this one holds.
func (p *parity) serve(_ context.Context, name string) (nodes.Contributor, error) {
	var k parityKey
	var member int
	if n, err := fmt.Sscanf(name, "%d %d %d %d", &k.number, &k.set, &k.index, &member); n != 4 || err != nil {
		return nil, fmt.Errorf("contribution %q is unknown", name)
	}
	if k.number < 1 || k.set < 0 || k.set >= len(p.sets) {
		return nil, fmt.Errorf("contribution %q: there are %d sets", name, len(p.sets))
	}
	set := p.sets[k.set]
	if k.index < 0 || k.index >= len(set.Members) || member < 0 || member >= len(set.Members) || set.Members[member] < 0 || p.holder(set, k.index) != p.id {
		return nil, fmt.Errorf("contribution %q is not for rank %d", name, p.id)
	}
	e, err := p.encoder(k)
	if err != nil {
		return nil, err
	}
	return e.Contributor(member), nil
}

// encoder returns what makes a parity that this rank holds. Encoders of earlier checkpoints give
// their files and memory back.
func (p *parity) encoder(k parityKey) (*nodes.Encoder, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.encoders[k]; e != nil {
		return e, nil
	}
	for old, e := range p.encoders {
		if old.number < k.number {
			e.Abort(fmt.Errorf("checkpoint %d has begun", k.number))
			delete(p.encoders, old)
		}
	}
	e, err := p.tier.Encoder(k.number, p.sets[k.set], k.index)
	if err == nil {
		p.encoders[k] = e
	}
	return e, err
}

// contribution opens the sink that gives the file of this rank to all holders of its set.
func (p *parity) contribution(ctx context.Context, number int) (*nodes.Contribution, nodes.Set, error) {
	set, member, ok := nodes.SetOf(p.sets, p.id)
	if !ok {
		return nil, set, fmt.Errorf("rank %d is in no set", p.id)
	}
	var err error
	holders := map[int]nodes.Contributor{}
	for _, index := range set.Holders() {
		if holders[index], err = p.open(ctx, parityKey{number, set.ID, index}, set, member); err != nil {
			for _, h := range holders {
				if h != nil {
					h.Abort()
				}
			}
			return nil, set, err
		}
	}
	c, err := nodes.Coded(set, member, holders)
	return c, set, err
}

func (p *parity) open(ctx context.Context, k parityKey, set nodes.Set, member int) (nodes.Contributor, error) {
	rank := p.holder(set, k.index)
	if rank == p.id {
		e, err := p.encoder(k)
		if err != nil {
			return nil, err
		}
		return e.Contributor(member), nil
	}
	return p.client(rank).Contribute(ctx, fmt.Sprintf("%d %d %d %d", k.number, k.set, k.index, member))
}

// parityFiles returns what the manifest says of the parities of a file.
func parityFiles(number int, set nodes.Set, c *nodes.Contribution) []image.Parity {
	var list []image.Parity
	for _, info := range c.Files() {
		list = append(list, nodes.ParityOf(number, set, info))
	}
	return list
}
