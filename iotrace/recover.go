package iotrace

import (
	"fmt"
	"io"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A list is a part of the trace that blocks of one kind hold.
type list interface {
	take(r *reader, b block) error
	// settle returns how many entries were read, those behind gaps too.
	settle() int64
}

// A table collects the entries of a list, which the file has twice unless it is once.
type table[T any] struct {
	list  *[]T
	read  func() T
	once  bool
	later map[int64]T // entries behind a gap
}

func (x *table[T]) take(r *reader, b block) error {
	kept := len(*x.list)
	if x.once {
		if err := r.inOrder(b, int64(kept)); err != nil {
			return err
		}
	} else if r.damage == nil && b.first > int64(kept) {
		return fmt.Errorf("it begins with entry %d where %d should be", b.first, kept)
	}
	d := &r.dec
	d.rest, d.err = b.payload, nil
	for i := range b.count {
		entry := x.read()
		if d.err != nil {
			return x.undo(kept, fmt.Errorf("entry %d: %w", i, d.err))
		}
		if x.once {
			*x.list = append(*x.list, entry)
		} else if at := b.first + int64(i); !x.put(at, entry) {
			return fmt.Errorf("entry %d differs from the first one", at)
		}
	}
	if len(d.rest) > 0 {
		return x.undo(kept, fmt.Errorf("%d bytes follow the last entry", len(d.rest)))
	}
	return nil
}

// undo forgets the entries of a damaged block, unless they are in the file twice.
func (x *table[T]) undo(kept int, err error) error {
	if x.once {
		*x.list = (*x.list)[:kept]
	}
	return err
}

// put adds the entry with a number. It reports whether it fits with what is there.
func (x *table[T]) put(at int64, entry T) bool {
	switch n := int64(len(*x.list)); {
	case at < n:
		return reflect.DeepEqual((*x.list)[at], entry)
	case at == n:
		*x.list = append(*x.list, entry)
		return true
	}
	if x.later == nil {
		x.later = make(map[int64]T)
	}
	x.later[at] = entry
	return true
}

// settle moves the entries that no gap separates any more.
func (x *table[T]) settle() int64 {
	for {
		at := int64(len(*x.list))
		entry, ok := x.later[at]
		if !ok {
			return at + int64(len(x.later))
		}
		delete(x.later, at)
		*x.list = append(*x.list, entry)
	}
}

// merge puts the tables together and counts what was read.
func (r *reader) merge() {
	for i, kind := range listed {
		if l := r.lists[kind]; l != nil {
			r.got[i] = l.settle()
		}
	}
}

// The codes and texts of warnings about damage.
const (
	warnDamaged = "damaged"
	warnCut     = "cut"

	damagedText = "The events file is damaged, and the events of its damaged blocks are missing. Read an undamaged copy."
	lostText    = "The events file is damaged, and some of its counters, names or notes are missing. Read an undamaged copy."
	cutText     = "The end of the events file is damaged or missing, and events may be missing. Read a complete copy."
)

// finish completes the trace. It warns of what is missing, and names what has lost its
// name.
func (r *reader) finish(rep *Report) error {
	if r.blocks == 0 {
		return r.damage
	}
	t := r.t
	r.merge()
	if r.damage == nil {
		err := t.validParts()
		if err != nil {
			err = r.passOver(bad(headerSize, "%v", err))
		}
		if r.damage == nil || err != nil {
			return err
		}
	}
	rep.Cut = r.damage
	r.nameLost()
	r.dropInvalid()
	if n := r.want[0] - r.got[0]; n > 0 {
		t.Warnings = addWarning(t.Warnings, Warning{Code: warnDamaged, Text: damagedText, Count: n})
	}
	for i := range listed[1:] {
		if r.got[1+i] < r.want[1+i] {
			t.Warnings = addWarning(t.Warnings, Warning{Code: warnDamaged, Text: lostText})
			break
		}
	}
	if !r.ended {
		t.Warnings = addWarning(t.Warnings, Warning{Code: warnCut, Text: cutText})
	}
	return nil
}

// nameLost gives a name to the ranks and files of events whose own was damaged twice.
func (r *reader) nameLost() {
	t := r.t
	rank := r.ranks.namer(func(i int32) Rank { return Rank{Rank: None, Node: fmt.Sprintf("lost rank %d", i)} })
	file := r.files.namer(func(i int32) string { return fmt.Sprintf("lost file %d", i) })
	for i := range t.Events {
		e := &t.Events[i]
		rank(&e.Rank)
		rank(&e.Peer)
		file(&e.File)
	}
	for i := range t.Counters {
		rank(&t.Counters[i].Rank)
		file(&t.Counters[i].File)
	}
	for i := range t.Striping {
		file(&t.Striping[i].File)
	}
	for i := range t.Renames {
		file(&t.Renames[i].From)
		file(&t.Renames[i].To)
	}
	for i := range t.Warnings {
		for k := range t.Warnings[i].Files {
			file(&t.Warnings[i].Files[k].File)
		}
	}
}

// namer returns a function that replaces the index of an entry behind a gap.
func (x *table[T]) namer(lost func(int32) T) func(*int32) {
	given, known := make(map[int32]int32), len(*x.list)
	return func(i *int32) {
		if *i < 0 || int(*i) < known {
			return
		}
		n, ok := given[*i]
		if !ok {
			entry, ok := x.later[int64(*i)]
			if !ok {
				entry = lost(*i)
			}
			n = int32(len(*x.list))
			*x.list = append(*x.list, entry)
			given[*i] = n
		}
		*i = n
	}
}

// dropInvalid removes the parts that no writer makes.
func (r *reader) dropInvalid() {
	t := r.t
	one := &Trace{Ranks: t.Ranks, Files: t.Files}
	t.Counters = slices.DeleteFunc(t.Counters, func(c Counters) bool { return c.check(len(t.Ranks), len(t.Files)) != nil })
	t.Striping = slices.DeleteFunc(t.Striping, func(s Striping) bool {
		one.Striping = []Striping{s}
		return one.validParts() != nil
	})
	one.Striping = nil
	t.Renames = slices.DeleteFunc(t.Renames, func(r Renaming) bool {
		one.Renames = []Renaming{r}
		return one.validParts() != nil
	})
	one.Renames = nil
	t.Warnings = slices.DeleteFunc(t.Warnings, func(w Warning) bool {
		one.Warnings = []Warning{w}
		return one.validParts() != nil
	})
	t.Properties = slices.DeleteFunc(t.Properties, func(p Property) bool { return p.Name == "" })
}

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
