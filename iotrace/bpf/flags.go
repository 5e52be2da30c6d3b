package bpf

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
