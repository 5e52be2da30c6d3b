package iotrace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"time"
)

// A decoder turns the payload of a block into events.
type decoder struct {
	predictor
	tick  int64 // ns
	kinds []kind
	rest  []byte
	err   error
}

var (
	errShort = errors.New("the block ends in the middle of an event")
	errRange = errors.New("a number is out of range")
)

// block appends the count events of a block to dst. ranks and files are the lengths of
// the tables.
func (d *decoder) block(dst []Event, payload []byte, count, ranks, files int) ([]Event, error) {
	d.rest, d.err = payload, nil
	if d.tick = d.unit(); d.err != nil {
		return dst, fmt.Errorf("the unit of times: %w", d.err)
	}
	return d.events(dst, d.rest, count, ranks, files)
}

// unit reads the unit of times, in ns.
func (d *decoder) unit() int64 {
	tick := d.uvarint()
	if d.err == nil && (tick == 0 || tick > uint64(time.Second)) {
		d.fail(errRange)
	}
	return int64(tick)
}

// origin reads when a trace began: the zero time if that is not known.
func (d *decoder) origin() (time.Time, error) {
	switch d.byte() {
	case 0:
		return time.Time{}, nil
	case 1:
		if sec, nsec := d.sum(0), d.uvarint(); nsec < 1e9 {
			return time.Unix(sec, int64(nsec)).UTC(), nil
		}
	}
	return time.Time{}, errRange
}

// events is block behind the unit.
func (d *decoder) events(dst []Event, payload []byte, count, ranks, files int) ([]Event, error) {
	d.reset()
	d.kinds, d.rest, d.err = d.kinds[:0], payload, nil
	for i := range count {
		dst = append(dst, Event{})
		e := &dst[len(dst)-1]
		d.next(e)
		err := d.err
		if err == nil && d.tick > 1 {
			// Where this overflows, the times were out of range before.
			if limit := MaxTime / d.tick; e.Start < -limit || e.Start > limit || e.End > limit {
				err = errRange
			}
			e.Start, e.End = e.Start*d.tick, e.End*d.tick
		}
		if err == nil {
			err = e.Check(ranks, files)
		}
		if err != nil {
			return dst[:len(dst)-1], fmt.Errorf("event %d of the block: %w", i, err)
		}
	}
	if len(d.rest) != 0 {
		return dst, fmt.Errorf("%d bytes follow the last event of the block", len(d.rest))
	}
	return dst, nil
}

func (d *decoder) next(e *Event) {
	k := d.kind()
	at := d.last
	if k.flags&flagStay == 0 {
		at = d.stream()
	} else if at < 0 {
		d.fail(errors.New("the first event has no stream"))
	}
	if d.err != nil {
		return
	}
	s := &d.streams[at]
	r := &d.ranks[s.progress]
	*e = Event{Op: k.op, Module: k.module, Zone: k.zone, Create: k.create,
		Rank: s.rank, File: s.file, Peer: None, Checkpoint: s.checkpoint, Round: r.round, Bytes: s.bytes[k.op]}
	if k.flags&flagPeer != 0 {
		e.Peer = d.int32(r.peer)
	}
	if k.flags&flagRound != 0 {
		e.Round = d.int32(r.round)
	}
	switch k.flags & offsetMask {
	case offsetGiven:
		e.Offset = d.sum(s.end)
	case offsetFollow:
		e.Offset = s.end
	case offsetStride:
		e.Offset = s.offset + s.stride // Check finds what overflows
	case offsetNone:
		e.Offset = None
	}
	if k.flags&flagSame == 0 {
		n := d.uvarint()
		if n > math.MaxInt64 {
			d.fail(errRange)
		}
		e.Bytes = int64(n)
	}
	from := d.start
	if k.flags&flagGap != 0 {
		from = r.end
	}
	e.Start = d.sum(from)
	length := d.uvarint()
	if e.Start < -MaxTime || e.Start > MaxTime || length > 2*MaxTime {
		d.fail(errRange)
		return
	}
	e.End = e.Start + int64(length) // Check finds what overflows
	if d.err == nil {
		d.observe(at, e)
	}
}

// kind reads the kind of an event, which may be new.
func (d *decoder) kind() kind {
	n := d.uvarint()
	if n == 0 {
		k := kind{op: Op(d.byte())}
		module := d.byte()
		k.module, k.create = Module(module>>1), module&1 != 0
		k.zone, k.flags = Zone(d.byte()), d.byte()
		switch {
		case !k.op.Valid():
			d.fail(fmt.Errorf("%v is unknown", k.op))
		case k.flags > allFlags:
			d.fail(fmt.Errorf("flags %#x are unknown", k.flags))
		}
		d.kinds = append(d.kinds, k)
		return k
	}
	if n > uint64(len(d.kinds)) {
		d.fail(fmt.Errorf("kind %d of %d", n, len(d.kinds)))
		return kind{}
	}
	return d.kinds[n-1]
}

// stream reads the stream of an event, which may be new, and returns its index.
func (d *decoder) stream() int32 {
	n := d.uvarint()
	if n == 0 {
		before := d.lastStream()
		id := streamID{rank: d.int32(before.rank), file: d.int32(before.file), checkpoint: d.int32(before.checkpoint)}
		if d.err != nil {
			return 0
		}
		return d.addStream(id)
	}
	if n > uint64(len(d.streams)) {
		d.fail(fmt.Errorf("stream %d of %d", n, len(d.streams)))
		return 0
	}
	return int32(n - 1)
}

// After the first error, everything reads as zero.

func (d *decoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
	d.rest = nil
}

func (d *decoder) byte() byte {
	if len(d.rest) == 0 {
		d.fail(errShort)
		return 0
	}
	b := d.rest[0]
	d.rest = d.rest[1:]
	return b
}

func (d *decoder) uvarint() uint64 {
	if len(d.rest) > 0 && d.rest[0] < 0x80 {
		v := d.rest[0]
		d.rest = d.rest[1:]
		return uint64(v)
	}
	v, n := binary.Uvarint(d.rest)
	if n <= 0 {
		d.fail(errShort)
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

// sum reads a signed number and adds it.
func (d *decoder) sum(to int64) int64 {
	v := d.uvarint()
	n := int64(v>>1) ^ -int64(v&1)
	if s := to + n; (s > to) == (n > 0) {
		return s
	}
	d.fail(errRange)
	return 0
}

func (d *decoder) int32(to int32) int32 {
	s := d.sum(int64(to))
	if s < math.MinInt32 || s > math.MaxInt32 {
		d.fail(errRange)
		return 0
	}
	return int32(s)
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

// import1 is Import for version 1, behind the file header.
func import1(in *input, o Options, rep *Report) (*Trace, error) {
	r := &reader1{in: in, t: &Trace{Events: make([]Event, 0, o.Expected())}, each: o.Each, dec: decoder{predictor: newPredictor()}}
	var err error
	for err == nil {
		err = r.next()
	}
	if err != io.EOF {
		var fe *FormatError
		if !o.Lenient || !errors.As(err, &fe) || !r.headed {
			return nil, err
		}
		rep.Cut = err
		r.t.Warnings = append(r.t.Warnings, Warning{Code: warnCut, Text: cutText})
	}
	return r.t, nil
}

// A reader1 reads an events file of version 1 block by block.
type reader1 struct {
	in     *input
	t      *Trace
	dec    decoder
	each   func([]Event)
	gone   int // events that each had
	headed bool
}

func blockSum1(head, payload []byte) uint32 {
	return crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, payload)
}

// next reads a block. Behind the end mark the error is io.EOF.
func (r *reader1) next() error {
	at, head := r.in.off, r.in.peek(blockHeader1)
	if len(head) < blockHeader1 {
		return r.in.ended()
	}
	kind, sum := string(head[:4]), binary.LittleEndian.Uint32(head[12:])
	n, count := payloadLength(head), binary.LittleEndian.Uint32(head[8:])
	switch {
	case n > maxPayload:
		return bad(at, "block %q of %d bytes; the longest has %d", kind, n, maxPayload)
	case int(count) > n:
		return bad(at, "block %q of %d entries in %d bytes", kind, count, n)
	case r.headed == (kind == kindHead):
		return bad(at, "block %q where another should be", kind)
	}
	whole := r.in.peek(blockHeader1 + n)
	if len(whole) < blockHeader1+n {
		return r.in.ended()
	}
	if payload := whole[blockHeader1:]; blockSum1(whole[:12], payload) != sum {
		return bad(at, "checksum of block %q does not match", kind)
	}
	r.in.skip(len(whole))
	err := r.take(kind, whole[blockHeader1:], int(count))
	switch {
	case err == io.EOF && len(r.in.peek(1)) > 0:
		return bad(r.in.off, "bytes follow the end mark")
	case err != nil && err != io.EOF:
		return bad(at, "block %q: %v", kind, err)
	}
	return err
}

func (r *reader1) take(kind string, payload []byte, count int) (err error) {
	t, d := r.t, &decoder{rest: payload}
	switch kind {
	case kindEvents:
		kept := len(t.Events)
		if t.Events, err = r.dec.events(t.Events, payload, count, len(t.Ranks), len(t.Files)); err != nil {
			t.Events = t.Events[:kept]
		} else if r.each != nil {
			r.each(t.Events)
			r.gone += len(t.Events)
			t.Events = t.Events[:0]
		}
		return err
	case kindHead:
		t.Job, t.Source = d.string(), d.string()
		if t.Origin, err = d.origin(); err == nil {
			err = validOrigin(t.Origin)
		}
		r.dec.tick, r.headed = d.unit(), true
	case kindTables1: // each entry takes at least a byte, which bounds the counts
		for n := d.uvarint(); n > 0 && d.err == nil; n, count = n-1, count-1 {
			t.Ranks = append(t.Ranks, d.rank())
		}
		for n := d.uvarint(); n > 0 && d.err == nil; n, count = n-1, count-1 {
			t.Files = append(t.Files, d.string())
		}
		if count != 0 {
			err = errors.New("it has another number of entries")
		}
	case kindEnd:
		have := [3]uint64{uint64(r.gone + len(t.Events)), uint64(len(t.Ranks)), uint64(len(t.Files))}
		var counted [3]uint64
		if _, err = binary.Decode(payload, binary.LittleEndian, &counted); err != nil || len(payload) != endPayload1 || counted != have {
			return fmt.Errorf("the end mark counts %d events, ranks and files, the file has %d", counted, have)
		}
		return io.EOF
	default:
		return errors.New("this kind is unknown")
	}
	switch {
	case d.err != nil:
		return d.err
	case err == nil && len(d.rest) > 0:
		return fmt.Errorf("%d bytes too many", len(d.rest))
	}
	return err
}
