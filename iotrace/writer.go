package iotrace

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
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
	w       io.Writer
	meta    Meta
	enc     *encoder
	tick    int64
	err     error
	ranks   []Rank
	files   []string
	rest    Trace // the other lists
	written [len(listed)]int64
	blocks  int64
	events  int64 // that were added
	scratch []byte
}

var errClosed = errors.New("the trace is closed")

// newWriter begins a file on w. Of rest, all but the events and tables is written. Later calls return its errors. close ends the file,
// but does not close w.
func newWriter(w io.Writer, m Meta, rest Trace) *writer {
	tick := max(1, int64(m.Tick))
	x := &writer{w: w, meta: m, rest: rest, enc: newEncoder(tick), tick: tick}
	x.err = validOrigin(m.Origin)
	if m.Tick < 0 || m.Tick > time.Second {
		x.fail(fmt.Errorf("invalid unit of time %v", m.Tick))
	}
	x.head(fileHeader())
	return x
}

// head writes the block that describes the trace, behind other bytes.
func (w *writer) head(b []byte) {
	at, m := len(b), &w.meta
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
	b = binary.AppendUvarint(b, uint64(w.rest.Runtime))
	if len(b)-at-blockHeader > maxPayload {
		w.fail(fmt.Errorf("name of the job is too long: %d bytes", len(m.Job)))
	}
	seal(b[at:], kindHead, 0, 0)
	w.put(b)
}

func (w *writer) addRank(r Rank) int32 {
	w.ranks = append(w.ranks, r)
	return int32(len(w.ranks) - 1)
}

// addFile adds a path to the table and returns its index.
func (w *writer) addFile(path string) int32 {
	w.files = append(w.files, path)
	return int32(len(w.files) - 1)
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
	if err := e.Check(len(w.ranks), len(w.files)); err != nil {
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

// flush writes the new names, and the block of events that is not full yet.
func (w *writer) flush() error {
	putList(w, kindRanks, w.ranks, appendRank)
	putList(w, kindFiles, w.files, appendString)
	if w.err == nil && w.enc.count > 0 {
		n := &w.written[0]
		seal(w.enc.buf, kindEvents, w.enc.count, *n)
		w.put(w.enc.buf)
		if w.err == nil {
			*n += int64(w.enc.count)
		}
		w.enc.reset()
	}
	return w.err
}

// close writes the last block, the other lists, copies of all that is needed to use the
// events, and the end mark.
func (w *writer) close() error {
	if w.flush() != nil {
		return w.err
	}
	putList(w, kindCounters, w.rest.Counters, appendCounters)
	putList(w, kindStriping, w.rest.Striping, appendStriping)
	putList(w, kindRenames, w.rest.Renames, appendRenaming)
	putList(w, kindWarnings, w.rest.Warnings, appendWarning)
	putList(w, kindProperties, w.rest.Properties, appendProperty)
	totals := w.written
	for i, kind := range listed {
		switch kind {
		case kindRanks, kindFiles, kindWarnings, kindProperties:
			w.written[i] = 0
		}
	}
	w.head(nil)
	putList(w, kindRanks, w.ranks, appendRank)
	putList(w, kindFiles, w.files, appendString)
	putList(w, kindWarnings, w.rest.Warnings, appendWarning)
	putList(w, kindProperties, w.rest.Properties, appendProperty)
	b := make([]byte, blockHeader, blockHeader+endPayload)
	b = binary.LittleEndian.AppendUint64(b, uint64(w.blocks))
	for _, n := range totals {
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
	}
	seal(b, kindEnd, 0, 0)
	w.put(b)
	if w.err == nil {
		w.err = errClosed
		return nil
	}
	return w.err
}

// putList writes the entries of a list that are not written yet, in as many blocks as
// they need.
func putList[T any](w *writer, kind string, list []T, add func([]byte, T) []byte) {
	written := &w.written[slices.Index(listed[:], kind)]
	for w.err == nil && int64(len(list)) > *written {
		b := append(w.scratch[:0], make([]byte, blockHeader)...)
		n := 0
		for _, entry := range list[*written:] {
			end := len(b)
			b = add(b, entry)
			if len(b)-blockHeader > maxPayload {
				b = b[:end]
				break
			}
			if n++; len(b) >= blockTarget {
				break
			}
		}
		if n == 0 {
			w.fail(fmt.Errorf("%s %d is too long: its block would exceed %d bytes", entryNames[kind], *written, maxPayload))
			return
		}
		seal(b, kind, n, *written)
		w.put(b)
		*written += int64(n)
		w.scratch = b
	}
}

// entryNames name an entry of each list.
var entryNames = map[string]string{kindRanks: "rank", kindFiles: "file", kindEvents: "event", kindCounters: "record of counters",
	kindStriping: "striping", kindRenames: "rename", kindWarnings: "warning", kindProperties: "property"}

func (w *writer) put(b []byte) {
	if w.err != nil {
		return
	}
	w.blocks++
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
	if err := t.validParts(); err != nil {
		return err
	}
	bw := bufio.NewWriterSize(w, 64<<10)
	x := newWriter(bw, Meta{Job: t.Job, Source: t.Source, Origin: t.Origin, Tick: tickOf(t.Events)}, *t)
	x.ranks, x.files = t.Ranks, t.Files
	if err := x.add(t.Events...); err != nil {
		return err
	}
	if err := x.close(); err != nil {
		return err
	}
	return bw.Flush()
}
