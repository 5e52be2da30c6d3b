package bpf

import (
	"encoding/binary"
	"strconv"
)

// arguments adds the arguments of a call that succeeded. It reports whether all parts of
// them were there.
func (c *converter) arguments(r *record, s *syscall, parts []piece) bool {
	first := true
	for i := range len(s.args) {
		p := parameter(s.args[i])
		if p == omitted {
			continue
		}
		if !first {
			c.put(", ")
		}
		first = false
		if !c.argument(r, s, i, p, parts) {
			return false
		}
	}
	return true
}

func (c *converter) argument(r *record, s *syscall, i int, p parameter, parts []piece) bool {
	v := r.arg(i)
	if size := sizes[p]; size > 0 && p != request && p != control {
		return c.memory(r, p, v, part(parts, i), int(size))
	}
	switch p {
	case descriptor, directory:
		if fd := int32(v); p == directory && fd == atCWD {
			c.put("AT_FDCWD")
		} else {
			c.line = strconv.AppendInt(c.line, int64(fd), 10)
		}
	case pathname:
		return c.path(v, s, i, parts)
	case number:
		c.line = strconv.AppendInt(c.line, int64(v), 10)
	case unsigned:
		c.line = strconv.AppendUint(c.line, uint64(uint32(v)), 10)
	case address:
		c.dependent(r, s, i, parts)
	case openFlags:
		c.opened(v)
	case mapFlags:
		if k := v & 0xf; k < uint64(len(mappingKinds)) && k > 0 {
			c.put(mappingKinds[k])
			c.put("|")
		}
		c.flags(v, ofMapping)
	case whence:
		if v := uint32(v); v < uint32(len(positions)) {
			c.put(positions[v])
		} else {
			c.hex(uint64(v))
		}
	case control:
		c.named(commands, uint32(v))
	case request:
		c.named(controls, uint32(v))
	case requests, results:
		c.list(p, parts)
	default:
		c.flags(uint64(uint32(v)), flagsOf[p])
	}
	return true
}

var flagsOf = map[parameter][]flag{
	protection: ofProtection, atFlags: ofAt, exchange: ofRename, allocate: ofAllocate, writeFlags: ofWrite,
	rangeFlags: ofRange, cloneFlags: ofClone, lockFlags: ofLock,
}

// path adds a path. Where the program gave it is not always readable; the path of the
// descriptor that was opened is as good.
func (c *converter) path(at uint64, s *syscall, i int, parts []piece) bool {
	if at == 0 {
		c.put("NULL")
		return true
	}
	b := part(parts, i)
	if b != nil {
		c.quoted(string(trim(b)))
		return true
	}
	name, ok := pathOf(parts)
	if ok && s.opens {
		c.quoted(name)
		return true
	}
	return false
}

func part(parts []piece, slot int) []byte {
	for _, p := range parts {
		if p.slot == slot {
			return p.text
		}
	}
	return nil
}

// memory adds what an argument points to.
func (c *converter) memory(r *record, p parameter, at uint64, b []byte, size int) bool {
	if at == 0 {
		c.put("NULL")
		return true
	}
	if len(b) < size {
		return false
	}
	switch p {
	case opening:
		c.put("{flags=")
		c.opened(binary.LittleEndian.Uint64(b))
		c.put("}")
	case status:
		c.status("st_", binary.LittleEndian.Uint32(b[24:]), binary.LittleEndian.Uint64(b[48:]))
	case extended:
		c.status("stx_", uint32(binary.LittleEndian.Uint16(b[28:])), binary.LittleEndian.Uint64(b[40:]))
	case offset: // after the call
		c.put("[")
		c.line = strconv.AppendInt(c.line, int64(binary.LittleEndian.Uint64(b))-r.result(), 10)
		c.put("]")
	case pair:
		c.put("[")
		c.line = strconv.AppendInt(c.line, int64(int32(binary.LittleEndian.Uint32(b))), 10)
		c.put(", ")
		c.line = strconv.AppendInt(c.line, int64(int32(binary.LittleEndian.Uint32(b[4:]))), 10)
		c.put("]")
	case ring:
		c.put("{flags=")
		c.flags(uint64(binary.LittleEndian.Uint32(b[8:])), ofRing)
		c.put("}")
	}
	return true
}

func (c *converter) status(prefix string, mode uint32, size uint64) {
	const format = 0o170000
	c.put("{" + prefix + "mode=" + fileTypes[mode&format] + "|0")
	c.line = strconv.AppendUint(c.line, uint64(mode&^format), 8)
	c.put(", " + prefix + "size=")
	c.line = strconv.AppendInt(c.line, int64(size), 10)
	c.put(", ...}")
}

// dependent adds an argument whose type depends on the one before it.
func (c *converter) dependent(r *record, s *syscall, i int, parts []piece) {
	v := r.arg(i)
	if i == 0 {
		c.hex(v)
		return
	}
	switch before := uint32(r.arg(i - 1)); parameter(s.args[i-1]) {
	case control:
		switch before {
		case setDescriptorFlags:
			c.flags(v, []flag{{1, "FD_CLOEXEC"}})
		case setStatusFlags:
			c.opened(v)
		case lockWait, lockWaitOpen:
			c.lock(part(parts, i), v)
		default:
			c.line = strconv.AppendInt(c.line, int64(int32(v)), 10)
		}
	case request:
		b := part(parts, i)
		switch {
		case before == fileClone:
			c.line = strconv.AppendInt(c.line, int64(int32(v)), 10)
		case before == fileCloneRange && len(b) >= 32:
			c.put("{src_fd=")
			c.line = strconv.AppendInt(c.line, int64(binary.LittleEndian.Uint64(b)), 10)
			c.put(", src_length=")
			c.line = strconv.AppendInt(c.line, int64(binary.LittleEndian.Uint64(b[16:])), 10)
			c.put(", dest_offset=")
			c.line = strconv.AppendInt(c.line, int64(binary.LittleEndian.Uint64(b[24:])), 10)
			c.put("}")
		default:
			c.hex(v)
		}
	default:
		c.hex(v)
	}
}

// lock adds the struct flock of a call that waits for a lock.
func (c *converter) lock(b []byte, at uint64) {
	if len(b) < int(sizes[control]) {
		c.hex(at)
		return
	}
	c.put("{l_type=")
	c.named(lockTypes, uint32(binary.LittleEndian.Uint16(b)))
	c.put(", l_whence=")
	if w := binary.LittleEndian.Uint16(b[2:]); int(w) < len(positions) {
		c.put(positions[w])
	} else {
		c.hex(uint64(w))
	}
	c.put(", l_start=")
	c.line = strconv.AppendInt(c.line, int64(binary.LittleEndian.Uint64(b[8:])), 10)
	c.put(", l_len=")
	c.line = strconv.AppendInt(c.line, int64(binary.LittleEndian.Uint64(b[16:])), 10)
	c.put("}")
}

// list adds the requests or the results of asynchronous I/O.
func (c *converter) list(p parameter, parts []piece) {
	c.put("[")
	first := true
	for _, part := range parts {
		b := part.text
		if part.slot != slotRequest && part.slot != slotResult && part.slot != slotMore {
			continue
		}
		if !first {
			c.put(", ")
		}
		first = false
		switch {
		case part.slot == slotRequest && p == requests && len(b) >= 64:
			c.asynchronous(b)
		case part.slot == slotResult && p == results && len(b) >= 32:
			c.put("{data=")
			c.hex(binary.LittleEndian.Uint64(b))
			c.put(", res=")
			c.line = strconv.AppendInt(c.line, int64(binary.LittleEndian.Uint64(b[16:])), 10)
			c.put("}")
		default:
			c.put("...")
		}
	}
	c.put("]")
}

// asynchronous adds a struct iocb.
func (c *converter) asynchronous(b []byte) {
	c.put("{aio_data=")
	c.hex(binary.LittleEndian.Uint64(b))
	c.put(", aio_lio_opcode=")
	op := int(binary.LittleEndian.Uint16(b[16:]))
	if op < len(asynchronous) && asynchronous[op] != "" {
		c.put(asynchronous[op])
	} else {
		c.hex(uint64(op))
	}
	c.put(", aio_fildes=")
	c.line = strconv.AppendInt(c.line, int64(int32(binary.LittleEndian.Uint32(b[20:]))), 10)
	if op >= 7 { // of vectors, whose lengths are elsewhere
		c.put(", aio_buf=[...]")
	} else {
		c.put(", aio_nbytes=")
		c.line = strconv.AppendInt(c.line, int64(binary.LittleEndian.Uint64(b[32:])), 10)
	}
	c.put(", aio_offset=")
	c.line = strconv.AppendInt(c.line, int64(binary.LittleEndian.Uint64(b[40:])), 10)
	c.put("}")
}

func (c *converter) flags(v uint64, list []flag) {
	some := false
	for _, f := range list {
		if v&f.bits != f.bits {
			continue
		}
		if some {
			c.put("|")
		}
		c.put(f.name)
		some = true
	}
	if !some {
		c.put("0")
	}
}

func (c *converter) opened(v uint64) {
	if v&3 == 0 {
		c.put("O_RDONLY|")
	}
	c.flags(v, ofOpen)
}

func (c *converter) named(names map[uint32]string, v uint32) {
	if name := names[v]; name != "" {
		c.put(name)
		return
	}
	c.hex(uint64(v))
}

func (c *converter) hex(v uint64) {
	c.put("0x")
	c.line = strconv.AppendUint(c.line, v, 16)
}

// A flag is a bit, or several, with its name in C.
type flag struct {
	bits uint64
	name string
}

// The flags that the importer of strace's text looks for. Others are left out.
var (
	ofOpen = []flag{
		{0o1, "O_WRONLY"}, {0o2, "O_RDWR"}, {0o100, "O_CREAT"}, {0o200, "O_EXCL"}, {0o1000, "O_TRUNC"}, {0o2000, "O_APPEND"},
		{0o10000, "O_DSYNC"}, {0o4010000, "O_SYNC"}, {0o40000, "O_DIRECT"}, {0o20200000, "O_TMPFILE"}, {0o2000000, "O_CLOEXEC"},
	}
	ofProtection = []flag{{1, "PROT_READ"}, {2, "PROT_WRITE"}, {4, "PROT_EXEC"}}
	ofMapping    = []flag{{mapAnonymous, "MAP_ANONYMOUS"}, {0x800, "MAP_DENYWRITE"}}
	ofAt         = []flag{{0x1000, "AT_EMPTY_PATH"}}
	ofRename     = []flag{{2, "RENAME_EXCHANGE"}}
	ofAllocate   = []flag{
		{0x1, "FALLOC_FL_KEEP_SIZE"}, {0x2, "FALLOC_FL_PUNCH_HOLE"}, {0x8, "FALLOC_FL_COLLAPSE_RANGE"},
		{0x10, "FALLOC_FL_ZERO_RANGE"}, {0x20, "FALLOC_FL_INSERT_RANGE"},
	}
	ofWrite = []flag{{0x2, "RWF_DSYNC"}, {0x4, "RWF_SYNC"}, {0x10, "RWF_APPEND"}, {0x20, "RWF_NOAPPEND"}}
	ofRange = []flag{{2, "CLOSE_RANGE_UNSHARE"}, {4, "CLOSE_RANGE_CLOEXEC"}}
	ofClone = []flag{{cloneVM, "CLONE_VM"}, {cloneFS, "CLONE_FS"}, {cloneFiles, "CLONE_FILES"}, {cloneThread, "CLONE_THREAD"}}
	ofRing  = []flag{{2, "IORING_SETUP_SQPOLL"}}
)

// Flags of clone, which the program for forks works out.
const (
	cloneVM     = 0x100
	cloneFS     = 0x200
	cloneFiles  = 0x400
	cloneThread = 0x10000
)

// mapAnonymous is MAP_ANONYMOUS: memory without a file, which programs take often.
const mapAnonymous = 0x20

// atCWD is AT_FDCWD.
const atCWD = -100

// mappingKinds are the values of MAP_TYPE.
var mappingKinds = []string{1: "MAP_SHARED", 2: "MAP_PRIVATE", 3: "MAP_SHARED_VALIDATE"}

var positions = []string{"SEEK_SET", "SEEK_CUR", "SEEK_END", "SEEK_DATA", "SEEK_HOLE"}

// Commands of fcntl.
const (
	duplicate          = 0
	setDescriptorFlags = 2
	setStatusFlags     = 4
	lockWait           = 7
	lockWaitOpen       = 38 // of an open file description
	duplicateCloexec   = 1030
)

var commands = map[uint32]string{
	duplicate: "F_DUPFD", 1: "F_GETFD", setDescriptorFlags: "F_SETFD", 3: "F_GETFL", setStatusFlags: "F_SETFL",
	6: "F_SETLK", lockWait: "F_SETLKW", lockWaitOpen: "F_OFD_SETLKW", duplicateCloexec: "F_DUPFD_CLOEXEC",
}

// lockTypes are the values of l_type.
var lockTypes = map[uint32]string{0: "F_RDLCK", 1: "F_WRLCK", 2: "F_UNLCK"}

var ofLock = []flag{{1, "LOCK_SH"}, {2, "LOCK_EX"}, {4, "LOCK_NB"}, {8, "LOCK_UN"}}

// Requests of ioctl.
const (
	fileClone      = 0x40049409
	fileCloneRange = 0x4020940d
)

var controls = map[uint32]string{
	0x5450: "FIONCLEX", 0x5451: "FIOCLEX", fileClone: "FICLONE", fileCloneRange: "FICLONERANGE", 0xc0189436: "FIDEDUPERANGE",
}

// asynchronous are the operations of struct iocb.
var asynchronous = []string{
	"IOCB_CMD_PREAD", "IOCB_CMD_PWRITE", "IOCB_CMD_FSYNC", "IOCB_CMD_FDSYNC", 5: "IOCB_CMD_POLL", 6: "IOCB_CMD_NOOP",
	7: "IOCB_CMD_PREADV", 8: "IOCB_CMD_PWRITEV",
}

// fileTypes are the values of S_IFMT in a mode.
var fileTypes = map[uint32]string{
	0o140000: "S_IFSOCK", 0o120000: "S_IFLNK", 0o100000: "S_IFREG", 0o060000: "S_IFBLK", 0o040000: "S_IFDIR",
	0o020000: "S_IFCHR", 0o010000: "S_IFIFO",
}
