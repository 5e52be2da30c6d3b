package coordinator

import (
	"time"

	"ckpt/coordinator/protocol"
	"ckpt/image/nodes"
)

// lookAgain is how often it is seen to that the ranks that store the last version live.
const lookAgain = time.Second

// mayLeave keeps the ranks that reach the nodes until letGo.
func (t *tier) mayLeave() bool {
	t.leaving = t.ways != nil
	return !t.leaving
}

// letGo lets the ranks leave. On several hosts they stay until the newest version is in the
// store: without them nobody reaches the directories of their nodes.
func (t *tier) letGo() {
	d := t.g.d
	if !t.leaving {
		return
	}
	t.leaving = false
	if d.broken == nil && d.outcome.Result != protocol.Failed {
		t.storeByRanks()
	}
	for _, rank := range t.g.ranks {
		d.send(rank, protocol.Quit{})
	}
}

// storeByRanks has the ranks store the newest version, once, and waits.
func (t *tier) storeByRanks() {
	d := t.g.d
	look := time.NewTicker(lookAgain)
	defer look.Stop()
	for tried := false; !d.hurried; {
		m := t.unstored()
		if m == nil || t.nodes.Setting().Drain.Mode == nodes.DrainNone {
			return
		}
		if t.copying == nil {
			if tried {
				return
			}
			tried = true
			t.copy(m.Number)
		}
		select {
		case <-d.ready:
			d.take()()
		case <-d.interrupts:
			d.hurried = true
		case <-look.C:
			if t.g.someGone() {
				return
			}
		}
	}
}

// someGone reports whether a rank has ended, or gives no sign of life.
func (g *group) someGone() bool {
	for _, rank := range g.ranks {
		m := g.d.members[rank]
		if m == nil || m.lost || m.closed || g.d.now()-time.Duration(m.signs.heard.Load()) > g.limits.Silence {
			return true
		}
	}
	return false
}
