package coordinator

import (
	"sync"
	"time"
)

// A loop does what is posted to it, one thing after the other. The driver waits for its
// helpers, which post what they find.
type loop struct {
	*mailbox
	since   time.Time     // the start of the run
	done    chan struct{} // closed when the loop has ended
	helpers sync.WaitGroup
}

func (l *loop) now() time.Duration { return time.Since(l.since) }

// A mailbox holds what is to be done in the loop of a driver. Putting something in
// never waits: while the loop stands still in an operation of the store, messages of
// ranks are still read, and count as signs of life.
type mailbox struct {
	mu    sync.Mutex
	list  []func()
	ready chan struct{} // holds a token while list is not empty
}

func newMailbox() *mailbox { return &mailbox{ready: make(chan struct{}, 1)} }

// post has the loop run do, unless it has ended.
func (b *mailbox) post(do func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list = append(b.list, do)
	b.signal()
}

// take removes the oldest. The caller has received the token.
func (b *mailbox) take() func() {
	b.mu.Lock()
	defer b.mu.Unlock()
	do := b.list[0]
	b.list[0] = nil
	if b.list = b.list[1:]; len(b.list) > 0 {
		b.signal()
	}
	return do
}

func (b *mailbox) signal() {
	select {
	case b.ready <- struct{}{}:
	default:
	}
}
