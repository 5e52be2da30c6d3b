package iotrace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"time"
)

// Meta describes a trace as a whole.
type Meta struct {
	Job    string    // name of the job, or command
	Source string    // the recorder
	Origin time.Time // time 0; zero if only relative times are known
	// Tick is the unit of times, at most a second; smaller parts are cut off. 0 is a
	// nanosecond.
	Tick time.Duration
}

// A writer writes an events file block by block. Ranks and files can be added at any
// time before the events that refer to them.
type writer struct {
	w            io.Writer
	enc          *encoder
	tick         int64
	err          error
	ranks, files int    // named so far
	newRanks     []Rank // not yet written
	newFiles     []string
	events       int64
	written      int64 // events in blocks that are written
	scratch      []byte
}

var errClosed = errors.New("the trace is closed")

// newWriter begins a file on w. Later calls return its errors. close ends the file,
// but does not close w.
func newWriter(w io.Writer, m Meta) *writer {
	x := &writer{w: w, enc: newEncoder(), tick: max(1, int64(m.Tick))}
	x.err = validOrigin(m.Origin)
	if m.Tick < 0 || m.Tick > time.Second {
		x.fail(fmt.Errorf("invalid unit of time %v", m.Tick))
	}
	b := append(make([]byte, 0, 256), fileHeader()...)
	b = append(b, make([]byte, blockHeader)...)
	b = appendString(b, m.Job)
	b = appendString(b, m.Source)
	if m.Origin.IsZero() {
		b = append(b, 0)
	} else {
		b = append(b, 1)
		b = binary.AppendVarint(b, m.Origin.Unix())
		b = binary.AppendUvarint(b, uint64(m.Origin.Nanosecond()))
	}
	b = binary.AppendUvarint(b, uint64(x.tick))
	if len(b)-headerSize-blockHeader > maxPayload {
		x.fail(fmt.Errorf("name of the job is too long: %d bytes", len(m.Job)))
	}
	seal(b[headerSize:], kindHead, 0)
	x.put(b)
	return x
}

// addRank adds a rank to the table and returns its index.
func (w *writer) addRank(r Rank) int32 {
	w.newRanks = append(w.newRanks, r)
	w.ranks++
	return int32(w.ranks - 1)
}

// addFile adds a path to the table and returns its index.
func (w *writer) addFile(path string) int32 {
	w.newFiles = append(w.newFiles, path)
	w.files++
	return int32(w.files - 1)
}

// add writes events in any order; readers sort them. An invalid event or a failed
// write is an error and ends the file.
func (w *writer) add(events ...Event) error {
	for i := range events {
		if w.err != nil {
			break
		}
		w.appendOne(&events[i])
	}
	return w.err
}

func (w *writer) appendOne(e *Event) {
	if err := e.Check(w.ranks, w.files); err != nil {
		w.fail(fmt.Errorf("event %d: %s: %w", w.events, e.Op, err))
		return
	}
	if w.tick > 1 {
		ticks := *e
		ticks.Start, ticks.End = floorDiv(e.Start, w.tick), floorDiv(e.End, w.tick)
		e = &ticks
	}
	w.enc.add(e)
	w.events++
	if w.enc.full() {
		w.flush()
	}
}

// flush writes the block of events that is not full yet.
func (w *writer) flush() error {
	w.flushTables()
	if w.err == nil && w.enc.count > 0 {
		seal(w.enc.buf, kindEvents, w.enc.count)
		w.put(w.enc.buf)
		if w.err == nil {
			w.written += int64(w.enc.count)
		}
		w.enc.reset()
	}
	return w.err
}

// close writes the last block and the end mark.
func (w *writer) close() error {
	if w.flush() != nil {
		return w.err
	}
	b := make([]byte, blockHeader, blockHeader+endPayload)
	for _, n := range [...]int64{w.events, int64(w.ranks), int64(w.files)} {
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
	}
	seal(b, kindEnd, 0)
	w.put(b)
	if w.err == nil {
		w.err = errClosed
		return nil
	}
	return w.err
}

// flushTables writes the new names, in as many blocks as they need.
func (w *writer) flushTables() {
	for w.err == nil && len(w.newRanks)+len(w.newFiles) > 0 {
		b := append(w.scratch[:0], make([]byte, blockHeader)...)
		n := takeNames(w.newRanks, func(r Rank) int { return len(r.Node) })
		b = binary.AppendUvarint(b, uint64(n))
		for _, r := range w.newRanks[:n] {
			b = binary.AppendVarint(b, int64(r.Rank))
			b = appendString(b, r.Node)
		}
		w.newRanks = w.newRanks[n:]
		k := 0
		if len(w.newRanks) == 0 && len(b) < blockTarget {
			k = takeNames(w.newFiles, func(s string) int { return len(s) })
		}
		b = binary.AppendUvarint(b, uint64(k))
		for _, s := range w.newFiles[:k] {
			b = appendString(b, s)
		}
		w.newFiles = w.newFiles[k:]
		if len(b)-blockHeader > maxPayload {
			w.fail(errors.New("the name of a file or node is too long"))
			return
		}
		seal(b, kindTables, n+k)
		w.put(b)
		w.scratch = b
	}
}

// takeNames returns how many names fit into a block, at least one.
func takeNames[T any](names []T, length func(T) int) int {
	size := 0
	for i, name := range names {
		size += length(name) + 2*binary.MaxVarintLen64
		if i > 0 && size > blockTarget {
			return i
		}
	}
	return len(names)
}

func (w *writer) put(b []byte) {
	if w.err != nil {
		return
	}
	n, err := w.w.Write(b)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	if err != nil {
		w.fail(err)
	}
}

func (w *writer) fail(err error) error {
	if w.err == nil {
		w.err = err
	}
	return w.err
}

// floorDiv rounds towards the past.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// tickOf returns the largest unit of which all times are multiples.
func tickOf(events []Event) time.Duration {
	gcd := int64(0)
	for i := range events {
		for _, t := range [2]int64{events[i].Start, events[i].End} {
			for a, b := gcd, max(t, -t); ; a, b = b, a%b {
				if b == 0 {
					gcd = a
					break
				}
			}
		}
		if gcd == 1 {
			break
		}
	}
	if gcd == 0 || gcd > int64(time.Second) {
		gcd = 1
	}
	return time.Duration(gcd)
}

// WriteTrace writes a whole trace as an events file.
func WriteTrace(w io.Writer, t *Trace) error {
	if len(t.Ranks) > math.MaxInt32 || len(t.Files) > math.MaxInt32 {
		return errors.New("too many ranks or files")
	}
	x := newWriter(w, Meta{Job: t.Job, Source: t.Source, Origin: t.Origin, Tick: tickOf(t.Events)})
	for _, r := range t.Ranks {
		x.addRank(r)
	}
	for _, name := range t.Files {
		x.addFile(name)
	}
	if err := x.add(t.Events...); err != nil {
		return err
	}
	return x.close()
}
