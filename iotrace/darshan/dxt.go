package darshan

import (
	"encoding/binary"
	"io"
	"math"

	"ckpt/iotrace"
)

const (
	recordBytes  = 104 // of the head of a record of DXT
	segmentBytes = 32
	threadBytes  = 8 // more of a segment with a thread
)

// readDXT reads the segments of a module.
func (l *reading) readDXT(g *region, m iotrace.Module, threads, noOffset bool) error {
	length := segmentBytes
	if threads {
		length += threadBytes
	}
	order := l.head.order
	var head [recordBytes]byte
	segment := make([]byte, length)
	for {
		if err := g.fill(head[:]); err != nil {
			if err == io.EOF {
				return nil
			}
			return err
		}
		rank, err := l.rank(int64(order.Uint64(head[8:])), g.at())
		if err != nil {
			return err
		}
		l.host(rank, untilZero(head[24:88]))
		writes, reads := int64(order.Uint64(head[88:])), int64(order.Uint64(head[96:]))
		if writes < 0 || reads < 0 {
			return damaged(g.at(), "a record of DXT has %d writes and %d reads", writes, reads)
		}
		e := iotrace.Event{Op: iotrace.Write, Module: m, Rank: rank, File: l.file(order.Uint64(head[:])), Peer: iotrace.None}
		for range writes {
			if err := l.segment(g, segment, e, noOffset); err != nil {
				return err
			}
		}
		e.Op = iotrace.Read
		for range reads {
			if err := l.segment(g, segment, e, noOffset); err != nil {
				return err
			}
		}
	}
}

// host tells on which node a rank ran.
func (l *reading) host(rank int32, name string) {
	if rank == iotrace.None || name == "" || l.t.Ranks[rank].Node != "" {
		return
	}
	l.tables.Rename(rank, iotrace.Rank{Rank: l.t.Ranks[rank].Rank, Node: name})
}

// segment reads a segment and appends e with its numbers.
func (l *reading) segment(g *region, b []byte, e iotrace.Event, noOffset bool) error {
	if err := g.rest(b); err != nil {
		return err
	}
	e.Offset, e.Bytes = int64(l.head.order.Uint64(b)), int64(l.head.order.Uint64(b[8:]))
	if noOffset {
		e.Offset = iotrace.None
	}
	var ok1, ok2 bool
	e.Start, ok1 = nanoseconds(seconds(l.head.order, b[16:]))
	e.End, ok2 = nanoseconds(seconds(l.head.order, b[24:]))
	if e.End < e.Start { // clocks may be set back
		l.oddTimes.add(e.File, e.Bytes)
		e.End = e.Start
	}
	err := e.Check(len(l.t.Ranks), len(l.t.Files))
	if err == nil && ok1 && ok2 && e.Start >= 0 && (e.Offset >= 0 || e.Module == iotrace.MPIIO) {
		l.t.Events = append(l.t.Events, e)
		return nil
	}
	if l.o.Strict {
		return damaged(g.at(), "a segment with offset %d, length %d and times %d to %d ns", e.Offset, e.Bytes, e.Start, e.End)
	}
	l.odd.add(e.File, e.Bytes)
	return nil
}

func seconds(order binary.ByteOrder, b []byte) float64 {
	return math.Float64frombits(order.Uint64(b))
}
