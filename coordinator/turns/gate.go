package turns

import (
	"time"
)

// The methods here are what a session does with a turn. Those that say so want its mutex
// to be held.

// change changes a turn, then reports the times of waiting that have ended.
func (t *Turn) change(do func()) {
	t.mu.Lock()
	do()
	tells := t.tells
	t.tells = nil
	t.mu.Unlock()
	if t.burst.Waited != nil {
		for _, s := range tells {
			t.burst.Waited(s.Start, s.End)
		}
	}
}

// note keeps a time of waiting until change reports it. The caller holds mu.
func (t *Turn) note(s Span, over bool) {
	if over {
		t.tells = append(t.tells, s)
	}
}

// shut makes operations wait. The caller holds mu.
func (t *Turn) shut() {
	if t.opened != nil {
		return
	}
	t.opened = make(chan struct{})
	close(t.revoked)
	if t.burst.Kind != Drain {
		t.client.waiting.Add(1)
	}
	t.gate.Or(shut)
}

// open lets operations go on. The caller holds mu.
func (t *Turn) open() {
	if t.opened == nil {
		return
	}
	t.note(t.stood.clear(time.Now()))
	t.revoked = make(chan struct{})
	t.gate.And(^uint64(shut))
	if t.burst.Kind != Drain {
		t.client.waiting.Add(-1)
	}
	close(t.opened)
	t.opened = nil
}

// await makes a new turn wait for a connection.
func (t *Turn) await() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked = time.Now()
	t.shut()
}

// ask asks a controller for the turn. It calls nobody back.
func (t *Turn) ask(l *link) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return
	}
	t.sent = t.moved.Load()
	left := t.burst.Bytes
	if left >= 0 {
		left = max(0, left-t.sent)
	}
	t.link, t.asked, t.grant, t.owed = l, time.Now(), 0, false
	t.shut()
	l.send(&ask{Burst: t.id, Kind: t.burst.Kind, File: t.burst.File, Offset: t.burst.Offset, Bytes: left, Whole: t.burst.Whole})
}

// granted opens the gate.
func (t *Turn) granted(l *link, turn uint64) {
	if t == nil {
		return // it has ended, and the controller does not know yet
	}
	t.change(func() {
		if !t.ended && t.link == l {
			t.grant, t.owed, t.still = turn, false, 0
			t.open()
		}
	})
}

// wanted shuts the gate, and gives the turn back as soon as nothing is under way.
func (t *Turn) wanted(l *link, turn uint64) {
	if t == nil {
		return
	}
	t.change(func() {
		if !t.ended && t.link == l && t.grant == turn {
			t.owed, t.asked = true, time.Now()
			t.shut()
			t.giveBack()
		}
	})
}

// settle gives a turn back that is wanted and no longer used.
func (t *Turn) settle() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.giveBack()
}

// giveBack sends the release that is owed if nothing is under way. The caller holds mu.
func (t *Turn) giveBack() {
	if t.owed && !t.ended && t.gate.Load() == shut {
		t.report()
		t.link.send(&release{Burst: t.id, Turn: t.grant})
		t.grant, t.owed = 0, false
	}
}

// report sends what moved in the turn, and reports whether anything did. The caller
// holds mu.
func (t *Turn) report() bool {
	moved := t.moved.Load()
	n := moved - t.sent
	if n <= 0 || t.grant == 0 {
		return false
	}
	t.sent = moved
	t.link.send(&progress{Burst: t.id, Bytes: uint64(n)})
	return true
}

// pass opens the gate if the turn waits for a connection, nil for one that is not there
// yet.
func (t *Turn) pass(of *link, why error) {
	t.change(func() {
		if !t.ended && t.link == of {
			t.passes(why)
		}
	})
}

// passes opens the gate without a turn. The caller is in change.
func (t *Turn) passes(why error) {
	t.link, t.grant, t.owed = nil, 0, false
	if t.passed == "" {
		t.passed = why.Error()
	}
	t.open()
}

// beat says what moved in a turn, or that nothing does. It reports whether there was
// something to say. A turn that was awaited for too long passes.
func (t *Turn) beat(l *link) (said bool) {
	t.change(func() {
		switch {
		case t.ended || t.link != l:
		case t.opened != nil:
			if !t.owed && time.Since(t.asked) >= t.client.o.MaxWait {
				l.send(&end{Burst: t.id})
				t.passes(errWaited)
			}
		case t.report():
			said, t.still = true, 0
		case t.gate.Load() == 0:
			if t.still++; t.still == quiet {
				said = true
				l.send(&idle{Burst: t.id})
			}
		}
	})
	return said
}
