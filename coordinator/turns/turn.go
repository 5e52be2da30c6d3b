package turns

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// shut is the bit of Turn.gate that makes operations wait; the others count those that
// are under way.
const shut = 1 << 63

// A Turn is the right to move the bytes of one burst. A nil Turn passes everything.
//
// Operations are bracketed by Enter and Leave; those of Turn.FS are so already. A caller
// that moves bytes by other means and from one goroutine says Await before each part: it
// is taken to move that part until its next Await, Rest or End.
type Turn struct {
	client *Client
	id     uint64
	burst  Burst

	gate  atomic.Uint64
	moved atomic.Int64
	busy  atomic.Bool // an Await is under way

	mu    sync.Mutex
	link  *link // to the controller that was asked; nil: none
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

// Await waits until n more bytes may move, and counts them as moved. It returns at once
// while the turn is granted. Its only error is that of ctx.
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

// Enter waits until an operation may begin. Leave must follow if there is no error.
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

// Revoked returns a channel that is closed when the turn that is granted now is wanted
// back, for callers that must do something about it.
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
