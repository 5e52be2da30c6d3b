package iotrace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"time"
)

// A reader reads an events file block by block.
type reader struct {
	in      input
	lenient bool
	each    func([]Event) // Options.Each
	t       *Trace
	dec     decoder
	lists   map[string]list // by the kind of their blocks
	ranks   table[Rank]
	files   table[string]
	headed  bool               // a HEAD was read
	got     [len(listed)]int64 // entries that were read, without copies
	want    [len(listed)]int64 // entries that there are, as far as it is known
	blocks  int64              // so far
	done    bool
	ended   bool  // with its end mark
	damage  error // the first one that was passed over
}

func newReader(in input, t *Trace, lenient bool) *reader {
	r := &reader{in: in, t: t, lenient: lenient, dec: decoder{predictor: newPredictor()}}
	r.ranks, r.files = table[Rank]{list: &t.Ranks, read: r.dec.rank}, table[string]{list: &t.Files, read: r.dec.string}
	r.lists = map[string]list{
		kindRanks: &r.ranks, kindFiles: &r.files,
		kindWarnings:   &table[Warning]{list: &t.Warnings, read: r.dec.warning},
		kindProperties: &table[Property]{list: &t.Properties, read: r.dec.property},
		kindCounters:   &table[Counters]{list: &t.Counters, read: r.dec.counters, once: true},
		kindStriping:   &table[Striping]{list: &t.Striping, read: r.dec.striping, once: true},
		kindRenames:    &table[Renaming]{list: &t.Renames, read: r.dec.renaming, once: true},
	}
	return r
}

// next reads the next block that is whole. At the end of the file the error is io.EOF.
func (r *reader) next() error {
	for !r.done {
		b, err := r.block()
		whole := err == nil
		if whole {
			r.blocks++
			if err = r.take(b); err == nil {
				return nil
			}
		}
		if err = r.passOver(err); err != nil {
			return err
		}
		if !whole && !r.in.resync() {
			r.done = true
		}
	}
	return io.EOF
}

func (r *reader) passOver(err error) error {
	var fe *FormatError
	if !r.lenient || !errors.As(err, &fe) {
		return err
	}
	if r.damage == nil {
		r.damage = err
	}
	return nil
}

func (r *reader) block() (block, error) {
	b := block{at: r.in.off}
	head := r.in.peek(blockHeader)
	switch {
	case len(head) < blockHeader:
		return b, r.in.ended()
	case !wholeHeader(head):
		return b, bad(b.at, "checksum of the head of a block does not match")
	}
	b.kind = string(head[:4])
	n, count := payloadLength(head), binary.LittleEndian.Uint32(head[8:])
	first := binary.LittleEndian.Uint64(head[12:])
	sum := binary.LittleEndian.Uint32(head[20:])
	switch {
	case n > maxPayload:
		return b, bad(b.at, "block %q of %d bytes; the longest has %d", b.kind, n, maxPayload)
	case int(count) > n:
		return b, bad(b.at, "block %q of %d entries in %d bytes", b.kind, count, n)
	case first > math.MaxInt64-maxPayload:
		return b, bad(b.at, "block %q begins with entry %d", b.kind, first)
	}
	b.count, b.first = int(count), int64(first)
	if i := slices.Index(listed[:], b.kind); i >= 0 {
		r.want[i] = max(r.want[i], b.first+int64(b.count))
	}
	whole := r.in.peek(blockHeader + n)
	if len(whole) < blockHeader+n {
		return b, r.in.ended()
	}
	b.payload = whole[blockHeader:]
	if crc32.Checksum(b.payload, castagnoli) != sum {
		return b, bad(b.at, "checksum of block %q does not match", b.kind)
	}
	r.in.skip(len(whole))
	return b, nil
}

// take uses a whole block.
func (r *reader) take(b block) error {
	if !r.headed && b.kind != kindHead && !r.lenient {
		return bad(b.at, "block %q where HEAD should be", b.kind)
	}
	var err error
	switch b.kind {
	case kindHead:
		err = r.head(b)
	case kindEvents:
		err = r.events(b)
	case kindEnd:
		return r.end(b)
	default:
		err = errors.New("this kind is unknown")
		if l := r.lists[b.kind]; l != nil {
			err = l.take(r, b)
		}
	}
	if err != nil {
		return bad(b.at, "block %q: %v", b.kind, err)
	}
	return nil
}

// head reads what describes the trace. The copy at the end may add the run time.
func (r *reader) head(b block) error {
	d := decoder{rest: b.payload}
	job, source := d.string(), d.string()
	origin, err := d.origin()
	if err != nil {
		return err
	}
	runtime := d.uvarint()
	switch {
	case d.err != nil:
		return d.err
	case runtime > MaxTime:
		return errRange
	case len(d.rest) > 0:
		return fmt.Errorf("%d bytes too many", len(d.rest))
	}
	if err := validOrigin(origin); err != nil {
		return err
	}
	t := r.t
	if r.headed && (job != t.Job || source != t.Source || !origin.Equal(t.Origin)) {
		return errors.New("it differs from the first one")
	}
	t.Job, t.Source, t.Origin = job, source, origin
	t.Runtime = max(t.Runtime, time.Duration(runtime))
	r.headed = true
	return nil
}

// events reads events. Behind damage their names may come later, so finish checks them.
func (r *reader) events(b block) error {
	if err := r.inOrder(b, r.got[0]); err != nil {
		return err
	}
	ranks, files := len(r.t.Ranks), len(r.t.Files)
	if r.damage != nil {
		ranks, files = math.MaxInt32, math.MaxInt32
	}
	n := len(r.t.Events)
	events, err := r.dec.block(r.t.Events, b.payload, b.count, ranks, files)
	if err != nil {
		r.t.Events = events[:n]
		return err
	}
	r.t.Events = events
	r.got[0] += int64(b.count)
	if r.each != nil {
		r.each(events)
		r.t.Events = events[:0]
	}
	return nil
}

// inOrder returns an error if a block does not follow the last of its kind.
func (r *reader) inOrder(b block, got int64) error {
	if b.first == got || r.damage != nil && b.first > got {
		return nil
	}
	return fmt.Errorf("it begins with entry %d where %d should be", b.first, got)
}

func (r *reader) end(b block) error {
	if len(b.payload) != endPayload {
		return bad(b.at, "%d bytes where %d should be", len(b.payload), endPayload)
	}
	r.done, r.ended = true, true
	r.merge()
	for i := range listed {
		n := binary.LittleEndian.Uint64(b.payload[8*(1+i):])
		if n > math.MaxInt64 || r.damage == nil && int64(n) != r.got[i] {
			return bad(b.at, "the end mark counts %d of %q, the file has %d", n, listed[i], r.got[i])
		}
		r.want[i] = max(r.want[i], int64(n))
	}
	if n := binary.LittleEndian.Uint64(b.payload); r.damage == nil && n != uint64(r.blocks-1) {
		return bad(b.at, "the end mark counts %d blocks, the file has %d", n, r.blocks-1)
	}
	if len(r.in.peek(1)) != 0 {
		return bad(r.in.off, "bytes follow the end mark")
	}
	if r.in.err != io.EOF { // as of a packed file that is cut
		return r.in.err
	}
	return nil
}

func bad(at int64, format string, args ...any) error {
	return &FormatError{Offset: at, Reason: fmt.Sprintf(format, args...)}
}

// Import reads an events file with Options. With Lenient it returns all that whole
// blocks hold, with a warning that counts the events of the others.
func Import(r io.Reader, o Options) (*Trace, *Report, error) {
	rep := &Report{}
	in := input{r: r}
	head := in.peek(headerSize)
	switch {
	case len(head) == 0 && in.err == io.EOF:
		return nil, rep, &FormatError{Reason: "the file is empty", Err: ErrTruncated}
	case len(head) < headerSize && strings.HasPrefix(magic, string(head[:min(len(head), len(magic))])):
		return nil, rep, in.ended()
	case !beginsEvents(in.peek(headerSize + blockHeader)):
		if in.err != nil && in.err != io.EOF {
			return nil, rep, in.err
		}
		return nil, rep, WrongFormat(in.peek(HeadBytes), FormatEvents)
	}
	t, err := importVersion(&in, o, rep)
	if err != nil {
		return nil, rep, err
	}
	if err := t.validTables(); err != nil {
		return nil, rep, &FormatError{Offset: headerSize, Reason: err.Error()}
	}
	t.Sort()
	return t, rep, nil
}

func importVersion(in *input, o Options, rep *Report) (*Trace, error) {
	var damage error
	head := in.peek(headerSize)
	if string(head[:len(magic)]) != magic || crc32.Checksum(head[:12], castagnoli) != binary.LittleEndian.Uint32(head[12:]) {
		damage = &FormatError{Reason: "checksum of the file header does not match"}
		if !o.Lenient {
			return nil, damage
		}
	} else if v := binary.LittleEndian.Uint32(head[8:]); v == version1 {
		in.skip(headerSize)
		return import1(in, o, rep)
	} else if v != version {
		return nil, &FormatError{Offset: 8, Reason: fmt.Sprintf("events file of version %d: %v", v, ErrNewerVersion), Err: ErrNewerVersion}
	}
	in.skip(headerSize)
	t := &Trace{Events: make([]Event, 0, o.Expected())}
	x := newReader(*in, t, o.Lenient)
	x.damage, x.each = damage, o.Each
	var err error
	for err == nil {
		err = x.next()
	}
	if err == io.EOF {
		err = x.finish(rep)
	}
	return t, err
}

// ReadTrace reads a whole events file. The events are sorted by their start.
func ReadTrace(r io.Reader) (*Trace, error) {
	t, _, err := Import(r, Options{})
	return t, err
}

// ReadFile reads the events file of that name.
func ReadFile(name string) (*Trace, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t, _, err := Import(f, Options{Events: Expect(f)})
	return t, Named(err, name)
}

// Expect returns the number of events in the end mark of an events file, if the file
// is long enough for it, for use as Options.Events. It does not move the file
// position.
func Expect(f *os.File) int {
	fi, err := f.Stat()
	if err != nil || !fi.Mode().IsRegular() {
		return 0
	}
	var b [blockHeader + endPayload]byte
	if n, err := f.ReadAt(b[:], max(fi.Size()-int64(len(b)), 0)); n < len(b) || err != nil && err != io.EOF {
		return 0
	}
	n := binary.LittleEndian.Uint64(b[blockHeader+8:])
	if string(b[:4]) != kindEnd || !wholeHeader(b[:]) {
		old := b[len(b)-blockHeader1-endPayload1:]
		if n = binary.LittleEndian.Uint64(old[blockHeader1:]); string(old[:4]) != kindEnd {
			return 0
		}
	}
	if n > uint64(fi.Size())/minEvent { // it promises too much
		return 0
	}
	return int(n)
}
