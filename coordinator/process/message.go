package process

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Version is the version of the link. A client sends it in its first message. One of
// OldestVersion tells of no arrays of all ranks, and is served like any other.
const (
	Version       = 2
	OldestVersion = 1
)

// Messages from the client.
const (
	kindHello    = 1
	kindProtect  = 2
	kindForget   = 3
	kindCopied   = 9
	kindTracked  = 10
	saveBit      = 1 // in the value of a Boundary
	maxMessage   = 64 << 10
	headerLength = 32
	rangeLength  = 24
)

// Messages to the client.
const (
	kindWelcome = 100
	kindGo      = 101
	kindMap     = 102
	kindUnmap   = 103
	kindOut     = 104
	kindIn      = 105
	kindTrack   = 106
	kindTracer  = 107
)

// A message is one datagram of the link: a header of 32 bytes and a payload.
type message struct {
	kind    uint32
	value   uint32
	a, b, c int64
	payload []byte
}

func (m *message) encode() []byte {
	b := make([]byte, headerLength, headerLength+len(m.payload))
	binary.LittleEndian.PutUint32(b, m.kind)
	binary.LittleEndian.PutUint32(b[4:], m.value)
	binary.LittleEndian.PutUint64(b[8:], uint64(m.a))
	binary.LittleEndian.PutUint64(b[16:], uint64(m.b))
	binary.LittleEndian.PutUint64(b[24:], uint64(m.c))
	return append(b, m.payload...)
}

func decode(b []byte) (message, error) {
	if len(b) < headerLength {
		return message{}, fmt.Errorf("message of %d bytes has no header", len(b))
	}
	if len(b) > maxMessage {
		return message{}, errors.New("message is longer than 64 KiB")
	}
	return message{
		kind: binary.LittleEndian.Uint32(b), value: binary.LittleEndian.Uint32(b[4:]),
		a: int64(binary.LittleEndian.Uint64(b[8:])), b: int64(binary.LittleEndian.Uint64(b[16:])),
		c: int64(binary.LittleEndian.Uint64(b[24:])), payload: b[headerLength:],
	}, nil
}

// A copyRange says that bytes at address lie at offset of a window.
type copyRange struct {
	address, offset, bytes uint64
}

// maxRanges is the number of ranges that one order holds.
const maxRanges = (maxMessage - headerLength) / rangeLength

// encodeRanges returns the payload of an OUT or IN order.
func encodeRanges(ranges []copyRange) []byte {
	b := make([]byte, 0, len(ranges)*rangeLength)
	for _, r := range ranges {
		b = binary.LittleEndian.AppendUint64(b, r.address)
		b = binary.LittleEndian.AppendUint64(b, r.offset)
		b = binary.LittleEndian.AppendUint64(b, r.bytes)
	}
	return b
}
