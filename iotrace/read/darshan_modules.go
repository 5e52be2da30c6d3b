package read

import (
	"encoding/binary"
	"io"
	"math"

	"ckpt/iotrace"
)

const componentBytes = 72

// A component is a part of a file's layout.
type component struct{ size, count, start, end int64 }

// readLustre reads how files are striped. Ranks that use the same file have a record
// each; one is enough.
func (l *reading) readLustre(g *region, version uint32) error {
	seen := make(map[int32]bool)
	for {
		var head [8 * 7]byte
		fixed := head[:]
		if version > 1 {
			fixed = head[:8*4]
		}
		if err := g.fill(fixed); err != nil {
			if err == io.EOF {
				return nil
			}
			return err
		}
		var n [7]int64
		for i := range len(fixed) / 8 {
			n[i] = int64(l.head.order.Uint64(fixed[8*i:]))
		}
		parts := []component{{n[5], n[6], 0, iotrace.None}}
		targets := n[6]
		if version > 1 {
			var err error
			if parts, err = l.components(g, n[2]); err != nil {
				return err
			}
			if targets = n[3]; n[2] < 1 { // Darshan writes no target then
				targets = 0
			}
		}
		osts, err := l.targets(g, targets)
		if err != nil {
			return err
		}
		if file := l.file(uint64(n[0])); !seen[file] {
			seen[file] = true
			l.stripes(file, parts, osts)
		}
	}
}

func (l *reading) components(g *region, n int64) (parts []component, err error) {
	if n < 0 {
		return nil, damaged(g.at(), "a record of LUSTRE has %d components", n)
	}
	var b [componentBytes]byte
	for ; n > 0; n-- {
		if err := g.rest(b[:]); err != nil {
			return nil, err
		}
		get := func(i int) int64 { return int64(l.head.order.Uint64(b[8*i:])) }
		parts = append(parts, component{get(0), get(1), get(4), get(5)})
	}
	return parts, nil
}

func (l *reading) targets(g *region, n int64) (osts []int64, err error) {
	if n < 0 {
		return nil, damaged(g.at(), "a record of LUSTRE has %d stripes", n)
	}
	var b [8]byte
	for ; n > 0; n-- {
		if err := g.rest(b[:]); err != nil {
			return nil, err
		}
		osts = append(osts, int64(l.head.order.Uint64(b[:])))
	}
	return osts, nil
}

// stripes keeps the layout of a file. A component whose size is not positive, or that
// has no stripe, is not in use.
func (l *reading) stripes(file int32, parts []component, osts []int64) {
	for _, p := range parts {
		if p.size == -1 { // nor are those behind it
			return
		}
		n := min(max(p.count, 0), int64(len(osts)), math.MaxInt32)
		s := iotrace.Striping{File: file, Size: p.size, Count: int32(n), OSTs: osts[:n:n], Start: p.start, End: p.end}
		osts = osts[n:]
		if p.size > 0 && n > 0 && p.start >= 0 && (p.end == iotrace.None || p.end > p.start) {
			l.t.Striping = append(l.t.Striping, s)
		}
	}
}

const (
	recordBytes  = 104 // of the head of a record of DXT
	segmentBytes = 32
	threadBytes  = 8 // more of a segment with a thread
)

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

func (l *reading) host(rank int32, name string) {
	if rank == iotrace.None || name == "" || l.t.Ranks[rank].Node != "" {
		return
	}
	l.tables.Rename(rank, iotrace.Rank{Rank: l.t.Ranks[rank].Rank, Node: name})
}

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
