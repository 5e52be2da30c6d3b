package mpi

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
)

// frameHead is the size of the header in front of each message on a TCP
// connection; see the package comment.
const frameHead = 20

const frameMark = 'M'

// A frame is the header of a message between nodes.
type frame struct {
	envelope
	length uint64
}

func (f *frame) encode(b []byte) {
	le := binary.LittleEndian
	b[0], b[1], b[2], b[3] = frameMark, byte(f.ctx), 0, 0
	le.PutUint32(b[4:], uint32(f.tag))
	le.PutUint64(b[8:], f.length)
	le.PutUint32(b[16:], crc32.Checksum(b[:16], castagnoli))
}

// readFrame reads one message into memory from pool. It returns io.EOF only at
// a boundary between frames. The header has a checksum because a length read
// from the wrong place would otherwise have us wait for bytes that never come.
func readFrame(r io.Reader, head *[frameHead]byte, pool *messagePool, maxMessage int) (*message, error) {
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	if le.Uint32(head[16:]) != crc32.Checksum(head[:16], castagnoli) || head[0] != frameMark || head[2] != 0 || head[3] != 0 {
		return nil, fmt.Errorf("%w frame header", ErrCorrupt)
	}
	f := frame{envelope{msgContext(head[1]), int32(le.Uint32(head[4:]))}, le.Uint64(head[8:])}
	if !f.valid() || f.length > uint64(maxMessage) {
		return nil, fmt.Errorf("%w frame header: %+v", ErrCorrupt, f)
	}
	m := pool.get(int(f.length))
	m.envelope = f.envelope
	if _, err := io.ReadFull(r, m.data); err != nil {
		pool.put(m)
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return m, nil
}
