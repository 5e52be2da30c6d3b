package replay

import (
	"context"
	"sync"
)

// A gate blocks a caller until the first n items of a list are done. Items may finish
// in any order.
type gate struct {
	mu      sync.Mutex
	done    []bool
	first   int32 // first unfinished item
	waiting []waiter
}

type waiter struct {
	need int32
	open chan struct{}
}

func newGate(n int) *gate { return &gate{done: make([]bool, n)} }

// finish marks item i as done.
func (g *gate) finish(i int32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.done[i] = true
	if i != g.first {
		return
	}
	for int(g.first) < len(g.done) && g.done[g.first] {
		g.first++
	}
	keep := g.waiting[:0]
	for _, w := range g.waiting {
		if w.need <= g.first {
			close(w.open)
		} else {
			keep = append(keep, w)
		}
	}
	g.waiting = keep
}

// wait blocks until the first need items are done.
func (g *gate) wait(ctx context.Context, need int32) error {
	g.mu.Lock()
	if need <= g.first {
		g.mu.Unlock()
		return nil
	}
	w := waiter{need, make(chan struct{})}
	g.waiting = append(g.waiting, w)
	g.mu.Unlock()
	return await(ctx, w.open)
}

func await(ctx context.Context, c <-chan struct{}) error {
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A meeting is a barrier: all arrive before any leaves.
type meeting struct {
	mu      sync.Mutex
	missing int
	all     chan struct{}
}

func newMeeting(parties int) *meeting {
	return &meeting{missing: parties, all: make(chan struct{})}
}

func (m *meeting) join(ctx context.Context) error {
	m.mu.Lock()
	if m.missing--; m.missing == 0 {
		close(m.all)
	}
	m.mu.Unlock()
	return await(ctx, m.all)
}
