package msglog

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
)

// An LSN is the number of a frame in its log, from 1. An LSN is not used twice
// while a log is open, even if its frame is lost.
type LSN uint64

// A Frame is an entry of the log.
type Frame struct {
	Kind Kind
	// Peer is the rank at the other end of the channel, −1 for none; Tag,
	// Context and Seq are those of the message, Seq being its number in the
	// channel. The Seq of a Mark is the number of the checkpoint, that of an
	// Output the number of the output.
	Peer    int32
	Tag     int32
	Context uint8
	Seq     uint64
	// Order is the place of the message among all that the rank has received:
	// with AnySource what makes the receipt reproducible.
	Order     uint64
	AnySource bool
	// Payload is the message, or what the caller wants to find again with a Mark
	// or an Output.
	Payload []byte
}

// Kind is a kind of Frame.
type Kind uint8

// The kinds of frames.
const (
	Message Kind = 1 // a message with its payload
	Order   Kind = 2 // the determinant of a receipt; the payload is elsewhere
	Mark    Kind = 3 // a checkpoint contains all before
	Output  Kind = 4 // something was put out to the world
)

func (k Kind) String() string {
	switch k {
	case Message:
		return "message"
	case Order:
		return "order"
	case Mark:
		return "mark"
	case Output:
		return "output"
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// MaxPayload is the longest payload in bytes, that of a message of MPI.
const MaxPayload = math.MaxInt32

const (
	frameHead     = 56
	anySourceFlag = 1
	lastContext   = 1
)

// castagnoli is CRC-32C, for which the processor has an instruction.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (f *Frame) check() error {
	switch {
	case f.Kind < Message || f.Kind > Output:
		return fmt.Errorf("kind %d of a frame is unknown", f.Kind)
	case f.Peer < -1:
		return fmt.Errorf("peer %d of a frame is no rank", f.Peer)
	case f.Context > lastContext:
		return fmt.Errorf("context %d of a frame is unknown", f.Context)
	case len(f.Payload) > MaxPayload:
		return fmt.Errorf("payload of %d bytes is longer than %d", len(f.Payload), MaxPayload)
	}
	return nil
}

// A head is what stands before a payload.
type head struct {
	Frame              // without its payload
	payload     int    // bytes
	payloadCRC  uint32 // of the payload
	lsn         LSN
	durableUpTo int64 // offset in the segment
}

// padded is the room that a payload takes.
func padded(n int) int64 { return (int64(n) + 7) &^ 7 }

// size is the length of the whole frame.
func (h *head) size() int64 { return frameHead + padded(h.payload) }

// appendFrame appends a frame to a group. What depends on the segment it will be
// in is left to seal.
func appendFrame(b []byte, f *Frame, lsn LSN, payloadCRC uint32) []byte {
	le := binary.LittleEndian
	flags := byte(0)
	if f.AnySource {
		flags |= anySourceFlag
	}
	b = append(b, 0, 0, 0, 0)
	b = le.AppendUint32(b, payloadCRC)
	b = le.AppendUint64(b, uint64(lsn))
	b = append(b, 0, 0, 0, 0, 0, 0, 0, 0)
	b = le.AppendUint64(b, f.Seq)
	b = le.AppendUint64(b, f.Order)
	b = le.AppendUint32(b, uint32(len(f.Payload)))
	b = le.AppendUint32(b, uint32(f.Peer))
	b = le.AppendUint32(b, uint32(f.Tag))
	b = append(b, byte(f.Kind), flags, f.Context, 0)
	b = append(b, f.Payload...)
	return append(b, make([]byte, padded(len(f.Payload))-int64(len(f.Payload)))...)
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
	return crc32.Update(salt, castagnoli, b[4:frameHead])
}

const badChecksum = "checksum of the frame's head does not match"

// decodeHead reads a head, whose checksum it checks, and which has exactly one
// encoding. Whether the payload is there is for the caller to see.
func decodeHead(b []byte, salt uint32) (head, string) {
	le := binary.LittleEndian
	if le.Uint32(b) != headCRC(b, salt) {
		return head{}, badChecksum
	}
	h := head{
		Frame: Frame{
			Kind:      Kind(b[52]),
			Peer:      int32(le.Uint32(b[44:])),
			Tag:       int32(le.Uint32(b[48:])),
			Context:   b[54],
			Seq:       le.Uint64(b[24:]),
			Order:     le.Uint64(b[32:]),
			AnySource: b[53] == anySourceFlag,
		},
		payloadCRC: le.Uint32(b[4:]),
		lsn:        LSN(le.Uint64(b[8:])),
	}
	length, durable := le.Uint32(b[40:]), le.Uint64(b[16:])
	if err := h.check(); err != nil {
		return h, err.Error()
	}
	if length > MaxPayload || durable > math.MaxInt64 || b[53]&^anySourceFlag != 0 || b[55] != 0 {
		return h, "field of the frame's head is out of range"
	}
	h.payload, h.durableUpTo = int(length), int64(durable)
	return h, ""
}
