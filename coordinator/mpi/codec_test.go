package mpi

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"strings"
	"sync/atomic"
	"testing"
)

// samplePending is what a rank that has a few messages returns.
func samplePending() []byte {
	c := &Comm{}
	c.in.init(3)
	for i, data := range []string{"one", "", "a longer third"} {
		c.in.deliver(&message{envelope: envelope{msgContext(i % 2), int32(i)}, src: 2 - i, data: []byte(data)})
	}
	return c.Pending()
}

// reseal makes the checksum right again, so that what lies behind it is tested.
func reseal(b []byte) []byte {
	if len(b) < 4 {
		return b
	}
	b = bytes.Clone(b)
	binary.LittleEndian.PutUint32(b[len(b)-4:], crc32.Checksum(b[:len(b)-4], castagnoli))
	return b
}

func TestPendingRoundTrip(t *testing.T) {
	msgs, err := decodePending(samplePending(), 3, 100)
	if err != nil || len(msgs) != 3 || string(msgs[2].data) != "a longer third" || msgs[2].src != 0 || msgs[1].ctx != collectiveContext || msgs[2].tag != 2 {
		t.Fatalf("%+v, %v", msgs, err)
	}
	if msgs, err := decodePending(nil, 3, 100); msgs != nil || err != nil {
		t.Errorf("nothing gives %v, %v", msgs, err)
	}
}

func TestPendingDamage(t *testing.T) {
	good := samplePending()
	for i := range good {
		for bit := range 8 {
			b := bytes.Clone(good)
			b[i] ^= 1 << bit
			if _, err := decodePending(b, 3, 100); !errors.Is(err, ErrCorrupt) {
				t.Fatalf("byte %d bit %d: %v", i, bit, err)
			}
		}
		if _, err := decodePending(good[:i], 3, 100); i > 0 && !errors.Is(err, ErrCorrupt) {
			t.Fatalf("cut at %d: %v", i, err)
		}
	}
	for _, test := range []struct {
		at   int
		b    byte
		size int
		want string
	}{
		{8, 99, 3, "99 messages"}, {8, 0, 3, "0 messages"}, {8, 2, 3, "follow the last"},
		{16, 3, 3, "from rank 3"}, {0, 'X', 3, "header"}, {20, 2, 3, "envelope"}, {27, 0x80, 3, "envelope"}, {28, 1, 3, "envelope"},
		{32, 200, 3, "200 bytes"}, {39, 0xff, 3, "bytes"}, {32, 4, 3, ""},
	} {
		b := bytes.Clone(good)
		b[test.at] = test.b
		if _, err := decodePending(reseal(b), test.size, 100); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("byte %d = %d: error %v does not say %q", test.at, test.b, err, test.want)
		}
	}
	if _, err := decodePending(good, 2, 100); err == nil {
		t.Error("a message of rank 2 is restored into a job of two")
	}
	if _, err := decodePending(good, 3, 10); err == nil {
		t.Error("a message over the limit is restored")
	}
}

func FuzzPending(f *testing.F) {
	f.Add(samplePending())
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, b := range [][]byte{b, reseal(b)} {
			c := &Comm{cfg: Config{Size: 3, MaxMessage: 1 << 20}}
			c.in.init(3)
			if c.RestorePending(b) != nil || len(b) == 0 {
				continue
			}
			if again := c.Pending(); !bytes.Equal(again, b) {
				t.Fatalf("restored %x, saved %x", b, again)
			}
		}
	})
}

func sampleFrame(env envelope, data string) []byte {
	b := make([]byte, frameHead, frameHead+len(data))
	(&frame{env, uint64(len(data))}).encode(b)
	return append(b, data...)
}

func TestFrameDamage(t *testing.T) {
	var pool messagePool
	var head [frameHead]byte
	good := sampleFrame(envelope{userContext, 5}, "hello")
	for i := range frameHead {
		b := bytes.Clone(good)
		b[i] ^= 0x10
		if _, err := readFrame(bytes.NewReader(b), &head, &pool, 100); !errors.Is(err, ErrCorrupt) {
			t.Errorf("byte %d: %v", i, err)
		}
	}
	for n := 1; n < len(good); n++ {
		if _, err := readFrame(bytes.NewReader(good[:n]), &head, &pool, 100); err != io.ErrUnexpectedEOF {
			t.Errorf("cut at %d: %v", n, err)
		}
	}
	if _, err := readFrame(bytes.NewReader(nil), &head, &pool, 100); err != io.EOF {
		t.Errorf("nothing: %v", err)
	}
	if _, err := readFrame(bytes.NewReader(good), &head, &pool, 4); !errors.Is(err, ErrCorrupt) {
		t.Errorf("too long: %v", err)
	}
}

func FuzzFrame(f *testing.F) {
	two := append(sampleFrame(envelope{userContext, 5}, "hello"), sampleFrame(envelope{collectiveContext, 0}, "")...)
	f.Add(two)
	f.Fuzz(func(t *testing.T, b []byte) {
		var pool messagePool
		var head [frameHead]byte
		if len(b) >= frameHead { // or no input would ever get past the first check
			b = bytes.Clone(b)
			binary.LittleEndian.PutUint32(b[16:], crc32.Checksum(b[:16], castagnoli))
		}
		r := bufio.NewReader(bytes.NewReader(b))
		var out []byte
		for {
			m, err := readFrame(r, &head, &pool, 1<<16)
			if err != nil {
				break
			}
			out = append(out, sampleFrame(m.envelope, string(m.data))...)
		}
		if !bytes.HasPrefix(b, out) {
			t.Fatalf("read %x from %x", out, b)
		}
	})
}

// FuzzRing puts arbitrary bytes where a peer would have written: the receiver
// must end with an error or with messages, never with a fault.
func FuzzRing(f *testing.F) {
	rec := record{kind: inlineRecord, length: 5, total: 5}
	b := make([]byte, 64)
	rec.encode(b)
	f.Add(uint64(0), uint64(64), b)
	rec = record{kind: cellRecord, length: 700, total: 900, cell: 3}
	rec.encode(b)
	f.Add(uint64(65376), uint64(65408), b)
	f.Fuzz(func(t *testing.T, head, tail uint64, b []byte) {
		g := newGeometry(OpenMPI, 2)
		g.cells, g.cellBytes, g.ringBytes = 4, 1024, 4096 // the same code, less memory
		g.ringOff = g.stateOff + int64(2*g.cells*stateBytes)
		g.ringOff += -g.ringOff & 63
		g.cellOff = g.ringOff + 4*g.ringBytes
		g.total = g.cellOff + int64(2*g.cells)*g.cellBytes
		seg := &Segment{geo: g, mem: alignedBytes(int(g.total), int(g.total))}
		c := &Comm{cfg: Config{Rank: 0, Size: 2, Segment: seg, MaxMessage: 1 << 16}, peers: make([]peer, 2)}
		c.in.init(2)
		c.peers[1].local = 1
		r := seg.ring(1, 0)
		atomic.StoreUint64(r.head, head)
		atomic.StoreUint64(r.tail, tail)
		for i := range r.data { // the input over and over
			if len(b) > 0 {
				r.data[i] = b[i%len(b)]
			}
		}
		for i := range g.cells {
			*seg.word32(g.state(1, i)) = uint32(i % 2) // every other one is for us
		}
		sp := newShmPort(c, []int{0, 1})
		for {
			if n, err := sp.poll(); n == 0 || err != nil {
				break
			}
		}
	})
}
