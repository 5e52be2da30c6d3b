package wire

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
)

// A request, little-endian:
//
//	u32 number   u8 operation   u8 0      u16 bytes of name   u16 bytes of other   u16 0
//	u32 handle   u32 bytes of data       i64 offset          i64 size
//	name, other name, data
//
// and its answer:
//
//	u32 number   u8 status   u8 0, u16 0   u32 bytes of data   i64 value
//	data
//
// Number 0 is a sign of life of the server, which answers nothing.
const (
	requestBytes = 36
	answerBytes  = 20
	// maxData is the most that a request or its answer carries; larger reads and writes are cut.
	maxData = 1 << 20
	// maxList bounds an answer with a list.
	maxList = 4 << 20
	maxName = 4096
	// inFlight is how many requests a connection has at a time. With their data they bound the
	// memory of the server.
	inFlight = 8
	// maxOpen bounds what a connection has open.
	maxOpen = 1024
)

const (
	opHello = iota + 1
	opCreate
	opOpen
	opOpenWrite
	opRename
	opRemove
	opMkdir
	opReadDir
	opStat
	opSyncDir
	opLock
	opFree
	opReadAt
	opWriteAt
	opSync
	opSize
	opPreallocate
	opTruncate
	opClose
	opContribute
	opAdd
	opEnd
)

const (
	statusDone = iota
	statusEnd  // done, at the end of the file
	statusFailed
)

type request struct {
	number    uint32
	op        byte
	handle    uint32
	off, size int64
	name, to  string
	data      []byte
}

func (q *request) appendTo(b []byte) []byte {
	le := binary.LittleEndian
	b = le.AppendUint32(b, q.number)
	b = append(b, q.op, 0)
	b = le.AppendUint16(b, uint16(len(q.name)))
	b = le.AppendUint16(b, uint16(len(q.to)))
	b = append(b, 0, 0)
	b = le.AppendUint32(b, q.handle)
	b = le.AppendUint32(b, uint32(len(q.data)))
	b = le.AppendUint64(b, uint64(q.off))
	b = le.AppendUint64(b, uint64(q.size))
	return append(append(b, q.name...), q.to...)
}

// read reads a request into buffer, which holds maxData bytes once one is needed.
func (q *request) read(r io.Reader, buffer func(n int) []byte) error {
	var h [requestBytes]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return err
	}
	le := binary.LittleEndian
	q.number, q.op, q.handle = le.Uint32(h[0:]), h[4], le.Uint32(h[12:])
	q.off, q.size = int64(le.Uint64(h[20:])), int64(le.Uint64(h[28:]))
	name, to, data := int(le.Uint16(h[6:])), int(le.Uint16(h[8:])), le.Uint32(h[16:])
	if name > maxName || to > maxName || data > maxData || q.off < 0 || q.size < 0 {
		return fmt.Errorf("request %d is malformed", q.number)
	}
	names := make([]byte, name+to)
	if _, err := io.ReadFull(r, names); err != nil {
		return err
	}
	q.name, q.to, q.data = string(names[:name]), string(names[name:]), nil
	if data == 0 {
		return nil
	}
	q.data = buffer(int(data))
	_, err := io.ReadFull(r, q.data)
	return err
}

type answer struct {
	number uint32
	status byte
	value  int64
	data   []byte
}

func (a *answer) writeTo(w io.Writer) error {
	le := binary.LittleEndian
	b := le.AppendUint32(make([]byte, 0, answerBytes), a.number)
	b = append(b, a.status, 0, 0, 0)
	b = le.AppendUint32(b, uint32(len(a.data)))
	b = le.AppendUint64(b, uint64(a.value))
	bufs := net.Buffers{b}
	if len(a.data) > 0 {
		bufs = append(bufs, a.data)
	}
	_, err := bufs.WriteTo(w)
	return err
}

// readHead reads all but the data, and returns their length.
func (a *answer) readHead(r io.Reader) (data int, err error) {
	var h [answerBytes]byte
	if _, err := io.ReadFull(r, h[:]); err != nil {
		return 0, err
	}
	le := binary.LittleEndian
	a.number, a.status, a.value = le.Uint32(h[0:]), h[4], int64(le.Uint64(h[12:]))
	n := le.Uint32(h[8:])
	if n > maxList || a.status > statusFailed || a.value < 0 {
		return 0, fmt.Errorf("answer %d is malformed", a.number)
	}
	return int(n), nil
}
