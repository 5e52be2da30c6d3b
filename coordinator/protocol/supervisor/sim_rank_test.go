package supervisor

import (
	"slices"
	"time"

	"ckpt/coordinator/protocol"
	"ckpt/coordinator/protocol/channel"
)

// proc is the process of a simulated rank.
type proc struct {
	w                  *world
	g                  *simGroup
	rank, local        int
	incarnation, epoch int

	m       *protocol.Member
	e       *channel.Endpoint
	dead    bool
	zombie  bool // aborted, and lives on for a while: nothing that it says or writes arrives
	stalled time.Duration
	toCo    time.Duration // FIFO: last delivery in each direction
	fromCo  time.Duration

	app       appState
	pc        int
	running   bool // the application may run the iteration in progress
	computing bool
	ending    bool
	wait      uint64    // index of the log that has to be durable before it goes on
	match     *letterIn // the message that it goes on with then
	inbox     []letterIn

	sentIn, arrivedIn []uint64 // in the group, by rank
	fifoIn            []time.Duration
	draining          bool
	expected          []protocol.Count

	addr        []*proc // of other groups, as Redial says
	out, in     []*conn
	dialing     []bool
	fenced      bool
	fencedRound int            // round in which it was fenced last
	moment      channel.Vector // what it said then

	opened   int // position at which this process began to append to its log
	settled  int // position behind the last frame known to be durable
	unsynced []uint64
	syncing  bool
	cut      uint64 // index that has to be durable before Ready

	writing int // number, 0 none
	wrote   uint64
	hung    bool
	endJob  func(cancelled bool)
	copies  map[int]*image // that are written later
}

// letterIn is a message in an inbox.
type letterIn struct {
	src int
	tag int32
	seq uint64 // 0: of the own group
	letter
}

// after has the process do something, later if it is stalled, and never if it is
// dead by then.
func (p *proc) after(d time.Duration, do func()) {
	p.w.after(d, func() {
		switch {
		case p.dead:
		case p.stalled > p.w.now:
			p.after(p.stalled-p.w.now, do)
		default:
			do()
		}
	})
}

// kill ends the process. Others notice.
func (p *proc) kill() {
	if p.dead {
		return
	}
	p.dead = true
	w := p.w
	if !p.zombie {
		w.disk.logs[p.rank].crash(w)
	}
	for r := range p.out {
		if c := p.out[r]; c != nil {
			c.fail()
		}
		if c := p.in[r]; c != nil {
			c.fail()
		}
	}
}

// setUp is what a process does before it is ready.
func (p *proc) setUp(a protocol.Spawn) {
	w := p.w
	if w.epoch != p.epoch {
		return // the coordinator is gone, and so will this be
	}
	if w.diskErrors() && w.rng.IntN(25) == 0 {
		p.g.excuse = true
		p.tell(protocol.SetupFailed{Text: "out of memory"})
		return
	}
	im := w.image(p.rank, a.From)
	if im == nil {
		w.failf("rank %d is to go back to checkpoint %d, which is gone", p.rank, a.From)
	}
	if c := w.disk.checkpoints[a.From]; c != nil && c.damaged {
		p.g.excuse = true
		p.tell(protocol.SetupFailed{Damaged: true, Text: "damaged"})
		return
	}
	p.app, p.inbox = im.app.clone(), slices.Clone(im.inbox)
	p.m = protocol.NewMember(p.app.iter)
	state := im.state
	if w.rng.IntN(16) == 0 {
		var err error
		if state, err = channel.Decode(state.Encode()); err != nil {
			w.failf("state of rank %d: %v", p.rank, err)
		}
	}
	log := &w.disk.logs[p.rank]
	p.opened, p.settled = log.end(), log.end()
	e, acts, err := channel.Restore(w.endpointConfig(p.rank), w.mutant.restored(state), log.reader(), a.Line)
	if err != nil {
		w.failf("rank %d cannot go back to checkpoint %d: %v", p.rank, a.From, err)
	}
	p.e = e
	p.carry(acts)
	p.cut = e.Appended()
	if p.cut == 0 {
		p.tell(protocol.Ready{})
	}
}

// tell sends a message to the coordinator.
func (p *proc) tell(m protocol.Message) {
	if p.zombie || p.dead {
		return
	}
	w, epoch := p.w, p.w.epoch
	p.toCo = max(p.toCo, w.now+w.upTo(10*time.Millisecond))
	w.after(p.toCo-w.now, func() {
		if w.epoch == epoch {
			w.event(Event{p.g.id, protocol.FromRank{Incarnation: p.incarnation, Rank: p.rank, Message: m}})
		}
	})
}

// hear takes a message of the coordinator.
func (p *proc) hear(m protocol.Message) {
	w := p.w
	p.fromCo = max(p.fromCo, w.now+w.upTo(10*time.Millisecond))
	p.after(p.fromCo-w.now, func() {
		if p.m != nil && !p.zombie {
			p.obey(m)
		}
	})
}

// obey carries out what concerns the channels, and has the member see to the rest.
func (p *proc) obey(m protocol.Message) {
	switch m := m.(type) {
	case protocol.Fence:
		p.fence(m.Round)
	case protocol.Unfence:
		p.unfence(m.Moved)
	case protocol.Moved:
		p.redial(m.Rank, int(m.Incarnation), p.w.procs[m.Address])
	case protocol.Collected:
		for _, c := range m.Received {
			p.e.Collected(c.Peer, c.N+p.w.mutant.collectMore)
		}
	default:
		p.step(protocol.Received{Message: m})
	}
}

func (p *proc) beat() {
	if p.writing != 0 && !p.hung {
		p.wrote++
	}
	iter := 0
	if p.m != nil {
		iter = p.m.Iteration()
	}
	p.tell(protocol.Beat{Iter: iter, Progress: uint64(iter) + p.wrote})
	p.after(p.w.limits.Silence/4, p.beat)
}

func (p *proc) step(ev protocol.MemberEvent) {
	for _, a := range p.m.Step(ev) {
		switch a := a.(type) {
		case protocol.Tell:
			p.tell(a.Message)
		case protocol.Proceed:
			p.proceed()
		case protocol.BeginDrain:
			p.draining, p.expected = true, a.Expected
			if p.w.mutant.skipDrain {
				p.expected = nil
			}
			p.drained()
		case protocol.CancelDrain:
			p.draining = false
			p.after(0, func() { p.step(protocol.DrainCancelled{}) })
		case protocol.BeginWrite:
			p.write(a.Number, a.Copied)
		case protocol.BeginCapture:
			p.copies[a.Number] = p.image()
			p.after(p.w.upTo(20*time.Millisecond), func() { p.step(protocol.CaptureDone{Number: a.Number}) })
		case protocol.DropCapture:
			delete(p.copies, a.Number)
		case protocol.CancelWrite:
			p.hung = false
			p.after(p.w.upTo(20*time.Millisecond), func() { p.endJob(true) })
		}
	}
}

// drained tells when all has arrived that was expected.
func (p *proc) drained() {
	if !p.draining {
		return
	}
	var v channel.Vector
	for _, c := range p.expected {
		if p.e.Inside(c.Peer) {
			if p.arrivedIn[c.Peer] < c.N {
				return
			}
			continue
		}
		if v.Received == nil {
			v = p.e.Vector()
		}
		if v.Received[c.Peer] < c.N {
			return
		}
	}
	p.draining = false
	p.after(0, func() { p.step(protocol.DrainDone{}) })
}

// write stores this rank's part of a checkpoint.
func (p *proc) write(number int, copied bool) {
	w := p.w
	if p.writing != 0 {
		w.failf("rank %d writes checkpoint %d while it writes %d", p.rank, number, p.writing)
	}
	p.writing = number
	im := p.image()
	if copied {
		im = p.copies[number]
		delete(p.copies, number)
	}
	p.endJob = func(cancelled bool) {
		if p.writing != number || p.zombie {
			return
		}
		p.writing, p.hung = 0, false
		if cancelled || w.diskErrors() && w.rng.IntN(12) == 0 {
			p.step(protocol.WriteEnded{Text: "input/output error"})
			return
		}
		w.disk.writing[number][p.local] = im
		p.step(protocol.WriteDone{Body: []byte{byte(p.rank)}})
	}
	if !copied && w.async && w.rng.IntN(8) > 0 {
		p.after(w.upTo(20*time.Millisecond), func() { p.step(protocol.CaptureDone{Number: number}) })
	}
	if w.hangs > 0 && w.rng.IntN(3) == 0 {
		w.hangs--
		p.hung = true
		return
	}
	end := p.endJob
	p.after(w.upTo(60*time.Millisecond), func() {
		if w.log == channel.Optimistic && !w.mutant.noFlush {
			p.whenDurable(im.appended, func() { end(false) })
			return
		}
		end(false)
	})
}

// image returns what a checkpoint stores of this rank now.
func (p *proc) image() *image {
	im := &image{app: p.app.clone(), inbox: slices.Clone(p.inbox), state: p.e.Snapshot(), log: p.settled, appended: p.e.Appended()}
	if p.w.mutant.forgetKept {
		im.state.Kept = make([][]channel.Message, p.w.ranks)
	}
	return im
}

// whenDurable waits for the log. It has to hold all that a checkpoint covers: if
// others force the rank back behind it, nobody else has these messages any more.
func (p *proc) whenDurable(index uint64, do func()) {
	if p.e.Durable() >= index {
		do()
		return
	}
	p.after(5*time.Millisecond, func() { p.whenDurable(index, do) })
}
