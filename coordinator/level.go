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
	"ckpt/image"
	"ckpt/internal/durable"
)

// A level keeps versions: checkpoints of a group. A version is placed on the first level of
// the group that takes it, and drains to the next; the last level is the store. A level
// embeds the next one, and overrides what it does itself: prepare, place, commit and abort of
// a version, and where it is found, repaired and removed. All is done in the driver's loop.
type level interface {
	// prepare makes room for a version, place orders the ranks to write it, commit makes it
	// exist, abort removes it. ended tells that the driver has committed one on this level
	// or a lower one, or, with an error, that it was aborted.
	prepare(number int)
	place(protocol.Write)
	commit(protocol.Checkpoint, *image.Manifest, error)
	abort()
	ended(number int, err error)
	// versions are those that this level has and the store may lack. find returns what looks
	// for one, outside of the loop; found tells where its ranks read it.
	versions() map[int]*image.Manifest
	find(number int) func() (finding, error)
	found(finding)
	attendant
	facts() levelFacts
}

// An attendant does what a level has to do as ranks come and go.
type attendant interface {
	// open and close frame the run. served says where ranks serve the level to others, by rank.
	open()
	close()
	served() []wire.Served
	// begin starts the ranks of an incarnation on a checkpoint; hear takes a message of a
	// rank, and returns what is left to do with it, nil for nothing; computing repairs and
	// drains while the ranks compute.
	begin(from int)
	hear(rank int, m *member, msg protocol.Message) protocol.Message
	computing()
	// gone tells that the ranks have ended, and whether nothing may touch the store now;
	// unreached that no process is left.
	gone() (apart bool)
	unreached()
	// mayLeave reports whether ranks may leave at the end; letGo lets those leave that had to
	// stay, and drain moves what is only here to the next level once all have.
	mayLeave() bool
	letGo()
	drain()
}

// levelFacts are what the driver tells of a level, and plans with.
type levelFacts struct {
	underWay int     // version that is being written, or 0
	busy     bool    // something is being written to the store
	keep     int     // how many checkpoints the store is to keep, 0 all,
	of       []int   // and of which
	lag      float64 // seconds from a commit until the last version was in the store
	remedy   string  // if versions do not fit; empty: free space in the store
}

// A finding is where a checkpoint to be restored was found.
type finding struct {
	m             *image.Manifest
	local, stored bool
	lost          []int   // nodes that should have it and have not
	wrong         []error // of the directories of nodes
	passed        error   // why it is not read from the nodes
}

// A storeLevel is the store, which is always the last level.
type storeLevel struct {
	g     *group
	under bool // of another level, whose versions refer to no others
}

func (s *storeLevel) prepare(number int) {
	g := s.g
	g.d.againTurns()
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
		g.later(commitFailed(number, err))
		return
	}
	g.tx = tx
	g.recorded, g.passed = nil, ""
	if g.spec.Trace {
		g.recorded = job.NewRecording(g.job.Name())
		tx.Trace = g.recorded.OfCoordinator(number)
	}
	g.base = s.chooseBase()
	g.holdTurn(number)
	g.findLibrary(number)
	g.exchange = newExchange(number, g.ranks)
	if err := g.createFiles(); err != nil {
		g.abort()
		g.later(commitFailed(number, err))
	}
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

func (s *storeLevel) place(w protocol.Write) {
	g := s.g
	if g.tx == nil {
		return // it could not be prepared, and is being aborted
	}
	for _, rank := range g.ranks {
		o := g.order(rank)
		o.Way, o.Base, o.Oldest = g.as, g.base, g.lineage.oldest()
		if g.joint != nil {
			o.Group = g.paths
		} else {
			o.Rank = g.tx.RankPath(rank)
		}
		w.Body = job.Encode(o)
		g.d.send(rank, w)
	}
}

// commit renames the manifest into place, once the library zone is there.
func (s *storeLevel) commit(cp protocol.Checkpoint, m *image.Manifest, err error) {
	g := s.g
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
			g.level.ended(m.Number, nil)
		})
		if err == nil && recorded != nil {
			g.d.keepTrace(m, recorded, cp.Bodies)
		}
	})
}

func (s *storeLevel) abort() {
	g := s.g
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

func (s *storeLevel) find(number int) func() (finding, error) {
	return func() (finding, error) {
		m, err := s.g.job.Manifest(number)
		return finding{m: m, stored: err == nil}, err
	}
}

func (s *storeLevel) begin(from int) { s.g.examine(from) }

func (s *storeLevel) facts() levelFacts {
	f := levelFacts{busy: s.g.tx != nil || s.g.committing, keep: s.g.spec.Keep, of: s.g.lineage.numbers}
	if s.g.tx != nil {
		f.underWay = s.g.tx.Number()
	}
	return f
}

func (s *storeLevel) hear(_ int, _ *member, m protocol.Message) protocol.Message { return m }

// The store has no more to do.
func (s *storeLevel) ended(int, error)                  {}
func (s *storeLevel) versions() map[int]*image.Manifest { return nil }
func (s *storeLevel) found(finding)                     {}
func (s *storeLevel) open()                             {}
func (s *storeLevel) served() []wire.Served             { return nil }
func (s *storeLevel) close()                            {}
func (s *storeLevel) computing()                        {}
func (s *storeLevel) gone() bool                        { return false }
func (s *storeLevel) unreached()                        {}
func (s *storeLevel) mayLeave() bool                    { return true }
func (s *storeLevel) letGo()                            {}
func (s *storeLevel) drain()                            {}

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

// order says what a rank stores. The segment of a node comes with its first rank, unless
// each is to have its own copy. The level says in which files.
func (g *group) order(rank int) wire.WriteOrder {
	if g.spec.SavesArrays() {
		return wire.WriteOrder{}
	}
	return wire.WriteOrder{WithShared: !g.spec.SharedOnce || g.leads(rank), WithLibrary: !g.spec.LibraryOnce}
}

// abort removes what there is of the checkpoint that is being written. All writers have
// ended.
func (g *group) abort() {
	g.dropLibrary()
	g.level.abort()
}
