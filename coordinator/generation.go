package coordinator

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"ckpt/coordinator/mpi"
	"ckpt/coordinator/protocol"
)

func (d *driver) kill(rank int) {
	if rank < len(d.members) && d.members[rank].proc != nil {
		d.members[rank].proc.kill()
	}
}

// spawn ends what is left of the previous generation and starts the next, after
// a pause if that is asked for.
func (d *driver) spawn(a protocol.Spawn) {
	if err := d.endGeneration(); err != nil {
		d.broken = err
		return
	}
	d.cleanUp()
	d.gen, d.started = a.Gen, false
	if a.Delay == 0 {
		d.start(a)
		return
	}
	time.AfterFunc(a.Delay, func() {
		d.post(func() {
			if d.gen == a.Gen && d.outcome == nil {
				d.start(a)
			}
		})
	})
}

// start starts all ranks of a generation.
func (d *driver) start(a protocol.Spawn) {
	if err := d.placeSegments(); err != nil {
		d.broken = err
		return
	}
	d.members = make([]*member, d.spec.NP)
	for rank := range d.members {
		proc, err := d.launcher.start(rankStart{rank: rank, gen: a.Gen, socket: d.address, token: d.token,
			scratch: d.run.scratch(d.nodes[rank])}, func(cause string) {
			d.post(func() { d.lose(a.Gen, rank, cause) })
		})
		if err != nil {
			d.broken = err
			return
		}
		d.members[rank] = &member{proc: proc}
	}
	d.examine(a.From)
}

// cleanUp removes what a generation that is gone has left in the store.
func (d *driver) cleanUp() {
	d.discardAny()
	if _, err := d.job.Sweep(); err != nil {
		d.out.Warn(fmt.Sprintf("sweep: %v", err))
	}
}

// placeSegments makes the shared memory of each node, at once in its full size:
// a rank that ran out of it later would die of it.
func (d *driver) placeSegments() error {
	_, need, err := d.spec.memory()
	if err != nil {
		return err
	}
	flavour, err := mpi.ParseFlavour(d.spec.MPI)
	if err != nil {
		return err
	}
	err = d.makeSegments(mpi.SegmentDir(need), flavour)
	if errors.Is(err, syscall.ENOSPC) && mpi.SegmentDir(need) != os.TempDir() {
		// Somebody else was quicker to take what there was.
		d.unlinkSegments()
		err = d.makeSegments(os.TempDir(), flavour)
	}
	if err != nil {
		d.unlinkSegments()
	}
	return err
}

func (d *driver) makeSegments(dir string, flavour mpi.Flavour) error {
	for node, ranks := range d.mapping {
		path := d.run.segment(dir, d.gen, node)
		d.segments = append(d.segments, path)
		seg, err := mpi.OpenSegment(path, flavour, ranks)
		if err != nil {
			return err
		}
		if err := seg.Close(); err != nil {
			return err
		}
	}
	return nil
}

// endGeneration kills all processes and waits until they are gone, so that
// nothing of theirs can happen any more.
func (d *driver) endGeneration() error {
	d.members = slices.DeleteFunc(d.members, func(m *member) bool { return m == nil }) // never started
	for _, m := range d.members {
		m.proc.kill()
	}
	deadline := time.NewTimer(killGrace)
	defer deadline.Stop()
	for rank, m := range d.members {
		select {
		case <-m.proc.done():
		case <-deadline.C:
			return fmt.Errorf("rank %d (process %d) does not die: is its storage hanging?", rank, m.proc.pid())
		}
		if m.link != nil {
			m.link.close()
		}
	}
	d.members = nil
	d.unlinkSegments()
	return nil
}

// lose tells the protocol, once, that a rank is gone.
func (d *driver) lose(gen, rank int, cause string) {
	if gen != d.gen || rank >= len(d.members) || d.members[rank].lost {
		return
	}
	d.members[rank].lost = true
	d.step(protocol.RankLost{Gen: gen, Rank: rank, Cause: cause})
}
