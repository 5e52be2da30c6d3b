package iotrace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
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

// import1 is Import for version 1, behind the file header.
func import1(in *input, o Options, rep *Report) (*Trace, error) {
	r := &reader1{in: in, t: &Trace{Events: make([]Event, 0, o.Events)}, dec: decoder{predictor: newPredictor()}}
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
		have := [3]uint64{uint64(len(t.Events)), uint64(len(t.Ranks)), uint64(len(t.Files))}
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
