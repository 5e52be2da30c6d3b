package rank

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"

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
	r.tier = &nodeTier{t, p, j.FS()}
	return err
}

// sourceStored is the source of an image that was read from the store.
const sourceStored = "stored"

// findImage finds out where the checkpoint to restore is read, the nearest place first,
// and puts the file of this rank in place on its node if that does not have it.
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

// damaged reports whether something is there and damaged.
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

// manifest returns that of the checkpoint to restore.
func (s *state) manifest() (*image.Manifest, error) {
	if s.found != nil {
		return s.found, nil
	}
	return s.images.Manifest(s.cfg.From)
}

// writeLocal writes the file of this rank into the directory of its node, and what protects
// it to other nodes, and returns when all of that is durable.
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

// storePart copies the part of this rank of a checkpoint into the store, beside the
// computation.
func (r *process) storePart(ctx context.Context, m protocol.Store) {
	var o wire.StoreOrder
	err := json.Unmarshal(m.Body, &o)
	var report wire.StoreReport
	if err == nil {
		report, err = r.copyPart(ctx, m.Number, o)
	}
	if err != nil {
		r.link.Send(protocol.StoreFailed{Number: m.Number, Text: err.Error(), Body: wire.EncodeError(err)})
		return
	}
	r.link.Send(protocol.Stored{Number: m.Number, Body: job.Encode(report)})
}

func (r *process) copyPart(ctx context.Context, number int, o wire.StoreOrder) (report wire.StoreReport, err error) {
	m, err := r.tier.Manifest(r.spec.Nodes[r.id], number, o.ID)
	if err != nil {
		return report, err
	}
	turn := begin(ctx, r.turns.Load(), nil, turns.Burst{Kind: turns.Drain, File: container.JobPath(o.Path), Bytes: job.PartBytes(m, r.id)})
	report.Bytes, err = job.StorePart(ctx, turn.FS(r.tier.store), r.tier.Tier, m, r.id, o.Path, nodes.NewLimiter(o.Rate, nodes.RealClock()))
	told := turn.end()
	report.TurnWait, report.TurnPassed = told.Waited, told.Passed
	return report, err
}
