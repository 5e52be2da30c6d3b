// Package bpf records the calls of a command in the kernel (eBPF), and makes a trace of
// them:
//
//	r, err := bpf.Open()
//	defer r.Close()
//	x, err := r.Start(exec.Command("./a.out"), file)
//	err = cmd.Wait()
//	x.Wait()
//	err = x.Finish()
//	t, report, err := x.Import(file, iotrace.Options{})
//
// strace stops a program twice for each call, which takes 10 µs and more. Here the kernel
// runs a small program at the beginning and at the end of each recorded call, which takes
// some 0.2 µs, and puts a record into a ring, from which a goroutine copies it.
//
// The programs are written here in the instructions of eBPF, with the places of members
// from the kernel's own description (BTF). They run at the tracepoints sys_enter and sys_exit,
// where a table leads on to the program of each call that package strace understands, and when
// processes are forked, execute and exit. A record has the registers of the call, its times and its result. Pieces
// come before it: paths, the lengths of files, requests of libaio, and the path that the
// kernel has for a new descriptor.
//
// Import turns the records into the text of strace -f -ttt -T -y, in the order in which
// calls took effect, and package strace makes events of it. So both ways to record agree
// on what becomes an event, on offsets, ranks and warnings.
//
// It needs Linux 5.15 or later on amd64 with CONFIG_DEBUG_INFO_BTF, CONFIG_TRACEPOINTS
// and CONFIG_BPF_SYSCALL, as distributions have it; and root, or the capability SYS_ADMIN.
// Trampolines (fentry) would make other calls cost nothing, but some kernels refuse them.
//
//   - Records that find the ring full are counted, and are a warning of the trace.
//     So are calls whose path could not be read, and programs of 32 bits, whose calls
//     are not seen.
//   - Processes that the command did not start are not recorded.
//   - The environment of programs is not kept, but for variables that name ranks.
//   - The kernel stops the programs when the recorder ends, however it ends.
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

func (r *record) result() int64 { return int64(r.regs[ax]) }

var errRecord = errors.New("a record of the kernel is not as expected")

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

// A parameter is how an argument of a call becomes text.
type parameter byte

const (
	descriptor parameter = 'd'
	directory  parameter = 'D' // a descriptor, or AT_FDCWD
	pathname   parameter = 'p' // text at the address
	number     parameter = 'n'
	unsigned   parameter = 'u' // of 32 bits
	address    parameter = 'x'
	omitted    parameter = '-' // strace does not print it
	openFlags  parameter = 'o'
	protection parameter = 'r'
	mapFlags   parameter = 'm'
	atFlags    parameter = 'a'
	exchange   parameter = 'e' // flags of renameat2
	allocate   parameter = 'f' // mode of fallocate
	writeFlags parameter = 'w' // flags of pwritev2
	rangeFlags parameter = 'c' // flags of close_range
	cloneFlags parameter = 'l'
	whence     parameter = 'W'
	control    parameter = 'C' // command of fcntl; the next argument depends on it
	request    parameter = 'I' // of ioctl; likewise
	opening    parameter = 'H' // struct open_how
	status     parameter = 's' // struct stat
	extended   parameter = 'S' // struct statx
	offset     parameter = 'O' // address of an offset, which the call advances
	pair       parameter = 'P' // address of two descriptors
	requests   parameter = 'A' // addresses of struct iocb
	results    parameter = 'E' // struct io_event
	lockFlags  parameter = 'L' // of flock
	ring       parameter = 'R' // struct io_uring_params
)

// sizes are the bytes that parameters need from the memory of the program.
var sizes = map[parameter]int32{
	opening: 24, status: 64, extended: 64, offset: 8, pair: 8, ring: 16, request: 32, control: 32,
}

// A syscall is a call that is recorded.
type syscall struct {
	name string // as strace prints it
	args string // parameters
	// Its result is a descriptor whose path is recorded.
	opens bool
	// Its time and its arguments do not matter.
	brief bool
}

// syscalls are all calls that package strace understands.
var syscalls = []syscall{
	{name: "read", args: "dxn"}, {name: "write", args: "dxn"},
	{name: "pread64", args: "dxnn"}, {name: "pwrite64", args: "dxnn"},
	{name: "readv", args: "dxn"}, {name: "writev", args: "dxn"},
	{name: "preadv", args: "dxnn"}, {name: "pwritev", args: "dxnn"},
	{name: "preadv2", args: "dxnn-w"}, {name: "pwritev2", args: "dxnn-w"},
	{name: "lseek", args: "dnW"},

	{name: "open", args: "po", opens: true}, {name: "openat", args: "Dpo", opens: true},
	{name: "openat2", args: "DpH", opens: true}, {name: "creat", args: "p", opens: true},
	{name: "open_by_handle_at", args: "dxo", opens: true},
	{name: "close", args: "d"}, {name: "close_range", args: "uuc"},
	{name: "dup", args: "d"}, {name: "dup2", args: "dd"}, {name: "dup3", args: "ddo"},
	{name: "fcntl", args: "dCx"}, {name: "flock", args: "dL"}, {name: "ioctl", args: "dIx"},

	{name: "sendfile", args: "ddOn"}, {name: "copy_file_range", args: "dOdOnx"}, {name: "splice", args: "dOdOnx"},
	{name: "io_submit", args: "xnA"}, {name: "io_getevents", args: "xnnEx"}, {name: "io_pgetevents", args: "xnnExx"},
	{name: "io_destroy", args: "x"},
	{name: "io_uring_setup", args: "nR"}, {name: "io_uring_enter", args: "dnn"},

	{name: "mmap", args: "xnrmdn"}, {name: "mremap", args: "xnn"}, {name: "msync", args: "xn"},

	{name: "fsync", args: "d"}, {name: "fdatasync", args: "d"}, {name: "syncfs", args: "d"}, {name: "sync"},
	{name: "sync_file_range", args: "dnn"},
	{name: "truncate", args: "pn"}, {name: "ftruncate", args: "dn"}, {name: "fallocate", args: "dfnn"},
	{name: "readahead", args: "dnn"},

	{name: "rename", args: "pp"}, {name: "renameat", args: "DpDp"}, {name: "renameat2", args: "DpDpe"},
	{name: "link", args: "pp"}, {name: "linkat", args: "DpDp"},
	{name: "unlink", args: "p"}, {name: "unlinkat", args: "Dp"}, {name: "rmdir", args: "p"},

	{name: "stat", args: "ps"}, {name: "lstat", args: "ps"},
	{name: "fstat", args: "ds"}, {name: "newfstatat", args: "Dpsa"},
	{name: "statx", args: "DpanS"},
	{name: "access", args: "p"}, {name: "faccessat", args: "Dp"}, {name: "faccessat2", args: "Dpxa"},

	{name: "chdir", args: "p"}, {name: "fchdir", args: "d"}, {name: "unshare", args: "l"},

	{name: "pipe", args: "P"}, {name: "pipe2", args: "Po"}, {name: "socketpair", args: "xxxP"},
	{name: "socket", brief: true}, {name: "accept", brief: true}, {name: "accept4", brief: true},
	{name: "eventfd", brief: true}, {name: "eventfd2", brief: true},
	{name: "epoll_create", brief: true}, {name: "epoll_create1", brief: true},
	{name: "inotify_init", brief: true}, {name: "inotify_init1", brief: true},
	{name: "timerfd_create", brief: true}, {name: "signalfd", brief: true}, {name: "signalfd4", brief: true},
	{name: "memfd_create", brief: true}, {name: "userfaultfd", brief: true},
	{name: "perf_event_open", brief: true}, {name: "pidfd_open", brief: true}, {name: "fanotify_init", brief: true},
}
