package channel

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
)

// A State is the part of an endpoint that a checkpoint of its rank holds. The messages that are
// delivered and that the application has not received are not in it: they are in the inbox, whose
// content has to be saved with it, at the same moment.
type State struct {
	Kind       Kind
	Rank, Size int
	Vector     Vector
	Replay     []Determinant // to follow, by number
	Kept       [][]Message   // by rank
}

// A Determinant says which message a receive from any source got. A rank that was still replaying
// when it took its checkpoint has some to follow after it.
type Determinant struct {
	Number uint64 // of the receive
	Source int
	Seq    uint64 // 0: not known
}

// Snapshot returns the state. It stays as it is while the endpoint goes on. The frames with
// indices up to Durable at the same moment are not needed to restore it; those behind are.
//
// With Optimistic the checkpoint must not be committed before the log is durable up to what
// Appended says at this moment. Otherwise frames that it covers may be lost, and a rank that has
// to go back to an earlier checkpoint finds a log with a hole, whose messages are not kept any
// more.
func (e *Endpoint) Snapshot() *State {
	st := &State{Kind: e.cfg.Kind, Rank: e.cfg.Rank, Size: e.cfg.Size, Vector: e.Vector(), Replay: slices.Clone(e.replay), Kept: make([][]Message, e.cfg.Size)}
	if e.cfg.Kind == None {
		return st // a line without messages in transit does without
	}
	for r := range e.peers {
		st.Kept[r] = slices.Clone(e.peers[r].kept)
	}
	return st
}

const (
	stateMagic       = "CKPTCHN\x01" // the last byte is the version
	stateHead        = 40
	perRank          = 24
	determinantBytes = 24
	keptHead         = 40
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Encode returns the state as drawn in the package comment.
func (st *State) Encode() []byte {
	size, kept := stateHead+st.Size*perRank+8+len(st.Replay)*determinantBytes+8+4, 0
	for _, msgs := range st.Kept {
		kept += len(msgs)
		for _, m := range msgs {
			size += keptHead + 8*len(m.Depends) + len(m.Data)
		}
	}
	le := binary.LittleEndian
	b := append(make([]byte, 0, size), stateMagic...)
	b = le.AppendUint32(b, uint32(st.Kind))
	b = le.AppendUint32(b, uint32(st.Size))
	b = le.AppendUint32(b, uint32(st.Rank))
	b = le.AppendUint32(b, 0)
	b = le.AppendUint64(b, st.Vector.Matches)
	b = le.AppendUint64(b, st.Vector.Outputs)
	b = AppendNumbers(b, st.Vector.Sent)
	b = AppendNumbers(b, st.Vector.Received)
	b = AppendNumbers(b, st.Vector.Depends)
	b = le.AppendUint64(b, uint64(len(st.Replay)))
	for _, d := range st.Replay {
		b = le.AppendUint64(b, d.Number)
		b = le.AppendUint64(b, d.Seq)
		b = le.AppendUint32(b, uint32(d.Source))
		b = le.AppendUint32(b, 0)
	}
	b = le.AppendUint64(b, uint64(kept))
	for dst, msgs := range st.Kept {
		for _, m := range msgs {
			b = le.AppendUint32(b, uint32(dst))
			b = le.AppendUint32(b, uint32(m.Tag))
			b = le.AppendUint64(b, uint64(m.Context))
			b = le.AppendUint64(b, m.Seq)
			b = le.AppendUint64(b, uint64(len(m.Depends)))
			b = le.AppendUint64(b, uint64(len(m.Data)))
			b = AppendNumbers(b, m.Depends)
			b = append(b, m.Data...)
		}
	}
	return le.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// Numbers decodes what AppendNumbers wrote.
func Numbers(b []byte) []uint64 {
	r := reader{b}
	return r.numbers(len(b) / 8)
}

// reader takes numbers off the front of bytes, whose length has been checked.
type reader struct{ b []byte }

func (r *reader) u32() uint32 {
	x := binary.LittleEndian.Uint32(r.b)
	r.b = r.b[4:]
	return x
}

func (r *reader) u64() uint64 {
	x := binary.LittleEndian.Uint64(r.b)
	r.b = r.b[8:]
	return x
}

func (r *reader) numbers(n int) []uint64 {
	if n == 0 {
		return nil
	}
	x := make([]uint64, n)
	for i := range x {
		x[i] = r.u64()
	}
	return x
}

// AppendNumbers appends numbers, 8 bytes each.
func AppendNumbers(b []byte, numbers []uint64) []byte {
	for _, n := range numbers {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	return b
}

// Decode reads what Encode wrote. Errors are ErrCorrupt. The state has copies of its messages.
func Decode(b []byte) (*State, error) {
	fail := func(format string, args ...any) (*State, error) {
		return nil, fmt.Errorf("state of channels: %w: "+format, append([]any{ErrCorrupt}, args...)...)
	}
	if len(b) < stateHead+8+8+4 || string(b[:8]) != stateMagic {
		return fail("no such header")
	}
	body := b[:len(b)-4]
	if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(b[len(b)-4:]) {
		return fail("the checksum is wrong")
	}
	r := reader{body[8:]}
	kind, size, rank, zero := r.u32(), r.u32(), r.u32(), r.u32()
	switch {
	case kind > math.MaxUint8 || !Kind(kind).Valid() || zero != 0:
		return fail("kind %d is unknown", kind)
	case size == 0 || size > math.MaxInt32 || rank >= size:
		return fail("there is no rank %d of %d", rank, size)
	case uint64(len(r.b)) < 8+8+uint64(size)*perRank+8:
		return fail("%d bytes for %d ranks", len(b), size)
	}
	st := &State{Kind: Kind(kind), Size: int(size), Rank: int(rank), Kept: make([][]Message, size)}
	v := &st.Vector
	v.Matches, v.Outputs = r.u64(), r.u64()
	v.Sent, v.Received, v.Depends = r.numbers(int(size)), r.numbers(int(size)), r.numbers(int(size))
	n := r.u64()
	if n > uint64(len(r.b))/determinantBytes || uint64(len(r.b))-n*determinantBytes < 8 {
		return fail("%d determinants in %d bytes", n, len(r.b))
	}
	last := v.Matches
	for range n {
		d := Determinant{Number: r.u64(), Seq: r.u64()}
		source, zero := r.u32(), r.u32()
		if d.Number <= last || source >= size || zero != 0 {
			return fail("determinant %d after %d, of rank %d", d.Number, last, source)
		}
		d.Source, last = int(source), d.Number
		st.Replay = append(st.Replay, d)
	}
	n = r.u64()
	if n > uint64(len(r.b))/keptHead {
		return fail("%d messages in %d bytes", n, len(r.b))
	}
	to := uint32(0)
	for i := range n {
		if len(r.b) < keptHead {
			return fail("message %d ends early", i)
		}
		dst, tag, ctx := r.u32(), r.u32(), r.u64()
		m := Message{Tag: int32(tag), Context: uint8(ctx), Seq: r.u64()}
		depends, bytes := r.u64(), r.u64()
		switch {
		case dst >= size || dst < to || dst == rank:
			return fail("message %d is to rank %d of %d", i, dst, size)
		case tag > math.MaxInt32 || ctx > math.MaxUint8:
			return fail("message %d has a bad envelope", i)
		case depends != 0 && depends != uint64(size) || 8*depends > uint64(len(r.b)) || bytes > uint64(len(r.b))-8*depends:
			return fail("message %d has %d bytes and depends on %d ranks", i, bytes, depends)
		}
		m.Depends = r.numbers(int(depends))
		to = dst
		kept := st.Kept[dst]
		if m.Seq == 0 || m.Seq > v.Sent[dst] || len(kept) > 0 && m.Seq != kept[len(kept)-1].Seq+1 {
			return fail("message %d is number %d of %d", i, m.Seq, v.Sent[dst])
		}
		m.Data = slices.Clone(r.b[:bytes])
		r.b = r.b[bytes:]
		st.Kept[dst] = append(kept, m)
	}
	if len(r.b) != 0 {
		return fail("%d bytes follow the last message", len(r.b))
	}
	for dst, kept := range st.Kept {
		if len(kept) > 0 && kept[len(kept)-1].Seq != v.Sent[dst] {
			return fail("messages to rank %d are kept up to %d of %d", dst, kept[len(kept)-1].Seq, v.Sent[dst])
		}
	}
	return st, nil
}
