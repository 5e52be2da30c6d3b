package protocol

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"reflect"
)

// A frame on the wire, integers little-endian:
//
//	0   u32  length of the payload, at most MaxFrame
//	4   u32  CRC-32C of the payload
//	8   payload:
//	      u8  kind, the place in the list of kinds
//	      the fields of the message in their order: numbers as uvarint, truth values
//	      as 0 or 1; texts, bodies and lists begin with their length
//
// Both ends are processes of one binary.
const (
	frameHeader = 8
	// MaxFrame bounds the payload of a frame in bytes: a table of addresses for 65,536 ranks
	// fits, a wild length does not.
	MaxFrame = 16 << 20
	// maxNumber bounds what is not a count of bytes or messages. A program may pass boundaries
	// for months, a million each second.
	maxNumber = 1 << 53
)

// ErrFrame is wrapped by every error about a frame that cannot be decoded.
var ErrFrame = errors.New("malformed frame")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// kinds are the messages that travel, by their number on the wire.
var kinds = [...]Message{Hello{}, Ready{}, Restored{}, SetupFailed{}, Holding{}, Stopped{}, Drained{}, Captured{}, Written{}, WriteFailed{},
	Aborted{}, Beat{}, InjectDue{}, Done{}, Share{}, Fenced{}, Output{}, LogState{},
	Welcome{}, Start{}, Resume{}, Propose{}, StopAt{}, Drain{}, Write{}, Abort{}, Quit{}, Shares{}, Fence{}, Unfence{}, Moved{},
	Collected{}, Truncate{}, Demand{}, KillProcess{}, Placed{}, Store{}, Stored{}, StoreFailed{}, Serve{}, Serving{}, Capture{}}

var kindOf = func() map[reflect.Type]byte {
	m := make(map[reflect.Type]byte, len(kinds))
	for k, msg := range kinds {
		m[reflect.TypeOf(msg)] = byte(k)
	}
	return m
}()

// Name names a message, as in "stop-at".
func Name(m Message) string {
	var name []byte
	for i, c := range []byte(reflect.TypeOf(m).Name()) {
		if c >= 'a' {
			name = append(name, c)
			continue
		}
		if i > 0 {
			name = append(name, '-')
		}
		name = append(name, c-'A'+'a')
	}
	return string(name)
}

// AppendFrame appends the frame of m to buf.
func AppendFrame(buf []byte, m Message) ([]byte, error) {
	start := len(buf)
	buf = append(buf, make([]byte, frameHeader)...)
	v := reflect.ValueOf(m)
	buf = append(buf, kindOf[v.Type()])
	buf, err := appendValue(buf, v)
	if err != nil {
		return nil, fmt.Errorf("message %T: %w", m, err)
	}
	payload := buf[start+frameHeader:]
	if len(payload) > MaxFrame {
		return nil, fmt.Errorf("message %T: %d bytes exceed the limit of %d", m, len(payload), MaxFrame)
	}
	binary.LittleEndian.PutUint32(buf[start:], uint32(len(payload)))
	binary.LittleEndian.PutUint32(buf[start+4:], crc32.Checksum(payload, castagnoli))
	return buf, nil
}

func appendValue(buf []byte, v reflect.Value) (_ []byte, err error) {
	switch v.Kind() {
	case reflect.Bool:
		n := byte(0)
		if v.Bool() {
			n = 1
		}
		return append(buf, n), nil
	case reflect.Int:
		if n := v.Int(); n < 0 || n > maxNumber {
			return nil, fmt.Errorf("number %d is out of range", n)
		}
		return binary.AppendUvarint(buf, uint64(v.Int())), nil
	case reflect.Uint64:
		return binary.AppendUvarint(buf, v.Uint()), nil
	case reflect.String:
		return append(binary.AppendUvarint(buf, uint64(v.Len())), v.String()...), nil
	case reflect.Slice:
		buf = binary.AppendUvarint(buf, uint64(v.Len()))
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return append(buf, v.Bytes()...), nil
		}
		for i := 0; i < v.Len() && err == nil; i++ {
			buf, err = appendValue(buf, v.Index(i))
		}
		return buf, err
	}
	for i := 0; i < v.NumField() && err == nil; i++ { // a struct
		buf, err = appendValue(buf, v.Field(i))
	}
	return buf, err
}

// ReadFrame reads one message. It returns io.EOF at a clean end of the stream, and an error
// wrapping ErrFrame for anything that is not a frame.
func ReadFrame(r io.Reader) (Message, error) {
	var head [frameHeader]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n > MaxFrame {
		return nil, fmt.Errorf("%w: length %d exceeds %d", ErrFrame, n, MaxFrame)
	}
	payload, err := readPayload(r, int(n))
	if err != nil {
		return nil, err
	}
	if sum := crc32.Checksum(payload, castagnoli); sum != binary.LittleEndian.Uint32(head[4:]) {
		return nil, fmt.Errorf("%w: checksum mismatch", ErrFrame)
	}
	return decode(payload)
}

// readPayload reads n bytes, growing its buffer only as fast as bytes arrive: a peer that claims
// 16 MiB must send them.
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
	if len(p) == 0 || int(p[0]) >= len(kinds) {
		return nil, fmt.Errorf("%w: no message of a known kind", ErrFrame)
	}
	d := decoder{rest: p[1:]}
	v := reflect.New(reflect.TypeOf(kinds[p[0]])).Elem()
	d.value(v)
	if len(d.rest) > 0 {
		d.fail("bytes follow the message")
	}
	if d.err != nil {
		return nil, d.err
	}
	return v.Interface().(Message), nil
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

func (d *decoder) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.Bool:
		n := d.number(1)
		v.SetBool(n == 1)
	case reflect.Int:
		v.SetInt(int64(d.number(maxNumber)))
	case reflect.Uint64:
		v.SetUint(d.number(math.MaxUint64))
	case reflect.String:
		v.SetString(string(d.bytes()))
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			if b := d.bytes(); len(b) > 0 {
				v.SetBytes(b)
			}
			return
		}
		d.list(v)
	default: // a struct
		for i := range v.NumField() {
			d.value(v.Field(i))
		}
	}
}

// list reads a list, of which each field of each element takes at least a byte.
func (d *decoder) list(v reflect.Value) {
	least := 1
	if elem := v.Type().Elem(); elem.Kind() == reflect.Struct {
		least = elem.NumField()
	}
	n := int(d.number(uint64(len(d.rest) / least)))
	if n == 0 {
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), n, n))
	for i := 0; i < n && d.err == nil; i++ {
		d.value(v.Index(i))
	}
}

func (d *decoder) bytes() []byte {
	n := d.number(math.MaxUint64)
	if n > uint64(len(d.rest)) {
		d.fail("bytes are missing")
	}
	if d.err != nil {
		return nil
	}
	b := d.rest[:n:n]
	d.rest = d.rest[n:]
	return b
}

// number reads a number up to a limit, in its shortest form.
func (d *decoder) number(limit uint64) uint64 {
	x, n := binary.Uvarint(d.rest)
	if n <= 0 || n > 1 && d.rest[n-1] == 0 {
		d.fail("truncated number")
		return 0
	}
	d.rest = d.rest[n:]
	if x > limit {
		d.fail("number out of range")
		return 0
	}
	return x
}
