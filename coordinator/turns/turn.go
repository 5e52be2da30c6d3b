package turns

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// shut is the bit of Turn.gate that makes operations wait; the others count those that are under
// way.
const shut = 1 << 63

// A Turn is the right to move the bytes of one burst. A nil Turn passes everything. Enter and
// Leave bracket operations; Turn.FS does so itself. A caller that moves bytes by other means, in
// one goroutine, calls Await before each part: it moves that part until its next Await, Rest or
// End.
type Turn struct {
	client *Client
	id     uint64
	burst  Burst

	gate  atomic.Uint64
	moved atomic.Int64
	busy  atomic.Bool // an Await is under way

	mu    sync.Mutex
	link  *link // to the controller that was asked; may be nil
	ended bool
	asked time.Time
	// grant is the number of the turn while it is granted or owed.
	grant   uint64
	owed    bool          // a release, as soon as nothing is under way
	opened  chan struct{} // closed when the gate opens; nil while it is open
	revoked chan struct{} // closed when the gate shuts
	sent    int64         // of moved
	still   int           // beats since something moved
	passed  string
	stood   standing
	tells   []Span
}

// Await waits until n more bytes may move, and counts them as moved. It returns at once while the
// turn is granted. Its only error is ctx's.
func (t *Turn) Await(ctx context.Context, n int64) error {
	if t == nil {
		return nil
	}
	t.Rest()
	if err := t.Enter(ctx); err != nil {
		return err
	}
	t.moved.Add(n)
	if t.busy.Swap(true) {
		t.Leave(0) // another goroutine has said so
	}
	return nil
}

// Rest says that nothing moves now, until the next Await.
func (t *Turn) Rest() {
	if t != nil && t.busy.Swap(false) {
		t.Leave(0)
	}
}

// Enter waits until an operation may begin. Leave follows unless there is an error.
func (t *Turn) Enter(ctx context.Context) error {
	if t == nil || t.gate.Add(1)&shut == 0 {
		return nil
	}
	return t.stand(ctx)
}

// Leave ends an operation that has moved n bytes.
func (t *Turn) Leave(n int64) {
	if t == nil {
		return
	}
	t.moved.Add(n)
	if t.gate.Add(^uint64(0)) == shut {
		t.settle()
	}
}

// Progress counts bytes that moved without an operation of their own.
func (t *Turn) Progress(n int64) {
	if t != nil {
		t.moved.Add(n)
	}
}

// stand waits at the shut gate. The caller has entered already.
func (t *Turn) stand(ctx context.Context) error {
	for {
		t.Leave(0)
		t.mu.Lock()
		opened := t.opened
		if opened != nil {
			t.stood.add(time.Now())
		}
		t.mu.Unlock()
		if opened != nil {
			select {
			case <-opened:
			case <-ctx.Done():
				t.change(func() { t.note(t.stood.remove(time.Now())) })
				return ctx.Err()
			}
		}
		if t.gate.Add(1)&shut == 0 {
			return nil
		}
	}
}

// Revoked returns a channel that is closed when the turn that is granted now is wanted back.
func (t *Turn) Revoked() <-chan struct{} {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.revoked
}

// End gives the turn back, and says how the burst went. Operations pass from then on.
func (t *Turn) End() Report {
	if t == nil {
		return Report{}
	}
	c := t.client
	c.mu.Lock()
	delete(c.live, t.id)
	c.mu.Unlock()
	var r Report
	t.change(func() {
		if !t.ended && t.link != nil {
			t.report()
			t.link.send(&end{Burst: t.id})
		}
		t.ended = true
		t.open()
		r = Report{Bytes: t.moved.Load(), Waited: t.stood.total, Times: t.stood.times,
			Waits: t.stood.spans, Passed: t.passed}
	})
	return r
}

// The methods here are what a session does with a turn.

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

func (t *Turn) await() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked = time.Now()
	t.shut()
}

// ask asks a controller for the turn.
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

// report sends what moved in the turn, and reports whether anything did. The caller holds mu.
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

// pass opens the gate if the turn waits for a connection, nil for one that is still to come.
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

// beat says what moved in a turn, or that it is idle, and reports whether it said something. A
// turn that was awaited for too long passes.
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

type Report struct {
	Bytes int64
	// Waited is the time for which at least one operation waited, Times how often that was, and
	// Waits the first MaxSpans of those times.
	Waited time.Duration
	Times  int
	Waits  []Span
	// Passed says why bytes passed without turns, or is "".
	Passed string
}

type Span struct{ Start, End time.Time }

const MaxSpans = 64

// standing adds up the times for which at least one operation of a turn waits.
type standing struct {
	now   int // operations that wait
	since time.Time
	total time.Duration
	times int
	spans []Span
}

func (s *standing) add(now time.Time) {
	if s.now == 0 {
		s.since = now
	}
	s.now++
}

func (s *standing) remove(now time.Time) (span Span, over bool) {
	if s.now == 0 {
		return Span{}, false // the gate has opened meanwhile
	}
	if s.now--; s.now > 0 {
		return Span{}, false
	}
	return s.close(now), true
}

func (s *standing) clear(now time.Time) (span Span, over bool) {
	if s.now == 0 {
		return Span{}, false
	}
	s.now = 0
	return s.close(now), true
}

func (s *standing) close(now time.Time) Span {
	span := Span{s.since, now}
	s.total += span.End.Sub(span.Start)
	s.times++
	if len(s.spans) < MaxSpans {
		s.spans = append(s.spans, span)
	}
	return span
}
