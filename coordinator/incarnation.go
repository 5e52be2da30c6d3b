package coordinator

import (
	"fmt"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/coordinator/protocol"
)

// spawn ends what is left of the previous incarnation and starts the next, after
// a pause if that is asked for.
func (g *group) spawn(a protocol.Spawn) {
	if err := g.endIncarnation(); err != nil {
		g.d.broken = err
		return
	}
	g.cleanUp()
	g.incarnation, g.started, g.spawned = a.Incarnation, false, a
	for _, rank := range g.ranks {
		delete(g.d.logWaits, rank)
	}
	if a.Fresh {
		if err := job.EmptyLogs(g.job, g.ranks); err != nil {
			g.d.broken = err
			return
		}
	}
	if a.Delay == 0 {
		g.start(a)
		return
	}
	time.AfterFunc(a.Delay, func() {
		g.d.post(func() {
			if g.incarnation == a.Incarnation && g.d.outcome == nil {
				g.start(a)
			}
		})
	})
}

// start starts all ranks of an incarnation.
func (g *group) start(a protocol.Spawn) {
	err := g.d.socket.mend(g.job)
	if err == nil {
		err = g.placeSegments()
	}
	if err != nil {
		g.d.broken = err
		return
	}
	beat := beatPeriod(g.spec.NP, g.limits.Silence)
	for _, rank := range g.ranks {
		proc, err := g.launcher.Start(launch.Rank{Rank: rank, Job: g.job.Name(), NP: g.spec.NP, Incarnation: a.Incarnation, Socket: g.d.socket.address, Token: g.d.socket.token, Beat: beat,
			Scratch: g.d.scratch(rank)}, func(cause string) {
			if cause != "" {
				g.processEnded(a.Incarnation, rank, cause)
			}
		})
		if err != nil {
			g.d.broken = err
			return
		}
		g.d.members[rank] = &member{proc: proc}
	}
	g.level.begin(a.From)
}

// cleanUp removes what an incarnation that has ended has left in the store.
func (g *group) cleanUp() {
	g.abort()
	if g.level.gone() {
		return // a restart does not wait for the store
	}
	if g.d.writing() {
		return // another group: what there is of ours is swept later
	}
	if g.job.InPlace() != nil {
		return // the end of the run tells
	}
	if _, err := g.job.Sweep(); err != nil {
		g.d.out.Warn(fmt.Sprintf("sweep: %v", err))
	}
}

// endIncarnation kills all processes of the group and waits until they are gone, so
// that nothing of theirs can happen any more.
func (g *group) endIncarnation() error {
	g.d.engine.killAll(g)
	g.outlive()
	hurry, deadline := time.NewTimer(launcherGrace), time.NewTimer(g.d.killTime())
	defer hurry.Stop()
	defer deadline.Stop()
	for _, rank := range g.ranks {
		m := g.d.members[rank]
		if m == nil {
			continue
		}
		for ends := m.ends(); len(ends) > 0; {
			select {
			case <-ends[0]:
				ends = ends[1:]
			case <-hurry.C:
				launch.End(m.proc)
			case <-deadline.C:
				return fmt.Errorf("rank %d (process %d) does not die: is its storage hanging?", rank, m.proc.PID())
			}
		}
		if m.link != nil {
			m.link.Close()
		}
		g.d.members[rank] = nil
	}
	g.unlinkSegments()
	g.level.unreached()
	return nil
}

// killGrace is how long a killed process may take to be gone.
const killGrace = 10 * time.Second

// scratch is the directory in which a rank is started. Ranks on several hosts begin in the
// store, which all see, and make directories of their own.
func (d *driver) scratch(rank int) string {
	if d.overNetwork() {
		return d.store
	}
	return d.socket.run.Scratch(d.spec.Nodes[rank])
}
