package mount

import (
	"context"
	"errors"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// An Op is what a request does.
type Op uint8

// The operations.
const (
	Open Op = iota
	Read
	Write
	Sync
	Truncate
	Rename
	Unlink
	Close
)

// A Caller is the thread that made a request. Pid is 0 where the kernel does not say: pages of
// mapped files are written by the kernel.
type Caller struct{ Pid, Uid, Gid uint32 }

// A Request is an operation of a program on a file of the mount.
type Request struct {
	Op     Op
	Create bool   // of Open
	Name   string // relative to the directory; of an open file the name that it was opened with
	To     string // of Rename
	Offset int64
	Bytes  int64 // when it is done, those that were moved
	Caller Caller
	Opener Caller // of an open file
	Errno  syscall.Errno

	began time.Time
}

// End is the offset behind the last byte.
func (r *Request) End() int64 { return r.Offset + r.Bytes }

// request begins a request.
func (l *loop) request(ctx context.Context, op Op, name string) *Request {
	r := &Request{Op: op, Name: name, Caller: callerOf(ctx)}
	r.Opener = r.Caller
	if l.o.Watch != nil {
		r.began = time.Now()
	}
	return r
}

func callerOf(ctx context.Context) (c Caller) {
	if f, ok := fuse.FromContext(ctx); ok {
		c = Caller{Pid: f.Pid, Uid: f.Uid, Gid: f.Gid}
	}
	return c
}

// tell ends a request.
func (l *loop) tell(r *Request, errno syscall.Errno) {
	if l.o.Watch != nil {
		r.Errno = errno
		l.o.Watch.Done(r, r.began, time.Now())
	}
}

// handle makes the handle of a file that a program has opened.
func (l *loop) handle(r *Request, disk *fs.LoopbackFile, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	h := &handle{LoopbackFile: disk, loop: l, name: r.Name, opener: r.Caller,
		appends: flags&syscall.O_APPEND != 0, syncs: flags&(syscall.O_SYNC|syscall.O_DSYNC) != 0,
		readOnly: flags&syscall.O_ACCMODE == syscall.O_RDONLY}
	fd, ok := disk.PassthroughFd()
	if !ok {
		return nil, 0, syscall.EBADF
	}
	h.fd = fd
	if l.o.Files != nil {
		file, err := l.open(r.Name, flags, fd)
		if err != nil {
			disk.Release(context.Background())
			return nil, 0, errnoOf(err)
		}
		h.file = file
	}
	var reply uint32
	if h.direct = flags&syscall.O_DIRECT != 0 || l.seen(); h.direct {
		reply |= fuse.FOPEN_DIRECT_IO
	}
	return h, reply, 0
}

// open opens the bytes of a file elsewhere.
func (l *loop) open(name string, flags uint32, fd int) (File, error) {
	own, err := syscall.Dup(fd)
	if err != nil {
		return nil, err
	}
	disk := os.NewFile(uintptr(own), name)
	file, err := l.o.Files.Open(name, int(flags), disk)
	if err != nil || file == nil {
		disk.Close()
	}
	return file, err
}

// A handle is a file that a program has open. Locks, holes and the like are those of the file in
// the directory.
type handle struct {
	*fs.LoopbackFile
	loop   *loop
	fd     int // of LoopbackFile, until Release
	file   File
	name   string
	opener Caller
	// direct says that the kernel keeps no pages: a program gets what a read returns. For pages it
	// would take fewer bytes for the end of the file.
	direct bool
	// appends says that a program opened the file to write at its end.
	appends bool
	// syncs says that each write is on the disk when it returns.
	syncs    bool
	readOnly bool
	dirty    dirty // kept for a gate
}

// PassthroughFd lets the kernel move bytes by itself where no request must be seen.
func (h *handle) PassthroughFd() (int, bool) {
	if !h.loop.plain() {
		return 0, false
	}
	return h.LoopbackFile.PassthroughFd()
}

func (h *handle) request(ctx context.Context, op Op, off, bytes int64) *Request {
	r := h.loop.request(ctx, op, h.name)
	r.Offset, r.Bytes, r.Opener = off, bytes, h.opener
	return r
}

// move moves bytes when the gate says so.
func (h *handle) move(r *Request, part func(off, bytes, behind int64) error) syscall.Errno {
	err := error(nil)
	if gate := h.loop.o.Gate; gate != nil && r.Bytes > 0 {
		err = gate.Move(r, part)
	} else {
		err = part(r.Offset, r.Bytes, 0)
	}
	return errnoOf(err)
}

func (h *handle) Read(ctx context.Context, b []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	n, errno := h.read(ctx, b, off)
	if errno != 0 { // a result would make the read a success
		return nil, errno
	}
	return fuse.ReadResultData(b[:n]), 0
}

// read returns fewer bytes than it was asked for at the end of the file, and of a direct handle before
// an error that the next call meets.
func (h *handle) read(ctx context.Context, b []byte, off int64) (int, syscall.Errno) {
	r, n := h.request(ctx, Read, off, int64(len(b))), 0
	errno := h.move(r, func(at, bytes, behind int64) error {
		if int64(n) < at-off {
			return nil // the file ends before
		}
		if behind > 0 && h.file == nil && bytes+behind > h.loop.readAhead {
			// The kernel gets all of it in a few large requests, and each reader finds its part in memory.
			_ = unix.Fadvise(h.fd, at, bytes+behind, unix.FADV_WILLNEED)
		}
		m, err := h.readAt(b[n:n+int(bytes)], at)
		n += m
		return err
	})
	switch {
	case errno != 0 && n > 0 && h.direct:
		errno = 0
	case errno != 0:
		n = 0
	}
	r.Bytes = int64(n)
	h.loop.tell(r, errno)
	return n, errno
}

func (h *handle) readAt(b []byte, off int64) (n int, err error) {
	if h.file != nil {
		if n, err = h.file.ReadAt(b, off); err == io.EOF {
			err = nil
		}
		return n, err
	}
	for n < len(b) {
		m, err := syscall.Pread(h.fd, b[n:], off+int64(n))
		if err == syscall.EINTR {
			continue
		}
		if m <= 0 || err != nil {
			return n, err
		}
		n += m
	}
	return n, nil
}

func (h *handle) Write(ctx context.Context, b []byte, off int64) (uint32, syscall.Errno) {
	off, err := h.end(off)
	if err != nil {
		return 0, errnoOf(err)
	}
	r, n := h.request(ctx, Write, off, int64(len(b))), 0
	part := func(at, bytes, _ int64) error {
		m, err := h.writeAt(b[n:n+int(bytes)], at)
		n += m
		return err
	}
	var errno syscall.Errno
	if h.intoMemory(off, r.End()) {
		errno = errnoOf(part(off, r.Bytes, 0))
	} else {
		errno = h.move(r, part)
	}
	if h.loop.o.Gate != nil && h.file == nil && n > 0 {
		h.wrote(r, off+int64(n))
	}
	if n > 0 {
		errno = 0 // the next call of the program meets the error
	}
	r.Bytes = int64(n)
	h.loop.tell(r, errno)
	return uint32(n), errno
}

func (h *handle) writeAt(b []byte, off int64) (n int, err error) {
	if h.file != nil {
		return h.file.WriteAt(b, off)
	}
	for n < len(b) {
		m, err := h.write(b[n:], off+int64(n))
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return n, err
		}
		n += m
	}
	return n, nil
}

func (h *handle) Fsync(ctx context.Context, flags uint32) syscall.Errno {
	r := h.request(ctx, Sync, 0, 0)
	var err error
	switch {
	case h.file != nil:
		err = h.file.Sync()
	case flags&1 != 0: // FUSE_FSYNC_FDATASYNC
		err = h.sync(r, func() error { return syscall.Fdatasync(h.fd) })
	default:
		err = h.sync(r, func() error { return syscall.Fsync(h.fd) })
	}
	errno := errnoOf(err)
	h.loop.tell(r, errno)
	return errno
}

func (h *handle) Flush(ctx context.Context) syscall.Errno {
	if h.file != nil {
		return errnoOf(h.file.Flush())
	}
	return h.LoopbackFile.Flush(ctx)
}

func (h *handle) Release(ctx context.Context) syscall.Errno {
	r := h.request(ctx, Close, 0, 0)
	h.dirty.wait() // it uses fd
	var err error
	if h.file != nil {
		err = h.file.Close()
	}
	errno := h.LoopbackFile.Release(ctx)
	if err != nil {
		errno = errnoOf(err)
	}
	h.loop.tell(r, errno)
	return errno
}

// errnoOf is the number of an error, EIO of one without a number.
func errnoOf(err error) syscall.Errno {
	var errno syscall.Errno
	switch {
	case err == nil:
		return 0
	case errors.As(err, &errno):
		return errno
	case errors.Is(err, os.ErrNotExist):
		return syscall.ENOENT
	case errors.Is(err, os.ErrPermission):
		return syscall.EACCES
	}
	return syscall.EIO
}
