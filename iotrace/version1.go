package iotrace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"time"
)

// Version 1 of the events file had headers of 16 bytes and larger blocks, and each name
// once, so that nothing behind damage could be read:
//
//	 0  char[4]  HEAD, TABL, EVNT or ENDS
//	 4  u32      length of the payload, at most 1 MiB
//	 8  u32      count: the entries of a table, or the events; else 0
//	12  u32      CRC-32C of the 12 bytes in front and the payload
//
// HEAD ended with the unit of all times instead of the run time. TABL added ranks and
// then files to the tables, each with their number in front. EVNT had no unit, and ENDS
// counted events, ranks and files.
const (
	version1     = 1
	blockHeader1 = 16
	endPayload1  = 24
	kindTables1  = "TABL"
)

// A reader1 reads an events file of version 1 block by block.
type reader1 struct {
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

// newReader1 reads the head of a file, behind the file header.
func newReader1(r io.Reader) (*reader1, error) {
	x := &reader1{r: r, off: headerSize, dec: decoder{predictor: newPredictor()}}
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
func (r *reader1) next(dst []Event) ([]Event, error) {
	for !r.done {
		b, err := r.block()
		if err != nil {
			return dst, err
		}
		switch b.kind {
		case kindTables1:
			err = r.tables(b.payload, b.count)
		case kindEvents:
			n := len(dst)
			dst, err = r.dec.events(dst, b.payload, b.count, len(r.ranks), len(r.files))
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

func blockSum1(head, payload []byte) uint32 {
	return crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, payload)
}

// block reads a block and checks its sum.
func (r *reader1) block() (block, error) {
	b := block{at: r.off}
	var head [blockHeader1]byte
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
	if blockSum1(head[:12], b.payload) != binary.LittleEndian.Uint32(head[12:]) {
		return b, r.bad(b, "checksum of block %q does not match", b.kind)
	}
	b.count = int(count)
	return b, nil
}

func (r *reader1) head(p []byte) error {
	d := decoder{rest: p}
	r.meta.Job, r.meta.Source = d.string(), d.string()
	var err error
	if r.meta.Origin, err = d.origin(); err != nil {
		return err
	}
	r.meta.Tick = time.Duration(d.unit())
	r.dec.tick = int64(r.meta.Tick)
	if d.err == nil && len(d.rest) > 0 {
		return fmt.Errorf("%d bytes too many", len(d.rest))
	}
	if d.err == nil {
		d.err = validOrigin(r.meta.Origin)
	}
	return d.err
}

func (r *reader1) tables(p []byte, count int) error {
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

func (r *reader1) end(p []byte) error {
	if len(p) != endPayload1 {
		return fmt.Errorf("%d bytes where %d should be", len(p), endPayload1)
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
func (r *reader1) fill(b []byte, what string) error {
	n, err := io.ReadFull(r.r, b)
	r.off += int64(n)
	switch {
	case err == io.EOF || err == io.ErrUnexpectedEOF:
		return &FormatError{Offset: r.off, Reason: "the file ends in or before " + what, Err: ErrTruncated}
	}
	return err
}

func (r *reader1) bad(b block, format string, args ...any) error {
	for _, a := range args {
		if fe, ok := a.(*FormatError); ok {
			return fe
		}
	}
	return &FormatError{Offset: b.at, Reason: fmt.Sprintf(format, args...)}
}

// import1 is Import for version 1.
func import1(r io.Reader, o Options, rep *Report) (*Trace, error) {
	x, err := newReader1(r)
	if err != nil {
		return nil, err
	}
	t := &Trace{Job: x.meta.Job, Source: x.meta.Source, Origin: x.meta.Origin, Events: make([]Event, 0, o.Events)}
	for err == nil {
		t.Events, err = x.next(t.Events)
	}
	if err != io.EOF {
		var fe *FormatError
		if !o.Lenient || !errors.As(err, &fe) {
			return nil, err
		}
		rep.Cut = err
		t.Warnings = append(t.Warnings, Warning{Code: warnCut, Text: cutText})
	}
	t.Ranks, t.Files = x.ranks, x.files
	return t, nil
}
