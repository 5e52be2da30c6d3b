package coordinator

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"ckpt/coordinator/mpi"
	"ckpt/coordinator/protocol"
)

func (d *driver) kill(rank int) {
	if m := d.members[rank]; m != nil && m.proc != nil {
		m.proc.kill()
	}
}

// spawn ends what is left of the previous generation and starts the next, after
// a pause if that is asked for.
func (g *group) spawn(a protocol.Spawn) {
	if err := g.endGeneration(); err != nil {
		g.broken = err
		return
	}
	g.cleanUp()
	g.gen, g.started, g.spawned = a.Gen, false, a
	for _, rank := range g.ranks {
		delete(g.logWaits, rank)
	}
	if a.Fresh {
		if err := emptyLogs(g.fs, g.job, g.ranks); err != nil {
			g.broken = err
			return
		}
	}
	if a.Delay == 0 {
		g.start(a)
		return
	}
	time.AfterFunc(a.Delay, func() {
		g.post(func() {
			if g.gen == a.Gen && g.outcome == nil {
				g.start(a)
			}
		})
	})
}

// start starts all ranks of a generation.
func (g *group) start(a protocol.Spawn) {
	if err := g.placeSegments(); err != nil {
		g.broken = err
		return
	}
	beat := beatPeriod(g.spec.NP, g.limits.Silence)
	for _, rank := range g.ranks {
		proc, err := g.launcher.start(rankStart{rank: rank, gen: a.Gen, socket: g.address, token: g.token, beat: beat,
			scratch: g.run.scratch(g.nodes[rank])}, func(cause string) {
			g.post(func() { g.lose(a.Gen, rank, cause) })
		})
		if err != nil {
			g.broken = err
			return
		}
		g.members[rank] = &member{proc: proc}
	}
	g.examine(a.From)
}

// cleanUp removes what a generation that is gone has left in the store.
func (g *group) cleanUp() {
	g.discardAny()
	if g.writing() {
		return // another group: what there is of ours is swept later
	}
	if _, err := g.job.Sweep(); err != nil {
		g.out.Warn(fmt.Sprintf("sweep: %v", err))
	}
}

// placeSegments makes the shared memory of each node, at once in its full size:
// a rank that ran out of it later would die of it.
func (g *group) placeSegments() error {
	_, need, err := g.spec.memory()
	if err != nil {
		return err
	}
	implementation, err := mpi.ParseImplementation(g.spec.MPI)
	if err != nil {
		return err
	}
	err = g.makeSegments(mpi.SegmentDir(need), implementation)
	if errors.Is(err, syscall.ENOSPC) && mpi.SegmentDir(need) != os.TempDir() {
		// Somebody else was quicker to take what there was.
		g.unlinkSegments()
		err = g.makeSegments(os.TempDir(), implementation)
	}
	if err != nil {
		g.unlinkSegments()
	}
	return err
}

func (g *group) makeSegments(dir string, implementation mpi.Implementation) error {
	for node, ranks := range g.perNode() {
		if ranks == 0 {
			g.segments = append(g.segments, "")
			continue
		}
		path := g.run.segment(dir, g.id, g.gen, node)
		g.segments = append(g.segments, path)
		seg, err := mpi.OpenSegment(path, implementation, ranks)
		if err != nil {
			return err
		}
		if err := seg.Close(); err != nil {
			return err
		}
	}
	return nil
}

// endGeneration kills all processes of the group and waits until they are gone, so
// that nothing of theirs can happen any more.
func (g *group) endGeneration() error {
	for _, rank := range g.ranks {
		if m := g.members[rank]; m != nil { // else it was never started
			m.proc.kill()
		}
	}
	deadline := time.NewTimer(killGrace)
	defer deadline.Stop()
	for _, rank := range g.ranks {
		m := g.members[rank]
		if m == nil {
			continue
		}
		select {
		case <-m.proc.done():
		case <-deadline.C:
			return fmt.Errorf("rank %d (process %d) does not die: is its storage hanging?", rank, m.proc.pid())
		}
		if m.link != nil {
			m.link.close()
		}
		g.members[rank] = nil
	}
	g.unlinkSegments()
	return nil
}

// lose tells the protocol, once, that a rank is gone.
func (d *driver) lose(gen, rank int, cause string) {
	m := d.members[rank]
	if gen != d.group(rank).gen || m == nil || m.lost {
		return
	}
	m.lost = true
	d.group(rank).step(protocol.RankLost{Gen: gen, Rank: rank, Cause: cause})
}
