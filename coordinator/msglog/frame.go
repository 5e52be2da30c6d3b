package msglog

import (
	"encoding/binary"
	"fmt"
	"math"

	"ckpt/coordinator/protocol/channel"
	"ckpt/internal/durable"
)

// An LSN is the number of a frame in its log, from 1. An LSN is not used twice while a log is
// open, even if its frame is lost.
type LSN = uint64

// MaxPayload is the longest payload in bytes, as of a message of MPI.
const MaxPayload = math.MaxInt32

const (
	frameHead     = 56
	anySourceFlag = 1
	lastContext   = 1
	lastKind      = 4
	cutSeq        = math.MaxUint64 // of a mark that is a cut
)

func check(f *channel.Frame) error {
	switch n := payloadSize(f); {
	case f.Kind < channel.Received || f.Kind > channel.Cut:
		return fmt.Errorf("kind %d of a frame is unknown", f.Kind)
	case f.Peer < -1 || f.Peer > math.MaxInt32:
		return fmt.Errorf("peer %d of a frame is no rank", f.Peer)
	case f.Message.Context > lastContext:
		return fmt.Errorf("context %d of a frame is unknown", f.Message.Context)
	case f.Message.Tag < 0:
		return fmt.Errorf("tag %d of a frame is out of range", f.Message.Tag)
	case n > MaxPayload:
		return fmt.Errorf("payload of %d bytes is longer than %d", n, MaxPayload)
	}
	return nil
}

func payloadSize(f *channel.Frame) int { return 8*len(f.Message.Depends) + len(f.Message.Data) }

func payloadCRC(f *channel.Frame) uint32 {
	depends := durable.Sum(channel.AppendNumbers(nil, f.Message.Depends))
	return durable.AddSum(depends, f.Message.Data)
}

// A head is a frame as it is read. Its message has no data yet.
type head struct {
	channel.Frame // of kind 0 if this version does not write it
	order         uint64
	payload       int    // bytes
	payloadCRC    uint32 // of the payload
	lsn           LSN
	durableUpTo   int64 // offset in the segment
}

// padded is the room that a payload takes.
func padded(n int) int64 { return (int64(n) + 7) &^ 7 }

// size is the length of the whole frame.
func (h *head) size() int64 { return frameHead + padded(h.payload) }

// appendFrame appends a frame to a group. Fields that depend on its segment are left to seal.
func appendFrame(b []byte, f *channel.Frame, lsn LSN, payloadCRC uint32) []byte {
	le, m := binary.LittleEndian, &f.Message
	seq, order, flags := m.Seq, uint64(len(m.Depends)), byte(0)
	switch f.Kind {
	case channel.Determined:
		order, flags = f.Number, anySourceFlag
	case channel.Cut:
		seq = cutSeq
	}
	n := payloadSize(f)
	b = append(b, 0, 0, 0, 0)
	b = le.AppendUint32(b, payloadCRC)
	b = le.AppendUint64(b, lsn)
	b = append(b, 0, 0, 0, 0, 0, 0, 0, 0)
	b = le.AppendUint64(b, seq)
	b = le.AppendUint64(b, order)
	b = le.AppendUint32(b, uint32(n))
	b = le.AppendUint32(b, uint32(f.Peer))
	b = le.AppendUint32(b, uint32(m.Tag))
	b = append(b, byte(f.Kind), flags, m.Context, 0)
	b = channel.AppendNumbers(b, m.Depends)
	b = append(b, m.Data...)
	return append(b, make([]byte, padded(n)-int64(n))...)
}

// seal makes a group of frames fit for its place in a segment.
func seal(group []byte, offset int64, salt uint32) {
	le := binary.LittleEndian
	for len(group) > 0 {
		le.PutUint64(group[16:], uint64(offset))
		le.PutUint32(group, headCRC(group, salt))
		group = group[frameHead+padded(int(le.Uint32(group[40:]))):]
	}
}

func headCRC(b []byte, salt uint32) uint32 {
	return durable.AddSum(salt, b[4:frameHead])
}

const badChecksum = "checksum of the frame's head does not match"

// decodeHead reads a head, whose checksum it checks, and which has exactly one encoding. The
// caller looks for the payload.
func decodeHead(b []byte, salt uint32) (head, string) {
	le := binary.LittleEndian
	if le.Uint32(b) != headCRC(b, salt) {
		return head{}, badChecksum
	}
	h := head{
		Frame: channel.Frame{
			Kind:    channel.FrameKind(b[52]),
			Peer:    int(int32(le.Uint32(b[44:]))),
			Message: channel.Message{Context: b[54], Tag: int32(le.Uint32(b[48:])), Seq: le.Uint64(b[24:])},
		},
		order:      le.Uint64(b[32:]),
		payloadCRC: le.Uint32(b[4:]),
		lsn:        le.Uint64(b[8:]),
	}
	length, durable := le.Uint32(b[40:]), le.Uint64(b[16:])
	switch {
	case h.Kind == lastKind, h.Kind == channel.Cut && h.Message.Seq != cutSeq:
		h.Kind = 0
	case h.Kind == channel.Cut:
		h.Message.Seq = 0
	}
	if err := check(&h.Frame); err != nil && h.Kind != 0 {
		return h, err.Error()
	}
	if length > MaxPayload || durable > math.MaxInt64 || b[53]&^anySourceFlag != 0 || b[55] != 0 || h.Kind == channel.Received && h.order > uint64(length)/8 {
		return h, "field of the frame's head is out of range"
	}
	h.payload, h.durableUpTo = int(length), int64(durable)
	return h, ""
}

func (h *head) fill(payload []byte) {
	switch h.Kind {
	case channel.Received:
		h.Message.Depends = channel.Numbers(payload[:8*h.order])
		h.Message.Data = payload[8*h.order:]
	case channel.Determined:
		h.Number = h.order
	case channel.Cut:
		h.Message.Data = payload
	}
}
