package bpf

import (
	"encoding/binary"
	"errors"
)

// A record is what a program in the kernel sends. Integers are little-endian:
//
//	 0  uint16  kind
//	 2  uint16  index of the call, or slot of a piece
//	 4  uint32  length of the text of a piece
//	 8  uint32  thread
//	12  uint32  process
//	16  uint64  begin, ns of the monotonic clock
//	24  uint64  end
//	32  uint64  seven registers: r10, r9, r8, ax, dx, si, di
//
// A piece, such as a path, comes before the record that it belongs to. It has the first
// 16 bytes, and then its text.
type record struct {
	kind         kind
	index        int
	thread, task int64 // the second one is the process
	begin, end   int64
	regs         [registers]uint64
	text         []byte // of a piece, only until the next record
}

type kind uint16

const (
	callRecord   kind = 1 + iota
	pieceRecord       // part of the next record of the thread
	forkRecord        // regs: child thread, child process, flags of clone
	execRecord        // regs: earlier number of the thread, class of the ELF file
	exitRecord        // a thread ended, perhaps within a call
	closesRecord      // close began
)

const (
	headSize   = 16
	registers  = 7
	recordSize = 32 + 8*registers
	maxText    = 4096 // as a path in Linux
)

// Slots of pieces. Those below six are arguments of a call.
const (
	slotPath = 16 + iota // a directory of the path of a descriptor, from the end
	slotRoot             // that path is complete
	slotFile             // of exec
	slotArguments
	slotEnvironment
	slotRequest // of io_submit
	slotResult  // of io_getevents
	slotMore    // there are more requests or results
)

const (
	maxDepth  = 64  // directories in a path
	maxListed = 128 // requests in a call
)

// The order of registers in a record.
const (
	r10 = iota
	r9
	r8
	ax
	dx
	si
	di
)

// arguments is the order in which Linux passes the arguments of a call.
var arguments = [6]int{di, si, dx, r10, r8, r9}

func (r *record) arg(i int) uint64 { return r.regs[arguments[i]] }

// result is what the call returned.
func (r *record) result() int64 { return int64(r.regs[ax]) }

var errRecord = errors.New("a record of the kernel is not as expected")

// decode reads a record.
func decode(b []byte, r *record) error {
	if len(b) < headSize {
		return errRecord
	}
	*r = record{
		kind:   kind(binary.LittleEndian.Uint16(b)),
		index:  int(binary.LittleEndian.Uint16(b[2:])),
		thread: int64(binary.LittleEndian.Uint32(b[8:])),
		task:   int64(binary.LittleEndian.Uint32(b[12:])),
	}
	if r.kind == pieceRecord {
		n := int(binary.LittleEndian.Uint32(b[4:]))
		if n > maxText || n > len(b)-headSize {
			return errRecord
		}
		r.text = b[headSize : headSize+n]
		return nil
	}
	if len(b) < recordSize || r.kind == 0 || r.kind > closesRecord {
		return errRecord
	}
	r.begin = int64(binary.LittleEndian.Uint64(b[16:]))
	r.end = int64(binary.LittleEndian.Uint64(b[24:]))
	for i := range r.regs {
		r.regs[i] = binary.LittleEndian.Uint64(b[32+8*i:])
	}
	return nil
}

// encodePiece is the inverse of decode for a piece.
func encodePiece(thread int64, slot int, text []byte) []byte {
	b := make([]byte, headSize, headSize+len(text))
	binary.LittleEndian.PutUint16(b, uint16(pieceRecord))
	binary.LittleEndian.PutUint16(b[2:], uint16(slot))
	binary.LittleEndian.PutUint32(b[4:], uint32(len(text)))
	binary.LittleEndian.PutUint32(b[8:], uint32(thread))
	return append(b, text...)
}
