package process

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// forks are what is known of children of the process that copy its memory. The kernel keeps the
// memory of a child as it was, whatever the process, its threads or its system calls do.
type forks struct {
	refused bool           // by the kernel or the user, or children die
	bytes   int64          // that the host has room for, since each page may exist twice; 0: not known
	words   [maxForks]bool // of the page that are in use
	always  bool           // whatever they cost the process
	last    forked
	// After a fork the first write to each page of the process is a fault. Where these take longer
	// than the copy would have, children rest for some captures, then for twice as many, as in a
	// track.
	rest, pause int
}

// A forked is a fork whose cost shows until the next capture.
type forked struct {
	saved  time.Duration // of the pause; 0: it has been judged
	fault  time.Duration // of a page, as the child measured it
	faults int64         // of the process before
}

// forkedBytes is the least that a child copies: a fork takes about as long as to copy it.
const forkedBytes = 4 << 20

// A copier is a child that copies.
type copier struct {
	handle *handle
	word   int
	told   *atomic.Int64 // 0: not ready; the nanoseconds of a fault
	left   []filling
	faults int64 // of the process before
	saved  time.Duration
}

var errCopier = errors.New("the child of the process that copies its memory ended too early")

// LimitForks says how much memory children may copy at a time, and whether they are to copy all
// that they may, for the shortest pause. Else they do where the process loses less time by it.
func (p *Process) LimitForks(bytes int64, always bool) {
	p.orders.Lock()
	defer p.orders.Unlock()
	f := &p.memory.forks
	f.bytes, f.always = bytes, always
	f.refused = f.refused || bytes < forkedBytes
}

// fork has a child copy what it may copy, where that is faster, and returns the rest.
func (p *Process) fork(set *shadows, all []filling) (rest []filling) {
	f := &p.memory.forks
	if f.refused || p.hello.Version < forkVersion || p.memory.device {
		return all
	}
	var left []filling
	for _, fill := range all {
		if p.forkable(&fill.region) {
			left = append(left, fill)
		} else {
			rest = append(rest, fill)
		}
	}
	now, err := statOf(p.hello.PID)
	pieces, bytes, copying := p.pieces(left)
	if err != nil || len(pieces) > maxPieces || bytes < forkedBytes || f.bytes > 0 && int64(bytes) > f.bytes || !f.due(now.faults, copying) {
		return all
	}
	c, err := p.startCopier(pieces)
	if err != nil {
		f.refused = true
		p.note("clone", err)
		return all
	}
	c.left, c.faults, c.saved = left, now.faults, copying-c.saved
	set.copier = c
	return rest
}

// forkable reports whether a child has the memory of a region for itself.
func (p *Process) forkable(r *region) bool {
	list, err := p.areas()
	return err == nil && private(list, r.address, r.address+uint64(r.size))
}

// pieces returns what a child is to copy, and how long copying took before; 0 if that is not known.
func (p *Process) pieces(left []filling) (pieces []forkPiece, bytes uint64, copying time.Duration) {
	known, seconds := true, 0.0
	for _, f := range left {
		choice := p.memory.choice(&f.region)
		pace := max(choice.pace[byClient], choice.pace[byKernel])
		for _, other := range choice.pace {
			if other > 0 {
				pace = min(pace, other)
			}
		}
		known = known && pace > 0
		for _, r := range f.ranges {
			pieces = append(pieces, forkPiece{r, f.shadow.window.id})
			bytes += r.bytes
			seconds += pace * float64(r.bytes)
		}
	}
	if !known {
		return pieces, bytes, 0
	}
	return pieces, bytes, time.Duration(seconds * float64(time.Second))
}

// due reports whether a child is to copy what would take so long, if that is known.
func (f *forks) due(faults int64, copying time.Duration) bool {
	if f.always {
		return true
	}
	if l := f.last; l.saved != 0 {
		if f.last.saved = 0; time.Duration(faults-l.faults)*l.fault > l.saved {
			f.lost()
		} else {
			f.pause = 0
		}
	}
	if f.rest > 0 {
		f.rest--
		return false
	}
	return copying > 0
}

// lost leaves a process alone for which a child did not pay.
func (f *forks) lost() {
	f.pause = max(f.pause, firstRest)
	f.rest, f.pause = f.pause, min(2*f.pause, maxRest)
}

func (p *Process) startCopier(pieces []forkPiece) (*copier, error) {
	f := &p.memory.forks
	word := slices.Index(f.words[:], false)
	if word < 0 {
		return nil, unix.EAGAIN
	}
	at := offsetForks + 8*word
	c := &copier{word: word, told: p.page.word(at)}
	c.told.Store(0)
	began := time.Now()
	r, err := p.order(message{kind: kindFork, a: int64(len(pieces)), b: int64(at), payload: encodePieces(pieces)}, kindForked)
	if err == nil && r.errno != 0 {
		err = r.errno
	}
	if err != nil {
		return nil, err
	}
	c.saved = time.Since(began) // less than nothing, so far
	child, err := statOf(int(r.value))
	if err == nil && child.parent != int64(p.hello.PID) { // it would be killed
		err = fmt.Errorf("process %d is no child of process %d", r.value, p.hello.PID)
	}
	if err == nil {
		if c.handle, err = openHandle(int(r.value)); c.handle != nil {
			err = nil
		}
	}
	f.words[word] = true // where it failed, a child may still write there
	return c, err
}

// copied waits until the shadows are filled.
func (p *Process) copied(ctx context.Context, set *shadows) error {
	p.orders.Lock()
	c := set.copier
	p.orders.Unlock()
	if c == nil {
		return nil
	}
	select {
	case <-c.handle.done:
	case <-ctx.Done():
		return ctx.Err()
	case <-p.stopping:
		return ErrEnded
	}
	p.orders.Lock()
	defer p.orders.Unlock()
	f := &p.memory.forks
	fault := time.Duration(c.told.Load())
	f.drop(set)
	if fault <= 0 {
		f.refused = true
		p.note("clone", errCopier)
		return errCopier
	}
	for _, fill := range c.left {
		fill.shadow.filled = true
	}
	f.last = forked{c.saved, fault, c.faults}
	return nil
}

// drop ends the child that fills shadows, so that it writes to them no more.
func (f *forks) drop(set *shadows) {
	c := set.copier
	if c == nil {
		return
	}
	set.copier = nil
	c.handle.kill()
	<-c.handle.done
	c.handle.close()
	f.words[c.word] = false
}
