package bpf

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
	event string // of the kernel, behind sys_enter_
	name  string // as strace prints it, if it is another one
	args  string // parameters
	// Its result is a descriptor whose path is recorded.
	opens bool
	// Its time does not matter, and neither do its arguments.
	brief bool
}

// syscalls are all calls that package strace understands.
var syscalls = []syscall{
	{event: "read", args: "dxn"}, {event: "write", args: "dxn"},
	{event: "pread64", args: "dxnn"}, {event: "pwrite64", args: "dxnn"},
	{event: "readv", args: "dxn"}, {event: "writev", args: "dxn"},
	{event: "preadv", args: "dxnn"}, {event: "pwritev", args: "dxnn"},
	{event: "preadv2", args: "dxnn-w"}, {event: "pwritev2", args: "dxnn-w"},
	{event: "lseek", args: "dnW"},

	{event: "open", args: "po", opens: true}, {event: "openat", args: "Dpo", opens: true},
	{event: "openat2", args: "DpH", opens: true}, {event: "creat", args: "p", opens: true},
	{event: "open_by_handle_at", args: "dxo", opens: true},
	{event: "close", args: "d"}, {event: "close_range", args: "uuc"},
	{event: "dup", args: "d"}, {event: "dup2", args: "dd"}, {event: "dup3", args: "ddo"},
	{event: "fcntl", args: "dCx"}, {event: "flock", args: "dL"}, {event: "ioctl", args: "dIx"},

	{event: "sendfile64", args: "ddOn"}, {event: "copy_file_range", args: "dOdOnx"}, {event: "splice", args: "dOdOnx"},
	{event: "io_submit", args: "xnA"}, {event: "io_getevents", args: "xnnEx"}, {event: "io_pgetevents", args: "xnnExx"},
	{event: "io_destroy", args: "x"},
	{event: "io_uring_setup", args: "nR"}, {event: "io_uring_enter", args: "dnn"},

	{event: "mmap", args: "xnrmdn"}, {event: "mremap", args: "xnn"}, {event: "msync", args: "xn"},

	{event: "fsync", args: "d"}, {event: "fdatasync", args: "d"}, {event: "syncfs", args: "d"}, {event: "sync"},
	{event: "sync_file_range", args: "dnn"},
	{event: "truncate", args: "pn"}, {event: "ftruncate", args: "dn"}, {event: "fallocate", args: "dfnn"},
	{event: "readahead", args: "dnn"},

	{event: "rename", args: "pp"}, {event: "renameat", args: "DpDp"}, {event: "renameat2", args: "DpDpe"},
	{event: "link", args: "pp"}, {event: "linkat", args: "DpDp"},
	{event: "unlink", args: "p"}, {event: "unlinkat", args: "Dp"}, {event: "rmdir", args: "p"},

	{event: "newstat", name: "stat", args: "ps"}, {event: "newlstat", name: "lstat", args: "ps"},
	{event: "newfstat", name: "fstat", args: "ds"}, {event: "newfstatat", args: "Dpsa"},
	{event: "statx", args: "DpanS"},
	{event: "access", args: "p"}, {event: "faccessat", args: "Dp"}, {event: "faccessat2", args: "Dpxa"},

	{event: "chdir", args: "p"}, {event: "fchdir", args: "d"}, {event: "unshare", args: "l"},

	{event: "pipe", args: "P"}, {event: "pipe2", args: "Po"}, {event: "socketpair", args: "xxxP"},
	{event: "socket", brief: true}, {event: "accept", brief: true}, {event: "accept4", brief: true},
	{event: "eventfd", brief: true}, {event: "eventfd2", brief: true},
	{event: "epoll_create", brief: true}, {event: "epoll_create1", brief: true},
	{event: "inotify_init", brief: true}, {event: "inotify_init1", brief: true},
	{event: "timerfd_create", brief: true}, {event: "signalfd", brief: true}, {event: "signalfd4", brief: true},
	{event: "memfd_create", brief: true}, {event: "userfaultfd", brief: true},
	{event: "perf_event_open", brief: true}, {event: "pidfd_open", brief: true}, {event: "fanotify_init", brief: true},
}

// printed is the name in the text.
func (s *syscall) printed() string {
	if s.name != "" {
		return s.name
	}
	return s.event
}
