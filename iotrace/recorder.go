package iotrace

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// A Recorder records events as they happen, from any number of goroutines. It keeps
// one block of 8 KiB and the names in memory. The event that fills a block waits
// until the block is written.
//
// Recording never fails: Close returns the first error, and the events after it are
// dropped. A nil Recorder records nothing.
type Recorder struct {
	origin time.Time

	mu     sync.Mutex
	w      *writer
	ranks  map[Rank]int32
	files  map[string]int32
	events int64 // so far

	measured bool
	spent    atomic.Int64 // ns, in Record, if that is measured
}

// NewRecorder records to w. If the Meta has no origin, time 0 is now.
func NewRecorder(w io.Writer, m Meta) *Recorder {
	if m.Origin.IsZero() {
		m.Origin = time.Now()
	}
	return &Recorder{origin: m.Origin, w: newWriter(w, m, Trace{}), ranks: make(map[Rank]int32), files: make(map[string]int32)}
}

// Rank returns the index of a rank. It adds a new rank to the table.
func (r *Recorder) Rank(k Rank) int32 {
	if r == nil {
		return None
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	i, ok := r.ranks[k]
	if !ok {
		i = r.w.addRank(k)
		r.ranks[k] = i
	}
	return i
}

// File returns the index of a path. It adds a new path to the table.
func (r *Recorder) File(path string) int32 {
	if r == nil || path == "" {
		return None
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	i, ok := r.files[path]
	if !ok {
		i = r.w.addFile(path)
		r.files[path] = i
	}
	return i
}

// Since returns t in the time of the trace.
func (r *Recorder) Since(t time.Time) int64 {
	if r == nil {
		return 0
	}
	return int64(t.Sub(r.origin))
}

// Measure turns on the measurement of time spent in Record, waiting included. Call it
// before the first event.
func (r *Recorder) Measure() { r.measured = true }

// Spent returns the time spent in Record since Measure, summed over the goroutines.
func (r *Recorder) Spent() time.Duration { return time.Duration(r.spent.Load()) }

// Record records an event. Its rank, peer and file are indexes that Rank and File
// returned.
func (r *Recorder) Record(e Event) {
	if r == nil {
		return
	}
	if r.measured {
		start := time.Now()
		r.record(&e)
		r.spent.Add(int64(time.Since(start)))
		return
	}
	r.record(&e)
}

func (r *Recorder) record(e *Event) {
	r.mu.Lock()
	r.events++
	if r.w.err == nil {
		r.w.appendOne(e)
	}
	r.mu.Unlock()
}

// Renamed records the new name of a file, beside the event Rename that ends at that time.
// The files are indexes that File returned.
func (r *Recorder) Renamed(n Renaming) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.w.rest.Renames = append(r.w.rest.Renames, n)
}

// Warn adds a warning to the trace.
func (r *Recorder) Warn(w Warning) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.w.rest.Warnings = addWarning(r.w.rest.Warnings, w)
}

// Close ends the recording, but does not close the writer below. It returns the first
// error since the beginning. Events recorded after Close are lost.
func (r *Recorder) Close() error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.w.close()
	if lost := r.events - r.w.written[0]; err != nil && err != errClosed && lost > 0 {
		return fmt.Errorf("%d events were not recorded: %w", lost, err)
	}
	return err
}
