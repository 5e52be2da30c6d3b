package coordinator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/coordinator/mpi"
	"ckpt/coordinator/program"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/protocol/channel"
	"ckpt/coordinator/protocol/supervisor"
	"ckpt/coordinator/wire"
	"ckpt/image"
	"ckpt/image/container"
	"ckpt/internal/vfs"
	"ckpt/internal/wording"
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
		g.d.Post(func() {
			if g.incarnation == a.Incarnation && g.d.outcome == nil {
				g.start(a)
			}
		})
	})
}

// start starts all ranks of an incarnation.
func (g *group) start(a protocol.Spawn) {
	err := g.d.socket.Mend(g.job)
	if err == nil {
		err = g.placeSegments()
	}
	if err != nil {
		g.d.broken = err
		return
	}
	beat := beatPeriod(g.spec.NP, g.limits.Silence)
	for _, rank := range g.ranks {
		proc, err := g.launcher.Start(launch.Rank{Rank: rank, Job: g.job.Name(), NP: g.spec.NP, Incarnation: a.Incarnation, Socket: g.d.socket.Address, Token: g.d.socket.Token, Beat: beat,
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
	g.level.Begin(a.From)
}

// cleanUp removes what an incarnation that has ended has left in the store.
func (g *group) cleanUp() {
	g.abort()
	if g.level.Gone() {
		return // a restart does not wait for the store
	}
	if g.d.writing() {
		return // another group: what there is of ours is swept later
	}
	if g.job.InPlace() != nil {
		return // the end of the run tells
	}
	if _, err := g.job.Sweep(); err != nil {
		g.d.Warn(fmt.Sprintf("sweep: %v", err))
	}
}

// endIncarnation kills all processes of the group and waits until they are gone, so
// that nothing of theirs can happen any more.
func (g *group) endIncarnation() error {
	g.d.engine.KillAll(g.ranks)
	g.outlive()
	hurry, deadline := time.NewTimer(program.LauncherGrace), time.NewTimer(g.d.killTime())
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
	g.level.Unreached(g.d.loseNodes())
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
	return d.socket.Run.Scratch(d.spec.Nodes[rank])
}

// examineLogs answers what can be rebuilt from the log of a rank, after the
// processes of its group have ended.
func (g *group) examineLogs(a protocol.Examine) {
	if err := g.endIncarnation(); err != nil {
		g.d.broken = err
		return
	}
	at := map[int]source{}
	for _, n := range a.Numbers {
		var s source
		if n > 0 {
			s.job, s.m, s.err = g.level.Reads(n)
		}
		at[n] = s
	}
	g.d.Go(func() {
		ev := protocol.Examined{Round: a.Round, Rank: a.Rank, States: make(map[int][]channel.Vector)}
		for _, n := range a.Numbers {
			states, err := g.examineLog(at[n], a.Rank, n)
			if err != nil {
				g.d.Warn(fmt.Sprintf("rank %d does not go back to checkpoint %d, 0 the beginning: %v", a.Rank, n, err))
				continue
			}
			ev.States[n] = states
		}
		g.d.Post(func() { g.d.step(supervisor.Job, ev) })
	})
}

// A source is a checkpoint, and the job through which it is read.
type source struct {
	job *image.Job
	m   *image.Manifest
	err error
}

func (s source) Reads(int) (*image.Job, *image.Manifest, error) { return s.job, s.m, s.err }

// examineLog returns the states behind a checkpoint. The group does not go back to states
// that cannot be read, and may lose them for good. So where only descriptors or memory
// are short, examineLog tries again, as often as a group is restarted, with growing
// pauses.
func (g *group) examineLog(from source, rank, number int) ([]channel.Vector, error) {
	pause := 10 * time.Millisecond
	for try := 0; ; try++ {
		states, err := job.LoggedStates(context.Background(), from, g.job, g.spec, rank, number)
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

// Examine checks what no rank will read of the checkpoint that is to be
// restored, while the ranks are starting, and then lets them in.
func (g *group) Examine(number int) {
	incarnation := g.incarnation
	g.restored = restored{number: number}
	g.lineage.restored(number)
	if number == 0 {
		if r := g.spec.Recut; r != nil {
			g.restored.iter, g.restored.otherNP = r.Iteration, r.WasNP
		}
		g.checked = incarnation
		return
	}
	find := g.level.Find(number)
	g.d.Go(func() {
		p, err := find()
		m := p.Manifest
		if err == nil {
			err = g.spec.CheckTaken(g.job, m)
		}
		if err == nil && !g.spec.Lone() { // else all of it is read
			err = g.checkUnread(m)
		}
		g.d.Post(func() {
			if incarnation != g.incarnation {
				return
			}
			if err != nil {
				g.d.step(g.id, protocol.Unusable{Incarnation: incarnation, Damaged: job.Unrestorable(err), Unfit: job.Unfit(err),
					Reason: err.Error(), Body: job.Encode(wire.ReportError(err))})
				return
			}
			g.restored.iter, g.restored.step = int(m.Iteration), m.Step
			g.restored.local, g.restored.stored, g.restored.id = p.Local, p.Stored, m.ID
			g.level.Found(p)
			if m.NP != g.spec.NP {
				g.restored.otherNP = m.NP
			}
			g.checked = incarnation
			g.Welcome()
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

// placeSegments makes the shared memory of each node, at once in its full size:
// a rank that ran out of it later would die of it.
func (g *group) placeSegments() error {
	if g.spec.Program != nil {
		return nil // its ranks share memory by themselves, or do not
	}
	if g.overNetwork() { // the ranks do, each on its host
		g.segments = make([]string, len(g.spec.Mapping))
		return nil
	}
	_, need, err := g.spec.Memory()
	if err != nil {
		return err
	}
	err = g.makeSegments(mpi.SegmentDir(need))
	if errors.Is(err, syscall.ENOSPC) && mpi.SegmentDir(need) != os.TempDir() {
		// Somebody else was quicker to take what there was.
		g.unlinkSegments()
		err = g.makeSegments(os.TempDir())
	}
	if err != nil {
		g.unlinkSegments()
	}
	return err
}

func (g *group) makeSegments(dir string) error {
	for node, ranks := range g.perNode() {
		if ranks == 0 {
			g.segments = append(g.segments, "")
			continue
		}
		path := g.d.socket.Run.Segment(dir, g.id, g.incarnation, node)
		g.segments = append(g.segments, path)
		seg, err := mpi.OpenSegment(path, g.spec.Implementation, ranks)
		if err != nil {
			return err
		}
		if err := seg.Close(); err != nil {
			return err
		}
	}
	return nil
}

// segment is the path of the shared memory of a node, "" for a program.
func (g *group) segment(node int) string {
	if node < len(g.segments) {
		return g.segments[node]
	}
	return ""
}

// unlinkSegments removes the names of the shared memory: once all ranks have
// mapped it, it works without, and nothing is left behind whoever dies.
func (g *group) unlinkSegments() {
	if !g.overNetwork() {
		for _, path := range g.segments {
			_ = vfs.OS{}.Remove(path)
		}
	}
	g.segments = nil
}

// overNetwork reports whether ranks may run on other hosts.
func (s *setting) overNetwork() bool { return s.listen != "" }

// remote reports whether a rank runs on another host, where it cannot be signalled.
func (d *driver) remote(m *member) bool { return d.overNetwork() && m.host != "" && m.host != d.here }

// EndRank ends a rank that has not come.
func (d *driver) EndRank(rank int) { d.terminate(d.members[rank]) }

// terminate kills a rank. On another host, the end of its connection has it exit.
func (d *driver) terminate(m *member) {
	m.proc.Kill()
	if m.link != nil && d.remote(m) {
		m.link.HangUp()
	}
}

// outlive ends the connections of ranks on hosts that cannot be reached any more, when
// these ranks have ended by themselves: before the silence is over that counts as death
// (see rank).
func (g *group) outlive() {
	for _, rank := range g.ranks {
		if m := g.d.members[rank]; m != nil && m.link != nil && g.d.remote(m) {
			heard := time.Duration(m.signs.heard.Load())
			time.AfterFunc(max(0, heard+g.limits.Silence-g.d.now()), m.link.Close)
		}
	}
}

// killTime is how long killed ranks may take to be gone.
func (s *setting) killTime() time.Duration {
	switch {
	case s.overNetwork():
		return killGrace + s.limits.Silence
	case s.spec.Lone():
		return endTime
	}
	return killGrace
}

// checkHosts refuses ranks of one node on several hosts: they could not share memory.
func (g *group) checkHosts() error {
	for _, rank := range g.ranks {
		first := g.first(rank)
		a, b := g.d.members[first], g.d.members[rank]
		if a.host == b.host || g.perNode()[g.spec.Nodes[rank]] == 1 {
			continue
		}
		return &job.UsageError{
			Text: fmt.Sprintf("ranks %d and %d are of node %d and share memory, but %s runs them on hosts %s and %s",
				first, rank, g.spec.Nodes[rank], g.spec.Launcher, a.hostName, b.hostName),
			Fix: wording.Sprintf("{map} gives the ranks of each node, in the order in which the launcher places them; or have the launcher place them in blocks"),
		}
	}
	return nil
}

// placed notes where the first rank of a node has made its shared memory, and lets the
// others of the node in.
func (g *group) placed(rank int, m protocol.Placed) {
	if !g.Leads(rank) || g.segments == nil {
		return
	}
	node := g.spec.Nodes[rank]
	g.segments[node] = m.Path
	for _, other := range g.ranks {
		if g.spec.Nodes[other] == node && other != rank {
			g.welcomeRank(other)
		}
	}
}

// beatsPerSecond bounds the signs of life of all ranks together, as long as those
// that Limits.Silence asks for are fewer.
const beatsPerSecond = 500

// beatPeriod is short where that is cheap: a rank that dies is known to have come
// as far as it has told.
func beatPeriod(np int, silence time.Duration) time.Duration {
	return min(silence/4, max(100*time.Millisecond, time.Duration(np)*time.Second/beatsPerSecond))
}

// endTime is how long a program under DMTCP may take to be gone after it was killed.
const endTime = 30 * time.Second
