package protocol

import (
	"math"
	"slices"
	"time"
)

// A Member is the protocol of one rank. It decides when the application may pass an iteration
// boundary and what a rank does at one.
type Member struct {
	state memberState

	cur    int     // iteration in progress, or the boundary waited at
	counts []Count // messages sent to each peer, as of the boundary waited at
	at     bool    // the application waits at boundary cur
	stopAt int     // boundary at which to stop by itself, or 0
	held   bool    // wait at the next boundary, whichever it is
	saving bool    // wait at this boundary for a checkpoint that was demanded
	number int     // checkpoint that stopAt or the current state belongs to

	copies  []imageCopy // wait until they are written, oldest first
	busy    bool        // a drain of this rank is going on
	abandon bool        // the checkpoint was aborted meanwhile
	write   imageWrite
	done    bool // the application has ended
}

// An imageWrite is the writing of this rank's image. It may go on behind the computation, when
// number of Member is already a later checkpoint's.
type imageWrite struct {
	number   int  // of the checkpoint, 0 if nothing is being written
	captured bool // told
	abandon  bool // the checkpoint was aborted
}

// An imageCopy is the memory of this rank for a checkpoint that is written later.
type imageCopy struct {
	number  int
	ready   bool // it is complete
	abandon bool // the checkpoint was aborted while it was made
}

type memberState uint8

const (
	computing memberState = iota // or holding
	arrived                      // stopped at the boundary of a checkpoint
	draining
	writing
)

// MemberEvent is something that happened to a rank.
type MemberEvent interface{ memberEvent() }

// The events of a rank.
type (
	// Received is a message from the coordinator.
	Received struct{ Message Message }
	// Reached says that the application has ended iteration Iter and waits. With Save it demands
	// a checkpoint there, as all ranks do at this boundary.
	Reached struct {
		Iter   int
		Counts []Count
		Save   bool
	}
	// Computing says that an application that passes boundaries by itself has iteration Iter in
	// progress. It comes before a message that makes Limit 0, and is true from the moment at
	// which the application was bound by that.
	Computing struct{ Iter int }
	// DrainDone says that all expected messages have arrived.
	DrainDone struct{}
	// DrainCancelled answers CancelDrain.
	DrainCancelled struct{}
	// CaptureDone says that the memory of this rank has been copied: its application may go on
	// before the image is written. It is optional, and without effect when the write of
	// checkpoint Number has ended or was aborted. The number keeps one that comes late from
	// counting as a copy of the next checkpoint.
	CaptureDone struct{ Number int }
	// CaptureEnded says that the memory could not be copied.
	CaptureEnded struct {
		Number int
		Text   string
		Body   []byte
	}
	// WriteDone says that the image is durable, after the writing stood still for so long for
	// other jobs.
	WriteDone struct {
		Body []byte
		Held time.Duration
	}
	// WriteEnded says that the image could not be written or that CancelWrite was heeded: nothing
	// of it is being written any more.
	WriteEnded struct {
		Text string
		Body []byte
	}
	// Ended says that the application has passed its last boundary and ended.
	Ended struct{ Body []byte }
)

func (Received) memberEvent()       {}
func (Reached) memberEvent()        {}
func (Computing) memberEvent()      {}
func (DrainDone) memberEvent()      {}
func (DrainCancelled) memberEvent() {}
func (CaptureDone) memberEvent()    {}
func (CaptureEnded) memberEvent()   {}
func (WriteDone) memberEvent()      {}
func (WriteEnded) memberEvent()     {}
func (Ended) memberEvent()          {}

// MemberAction is something a rank has to do.
type MemberAction interface{ memberAction() }

// The actions of a rank.
type (
	// Tell sends a message to the coordinator.
	Tell struct{ Message Message }
	// Proceed lets the application pass the boundary at which it waits.
	Proceed struct{}
	// BeginDrain waits for the messages still under way to this rank.
	BeginDrain struct{ Expected []Count }
	// CancelDrain ends the wait; DrainCancelled or DrainDone follows.
	CancelDrain struct{}
	// BeginWrite writes the image of this rank. The application waits while it does, unless
	// CaptureDone is given: it may go on any time from then on. With an optimistic log, all
	// frames that were appended before the state of the channels was taken have to be durable
	// before WriteDone: the rank may be forced back behind this checkpoint, and then needs them.
	BeginWrite struct {
		Number, Iter int
		Body         []byte // of Write
		Copied       bool   // by BeginCapture
	}
	// BeginCapture copies the memory of this rank, which is written later; CaptureDone or
	// CaptureEnded follows. DropCapture says that a copy will not be written.
	BeginCapture struct {
		Number int
		Body   []byte // of Capture
	}
	DropCapture struct{ Number int }
	// CancelWrite ends the writing; WriteEnded or WriteDone follows.
	CancelWrite struct{}
	// Leave ends the rank.
	Leave struct{}
)

func (Tell) memberAction()         {}
func (Proceed) memberAction()      {}
func (BeginDrain) memberAction()   {}
func (CancelDrain) memberAction()  {}
func (BeginWrite) memberAction()   {}
func (BeginCapture) memberAction() {}
func (DropCapture) memberAction()  {}
func (CancelWrite) memberAction()  {}
func (Leave) memberAction()        {}

// NewMember returns the protocol of a rank whose application has completed iteration from, 0 at
// the beginning. The application waits until Start.
func NewMember(from int) *Member {
	return &Member{cur: from, at: true, held: true}
}

// Iteration returns the iteration in progress, or the boundary waited at.
func (m *Member) Iteration() int { return m.cur }

// Limit returns the first boundary that the application must not pass by itself: 0 if it must
// wait at the next one. It may pass earlier ones without a word.
func (m *Member) Limit() int {
	switch {
	case m.held:
		return 0
	case m.stopAt > 0:
		return m.stopAt
	}
	return math.MaxInt
}

// Step takes an event and returns what to do, in order.
func (m *Member) Step(ev MemberEvent) []MemberAction {
	switch ev := ev.(type) {
	case Received:
		return m.receive(ev.Message)
	case Reached:
		m.at, m.cur, m.counts = true, ev.Iter, ev.Counts
		if m.saving = ev.Save && m.stopAt != m.cur; m.saving {
			return []MemberAction{Tell{Demand{m.cur}}}
		}
		return m.decide()
	case Computing:
		if !m.at {
			m.cur = max(m.cur, ev.Iter)
		}
	case DrainDone:
		return m.drained(Drained{m.number})
	case DrainCancelled:
		return m.drained(Aborted{m.number})
	case CaptureDone:
		if c := m.copyOf(ev.Number); c != nil {
			return m.copied(c, Captured(ev))
		}
		w := &m.write
		if w.number == 0 || ev.Number != w.number || w.captured || w.abandon {
			return nil
		}
		w.captured = true
		return []MemberAction{Tell{Captured{w.number}}}
	case CaptureEnded:
		if c := m.copyOf(ev.Number); c != nil {
			return m.copied(c, WriteFailed(ev))
		}
	case WriteDone:
		return m.written(Written{m.write.number, ev.Body, uint64(max(0, ev.Held))})
	case WriteEnded:
		return m.written(WriteFailed{m.write.number, ev.Text, ev.Body})
	case Ended:
		m.done = true
		return []MemberAction{Tell{Done(ev)}}
	}
	return nil
}

// drained ends a drain and reports its outcome, or, when the checkpoint was aborted meanwhile,
// that it is over.
func (m *Member) drained(outcome Message) []MemberAction {
	if m.abandon {
		outcome = Aborted{m.number}
	}
	m.busy, m.abandon = false, false
	return []MemberAction{Tell{outcome}}
}

// written ends a write likewise.
func (m *Member) written(outcome Message) []MemberAction {
	if m.write.abandon {
		outcome = Aborted{m.write.number}
	}
	m.write = imageWrite{}
	return []MemberAction{Tell{outcome}}
}

func (m *Member) receive(msg Message) []MemberAction {
	switch msg := msg.(type) {
	case Start:
		m.resume(msg.Boundary, msg.Number)
		// The boundary restored from is behind us, whatever it is.
		return m.pass()
	case Resume:
		m.resume(msg.Boundary, msg.Number)
		return m.decide()
	case Propose:
		m.held, m.number = true, msg.Number
		return []MemberAction{Tell{Holding{msg.Number, m.cur}}}
	case StopAt:
		m.held, m.saving = false, false
		m.stopAt, m.number = msg.Iter, msg.Number
		return m.decide()
	case Drain:
		if m.state != arrived || msg.Number != m.number {
			return nil
		}
		m.state, m.busy = draining, true
		return []MemberAction{BeginDrain{msg.Expected}}
	case Capture:
		if m.state != draining || m.busy || msg.Number != m.number {
			return nil
		}
		m.state = writing
		m.copies = append(m.copies, imageCopy{number: msg.Number})
		return []MemberAction{BeginCapture{msg.Number, msg.Body}}
	case Write:
		if c := m.copyOf(msg.Number); c != nil && m.write.number == 0 {
			m.forget(msg.Number)
			m.write = imageWrite{number: msg.Number, captured: true}
			return []MemberAction{BeginWrite{msg.Number, msg.Iter, msg.Body, true}}
		}
		if m.state != draining || m.busy || msg.Number != m.number || m.write.number != 0 {
			return nil
		}
		m.state, m.write = writing, imageWrite{number: msg.Number}
		return []MemberAction{BeginWrite{msg.Number, m.cur, msg.Body, false}}
	case Abort:
		return m.abort(msg.Number)
	case Quit:
		return []MemberAction{Leave{}}
	}
	return nil
}

func (m *Member) resume(boundary, number int) {
	m.held, m.state = false, computing
	m.stopAt, m.number = boundary, number
}

// abort ends a checkpoint. If it is the one under way, the application holds at its next boundary
// until Resume, for it does not know yet where to stop next. An earlier one is written behind the
// computation, which goes on.
func (m *Member) abort(number int) []MemberAction {
	if number >= m.number {
		m.number = number
		m.held, m.saving, m.stopAt = true, false, 0
		if m.busy {
			m.abandon = true
			return []MemberAction{CancelDrain{}}
		}
	}
	if number == m.write.number {
		m.write.abandon = true
		return []MemberAction{CancelWrite{}}
	}
	if c := m.copyOf(number); c != nil {
		if c.abandon = true; !c.ready {
			return nil // the end of the copying tells
		}
		m.forget(number)
		return []MemberAction{DropCapture{number}, Tell{Aborted{number}}}
	}
	return []MemberAction{Tell{Aborted{number}}}
}

// copyOf returns the copy for a checkpoint, or nil.
func (m *Member) copyOf(number int) *imageCopy {
	for i := range m.copies {
		if m.copies[i].number == number {
			return &m.copies[i]
		}
	}
	return nil
}

func (m *Member) forget(number int) {
	m.copies = slices.DeleteFunc(m.copies, func(c imageCopy) bool { return c.number == number })
}

// copied ends the copying of the memory, with an outcome or, when the checkpoint was aborted
// meanwhile, with nothing left of it.
func (m *Member) copied(c *imageCopy, outcome Message) []MemberAction {
	if c.ready {
		return nil
	}
	c.ready = true
	number := c.number
	if _, whole := outcome.(Captured); whole && !c.abandon {
		return []MemberAction{Tell{outcome}}
	}
	if c.abandon {
		outcome = Aborted{number}
	}
	m.forget(number)
	return []MemberAction{DropCapture{number}, Tell{outcome}}
}

// decide says what an application that waits at a boundary does next.
func (m *Member) decide() []MemberAction {
	switch {
	case !m.at || m.held || m.saving:
		return nil
	case m.stopAt == m.cur:
		m.state = arrived
		return []MemberAction{Tell{Stopped{m.number, m.cur, m.counts}}}
	}
	return m.pass()
}

func (m *Member) pass() []MemberAction {
	if !m.at || m.done {
		return nil
	}
	m.at = false
	m.cur++
	return []MemberAction{Proceed{}}
}
