package fileview

import (
	"fmt"
	"math"
	"sync"
)

// A Locker locks ranges of bytes of one file, each for one writer.
type Locker interface {
	// LockRange waits until the n ≥ 1 bytes at off are free, and takes them until
	// unlock is called, once.
	LockRange(off, n int64) (unlock func(), err error)
}

// A RangeLock is a Locker for one process. Overlapping ranges are served in the order of the
// calls, others do not wait. The zero value is ready.
type RangeLock struct {
	mu    sync.Mutex
	queue []*claim // who has a range and who waits for one, by arrival
}

type claim struct {
	off, end int64
	before   int           // claims ahead in the queue that overlap
	granted  chan struct{} // closed when the last has gone; nil without any
}

func (c *claim) overlaps(d *claim) bool { return c.off < d.end && d.off < c.end }

// LockRange implements Locker. It fails only if the range is not one.
func (l *RangeLock) LockRange(off, n int64) (unlock func(), err error) {
	if err := checkRange(off, n); err != nil {
		return nil, err
	}
	c := &claim{off: off, end: off + n}
	l.mu.Lock()
	for _, d := range l.queue {
		if d.overlaps(c) {
			c.before++
		}
	}
	l.queue = append(l.queue, c)
	wait := c.before > 0
	if wait {
		c.granted = make(chan struct{})
	}
	l.mu.Unlock()
	if wait {
		<-c.granted
	}
	return func() { l.release(c) }, nil
}

// release takes a claim out of the queue, and grants those that waited for it alone.
func (l *RangeLock) release(c *claim) {
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := l.queue[:0]
	for _, d := range l.queue {
		if d == c {
			continue
		}
		kept = append(kept, d)
		// Later overlapping locks wait for c.
		if d.overlaps(c) {
			if d.before--; d.before == 0 {
				close(d.granted)
			}
		}
	}
	clear(l.queue[len(kept):])
	l.queue = kept
}

func checkRange(off, n int64) error {
	if off < 0 || n < 1 || n > math.MaxInt64-off {
		return fmt.Errorf("cannot lock %d bytes at offset %d", n, off)
	}
	return nil
}
