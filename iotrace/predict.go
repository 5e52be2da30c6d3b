package iotrace

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

// observe updates the predictor with an event of stream n.
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
