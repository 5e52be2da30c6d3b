package strace

import (
	"maps"
	"path"
	"slices"
	"strings"

	"ckpt/iotrace"
)

// A call is a successful system call.
type call struct {
	im    *importer
	task  *task
	name  string
	args  [][]byte
	first descriptor // the first argument, as it was when the call began
	begun bool       // first was looked up on an earlier line
	// The identity of an event's process plus one, if it is not the task's; else 0.
	ranked int32
	result
	start, end int64
	unnoted    bool  // a descriptor has no note of -y
	timeless   bool  // its duration is not known
	err        error // the reason why the call is impossible
}

// handlers maps calls to functions. They report whether they understood the arguments.
var handlers map[string]func(*call) bool

func init() {
	handlers = map[string]func(*call) bool{
		"open":    func(c *call) bool { return c.open(nil, c.arg(0), c.arg(1)) },
		"openat":  func(c *call) bool { return c.open(c.arg(0), c.arg(1), c.arg(2)) },
		"openat2": func(c *call) bool { return c.open(c.arg(0), c.arg(1), member(c.arg(2), "flags")) },
		"creat":   func(c *call) bool { return c.open(nil, c.arg(0), []byte("O_CREAT|O_TRUNC")) },

		"read":     func(c *call) bool { return c.transfer(iotrace.Read, nil) },
		"readv":    func(c *call) bool { return c.transfer(iotrace.Read, nil) },
		"pread64":  func(c *call) bool { return c.transfer(iotrace.Read, c.arg(3)) },
		"pread":    func(c *call) bool { return c.transfer(iotrace.Read, c.arg(3)) },
		"preadv":   func(c *call) bool { return c.transfer(iotrace.Read, c.arg(3)) },
		"preadv2":  func(c *call) bool { return c.transfer(iotrace.Read, c.arg(3)) },
		"write":    func(c *call) bool { return c.transfer(iotrace.Write, nil) },
		"writev":   func(c *call) bool { return c.transfer(iotrace.Write, nil) },
		"pwrite64": func(c *call) bool { return c.transfer(iotrace.Write, c.arg(3)) },
		"pwrite":   func(c *call) bool { return c.transfer(iotrace.Write, c.arg(3)) },
		"pwritev":  func(c *call) bool { return c.transfer(iotrace.Write, c.arg(3)) },
		"pwritev2": func(c *call) bool { return c.transfer(iotrace.Write, c.arg(3)) },

		"sendfile":        func(c *call) bool { return c.pass(1, 2, 0, -1) },
		"sendfile64":      func(c *call) bool { return c.pass(1, 2, 0, -1) },
		"copy_file_range": func(c *call) bool { return c.pass(0, 1, 2, 3) },
		"splice":          func(c *call) bool { return c.pass(0, 1, 2, 3) },

		"io_submit":            (*call).submit,
		"io_getevents":         (*call).results,
		"io_pgetevents":        (*call).results,
		"io_pgetevents_time64": (*call).results,
		"io_destroy":           (*call).destroy,
		"io_uring_setup":       (*call).ringSetup,
		"io_uring_enter":       (*call).ringEnter,
		"open_by_handle_at":    (*call).openHandle,

		"lseek":   (*call).seek,
		"_llseek": (*call).seekLarge,
		"mmap":    (*call).mmap,
		"mremap":  (*call).mremap,
		"msync":   (*call).msync,
		"mmap2":   (*call).mmap, // strace converts pages to bytes

		"dup":         func(c *call) bool { return c.dup(c.value, false) },
		"dup2":        func(c *call) bool { return c.dup(c.value, false) },
		"dup3":        func(c *call) bool { return c.dup(c.value, hasFlag(c.arg(2), "O_CLOEXEC")) },
		"fcntl":       (*call).fcntl,
		"fcntl64":     (*call).fcntl,
		"flock":       (*call).flock,
		"ioctl":       (*call).ioctl,
		"close":       (*call).closeOne,
		"close_range": (*call).closeRange,

		"fsync":           func(c *call) bool { return c.sync(iotrace.None, 0) },
		"fdatasync":       func(c *call) bool { return c.sync(iotrace.None, 0) },
		"syncfs":          func(c *call) bool { return c.sync(iotrace.None, 0) },
		"sync_file_range": (*call).syncRange,
		"sync":            (*call).syncAll,

		"rename":    func(c *call) bool { return c.rename(nil, c.arg(0), nil, c.arg(1), nil) },
		"renameat":  func(c *call) bool { return c.rename(c.arg(0), c.arg(1), c.arg(2), c.arg(3), nil) },
		"renameat2": func(c *call) bool { return c.rename(c.arg(0), c.arg(1), c.arg(2), c.arg(3), c.arg(4)) },
		"link":      func(c *call) bool { return c.link(nil, c.arg(0), nil, c.arg(1)) },
		"linkat":    func(c *call) bool { return c.link(c.arg(0), c.arg(1), c.arg(2), c.arg(3)) },
		"unlink":    func(c *call) bool { return c.unlink(nil, c.arg(0)) },
		"unlinkat":  func(c *call) bool { return c.unlink(c.arg(0), c.arg(1)) },
		"rmdir":     func(c *call) bool { return c.unlink(nil, c.arg(0)) },

		"truncate":    (*call).truncate,
		"truncate64":  (*call).truncate,
		"readahead":   (*call).readahead,
		"ftruncate":   (*call).ftruncate,
		"ftruncate64": (*call).ftruncate,
		"fallocate":   (*call).fallocate,

		"stat":       func(c *call) bool { return c.stat(nil, c.arg(0), c.arg(1)) },
		"stat64":     func(c *call) bool { return c.stat(nil, c.arg(0), c.arg(1)) },
		"lstat":      func(c *call) bool { return c.stat(nil, c.arg(0), nil) },
		"lstat64":    func(c *call) bool { return c.stat(nil, c.arg(0), nil) },
		"fstat":      func(c *call) bool { return c.fstat(c.arg(1)) },
		"fstat64":    func(c *call) bool { return c.fstat(c.arg(1)) },
		"newfstatat": func(c *call) bool { return c.statAt(c.arg(2), c.arg(3)) },
		"fstatat64":  func(c *call) bool { return c.statAt(c.arg(2), c.arg(3)) },
		"statx":      func(c *call) bool { return c.statAt(c.arg(4), c.arg(2)) },
		"access":     func(c *call) bool { return c.stat(nil, c.arg(0), nil) },
		"faccessat":  func(c *call) bool { return c.statAt(nil, nil) },
		"faccessat2": func(c *call) bool { return c.statAt(nil, c.arg(3)) },

		"chdir":   (*call).chdir,
		"fchdir":  (*call).fchdir,
		"getcwd":  (*call).getcwd,
		"execve":  (*call).exec,
		"unshare": (*call).unshare,
	}
	for name, kind := range map[string]string{
		"socket": "socket", "accept": "socket", "accept4": "socket", "eventfd": "eventfd", "eventfd2": "eventfd",
		"epoll_create": "eventpoll", "epoll_create1": "eventpoll", "inotify_init": "inotify", "inotify_init1": "inotify",
		"timerfd_create": "timerfd", "signalfd": "signalfd", "signalfd4": "signalfd", "memfd_create": "memory file",
		"userfaultfd": "userfaultfd", "perf_event_open": "perf_event", "pidfd_open": "pidfd", "fanotify_init": "fanotify",
	} {
		handlers[name] = func(c *call) bool { c.install(c.value, kind, c.args); return true }
	}
	for _, name := range []string{"pipe", "pipe2", "socketpair"} {
		handlers[name] = (*call).pair
	}
	handlers["execveat"] = (*call).execAt
}

// arg returns an argument, or nil if there are fewer.
func (c *call) arg(i int) []byte {
	if i < 0 || i >= len(c.args) {
		return nil
	}
	return c.args[i]
}

// lookup returns the open file description of a descriptor. If it was opened before
// the trace, or unseen, lookup makes one from the text of -y. It returns nil if
// nothing is known.
func (c *call) lookup(i int) (*open, bool) { return c.resolve(c.arg(i), i == 0 && c.begun) }

// resolve is lookup for the text of a descriptor. begun is set if it is the first argument
// of a call that began on an earlier line.
func (c *call) resolve(text []byte, begun bool) (*open, bool) {
	fd, note, ok := parseFD(text)
	if !ok {
		return nil, false
	}
	d := c.task.fds.fds[fd]
	given := false // the number may have been reused meanwhile
	if begun {
		given = c.name == "close" || d.open != c.first.open
		d = c.first
	}
	if d.open == nil && note == nil && fd >= 0 && fd <= 2 {
		d = descriptor{open: &open{kind: standardStream, offset: iotrace.None, unseen: true}}
		if !given {
			c.task.fds.fds[fd] = d
		}
	}
	switch {
	case note == nil:
		c.unnoted = true
	case d.open == nil || c.denied(note, d):
		d = descriptor{open: &open{kind: kindOfNote(note), offset: iotrace.None, unseen: true}}
		if d.kind == "" {
			d.name, d.noted = notePath(note), true
			if _, deleted := deletedNote(note); deleted && c.im.left[d.name] { // by another file, since
				d.node = &node{path: d.name, size: iotrace.None, gone: true}
				d.name, d.noted = d.name+" (deleted)", false
			} else {
				d.node = c.im.nodeOf(d.name)
			}
		}
		if !given {
			c.task.fds.fds[fd] = d
		}
	case d.noted && d.node != nil && d.name != d.node.path: // it was renamed
		d.name, d.index = d.node.path, 0
	}
	return d.open, true
}

// standardStream returns the kind of a descriptor that a program begins with, while
// its target is unknown.
const standardStream = "standard stream"

// denied reports whether -y contradicts what was opened: the number was closed and
// reused, unseen.
func (c *call) denied(note []byte, d descriptor) bool {
	switch {
	case d.kind == unknownDescriptor:
		return true
	case d.node == nil: // a file in memory has a path, but not on a disk
		return kindOfNote(note) == "" && !strings.HasPrefix(notePath(note), "/memfd:")
	}
	name, deleted := deletedNote(note)
	there := c.im.nodes[d.node.path] == d.node
	switch {
	case isPath(name, d.node.path):
		return !there && !deleted // another file has taken the name
	case kindOfNote(name) != "":
		return true
	case d.node.path == "" || d.node.path[0] != '/': // was opened by an incomplete path
		return false
	}
	real := notePath(name)
	if c.im.nodes[real] == d.node || real == d.node.path+" (deleted)" { // another link, an old strace
		return false
	}
	// NFS gives files another name that are removed while they are open.
	return there || !deleted && !strings.HasPrefix(path.Base(real), ".nfs")
}

// unknownDescriptor is the kind of a standard descriptor that was redirected to
// something unknown.
const unknownDescriptor = "unknown descriptor"

// file is lookup for calls on files. It counts descriptors of other kinds and returns
// nil for them.
func (c *call) file(i int) (*open, bool) {
	o, ok := c.lookup(i)
	switch {
	case !ok || o != nil && o.kind == "":
		return o, ok
	case o != nil:
		c.im.rep.Other(o.kind)
	default:
		c.im.rep.Other(unknownDescriptor)
	}
	return nil, true
}

// dataFile is file for calls that move c.value bytes.
func (c *call) dataFile(i int) (*open, bool) {
	o, ok := c.lookup(i)
	if ok && (o == nil || o.kind == unknownDescriptor) {
		c.im.astray(c.value)
		return nil, true
	}
	return c.file(i)
}

func (im *importer) astray(bytes int64) {
	im.rep.Astray++
	im.rep.AstrayBytes += bytes
}

// emit adds an event. name is that of the file, or empty.
func (c *call) emit(op iotrace.Op, name string, offset, bytes int64) *iotrace.Event {
	file := int32(iotrace.None)
	if name != "" {
		file = c.im.tables.File(name)
	}
	return c.event(op, file, offset, bytes)
}

// on is emit for an operation on an open file. It is the most frequent case.
func (c *call) on(o *open, op iotrace.Op, offset, bytes int64) {
	if o.node != nil && o.node.gone {
		c.keepApart(o)
	}
	if o.index == 0 && o.name != "" {
		o.index = c.im.tables.File(o.name) + 1
	}
	c.event(op, o.index-1, offset, bytes)
}

// keepApart gives a file that was renamed or removed another name, if its own is that of
// another file by now: its last one, or the one that the kernel gives deleted files.
//
// The process that opened a file goes on with the name that it used (FollowRenames).
func (c *call) keepApart(o *open) {
	there, taken := c.im.nodes[o.node.path] == o.node, c.im.left[o.name]
	switch {
	case there && o.name == o.node.path, !taken && o.by == c.task.process, c.im.nodes[o.name] == o.node:
		return
	case there && o.by == c.task.process:
		c.im.unseen.of(nameTaken, c.im.tables.File(o.name), 0)
		return
	case there:
		o.name = o.node.path
	case !taken:
		return
	default:
		o.name += " (deleted)"
	}
	o.index, o.noted = 0, false
}

func (c *call) event(op iotrace.Op, file int32, offset, bytes int64) *iotrace.Event {
	im := c.im
	e := iotrace.Event{Op: op, File: file, Peer: iotrace.None, Offset: offset, Bytes: bytes, Start: c.start, End: c.end}
	if e.Rank = c.ranked - 1; c.ranked == 0 {
		e.Rank = im.rank(c.task.process)
	}
	if err := e.Check(len(im.identities), len(im.t.Files)); err != nil {
		c.err = err
		return new(iotrace.Event) // not &e, which would put every event on the heap
	}
	im.t.Events = append(im.t.Events, e)
	return &im.t.Events[len(im.t.Events)-1]
}

// install adds a descriptor that is not a file to the table.
func (c *call) install(fd int64, kind string, flags [][]byte) {
	d := descriptor{open: &open{kind: kind, offset: iotrace.None}}
	for _, a := range flags {
		for _, f := range []string{"SOCK_CLOEXEC", "O_CLOEXEC", "EFD_CLOEXEC", "EPOLL_CLOEXEC", "IN_CLOEXEC", "TFD_CLOEXEC", "SFD_CLOEXEC", "MFD_CLOEXEC"} {
			d.closeOnExec = d.closeOnExec || hasFlag(a, f)
		}
	}
	c.task.fds.fds[fd] = d
}

// pair handles pipe and socketpair, which return descriptors in an argument.
func (c *call) pair() bool {
	kind, arg := "pipe", c.arg(0)
	if c.name == "socketpair" {
		kind, arg = "socket", c.arg(3)
	}
	n := len(arg)
	if n < 2 || arg[0] != '[' || arg[n-1] != ']' {
		return false
	}
	fds, _, ok := splitArgs(nil, append(append([]byte(nil), arg[1:n-1]...), ')'))
	if !ok || len(fds) != 2 {
		return false
	}
	for _, f := range fds {
		fd, _, ok := parseFD(f)
		if !ok {
			return false
		}
		c.install(fd, kind, c.args)
	}
	return true
}

// number reads a numeric argument.
func (c *call) number(i int) (int64, bool) { return integer(c.arg(i)) }

// Filter is the flag with which strace lets the kernel pass other calls without a stop
// (strace 5.3 and later).
const Filter = "--seccomp-bpf"

// Flags are the flags of strace that give Read all that it needs, and little more: every
// further call that strace stops at takes about 15 µs. With filter, Filter is one of
// them.
func Flags(filter bool) []string {
	// Some versions of strace do not know all calls: those with ? may be missing.
	calls := "?" + strings.Join(slices.Sorted(maps.Keys(handlers)), ",?") + ",?fork,?vfork,?clone,?clone3"
	flags := []string{"-f", "-ttt", "-T", "-y", "-s", "32",
		"-e", "abbrev=!execve,execveat,io_submit,io_getevents,io_pgetevents", "-e", "trace=" + calls}
	if filter {
		flags = append([]string{Filter}, flags...)
	}
	return flags
}
