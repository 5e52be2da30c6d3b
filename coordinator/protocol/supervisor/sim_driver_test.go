package supervisor

import (
	"slices"
	"strconv"
	"time"

	"ckpt/coordinator/protocol"
	"ckpt/coordinator/protocol/channel"
)

// act checks and carries out one action; rest are those that follow it.
func (w *world) act(a Action, rest []Action) {
	var g *simGroup
	if a.Group != Job {
		g = w.groups[a.Group]
	}
	switch b := a.Action.(type) {
	case protocol.Send:
		w.inspectSend(g, b.Message)
		w.deliver(b.Rank, b.Message)
	case protocol.Broadcast:
		if _, ok := b.Message.(protocol.Start); ok {
			g.live = true
		}
		for _, r := range g.ranks {
			w.deliver(r, b.Message)
		}
		if m, ok := b.Message.(protocol.Write); ok && w.mutant.commitEarly {
			w.procOf(g.ranks[len(g.ranks)-1]).tell(protocol.Written{Number: m.Number})
		}
	case protocol.Kill:
		if p := w.procOf(b.Rank); p.e == nil || w.rng.IntN(2) == 0 {
			p.kill()
		} else if !p.zombie && !p.dead {
			w.partition(p)
		}
		g.excuse = true
	case protocol.Spawn:
		w.spawn(g, b)
	case protocol.Prepare:
		w.prepare(g, b.Number)
	case protocol.Commit:
		w.commit(g, b.Checkpoint)
	case protocol.Discard:
		w.discard(g, b.Number, rest)
	case protocol.Examine:
		w.examine(g, b)
	case protocol.Forget:
		w.forget(g, b)
	case protocol.Collect:
		w.collect(b)
	case protocol.Print:
		w.print(b)
	case protocol.Answer:
		w.inspectAnswer(b)
	case protocol.Report:
		w.inspectNotice(g, b.Notice)
	case protocol.Recovery:
		w.inspectRecovery(b)
	case protocol.Finish:
		w.finish(b.Outcome)
	default:
		w.failf("action %T leaves the supervisor", b)
	}
}

func (w *world) procOf(rank int) *proc { return w.groupOf(rank).procs[w.localOf(rank)] }

func (w *world) deliver(rank int, m protocol.Message) {
	if procs := w.groupOf(rank).procs; procs != nil {
		procs[w.localOf(rank)].hear(m)
	}
}

// end ends the processes of a group. Now and then one lives on where nobody can
// reach it, and can still speak to its peers for a while.
func (w *world) end(g *simGroup) {
	for _, p := range g.procs {
		switch {
		case p.zombie:
		case !p.dead && p.e != nil && w.rng.IntN(8) == 0:
			w.partition(p)
		default:
			p.kill()
		}
	}
	delete(w.storing, g.id)
}

// sweep removes what is left of checkpoints of a group that are not committed.
func (w *world) sweep(g *simGroup) {
	for n := range w.disk.writing {
		if (n-1)%len(w.groups) == g.id {
			delete(w.disk.writing, n)
		}
	}
}

func (w *world) spawn(g *simGroup, a protocol.Spawn) {
	w.inspectSpawn(g, a)
	w.end(g)
	w.sweep(g)
	if a.Fresh {
		for _, rank := range g.ranks {
			w.disk.logs[rank] = simLog{}
		}
	}
	g.incarnation, g.from, g.line, g.procs, g.live, g.excuse = a.Incarnation, a.From, a.Line, nil, false, false
	w.disk.incarnation = max(w.disk.incarnation, a.Incarnation)
	epoch := w.epoch
	w.after(a.Delay, func() {
		if w.epoch == epoch && g.incarnation == a.Incarnation && w.outcome == nil {
			w.start(g, a)
		}
	})
}

// start starts the processes of a group.
func (w *world) start(g *simGroup, a protocol.Spawn) {
	for i, rank := range g.ranks {
		p := &proc{copies: map[int]*image{}, w: w, g: g, rank: rank, local: i, incarnation: a.Incarnation, epoch: w.epoch,
			sentIn: make([]uint64, w.ranks), arrivedIn: make([]uint64, w.ranks), fifoIn: make([]time.Duration, w.ranks),
			addr: make([]*proc, w.ranks), out: make([]*conn, w.ranks), in: make([]*conn, w.ranks), dialing: make([]bool, w.ranks)}
		g.procs = append(g.procs, p)
		address := strconv.Itoa(len(w.all))
		w.procs[address] = p
		w.all = append(w.all, p)
		p.after(w.upTo(10*time.Millisecond), func() {
			p.tell(protocol.Hello{Address: address})
			p.beat()
		})
		p.after(10*time.Millisecond+w.upTo(20*time.Millisecond), func() { p.setUp(a) })
	}
}

func (w *world) prepare(g *simGroup, number int) {
	w.inspectNumber(g, number)
	w.disk.writing[number] = make([]*image, len(g.ranks))
	if w.diskErrors() && w.rng.IntN(10) == 0 {
		epoch := w.epoch
		w.after(w.upTo(20*time.Millisecond), func() {
			if w.epoch == epoch && w.storing[g.id] == number && !w.committing[number] {
				w.event(Event{g.id, protocol.CommitFailed{Number: number, Reason: "no space"}})
			}
		})
	}
}

// commit renames a manifest into place and says so.
func (w *world) commit(g *simGroup, cp protocol.Checkpoint) {
	w.inspectCommit(g, cp)
	w.committing[cp.Number] = true
	images, epoch, incarnation := w.disk.writing[cp.Number], w.epoch, g.incarnation
	w.after(w.upTo(20*time.Millisecond), func() {
		if w.epoch != epoch {
			return
		}
		delete(w.disk.writing, cp.Number)
		if w.diskErrors() && w.rng.IntN(8) == 0 {
			delete(w.committing, cp.Number)
			delete(w.storing, g.id)
			w.event(Event{g.id, protocol.CommitFailed{Number: cp.Number, Reason: "input/output error"}})
			return
		}
		if g.incarnation != incarnation {
			w.failf("checkpoint %d of group %d is being committed when incarnation %d begins", cp.Number, g.id, g.incarnation)
		}
		c := &stored{group: g.id, number: cp.Number, iter: cp.Iter, images: images}
		w.disk.checkpoints[cp.Number] = c
		w.disk.used = max(w.disk.used, cp.Number)
		w.after(w.upTo(10*time.Millisecond), func() {
			if w.epoch == epoch {
				delete(w.committing, cp.Number)
				delete(w.storing, g.id)
				w.event(Event{g.id, protocol.Committed{Number: cp.Number, Vectors: c.vectors()}})
			}
		})
	})
}

func (w *world) discard(g *simGroup, number int, rest []Action) {
	ending := slices.ContainsFunc(rest, func(a Action) bool { _, ok := a.Action.(protocol.Finish); return ok })
	for _, p := range g.procs {
		if p.writing == number && !p.dead && !ending {
			w.failf("rank %d still writes checkpoint %d when it is discarded", p.rank, number)
		}
	}
	if w.disk.checkpoints[number] != nil {
		w.failf("checkpoint %d is discarded, and exists", number)
	}
	delete(w.disk.writing, number)
	delete(w.storing, g.id)
}

func (w *world) examine(g *simGroup, a protocol.Examine) {
	w.end(g)
	epoch := w.epoch
	w.after(w.upTo(10*time.Millisecond), func() {
		if w.epoch == epoch {
			w.event(Event{g.id, protocol.Examined{Round: a.Round, Rank: a.Rank, States: w.logged(a.Rank, a.Numbers)}})
		}
	})
}

func (w *world) forget(g *simGroup, a protocol.Forget) {
	for _, n := range a.Numbers {
		if c := w.disk.checkpoints[n]; c == nil || c.group != g.id || n <= a.After {
			w.failf("checkpoint %d of group %d is forgotten and not there", n, g.id)
		}
		w.seen.forgotten++
	}
	list := w.disk.numbers(g.id)
	slices.Reverse(list)
	for _, n := range list {
		if n > a.After {
			delete(w.disk.checkpoints, n)
		}
	}
}

// collect removes what is not needed any more, or leaves some of it for ever.
func (w *world) collect(a protocol.Collect) {
	w.disk.base = slices.Clone(a.Base)
	for _, n := range a.Remove {
		if w.rng.IntN(4) > 0 {
			delete(w.disk.checkpoints, n)
		}
		w.seen.collected++
	}
	if w.log == channel.None {
		return
	}
	for _, g := range w.groups {
		if n := a.Base[g.id]; n > 0 {
			for i, rank := range g.ranks {
				c := w.disk.checkpoints[n]
				if c == nil {
					w.failf("base %d of group %d is not there", n, g.id)
				}
				if w.rng.IntN(4) > 0 {
					w.disk.logs[rank].truncate(c.images[i].log + w.mutant.truncateMore)
				}
			}
		}
	}
}

// finish ends the processes. A job that was stopped or has failed is begun again
// from the store some time later.
func (w *world) finish(o protocol.Outcome) {
	w.inspectOutcome(o)
	w.outcome = &o
	for _, g := range w.groups {
		for _, p := range g.procs {
			p.kill()
		}
	}
	if o.Result == protocol.Completed {
		w.ended = true
		return
	}
	w.crash()
}

// crash ends the coordinator. The processes notice, one after the other; when all
// are gone another one takes the job over.
func (w *world) crash() {
	if w.sup == nil {
		return
	}
	w.seen.crashes++
	w.sup = nil
	w.epoch++
	clear(w.committing)
	last := time.Duration(0)
	for _, g := range w.groups {
		for _, p := range g.procs {
			d := w.upTo(50 * time.Millisecond)
			last = max(last, d)
			w.after(d, p.kill)
		}
	}
	w.after(last+w.upTo(100*time.Millisecond)+time.Millisecond, func() {
		for _, p := range w.all {
			p.kill() // zombies too: their logs have to be at rest
		}
		for _, g := range w.groups {
			g.procs = nil
		}
		clear(w.disk.writing)
		w.begin()
	})
}
