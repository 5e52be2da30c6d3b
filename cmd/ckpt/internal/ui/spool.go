package ui

import (
	"errors"
	"io"
	"os"
	"slices"
	"sync"
	"time"
)

const (
	// spoolBytes is how much output waits for its reader. Then the oldest is left out.
	spoolBytes = 4 << 20
	// spoolPatience is how long the end of a run waits for a reader that takes nothing.
	spoolPatience = 10 * time.Second
)

// A spool writes behind those who give it text. A reader that stops reading, like a pager or
// a terminal after ^S, stops only the output, not the run that it tells of.
type spool struct {
	mu       sync.Mutex
	waiting  []spooled
	bytes    int // of what waits
	left     int // writes that were left out
	limit    int
	closed   bool
	ready    chan struct{} // holds a token if there is something to do
	progress chan struct{} // holds a token if something was written
	done     chan struct{} // closed when all is written
}

type spooled struct {
	to   *spoolEnd
	text []byte
}

// A spoolEnd is one stream that goes through a spool.
type spoolEnd struct {
	s   *spool
	w   io.Writer
	err error // the first
}

func newSpool(limit int) *spool {
	s := &spool{limit: limit, ready: make(chan struct{}, 1), progress: make(chan struct{}, 1), done: make(chan struct{})}
	go s.write()
	return s
}

func offer(token chan<- struct{}) {
	select {
	case token <- struct{}{}:
	default:
	}
}

// Unwrap returns the stream behind it.
func (e *spoolEnd) Unwrap() io.Writer { return e.w }

// Write never waits. It fails if an earlier text could not be written.
func (e *spoolEnd) Write(p []byte) (int, error) {
	s := e.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.err != nil {
		return 0, e.err
	}
	for len(s.waiting) > 0 && s.bytes+len(p) > s.limit {
		s.bytes -= len(s.waiting[0].text)
		s.waiting[0] = spooled{}
		s.waiting = s.waiting[1:]
		s.left++
	}
	s.waiting = append(s.waiting, spooled{e, slices.Clone(p)})
	s.bytes += len(p)
	offer(s.ready)
	return len(p), nil
}

// write writes what waits, until the spool is closed and all is written.
func (s *spool) write() {
	defer close(s.done)
	for {
		s.mu.Lock()
		if len(s.waiting) == 0 {
			closed := s.closed
			s.mu.Unlock()
			if closed {
				return
			}
			<-s.ready
			continue
		}
		next := s.waiting[0]
		s.waiting[0] = spooled{}
		s.waiting = s.waiting[1:]
		s.bytes -= len(next.text)
		failed := next.to.err != nil
		s.mu.Unlock()
		if failed {
			continue
		}
		_, err := next.to.w.Write(next.text)
		s.mu.Lock()
		next.to.err = err
		s.mu.Unlock()
		offer(s.progress)
	}
}

// close waits until all is written, or nothing has been for so long. It returns how many
// writes were left out, and whether the reader is stuck.
func (s *spool) close(patience time.Duration) (left int, stuck bool) {
	s.mu.Lock()
	s.closed = true
	offer(s.ready)
	s.mu.Unlock()
	wait := time.NewTimer(patience)
	defer wait.Stop()
	for {
		select {
		case <-s.done:
			return s.left, false
		case <-s.progress:
			wait.Reset(patience)
		case <-wait.C:
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.left + len(s.waiting) + 1, true
		}
	}
}

// Spool has a run go on whether somebody reads its output or not. Finish waits for the
// readers, and returns an error of the output; silent says that no reader takes what more
// there is to say.
func (g *Globals) Spool() (finish func() (silent bool, err error)) {
	out := &spoolEnd{s: newSpool(spoolBytes), w: g.Out}
	errs := &spoolEnd{s: out.s, w: g.Err}
	if !sameStream(g.Out, g.Err) { // else lines keep their order
		errs.s = newSpool(spoolBytes)
	}
	was := g.Streams
	g.Out, g.Err = out, errs
	return func() (bool, error) {
		left, stuck := out.s.close(spoolPatience)
		silent := stuck
		if errs.s != out.s {
			_, silent = errs.s.close(spoolPatience)
		}
		g.Streams = was
		if left > 0 && !silent {
			g.Warn("standard output was not read: %s left out; the store has the output of the job, and its history", Plural(left, "line was", "lines were"))
		}
		if stuck {
			return silent, nil // the write under way may still fail
		}
		return silent, out.err
	}
}

// sameStream reports whether two streams are one, as after 2>&1.
func sameStream(a, b io.Writer) bool {
	if a == b {
		return true
	}
	x, y := fileOf(a), fileOf(b)
	if x == nil || y == nil {
		return false
	}
	is, ierr := x.Stat()
	other, oerr := y.Stat()
	return errors.Join(ierr, oerr) == nil && os.SameFile(is, other)
}

// fileOf returns the file behind a stream, or nil.
func fileOf(w io.Writer) *os.File {
	for {
		switch v := w.(type) {
		case *os.File:
			return v
		case interface{ Unwrap() io.Writer }:
			w = v.Unwrap()
		default:
			return nil
		}
	}
}
