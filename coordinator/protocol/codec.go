package protocol

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
)

// A frame on the wire, integers little-endian:
//
//	0   u32  length of the payload, at most MaxFrame
//	4   u32  CRC-32C of the payload
//	8   payload:
//	      u8      kind
//	      uvarint rank, number, iter, progress
//	      uvarint number of counts, then per count: uvarint peer, uvarint n
//	      uvarint length of text, text
//	      rest    body
const (
	frameHeader = 8
	// MaxFrame bounds the payload of a frame in bytes: a table of addresses for
	// 65,536 ranks fits, a wild length does not.
	MaxFrame = 16 << 20
)

// ErrFrame is wrapped by every error about a frame that cannot be decoded.
var ErrFrame = errors.New("malformed frame")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// AppendFrame appends the frame of m to buf.
func AppendFrame(buf []byte, m Message) ([]byte, error) {
	start := len(buf)
	buf = append(buf, make([]byte, frameHeader)...)
	buf = append(buf, byte(m.Kind))
	for _, v := range [...]int{m.Rank, m.Number, m.Iter} {
		if v < 0 {
			return nil, fmt.Errorf("message %v: negative field %d", m.Kind, v)
		}
		buf = binary.AppendUvarint(buf, uint64(v))
	}
	buf = binary.AppendUvarint(buf, m.Progress)
	buf = binary.AppendUvarint(buf, uint64(len(m.Counts)))
	for _, c := range m.Counts {
		if c.Peer < 0 {
			return nil, fmt.Errorf("message %v: negative peer %d", m.Kind, c.Peer)
		}
		buf = binary.AppendUvarint(buf, uint64(c.Peer))
		buf = binary.AppendUvarint(buf, c.N)
	}
	buf = binary.AppendUvarint(buf, uint64(len(m.Text)))
	buf = append(buf, m.Text...)
	buf = append(buf, m.Body...)
	payload := buf[start+frameHeader:]
	if len(payload) > MaxFrame {
		return nil, fmt.Errorf("message %v: %d bytes exceed the limit of %d", m.Kind, len(payload), MaxFrame)
	}
	binary.LittleEndian.PutUint32(buf[start:], uint32(len(payload)))
	binary.LittleEndian.PutUint32(buf[start+4:], crc32.Checksum(payload, castagnoli))
	return buf, nil
}

// ReadFrame reads one message. It returns io.EOF at a clean end of the stream,
// and an error wrapping ErrFrame for anything that is not a frame.
func ReadFrame(r io.Reader) (Message, error) {
	var head [frameHeader]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return Message{}, err
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n > MaxFrame {
		return Message{}, fmt.Errorf("%w: length %d exceeds %d", ErrFrame, n, MaxFrame)
	}
	payload, err := readPayload(r, int(n))
	if err != nil {
		return Message{}, err
	}
	if sum := crc32.Checksum(payload, castagnoli); sum != binary.LittleEndian.Uint32(head[4:]) {
		return Message{}, fmt.Errorf("%w: checksum mismatch", ErrFrame)
	}
	return decode(payload)
}

// readPayload reads n bytes, growing its buffer only as fast as bytes arrive:
// a peer that claims 16 MiB and sends none makes us allocate none.
func readPayload(r io.Reader, n int) ([]byte, error) {
	const step = 64 << 10
	buf := make([]byte, 0, min(n, step))
	for len(buf) < n {
		chunk := min(n-len(buf), max(step, len(buf)))
		at := len(buf)
		buf = append(buf, make([]byte, chunk)...)
		if _, err := io.ReadFull(r, buf[at:]); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
	return buf, nil
}

func decode(p []byte) (Message, error) {
	d := decoder{rest: p}
	m := Message{Kind: Kind(d.byte())}
	m.Rank, m.Number, m.Iter = d.int(), d.int(), d.int()
	m.Progress = d.uvarint()
	n := d.uvarint()
	if n > uint64(len(d.rest))/2 { // each count takes at least two bytes
		d.fail("count table is longer than the frame")
	} else if n > 0 {
		m.Counts = make([]Count, n)
		for i := range m.Counts {
			m.Counts[i] = Count{d.int(), d.uvarint()}
		}
	}
	if n := d.uvarint(); n > uint64(len(d.rest)) {
		d.fail("text is longer than the frame")
	} else {
		m.Text = string(d.rest[:n])
		d.rest = d.rest[n:]
	}
	if len(d.rest) > 0 {
		m.Body = d.rest
	}
	if d.err == nil && !m.Kind.Valid() {
		d.fail(m.Kind.String())
	}
	if d.err != nil {
		return Message{}, d.err
	}
	return m, nil
}

// decoder reads fields off a payload; after the first error it reads zeros.
type decoder struct {
	rest []byte
	err  error
}

func (d *decoder) fail(why string) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: %s", ErrFrame, why)
	}
	d.rest = nil
}

func (d *decoder) byte() byte {
	if len(d.rest) == 0 {
		d.fail("empty")
		return 0
	}
	b := d.rest[0]
	d.rest = d.rest[1:]
	return b
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 {
		d.fail("truncated number")
		return 0
	}
	d.rest = d.rest[n:]
	return v
}

func (d *decoder) int() int {
	v := d.uvarint()
	if v > math.MaxInt32 {
		d.fail("number out of range")
		return 0
	}
	return int(v)
}
