package supervisor

import (
	"time"

	"ckpt/coordinator/protocol"
)

// disturb has something go wrong at a time.
func (w *world) disturb(at time.Duration) {
	w.after(at, func() {
		if w.ended {
			return
		}
		w.fault(w.rng.IntN(18))
		if w.rng.IntN(3) == 0 && w.now < w.until {
			w.disturb(w.upTo(60 * time.Millisecond)) // while that is being put right
		}
	})
}

// touch may have something fail just before an action that is one of the turns of
// a recovery.
func (w *world) touch(a Action) {
	switch a.Action.(type) {
	case protocol.Forget, protocol.Collect, protocol.Spawn, protocol.Commit, protocol.Examine, protocol.Recovery:
		if w.tender > 0 && w.now > 0 && w.rng.IntN(10) == 0 {
			w.tender--
			w.fault(w.rng.IntN(5))
		}
	}
}

func (w *world) fault(kind int) {
	g := w.groups[w.rng.IntN(len(w.groups))]
	if len(g.procs) == 0 || w.sup == nil {
		return
	}
	p := g.procs[w.rng.IntN(len(g.procs))]
	switch kind {
	case 0, 1, 2:
		w.lose(p)
	case 3:
		w.crash()
	case 4, 5: // the node of a group
		for _, p := range g.procs {
			w.lose(p)
		}
	case 6: // any number of ranks at once
		for _, g := range w.groups {
			for _, p := range g.procs {
				if w.rng.IntN(2) == 0 {
					w.lose(p)
				}
			}
		}
	case 7:
		for _, g := range w.groups {
			for _, p := range g.procs {
				w.lose(p)
			}
		}
	case 8: // stopped; its silence is noticed
		if p.stall(20 * time.Second) {
			g.excuse = true
		}
	case 9, 10: // stopped for a while
		p.stall(w.upTo(600 * time.Millisecond))
	case 11, 12: // the network
		for _, q := range w.all {
			for r := range q.out {
				if c := q.out[r]; c != nil && w.rng.IntN(2) == 0 {
					c.fail()
				}
			}
		}
	case 13: // the newest checkpoint of the group rots
		if list := w.disk.numbers(g.id); len(list) > 0 {
			w.disk.checkpoints[list[len(list)-1]].damaged = true
			w.damage = true
		}
	case 14: // an image is not written until that is cancelled
		w.hangs++
	case 15, 16: // out of reach, but alive
		if !p.dead && !p.zombie && p.e != nil {
			w.partition(p)
			w.report(p, "does not answer any more")
		}
	case 17:
		w.ask(100 + w.rng.IntN(1000))
	}
}

// stall stops a process for a while, unless it is stopped: a longer stop would
// turn the order of what waits for its end round.
func (p *proc) stall(d time.Duration) bool {
	if p.stalled > p.w.now {
		return false
	}
	p.stalled = p.w.now + d
	return true
}

// lose kills a process; the coordinator notices a little later.
func (w *world) lose(p *proc) {
	if p.dead || p.zombie {
		return
	}
	p.kill()
	w.report(p, "was killed")
}

// partition cuts a process off from the coordinator and from the store. It can
// still speak to its peers, for a while.
func (w *world) partition(p *proc) {
	w.disk.logs[p.rank].crash(w)
	p.zombie = true
	w.seen.partitions++
	w.after(w.upTo(time.Second), p.kill)
}

// report tells the coordinator that a process is lost, behind what that has said.
func (w *world) report(p *proc, cause string) {
	epoch := w.epoch
	at := max(p.toCo, w.now+w.upTo(20*time.Millisecond))
	if p.g.incarnation == p.incarnation {
		p.g.excuse = true
	}
	w.after(at-w.now, func() {
		if w.epoch == epoch {
			w.event(Event{p.g.id, protocol.RankLost{Incarnation: p.incarnation, Rank: p.rank, Cause: cause}})
		}
	})
}

// ask sends a request.
func (w *world) ask(id int) {
	if _, dup := w.requests[id]; dup || w.sup == nil || w.outcome != nil {
		return
	}
	r := protocol.Request{ID: id, Stop: w.rng.IntN(3) == 0, Now: w.rng.IntN(4) == 0}
	w.requests[id] = r
	w.event(Event{Job, protocol.Requested{Request: r}})
}
