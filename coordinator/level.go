package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/levels"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/protocol/channel"
	"ckpt/coordinator/wire"
	"ckpt/image"
	"ckpt/internal/durable"
)

// A storeLevel is the store, which is always the last level.
type storeLevel struct {
	g     *group
	under bool // of another level, whose versions refer to no others
}

func (s *storeLevel) Prepare(number int) error {
	g := s.g
	g.d.AgainTurns()
	g.d.thin() // between two checkpoints, if they follow each other at once
	begin := g.job.Begin
	if g.spec.Several() || s.under {
		begin = g.job.BeginApart
	}
	tx, err := begin(number)
	if err == nil {
		if err = g.checkFreeSpace(); err != nil {
			err = errors.Join(err, tx.Abort())
		}
	}
	if err != nil {
		return err
	}
	g.tx = tx
	if g.recorded != nil {
		tx.Trace = g.recorded.OfCoordinator(number)
	}
	g.base = s.chooseBase()
	g.holdTurn(number)
	g.findLibrary(number)
	if err = g.createFiles(); err != nil {
		g.dropLibrary()
		s.Abort()
	}
	return err
}

func commitFailed(number int, err error) protocol.CommitFailed {
	return protocol.CommitFailed{Number: number, Reason: err.Error(), Body: job.Encode(wire.ReportError(err))}
}

// chooseBase returns the checkpoint that the next may refer to: the newest that
// the ranks descend from, unless it was pruned. After a checkpoint that could not
// be committed the next is complete by itself: perhaps a file that it referred to
// is damaged.
func (s *storeLevel) chooseBase() int {
	g := s.g
	if !g.spec.Incremental || g.complete || s.under {
		return 0
	}
	numbers, err := g.job.Checkpoints()
	if n := g.lineage.newest(); err == nil && slices.Contains(numbers, n) {
		return n
	}
	return 0
}

func (s *storeLevel) Place(w protocol.Write) {
	g := s.g
	if g.tx == nil {
		return // it could not be prepared, and is being aborted
	}
	for _, rank := range g.ranks {
		o := g.Order(rank)
		o.Way, o.Base, o.Oldest = g.as, g.base, g.lineage.oldest()
		if g.joint != nil {
			o.Group = g.paths
		} else {
			o.Rank = g.tx.RankPath(rank)
		}
		w.Body = job.Encode(o)
		g.d.Send(rank, w)
	}
}

// Commit renames the manifest into place, once the library zone is there.
func (s *storeLevel) Commit(cp protocol.Checkpoint, m *image.Manifest, err error) {
	g := s.g
	tx, base, reuse, storing, recorded, passed := g.tx, g.base, g.reuse, g.storing, g.recorded, g.passed
	turn := g.turn
	g.tx, g.turn = nil, nil
	g.d.Go(func() {
		defer turn.End()
		// The library zone first: it may need the turn that is kept after it.
		late := time.Duration(0)
		if err == nil {
			late, err = waitLibrary(m, reuse, storing)
		}
		late += keepTurn(turn)
		if err == nil {
			err = tx.Commit(context.Background(), m)
		} else if aerr := tx.Abort(); aerr != nil {
			err = fmt.Errorf("%w; then %w", err, aerr)
		}
		var vectors []channel.Vector
		if err == nil && g.spec.Several() {
			vectors, err = job.VectorsOf(m)
		}
		g.d.Post(func() {
			g.committing = false
			g.complete = err != nil
			if err != nil {
				g.d.step(g.id, commitFailed(cp.Number, err))
				return
			}
			g.taken, g.landed, g.late = m, "", late
			g.lineage.committed(m.Number)
			if g.spec.Several() {
				g.d.baseline.Taken[g.id] = m.Number
			}
			g.learnSize(m, base)
			g.d.hasTurns(passed)
			g.d.step(g.id, protocol.Committed{Number: cp.Number, Vectors: vectors})
			g.level.InStore(m.Number)
		})
		if err == nil && recorded != nil {
			g.d.keepTrace(m, recorded, cp.Bodies)
		}
	})
}

func (s *storeLevel) Abort() {
	g := s.g
	if g.tx == nil {
		return
	}
	if err := g.tx.Abort(); err != nil {
		g.d.Warn(err.Error())
	}
	g.tx = nil
	g.turn.End()
	g.turn = nil
}

func (s *storeLevel) Find(number int) func() (levels.Finding, error) {
	return func() (levels.Finding, error) {
		m, err := s.g.job.Manifest(number)
		return levels.Finding{Manifest: m, Stored: err == nil}, err
	}
}

func (s *storeLevel) Reads(number int) (*image.Job, *image.Manifest, error) {
	m, err := s.g.job.Manifest(number)
	return s.g.job, m, err
}

func (s *storeLevel) Unreached(lose []int) {
	if e, ok := s.g.d.engine.(*dmtcpEngine); ok && len(lose) > 0 {
		e.LoseLocal()
	}
}

func (s *storeLevel) Begin(from int) { s.g.Examine(from) }

func (s *storeLevel) Facts() levels.Facts {
	f := levels.Facts{Busy: s.g.tx != nil || s.g.committing, Keep: s.g.spec.Keep, Of: s.g.lineage.numbers}
	if s.g.tx != nil {
		f.UnderWay = s.g.tx.Number()
	}
	return f
}

func (s *storeLevel) Hear(_ int, m protocol.Message) protocol.Message { return m }

// The store has no more to do.
func (s *storeLevel) InStore(int)                       {}
func (s *storeLevel) Aborted(int, error)                {}
func (s *storeLevel) Leave(int)                         {}
func (s *storeLevel) Versions() map[int]*image.Manifest { return nil }
func (s *storeLevel) Found(levels.Finding)              {}
func (s *storeLevel) Served() []wire.Served             { return nil }
func (s *storeLevel) Close()                            {}
func (s *storeLevel) Computing()                        {}
func (s *storeLevel) Gone() bool                        { return false }
func (s *storeLevel) MayLeave() bool                    { return true }
func (s *storeLevel) LetGo()                            {}
func (s *storeLevel) Drain()                            {}

// createFiles makes the files that ranks write together in the checkpoint, which is
// written in the present way of the group, whatever becomes of that meanwhile.
func (g *group) createFiles() error {
	g.as = g.Way(g.tx.Number())
	var err error
	if g.joint, err = g.spec.JointAs(g.id, g.as); err != nil || g.joint == nil {
		return err
	}
	g.paths, err = g.tx.CreateJoint(g.joint.Settings.Layout, g.joint.Files)
	return err
}

// checkFreeSpace fails when there is surely too little room for a checkpoint, before
// anything is written. Every second time it lets the writing find out.
func (g *group) checkFreeSpace() error {
	g.d.checks++
	if g.expect == 0 || g.stopOnFull || g.d.checks%2 == 0 {
		return nil
	}
	free, err := g.job.FS().Free(g.store)
	if err != nil || free >= g.expect {
		return nil // what cannot be told is found out by writing
	}
	return fmt.Errorf("%w: no checkpoint of this run stored less than %.1f MiB, %.1f MiB are free in %s", durable.ErrStorageFull,
		float64(g.expect)/(1<<20), float64(free)/(1<<20), g.store)
}

// Order says what a rank stores. The segment of a node comes with its first rank, unless
// each is to have its own copy. The level says in which files.
func (g *group) Order(rank int) wire.WriteOrder {
	if g.spec.SavesArrays() {
		return wire.WriteOrder{}
	}
	return wire.WriteOrder{WithShared: !g.spec.SharedOnce || g.Leads(rank), WithLibrary: !g.spec.LibraryOnce}
}

// abort removes what there is of the checkpoint that is being written. All writers have
// ended.
func (g *group) abort() {
	g.dropLibrary()
	g.level.Abort()
}
