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

// The flags of a kind; see the package comment.
const (
	flagSame     = 1 << 0
	offsetMask   = 3 << 1
	offsetGiven  = 0 << 1
	offsetFollow = 1 << 1
	offsetStride = 2 << 1
	offsetNone   = 3 << 1
	flagGap      = 1 << 3
	flagRound    = 1 << 4
	flagPeer     = 1 << 5
	flagStay     = 1 << 6
	allFlags     = 1<<7 - 1
)

// A kind is an operation with the flags that tell which fields are written.
type kind struct {
	op     Op
	module Module
	zone   Zone
	create bool
	flags  byte
}

// A streamID names a stream: the operations of a rank on a file for a checkpoint.
type streamID struct{ rank, file, checkpoint int32 }

// A stream is the state of one stream after its last event.
type stream struct {
	streamID
	progress            int32 // of its rank
	offset, end, stride int64
	bytes               [opEnd]int64 // of the last event of each operation
}

// progress is the state of a rank after its last event.
type progress struct {
	end         int64 // of its last event
	round, peer int32
}

// A predictor guesses events from earlier events of the block. Writer and reader feed
// the same events to equal predictors.
type predictor struct {
	start   int64 // of the last event
	last    int32 // its stream; meaningless in front of the first
	streams []stream
	ranks   []progress
	rankOf  map[int32]int32 // index in ranks
}

func newPredictor() predictor { return predictor{rankOf: make(map[int32]int32)} }

// reset forgets all events, for the next block.
func (p *predictor) reset() {
	p.start, p.last = 0, -1
	p.streams, p.ranks = p.streams[:0], p.ranks[:0]
	clear(p.rankOf)
}

// addStream adds a new stream and returns its index.
func (p *predictor) addStream(id streamID) int32 {
	r, ok := p.rankOf[id.rank]
	if !ok {
		r = int32(len(p.ranks))
		p.rankOf[id.rank] = r
		p.ranks = append(p.ranks, progress{})
	}
	p.streams = append(p.streams, stream{streamID: id, progress: r})
	return int32(len(p.streams) - 1)
}

// lastStream returns the ID that a new stream's ID is compared with.
func (p *predictor) lastStream() streamID {
	if n := len(p.streams); n > 0 {
		return p.streams[n-1].streamID
	}
	return streamID{}
}

func (p *predictor) observe(n int32, e *Event) {
	p.start, p.last = e.Start, n
	s := &p.streams[n]
	s.bytes[e.Op] = e.Bytes
	r := &p.ranks[s.progress]
	r.end, r.round = e.End, e.Round
	if e.Peer != None {
		r.peer = e.Peer
	}
	if e.Offset < 0 {
		return
	}
	s.stride = e.Offset - s.offset
	s.offset = e.Offset
	switch e.Op {
	case Read, Write:
		s.end = e.Offset + e.Bytes
	case Seek:
		s.end = e.Offset
	}
}
