package nodes

import (
	"context"
	"sync"
	"time"

	"ckpt/image"
	"ckpt/image/container"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// DrainFile copies the file of a rank from its node into the store, at the path that its
// transaction gives, and checks each byte on the way. It returns when the data is durable;
// the name becomes so with the commit. Limit may be nil.
//
// A drain that did not come to an end may have left the file: it is made anew.
func DrainFile(ctx context.Context, from *image.Job, f container.File, to vfs.FS, path string, limit *Limiter) error {
	if err := durable.Remove(to, path); err != nil {
		return err
	}
	return from.Place().Copy(ctx, f, to, path, container.CopyOptions{Pace: limit.Wait})
}

// Job returns the job in the directory of a node, as DrainFile takes it. It fails with
// fs.ErrNotExist if the node has none.
func (t *Tier) Job(node int) (*image.Job, error) { return t.look(node) }

// A Clock is the time, which tests replace.
type Clock struct {
	Now   func() time.Time
	Sleep func(ctx context.Context, d time.Duration) error
}

// RealClock returns the clock of the machine.
func RealClock() Clock { return Clock{Now: time.Now, Sleep: sleep} }

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A Limiter keeps what several goroutines write below a rate.
type Limiter struct {
	rate  int64
	clock Clock

	mu   sync.Mutex
	free time.Time // when what has been let through is through, at the rate
}

// limitBurst is how much time may be made up for: a limiter that has been idle lets so
// much through at once.
const limitBurst = 100 * time.Millisecond

// NewLimiter returns a limiter of so many bytes per second; nil, which does not limit, if
// rate is 0.
func NewLimiter(rate int64, clock Clock) *Limiter {
	if rate <= 0 {
		return nil
	}
	return &Limiter{rate: rate, clock: clock}
}

// Wait waits until n more bytes may be written.
func (l *Limiter) Wait(ctx context.Context, n int) error {
	if l == nil {
		return ctx.Err()
	}
	d := l.reserve(n)
	if d <= 0 {
		return ctx.Err()
	}
	return l.clock.Sleep(ctx, d)
}

// reserve returns how long to wait before n bytes are written.
func (l *Limiter) reserve(n int) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now()
	if oldest := now.Add(-limitBurst); l.free.Before(oldest) {
		l.free = oldest
	}
	l.free = l.free.Add(time.Duration(float64(n) / float64(l.rate) * float64(time.Second)))
	return l.free.Sub(now)
}
