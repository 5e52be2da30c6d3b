package iotrace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"strings"
	"time"
)

// A reader reads an events file block by block.
type reader struct {
	r      io.Reader
	off    int64 // offset of the next read
	meta   Meta
	ranks  []Rank
	files  []string
	dec    decoder
	buf    []byte
	events int64 // so far
	done   bool
}

// newReader reads the head of a file.
func newReader(r io.Reader) (*reader, error) {
	x := &reader{r: r, dec: decoder{predictor: newPredictor()}}
	head := make([]byte, headerSize)
	if err := x.fill(head, "the file header"); err != nil {
		return nil, err
	}
	if string(head[:8]) != magic {
		more := make([]byte, HeadBytes-headerSize)
		n, _ := io.ReadFull(r, more)
		return nil, WrongFormat(append(head, more[:n]...), FormatEvents)
	}
	if crc32.Checksum(head[:12], castagnoli) != binary.LittleEndian.Uint32(head[12:]) {
		return nil, &FormatError{Reason: "checksum of the file header does not match"}
	}
	if v := binary.LittleEndian.Uint32(head[8:]); v != version {
		return nil, &FormatError{Offset: 8, Reason: fmt.Sprintf("events file of version %d: %v", v, ErrNewerVersion), Err: ErrNewerVersion}
	}
	b, err := x.block()
	if err != nil {
		return nil, err
	}
	if b.kind != kindHead {
		return nil, x.bad(b, "block %q where HEAD should be", b.kind)
	}
	if err := x.head(b.payload); err != nil {
		return nil, x.bad(b, "HEAD: %v", err)
	}
	return x, nil
}

// next appends the events of the next block to dst, in the order of recording. At the
// end of a whole file the error is io.EOF.
func (r *reader) next(dst []Event) ([]Event, error) {
	for !r.done {
		b, err := r.block()
		if err != nil {
			return dst, err
		}
		switch b.kind {
		case kindTables:
			err = r.tables(b.payload, b.count)
		case kindEvents:
			n := len(dst)
			dst, err = r.dec.block(dst, b.payload, b.count, len(r.ranks), len(r.files))
			if err == nil {
				r.events += int64(b.count)
				return dst, nil
			}
			dst = dst[:n]
		case kindEnd:
			err = r.end(b.payload)
		default:
			err = fmt.Errorf("block %q is unknown", b.kind)
		}
		if err != nil {
			return dst, r.bad(b, "%v", err)
		}
	}
	return dst, io.EOF
}

// A block as read.
type block struct {
	at      int64 // offset in the file
	kind    string
	count   int
	payload []byte // until the next block is read
}

// block reads a block and checks its sum.
func (r *reader) block() (block, error) {
	b := block{at: r.off}
	var head [blockHeader]byte
	if err := r.fill(head[:], "a block"); err != nil {
		return b, err
	}
	b.kind = string(head[:4])
	n := binary.LittleEndian.Uint32(head[4:])
	count := binary.LittleEndian.Uint32(head[8:])
	switch {
	case n > maxPayload:
		return b, r.bad(b, "block %q of %d bytes; the longest has %d", b.kind, n, maxPayload)
	case count > n:
		return b, r.bad(b, "block %q of %d entries in %d bytes", b.kind, count, n)
	}
	if cap(r.buf) < int(n) {
		r.buf = make([]byte, max(int(n), 2*cap(r.buf)))
	}
	b.payload = r.buf[:n]
	if err := r.fill(b.payload, "a block"); err != nil {
		return b, err
	}
	if blockSum(head[:12], b.payload) != binary.LittleEndian.Uint32(head[12:]) {
		return b, r.bad(b, "checksum of block %q does not match", b.kind)
	}
	b.count = int(count)
	return b, nil
}

func (r *reader) head(p []byte) error {
	d := decoder{rest: p}
	r.meta.Job, r.meta.Source = d.string(), d.string()
	if dated := d.byte(); dated > 1 {
		return errRange
	} else if dated == 1 {
		sec := d.sum(0)
		nsec := d.uvarint()
		if nsec >= 1e9 {
			return errRange
		}
		r.meta.Origin = time.Unix(sec, int64(nsec)).UTC()
	}
	tick := d.uvarint()
	if d.err == nil && (tick == 0 || tick > uint64(time.Second)) {
		return errRange
	}
	r.meta.Tick, r.dec.tick = time.Duration(tick), int64(tick)
	if d.err == nil && len(d.rest) > 0 {
		return fmt.Errorf("%d bytes too many", len(d.rest))
	}
	if d.err == nil {
		d.err = validOrigin(r.meta.Origin)
	}
	return d.err
}

func (r *reader) tables(p []byte, count int) error {
	d := decoder{rest: p}
	// Each entry takes at least a byte, which bounds the counts.
	ranks := d.uvarint()
	for i := uint64(0); i < ranks && d.err == nil; i++ {
		rank := d.sum(0)
		r.ranks = append(r.ranks, Rank{Rank: int(rank), Node: d.string()})
	}
	files := d.uvarint()
	for i := uint64(0); i < files && d.err == nil; i++ {
		r.files = append(r.files, d.string())
	}
	switch {
	case d.err != nil:
		return d.err
	case ranks+files != uint64(count) || len(d.rest) > 0:
		return fmt.Errorf("%d entries announced, %d found, %d bytes left", count, ranks+files, len(d.rest))
	}
	return nil
}

func (r *reader) end(p []byte) error {
	if len(p) != endPayload {
		return fmt.Errorf("%d bytes where %d should be", len(p), endPayload)
	}
	want := [...]int64{r.events, int64(len(r.ranks)), int64(len(r.files))}
	for i, what := range [...]string{"events", "ranks", "files"} {
		if n := binary.LittleEndian.Uint64(p[8*i:]); n != uint64(want[i]) {
			return fmt.Errorf("the end mark counts %d %s, the file has %d", n, what, want[i])
		}
	}
	at := r.off
	if n, _ := io.ReadFull(r.r, make([]byte, 1)); n != 0 {
		return &FormatError{Offset: at, Reason: "bytes follow the end mark"}
	}
	r.done = true
	return nil
}

// fill reads all of b, or returns an error.
func (r *reader) fill(b []byte, what string) error {
	n, err := io.ReadFull(r.r, b)
	at := r.off
	r.off += int64(n)
	switch {
	case err == io.EOF && at == 0:
		return &FormatError{Reason: "the file is empty", Err: ErrTruncated}
	case err == io.EOF || err == io.ErrUnexpectedEOF:
		if at == 0 && !strings.HasPrefix(magic, string(b[:min(n, len(magic))])) {
			return WrongFormat(b[:n], FormatEvents)
		}
		return &FormatError{Offset: r.off, Reason: "the file ends in or before " + what, Err: ErrTruncated}
	}
	return err
}

func (r *reader) bad(b block, format string, args ...any) error {
	for _, a := range args {
		if fe, ok := a.(*FormatError); ok {
			return fe
		}
	}
	return &FormatError{Offset: b.at, Reason: fmt.Sprintf(format, args...)}
}

func (d *decoder) string() string {
	n := d.uvarint()
	if n > uint64(len(d.rest)) {
		d.fail(errShort)
		return ""
	}
	s := string(d.rest[:n])
	d.rest = d.rest[n:]
	return s
}

// Import reads an events file with Options. With Lenient it returns the events of the
// whole blocks in front of the first damaged or missing one.
func Import(r io.Reader, o Options) (*Trace, *Report, error) {
	rep := &Report{}
	x, err := newReader(r)
	if err != nil {
		return nil, rep, err
	}
	t := &Trace{Job: x.meta.Job, Source: x.meta.Source, Origin: x.meta.Origin, Events: make([]Event, 0, o.Events)}
	for err == nil {
		t.Events, err = x.next(t.Events)
	}
	if err != io.EOF {
		var fe *FormatError
		if !o.Lenient || !errors.As(err, &fe) {
			return nil, rep, err
		}
		rep.Cut = err
	}
	t.Ranks, t.Files = x.ranks, x.files
	if err := t.validTables(); err != nil {
		return nil, rep, &FormatError{Offset: headerSize, Reason: err.Error()}
	}
	t.Sort()
	return t, rep, nil
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
	if n, err := f.ReadAt(b[:], fi.Size()-int64(len(b))); n < len(b) || err != nil && err != io.EOF {
		return 0
	}
	n := binary.LittleEndian.Uint64(b[blockHeader:])
	if string(b[:4]) != kindEnd || blockSum(b[:12], b[blockHeader:]) != binary.LittleEndian.Uint32(b[12:]) || n > uint64(fi.Size())/minEvent {
		return 0
	}
	return int(n)
}
