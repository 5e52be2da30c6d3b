package coordinator

import (
	"context"
	"fmt"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/mpi"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/protocol/channel"
	"ckpt/coordinator/protocol/supervisor"
	"ckpt/coordinator/wire"
	"ckpt/image"
	"ckpt/image/container"
)

// examineLogs answers what can be rebuilt from the log of a rank, after the
// processes of its group have ended.
func (g *group) examineLogs(a protocol.Examine) {
	if err := g.endIncarnation(); err != nil {
		g.d.broken = err
		return
	}
	g.d.helpers.Go(func() {
		ev := protocol.Examined{Round: a.Round, Rank: a.Rank, States: make(map[int][]channel.Vector)}
		for _, n := range a.Numbers {
			states, err := g.examineLog(a.Rank, n)
			if err != nil {
				g.d.out.Warn(fmt.Sprintf("rank %d does not go back to checkpoint %d, 0 the beginning: %v", a.Rank, n, err))
				continue
			}
			ev.States[n] = states
		}
		g.d.post(func() { g.d.step(supervisor.Job, ev) })
	})
}

// examineLog returns the states behind a checkpoint. The group does not go back to states
// that cannot be read, and may lose them for good. So where only descriptors or memory
// are short, examineLog tries again, as often as a group is restarted, with growing
// pauses.
func (g *group) examineLog(rank, number int) ([]channel.Vector, error) {
	pause := 10 * time.Millisecond
	for try := 0; ; try++ {
		states, err := job.LoggedStates(context.Background(), g.job, g.spec, rank, number)
		if err == nil || !mpi.Shortage(err) || try == g.limits.Restarts {
			return states, err
		}
		select {
		case <-time.After(pause):
			pause = min(2*pause, 5*time.Second)
		case <-g.d.done:
			return nil, err
		}
	}
}

// examine checks what no rank will read of the checkpoint that is to be
// restored, while the ranks are starting, and then lets them in.
func (g *group) examine(number int) {
	incarnation := g.incarnation
	g.restored = restored{number: number}
	g.lineage.restored(number)
	if number == 0 {
		g.checked = incarnation
		return
	}
	find := g.level.find(number)
	g.d.helpers.Go(func() {
		p, err := find()
		m := p.m
		if err == nil {
			err = g.spec.CheckTaken(g.job, m)
		}
		if err == nil && !g.spec.Lone() { // else all of it is read
			err = g.checkUnread(m)
		}
		g.d.post(func() {
			if incarnation != g.incarnation {
				return
			}
			if err != nil {
				g.d.step(g.id, protocol.Unusable{Incarnation: incarnation, Damaged: job.Unrestorable(err), Reason: err.Error(), Body: job.Encode(wire.ReportError(err))})
				return
			}
			g.restored.iter, g.restored.step = int(m.Iteration), m.Step
			g.restored.local, g.restored.stored, g.restored.id = p.local, p.stored, m.ID
			g.level.found(p)
			if m.NP != g.spec.NP {
				g.restored.otherNP = m.NP
			}
			g.checked = incarnation
			g.welcome()
		})
	})
}

// checkUnread verifies the files of a checkpoint that restoring it does not
// read: the library zone, and shared segments under another mapping.
func (g *group) checkUnread(m *image.Manifest) error {
	if m.Library != nil && m.Library.Blake3 != g.library.digest {
		return &job.OtherBuildError{Checkpoint: m.Number}
	}
	same := job.Mapping(m.Mapping).String() == g.spec.Mapping.String() && m.MPI == g.spec.MPI
	var paths []string
	for _, f := range m.Files {
		if f.Kind == container.KindLibrary || (f.Kind == container.KindShared && !same) {
			paths = append(paths, f.Path)
		}
	}
	return g.job.Check(context.Background(), m, paths)
}
