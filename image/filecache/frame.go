package filecache

import (
	"encoding/binary"
	"io"

	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// frameHead is the length of the head of a frame: a request that writes, as records
// and journals keep it. Numbers are little-endian.
//
//	0    4   CRC-32C of bytes 8…63 and the payload
//	4    4   commit mark, 1; 0 when the record has been deleted
//	8    8   use of the file that it belongs to
//	16   8   sequence number of the request in its process
//	24   8   offset in the file
//	32   8   bytes of the payload
//	40   4   process
//	44   4   part of the request
//	48   4   parts of the request
//	52   4   mask, −1 for an unconditional write
//	56   8   zero
const frameHead = 64

const committed = 1

// A frame is a head. Its payload is read when it is needed.
type frame struct {
	use         int64
	seq         uint64
	off, n      int64
	process     int
	part, parts int
	mask        int
	at          int64 // of the payload in its file
}

func (f frame) encode(payload []byte) []byte {
	b := make([]byte, frameHead)
	le := binary.LittleEndian
	le.PutUint32(b[4:], committed)
	le.PutUint64(b[8:], uint64(f.use))
	le.PutUint64(b[16:], f.seq)
	le.PutUint64(b[24:], uint64(f.off))
	le.PutUint64(b[32:], uint64(len(payload)))
	le.PutUint32(b[40:], uint32(f.process))
	le.PutUint32(b[44:], uint32(f.part))
	le.PutUint32(b[48:], uint32(f.parts))
	le.PutUint32(b[52:], uint32(f.mask))
	le.PutUint32(b, durable.AddSum(durable.Sum(b[8:]), payload))
	return b
}

// writeFrame writes a frame and makes it durable. A frame that is torn has a checksum
// that does not match.
func writeFrame(f vfs.File, path string, at int64, head frame, payload []byte) error {
	b := head.encode(payload)
	if len(payload) <= 64<<10 {
		b = append(b, payload...)
	} else if err := durable.WriteAt(f, path, payload, at+frameHead); err != nil {
		return err
	}
	if err := durable.WriteAt(f, path, b, at); err != nil {
		return err
	}
	return durable.Op("sync", path, -1, f.Sync())
}

// readFrame reads the frame at an offset of a file of some length, and whether it is
// a whole one of this use of the file.
func readFrame(f io.ReaderAt, path string, at, length, use int64) (frame, bool, error) {
	if length-at < frameHead {
		return frame{}, false, nil
	}
	b := make([]byte, frameHead)
	if err := durable.ReadAt(f, path, b, at); err != nil {
		return frame{}, false, err
	}
	le := binary.LittleEndian
	h := frame{
		use: int64(le.Uint64(b[8:])), seq: le.Uint64(b[16:]), off: int64(le.Uint64(b[24:])), n: int64(le.Uint64(b[32:])),
		process: int(int32(le.Uint32(b[40:]))), part: int(le.Uint32(b[44:])), parts: int(le.Uint32(b[48:])),
		mask: int(int32(le.Uint32(b[52:]))), at: at + frameHead,
	}
	if le.Uint32(b[4:]) != committed || h.use != use || h.n < 0 || h.n > length-h.at || h.off < 0 {
		return h, false, nil
	}
	sum := durable.Sum(b[8:])
	err := pieces(f, path, h.at, h.n, func(_ int64, p []byte) error {
		sum = durable.AddSum(sum, p)
		return nil
	})
	return h, err == nil && sum == le.Uint32(b), err
}

// pieceSize is the length of reads and writes of whole fragments.
const pieceSize = 1 << 20

// pieces reads n bytes at off piece by piece. The offset that do gets counts from 0.
func pieces(f io.ReaderAt, path string, off, n int64, do func(at int64, p []byte) error) error {
	buf := make([]byte, min(n, pieceSize))
	for at := int64(0); at < n; {
		p := buf[:min(n-at, pieceSize)]
		if err := durable.ReadAt(f, path, p, off+at); err != nil {
			return err
		}
		if err := do(at, p); err != nil {
			return err
		}
		at += int64(len(p))
	}
	return nil
}
