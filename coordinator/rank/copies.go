package rank

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"ckpt/coordinator/mpi"
	"ckpt/coordinator/wire"
	"ckpt/zones"
)

// A taken is what a checkpoint stores of a rank, in memory that stays as it is until end.
type taken struct {
	regions []zones.Region
	live    []int // regions that the application changes when it goes on
	report  *wire.WriteReport
	close   func()
	ready   func(context.Context) error // of a program: until the regions hold its memory
	// clean says, of a program, what has not changed since a checkpoint; it may return nil.
	clean func(base int) func(region string, offset, n int64) bool
}

func (t *taken) end() {
	if t.close != nil {
		t.close()
		t.close = nil
	}
}

// copies are the memory of a rank for the checkpoints in flight, each in a buffer of its own until
// it is written.
type copies struct {
	mu      sync.Mutex
	free    [][]byte
	waiting map[int]*taken // by number of the checkpoint
}

// newCopies makes buffers for n checkpoints.
func newCopies(n int, bytes int64) (*copies, error) {
	c := &copies{waiting: make(map[int]*taken)}
	for range n {
		mem, err := mpi.MapTouched(bytes)
		if err != nil {
			return nil, fmt.Errorf("buffers for %d checkpoints in flight: %w", n, err)
		}
		c.free = append(c.free, mem)
	}
	return c, nil
}

// hold keeps what a checkpoint stores, with a copy of what is live.
func (c *copies) hold(number int, t *taken) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	need := int64(0)
	for _, i := range t.live {
		need += zones.PageRound(int64(len(t.regions[i].Mem)))
	}
	if len(c.free) == 0 || need > int64(len(c.free[0])) {
		t.end()
		return fmt.Errorf("%d bytes of memory for checkpoint %d find no buffer", need, number)
	}
	buffer := c.free[len(c.free)-1]
	c.free = c.free[:len(c.free)-1]
	rest := buffer
	for _, i := range t.live {
		r := &t.regions[i]
		n := copy(rest, r.Mem)
		r.Mem, rest = rest[:n:n], rest[zones.PageRound(int64(n)):]
	}
	was := t.close
	t.close = func() {
		was()
		c.mu.Lock()
		defer c.mu.Unlock()
		c.free = append(c.free, buffer)
	}
	c.waiting[number] = t
	return nil
}

// keep keeps what is a copy by itself.
func (c *copies) keep(number int, t *taken) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting[number] = t
}

// take returns what was kept for a checkpoint, once.
func (c *copies) take(number int) *taken {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.waiting[number]
	delete(c.waiting, number)
	return t
}

// drop gives the memory of a checkpoint that will not be written back.
func (c *copies) drop(number int) {
	if t := c.take(number); t != nil {
		t.end()
	}
}

// capture copies the memory of this process, or of the one whose agent it is, for a checkpoint
// that is written later.
func (r *process) capture(ctx context.Context, number int, body []byte) error {
	var order wire.WriteOrder
	if err := json.Unmarshal(body, &order); err != nil {
		return fmt.Errorf("order to copy: %w", err)
	}
	if r.program != nil {
		t, err := r.program.take(ctx, number, order.Base)
		if err == nil {
			r.state.copies.keep(number, t)
		}
		return err
	}
	snap, err := r.snapshot(ctx)
	if err != nil {
		return err
	}
	t, err := r.state.take(order, snap)
	if err != nil {
		return err
	}
	return r.state.copies.hold(number, t)
}
