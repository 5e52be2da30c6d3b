package turns

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"

	"ckpt/internal/durable"
)

// A frame on the wire, integers little-endian:
//
//	0   u32  length of the payload
//	4   u32  CRC-32C of the payload
//	8   payload:
//	      u8  kind, the place in the list of kinds
//	      the fields of the message in their order: numbers as uvarint, signed ones as
//	      varint, texts with their length before them
//
// The first message of either side has the version first, in every version.
const (
	version     = 2
	frameHeader = 8
	// maxRequest bounds what a client sends, maxReport what a controller does.
	maxRequest = 8 << 10
	maxReport  = 4 << 20
)

var errFrame = errors.New("malformed frame of storage turns")

type message interface{ fields(c *coder) }

type (
	hello struct {
		Version uint64
		App     string
		User    string // as the client says
		Rank    uint64
		Weight  float64
	}
	ask struct {
		Burst         uint64
		Kind, File    string
		Offset, Bytes int64
		Whole         int64
	}
	progress struct{ Burst, Bytes uint64 }
	idle     struct{ Burst uint64 }
	release  struct{ Burst, Turn uint64 }
	end      struct{ Burst uint64 }
	alive    struct{} // of either side
	status   struct{} // asks for a report

	welcome struct {
		Version uint64
		Lease   uint64 // nanoseconds that a client may be silent
	}
	refused struct {
		Version uint64
		Why     string
	}
	granted struct{ Burst, Turn uint64 }
	revoked struct{ Burst, Turn uint64 }
	evicted struct{ Burst, Turn uint64 }
	report  struct{ JSON string }

	// A want is a request of a program through a mount, a portion what may move of it now, and moved
	// says that it has.
	want struct {
		ID              uint64
		App, User, File string
		Rank, Write     uint64
		Offset, Bytes   int64
	}
	portion struct {
		ID, Number            uint64
		Offset, Bytes, Behind int64
	}
	moved struct{ Number uint64 }
)

const (
	maxName = 256
	maxFile = 4096
	maxWhy  = 1024
)

func (m *hello) fields(c *coder) {
	c.number(&m.Version)
	if c.first(m.Version) {
		c.text(&m.App, maxName)
		c.text(&m.User, maxName)
		c.number(&m.Rank)
		c.float(&m.Weight)
	}
}

func (m *ask) fields(c *coder) {
	c.number(&m.Burst)
	c.text(&m.Kind, maxName)
	c.text(&m.File, maxFile)
	c.signed(&m.Offset)
	c.signed(&m.Bytes)
	c.signed(&m.Whole)
}

func (m *welcome) fields(c *coder) {
	c.number(&m.Version)
	if c.first(m.Version) {
		c.number(&m.Lease)
	}
}

func (m *refused) fields(c *coder) {
	c.number(&m.Version)
	c.text(&m.Why, maxWhy)
}

func (m *progress) fields(c *coder) { c.numbers(&m.Burst, &m.Bytes) }
func (m *idle) fields(c *coder)     { c.numbers(&m.Burst) }
func (m *release) fields(c *coder)  { c.numbers(&m.Burst, &m.Turn) }
func (m *end) fields(c *coder)      { c.numbers(&m.Burst) }
func (m *alive) fields(*coder)      {}
func (m *status) fields(*coder)     {}
func (m *granted) fields(c *coder)  { c.numbers(&m.Burst, &m.Turn) }
func (m *revoked) fields(c *coder)  { c.numbers(&m.Burst, &m.Turn) }
func (m *evicted) fields(c *coder)  { c.numbers(&m.Burst, &m.Turn) }
func (m *report) fields(c *coder)   { c.text(&m.JSON, maxReport-16) }
func (m *moved) fields(c *coder)    { c.numbers(&m.Number) }

func (m *want) fields(c *coder) {
	c.number(&m.ID)
	c.text(&m.App, maxName)
	c.text(&m.User, maxName)
	c.text(&m.File, maxFile)
	c.numbers(&m.Rank, &m.Write)
	c.signed(&m.Offset)
	c.signed(&m.Bytes)
}

func (m *portion) fields(c *coder) {
	c.numbers(&m.ID, &m.Number)
	c.signed(&m.Offset)
	c.signed(&m.Bytes)
	c.signed(&m.Behind)
}

// kinds make the messages, by their number on the wire. Numbers stay.
var kinds = [...]func() message{
	func() message { return new(hello) }, func() message { return new(ask) },
	func() message { return new(progress) }, func() message { return new(idle) },
	func() message { return new(release) }, func() message { return new(end) },
	func() message { return new(alive) }, func() message { return new(status) },
	func() message { return new(welcome) }, func() message { return new(refused) },
	func() message { return new(granted) }, func() message { return new(revoked) },
	func() message { return new(evicted) }, func() message { return new(report) },
	func() message { return new(want) }, func() message { return new(portion) },
	func() message { return new(moved) },
}

var kindOf = func() map[reflect.Type]byte {
	m := make(map[reflect.Type]byte, len(kinds))
	for k, of := range kinds {
		m[reflect.TypeOf(of())] = byte(k)
	}
	return m
}()

// A coder writes the fields of a message, or reads them.
type coder struct {
	reads bool
	b     []byte // written so far, or left to read
	err   error
}

// first reports whether this version wrote the fields after the version. Others are skipped.
func (c *coder) first(v uint64) bool {
	if v != version && c.reads {
		c.b = nil
	}
	return v == version
}

func (c *coder) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("%w: %s", errFrame, fmt.Sprintf(format, args...))
	}
	c.b = nil
}

func (c *coder) numbers(of ...*uint64) {
	for _, n := range of {
		c.number(n)
	}
}

func (c *coder) number(n *uint64) {
	if !c.reads {
		c.b = binary.AppendUvarint(c.b, *n)
		return
	}
	v, used := binary.Uvarint(c.b)
	if used <= 0 {
		c.fail("number is cut or too long")
		return
	}
	*n, c.b = v, c.b[used:]
}

func (c *coder) signed(n *int64) {
	u := uint64(*n)<<1 ^ uint64(*n>>63)
	c.number(&u)
	*n = int64(u>>1) ^ -int64(u&1)
}

func (c *coder) float(f *float64) {
	u := math.Float64bits(*f)
	c.number(&u)
	*f = math.Float64frombits(u)
}

// text codes a text of at most limit bytes, and cuts a longer one.
func (c *coder) text(s *string, limit int) {
	if !c.reads {
		cut := (*s)[:min(len(*s), limit)]
		c.b = append(binary.AppendUvarint(c.b, uint64(len(cut))), cut...)
		return
	}
	var n uint64
	c.number(&n)
	if n > uint64(limit) || n > uint64(len(c.b)) {
		c.fail("text of %d bytes, limit %d, %d are left", n, limit, len(c.b))
		return
	}
	*s, c.b = string(c.b[:n]), c.b[n:]
}

func appendFrame(b []byte, m message) []byte {
	start := len(b)
	c := coder{b: append(b, make([]byte, frameHeader)...)}
	c.b = append(c.b, kindOf[reflect.TypeOf(m)])
	m.fields(&c)
	payload := c.b[start+frameHeader:]
	binary.LittleEndian.PutUint32(c.b[start:], uint32(len(payload)))
	binary.LittleEndian.PutUint32(c.b[start+4:], durable.Sum(payload))
	return c.b
}

// readFrame reads one message of at most limit bytes. It returns io.EOF at the end of the stream.
func readFrame(r *bufio.Reader, limit int) (message, error) {
	var header [frameHeader]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return nil, err
	}
	n, sum := binary.LittleEndian.Uint32(header[:]), binary.LittleEndian.Uint32(header[4:])
	if n == 0 || int64(n) > int64(limit) {
		return nil, fmt.Errorf("%w: %d bytes, want 1 to %d", errFrame, n, limit)
	}
	payload := make([]byte, n)
	if _, err := io.ReadFull(r, payload); err != nil {
		return nil, fmt.Errorf("%w: %w", errFrame, err)
	}
	if durable.Sum(payload) != sum {
		return nil, fmt.Errorf("%w: wrong checksum", errFrame)
	}
	return decode(payload)
}

func decode(payload []byte) (message, error) {
	kind := payload[0]
	if int(kind) >= len(kinds) {
		return nil, fmt.Errorf("%w: kind %d", errFrame, kind)
	}
	m := kinds[kind]()
	c := coder{reads: true, b: payload[1:]}
	m.fields(&c)
	if len(c.b) > 0 {
		c.fail("%d bytes too many", len(c.b))
	}
	return m, c.err
}
