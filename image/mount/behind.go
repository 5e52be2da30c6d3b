package mount

import (
	"errors"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// dirty is what a handle has written and not synchronised. Only a gate needs it: a write moves bytes
// into memory, and the disk works when they leave it.
type dirty struct {
	mu         sync.Mutex
	begin, end int64
	// Writes that followed each other ended at last; the bytes from run on wait to be stored behind
	// the program's back.
	run, last int64
	behind    chan struct{} // open while some are, else nil
	syncs     int           // calls of fsync: the kernel tells an error of storing once, and they want it
	err       error         // for the next fsync
}

// How much of a file goes to the storage at one time: the next piece is twice as long after one that
// took less than quickPiece, so that a fast disk has enough to do, and others wait briefly.
const (
	firstPiece   = 4 << 20
	longestPiece = 256 << 20
	quickPiece   = 50 * time.Millisecond
)

// mostBehind is how many bytes a program may be ahead of the storage. Then its writes wait for their
// turns too, or the kernel would store its bytes in no order.
const mostBehind = 64 << 20

// page is what the kernel reads before it changes a part of it.
const page = 4 << 10

// intoMemory reports whether a write needs no turn, since the disk has nothing to do for it.
func (h *handle) intoMemory(off, end int64) bool {
	if h.loop.o.Gate == nil || h.file != nil || h.syncs {
		return false
	}
	d := &h.dirty
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.last-d.run < mostBehind && (off == d.last || off%page == 0 && end%page == 0)
}

// wrote notes a write, and has bytes stored once many have followed each other.
func (h *handle) wrote(r *Request, end int64) {
	d := &h.dirty
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.begin == d.end {
		d.begin, d.end = r.Offset, end
	}
	d.begin, d.end = min(d.begin, r.Offset), max(d.end, end)
	if r.Offset != d.last {
		d.run = r.Offset
	}
	d.last = end
	if d.behind == nil && d.more() {
		d.behind = make(chan struct{})
		go h.storeBehind(*r)
	}
}

// more reports whether bytes are to be stored behind the program's back.
func (d *dirty) more() bool { return d.syncs == 0 && d.err == nil && d.last-d.run >= firstPiece }

// storeBehind stores what follows each other until little is left.
func (h *handle) storeBehind(r Request) {
	d, s := &h.dirty, storing{h: h, r: r, length: firstPiece}
	d.mu.Lock()
	defer d.mu.Unlock()
	for d.more() {
		begin, end := d.run, min(d.last, d.run+s.length)
		if d.begin == begin {
			d.begin = end
		}
		d.mu.Unlock()
		err := s.piece(begin, end)
		d.mu.Lock()
		d.err = err
		if d.run == begin { // the program went on where it was
			d.run = end
		}
	}
	close(d.behind)
	d.behind = nil
}

// wait returns when nothing is stored behind the program's back.
func (d *dirty) wait() {
	d.mu.Lock()
	behind := d.behind
	d.mu.Unlock()
	if behind != nil {
		<-behind
	}
}

// sync has dirty bytes go to the storage piece by piece, and calls rest, which finds little left.
func (h *handle) sync(r *Request, rest func() error) error {
	d := &h.dirty
	d.mu.Lock()
	d.syncs++
	d.mu.Unlock()
	d.wait()
	d.mu.Lock()
	at, end, err := d.begin, d.end, d.err
	d.begin, d.end, d.run, d.err = 0, 0, d.last, nil
	d.mu.Unlock()
	for s := (storing{h: h, r: *r, length: firstPiece}); err == nil && at < end; {
		next := min(end, at+s.length)
		err = s.piece(at, next)
		at = next
	}
	if err == nil {
		err = rest()
	}
	d.mu.Lock()
	d.syncs--
	d.mu.Unlock()
	return err
}

// storing are pieces that go to the storage one after the other, each when the gate says so.
type storing struct {
	h      *handle
	r      Request
	length int64
}

func (s *storing) piece(begin, end int64) error {
	s.r.Op, s.r.Offset, s.r.Bytes = Sync, begin, end-begin
	r := s.r // it is the gate's
	return s.h.loop.o.Gate.Move(&r, func(off, bytes, _ int64) error {
		began := time.Now()
		err := unix.SyncFileRange(s.h.fd, off, bytes, unix.SYNC_FILE_RANGE_WAIT_BEFORE|unix.SYNC_FILE_RANGE_WRITE|unix.SYNC_FILE_RANGE_WAIT_AFTER)
		if time.Since(began) < quickPiece {
			s.length = min(2*s.length, longestPiece)
		}
		if errors.Is(err, syscall.ENOSYS) || errors.Is(err, syscall.ESPIPE) || errors.Is(err, syscall.EINVAL) {
			return nil // fsync does it
		}
		return err
	})
}
