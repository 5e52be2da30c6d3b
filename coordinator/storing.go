package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/protocol/channel"
	"ckpt/coordinator/wire"
	"ckpt/image/nodes"
	"ckpt/internal/durable"
)

// prepare makes room for a checkpoint.
func (g *group) prepare(number int) {
	if g.d.tier != nil {
		g.d.tier.prepare(number)
		return
	}
	g.prepareStored(number)
}

// prepareStored makes room for a checkpoint in the store.
func (g *group) prepareStored(number int) {
	g.d.againTurns()
	g.d.thin() // between two checkpoints, if they follow each other at once
	begin := g.job.Begin
	if g.spec.Several() || g.d.tier != nil {
		begin = g.job.BeginApart
	}
	tx, err := begin(number)
	if err == nil {
		if err = g.checkFreeSpace(); err != nil {
			err = errors.Join(err, tx.Abort())
		}
	}
	if err != nil {
		g.later(protocol.CommitFailed{Number: number, Reason: err.Error(), Body: job.Encode(wire.ReportError(err))})
		return
	}
	g.tx = tx
	g.recorded, g.passed = nil, ""
	if g.spec.Trace {
		g.recorded = job.NewRecording(g.job.Name())
		tx.Trace = g.recorded.OfCoordinator(number)
	}
	g.base = g.chooseBase()
	g.holdTurn(number)
	g.findLibrary(number)
	g.exchange = newExchange(number, g.ranks)
	if err := g.createFiles(); err != nil {
		g.discardAny()
		g.later(protocol.CommitFailed{Number: number, Reason: err.Error(), Body: job.Encode(wire.ReportError(err))})
	}
}

// createFiles makes the files that ranks write together in the checkpoint, which is
// written in the present way of the group, whatever becomes of that meanwhile.
func (g *group) createFiles() error {
	if g.ways != nil {
		g.way = g.ways(g.tx.Number())
	}
	g.as, g.joint = g.way, g.spec.Layouts[g.id]
	var err error
	if g.as != nil {
		g.joint, err = g.spec.Joint(g.id, *g.as)
	}
	if err != nil || g.joint == nil {
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

// order says what a rank stores, and in which files. The segment of a node comes
// with its first rank, unless each is to have its own copy.
func (g *group) order(rank int) wire.WriteOrder {
	o := wire.WriteOrder{Way: g.as, WithShared: !g.spec.SharedOnce || g.leads(rank), WithLibrary: !g.spec.LibraryOnce}
	if g.spec.SavesArrays() {
		o.WithShared, o.WithLibrary = false, false
	}
	if t := g.local(); t != nil {
		o.Local, o.Rank = true, g.job.FilePath(nodes.RankFile(t.attempt.number, rank))
		return o
	}
	o.Base, o.Oldest = g.base, g.lineage.oldest()
	if g.joint != nil {
		o.Group = g.paths
	} else {
		o.Rank = g.tx.RankPath(rank)
	}
	return o
}

// commit assembles the manifest and renames it into place.
func (g *group) commit(cp protocol.Checkpoint) {
	m, err := g.d.engine.manifest(g, cp)
	if g.local() != nil {
		g.commitLocal(cp, m, err)
		return
	}
	if g.d.tier != nil {
		g.d.tier.attempt = tierAttempt{}
	}
	tx, base, reuse, storing, recorded, passed := g.tx, g.base, g.reuse, g.storing, g.recorded, g.passed
	turn := g.turn
	g.tx, g.turn, g.committing = nil, nil, true
	g.d.helpers.Go(func() {
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
		g.d.post(func() {
			g.committing = false
			g.complete = err != nil
			if err != nil {
				g.d.step(g.id, protocol.CommitFailed{Number: cp.Number, Reason: err.Error(), Body: job.Encode(wire.ReportError(err))})
				return
			}
			g.taken, g.late = m, late
			g.lineage.committed(m.Number)
			if g.spec.Several() {
				g.d.baseline.Taken[g.id] = m.Number
			}
			g.learnSize(m, base)
			g.d.hasTurns(passed)
			g.d.step(g.id, protocol.Committed{Number: cp.Number, Vectors: vectors})
			if g.d.tier != nil {
				g.d.tier.wentPast(m)
			}
		})
		if err == nil && recorded != nil {
			g.d.keepTrace(m, recorded, cp.Bodies)
		}
	})
}

// discard removes the debris of checkpoint number, if it is there, after it was
// aborted. Nobody writes to it any more.
func (g *group) discard(number int) {
	if t := g.d.tier; t != nil && t.attempt.number == number || g.tx != nil && g.tx.Number() == number {
		g.discardAny()
	}
}

// discardAny removes the debris of whatever checkpoint is being written.
func (g *group) discardAny() {
	g.dropLibrary()
	if g.d.tier != nil {
		g.d.tier.discard()
	}
	if g.tx == nil {
		return
	}
	if err := g.tx.Abort(); err != nil {
		g.d.out.Warn(err.Error())
	}
	g.tx = nil
	g.turn.End()
	g.turn = nil
}

// chooseBase returns the checkpoint that the next may refer to: the newest that
// the ranks descend from, unless it was pruned. After a checkpoint that could not
// be committed the next is complete by itself: perhaps a file that it referred to
// is damaged.
func (g *group) chooseBase() int {
	if !g.spec.Incremental || g.complete || g.d.tier != nil { // files on nodes refer to no others
		return 0
	}
	numbers, err := g.job.Checkpoints()
	if n := g.lineage.newest(); err == nil && slices.Contains(numbers, n) {
		return n
	}
	return 0
}
