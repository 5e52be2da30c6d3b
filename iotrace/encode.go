package iotrace

import (
	"encoding/binary"
	"math/bits"
)

// An encoder turns events into the payload of a block.
type encoder struct {
	predictor
	tick  int64  // unit of times, ns
	buf   []byte // a block, beginning with room for its header
	count int

	kinds    map[kind]int32 // their numbers, from 1
	streamOf map[streamID]int32
}

func newEncoder(tick int64) *encoder {
	x := &encoder{
		predictor: newPredictor(),
		tick:      tick,
		buf:       make([]byte, 0, blockTarget+1024),
		kinds:     make(map[kind]int32),
		streamOf:  make(map[streamID]int32),
	}
	x.reset()
	return x
}

func (x *encoder) reset() {
	x.predictor.reset()
	x.buf = binary.AppendUvarint(x.buf[:blockHeader], uint64(x.tick))
	x.count = 0
	clear(x.kinds)
	clear(x.streamOf)
}

func (x *encoder) full() bool { return len(x.buf) >= blockTarget }

// add appends an event, which must be valid.
func (x *encoder) add(e *Event) {
	id := streamID{e.Rank, e.File, e.Checkpoint}
	at, seen := x.last, x.last >= 0 && x.streams[x.last].streamID == id
	stay := seen
	if !seen {
		at, seen = x.streamOf[id]
	}
	before := x.lastStream()
	if !seen {
		at = x.addStream(id)
		x.streamOf[id] = at
	}
	k := kind{e.Op, e.Module, e.Zone, e.Create, x.flagsOf(at, e)}
	if stay {
		k.flags |= flagStay
	}
	b := x.buf
	if n := x.kinds[k]; n != 0 {
		b = binary.AppendUvarint(b, uint64(n))
	} else {
		x.kinds[k] = int32(len(x.kinds) + 1)
		module := byte(k.module) << 1
		if k.create {
			module |= 1
		}
		b = append(b, 0, byte(k.op), module, byte(k.zone), k.flags)
	}
	switch {
	case stay:
	case seen:
		b = binary.AppendUvarint(b, uint64(at)+1)
	default:
		b = append(b, 0)
		b = binary.AppendVarint(b, int64(id.rank)-int64(before.rank))
		b = binary.AppendVarint(b, int64(id.file)-int64(before.file))
		b = binary.AppendVarint(b, int64(id.checkpoint)-int64(before.checkpoint))
	}
	s := &x.streams[at]
	r := &x.ranks[s.progress]
	if k.flags&flagPeer != 0 {
		b = binary.AppendVarint(b, int64(e.Peer)-int64(r.peer))
	}
	if k.flags&flagRound != 0 {
		b = binary.AppendVarint(b, int64(e.Round)-int64(r.round))
	}
	if k.flags&offsetMask == offsetGiven {
		b = binary.AppendVarint(b, e.Offset-s.end)
	}
	if k.flags&flagSame == 0 {
		b = binary.AppendUvarint(b, uint64(e.Bytes))
	}
	from := x.start
	if k.flags&flagGap != 0 {
		from = r.end
	}
	b = binary.AppendVarint(b, e.Start-from)
	b = binary.AppendUvarint(b, uint64(e.End-e.Start))
	x.buf = b
	x.count++
	x.observe(at, e)
}

// flagsOf returns the flags for the fields of an event of stream n that need not be
// written.
func (x *encoder) flagsOf(n int32, e *Event) (flags byte) {
	s := &x.streams[n]
	r := &x.ranks[s.progress]
	if e.Bytes == s.bytes[e.Op] {
		flags |= flagSame
	}
	switch e.Offset {
	case None:
		flags |= offsetNone
	case s.end:
		flags |= offsetFollow
	case s.offset + s.stride:
		flags |= offsetStride
	}
	if varintLen(e.Start-r.end) < varintLen(e.Start-x.start) {
		flags |= flagGap
	}
	if e.Round != r.round {
		flags |= flagRound
	}
	if e.Peer != None {
		flags |= flagPeer
	}
	return flags
}

// varintLen is the length of a signed number as written.
func varintLen(n int64) int {
	return (bits.Len64(uint64(n)<<1^uint64(n>>63)|1) + 6) / 7
}
