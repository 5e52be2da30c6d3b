package mount

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
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
	h := &handle{LoopbackFile: disk, loop: l, name: r.Name, opener: r.Caller, appends: flags&syscall.O_APPEND != 0}
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
	if flags&syscall.O_DIRECT != 0 || l.seen() {
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
	// appends says that a program opened the file to write at its end.
	appends bool
	dirty   dirty // kept for a gate
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
func (h *handle) move(r *Request, part func(off, bytes int64) error) syscall.Errno {
	err := error(nil)
	if gate := h.loop.o.Gate; gate != nil && r.Bytes > 0 {
		err = gate.Move(r, part)
	} else {
		err = part(r.Offset, r.Bytes)
	}
	return errnoOf(err)
}

func (h *handle) Read(ctx context.Context, b []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	if h.loop.plain() {
		return h.LoopbackFile.Read(ctx, b, off)
	}
	r, n := h.request(ctx, Read, off, int64(len(b))), 0
	errno := h.move(r, func(at, bytes int64) error {
		if int64(n) < at-off {
			return nil // the file ends before
		}
		m, err := h.readAt(b[n:n+int(bytes)], at)
		n += m
		return err
	})
	if n > 0 {
		errno = 0
	}
	r.Bytes = int64(n)
	h.loop.tell(r, errno)
	return fuse.ReadResultData(b[:n]), errno
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
	errno := h.move(r, func(at, bytes int64) error {
		m, err := h.writeAt(b[n:n+int(bytes)], at)
		n += m
		return err
	})
	if h.loop.o.Gate != nil && n > 0 {
		h.dirty.add(off, off+int64(n))
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
		m, err := syscall.Pwrite(h.fd, b[n:], off+int64(n))
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
	var errno syscall.Errno
	if h.file != nil {
		errno = errnoOf(h.file.Sync())
	} else if errno = errnoOf(h.syncRange(r)); errno == 0 && flags&1 != 0 { // FUSE_FSYNC_FDATASYNC
		errno = errnoOf(syscall.Fdatasync(h.fd))
	} else if errno == 0 {
		errno = h.LoopbackFile.Fsync(ctx, flags)
	}
	h.loop.tell(r, errno)
	return errno
}

// dirty is the range of a handle that was written and is not synchronised.
type dirty struct {
	mu         sync.Mutex
	begin, end int64
}

func (d *dirty) add(begin, end int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.begin == d.end {
		d.begin, d.end = begin, end
	}
	d.begin, d.end = min(d.begin, begin), max(d.end, end)
}

func (d *dirty) take() (begin, end int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	begin, end = d.begin, d.end
	d.begin, d.end = 0, 0
	return begin, end
}

// How much of a file goes to the storage at one time: the next piece is twice as long after one that
// took less than quickPiece, so that a fast disk has enough to do, and others wait briefly.
const (
	firstPiece   = 4 << 20
	longestPiece = 256 << 20
	quickPiece   = 50 * time.Millisecond
)

// syncRange has dirty bytes go to the storage piece by piece, each when the gate says so: a write
// moves bytes into memory, and the disk works now. fsync follows, and finds little left.
func (h *handle) syncRange(r *Request) error {
	gate := h.loop.o.Gate
	if gate == nil {
		return nil
	}
	at, end := h.dirty.take()
	length := int64(firstPiece)
	for at < end {
		piece := *r
		piece.Offset, piece.Bytes = at, min(length, end-at)
		at += piece.Bytes
		err := gate.Move(&piece, func(off, bytes int64) error {
			began := time.Now()
			defer func() {
				if time.Since(began) < quickPiece {
					length = min(2*length, longestPiece)
				}
			}()
			err := unix.SyncFileRange(h.fd, off, bytes, unix.SYNC_FILE_RANGE_WAIT_BEFORE|unix.SYNC_FILE_RANGE_WRITE|unix.SYNC_FILE_RANGE_WAIT_AFTER)
			if errors.Is(err, syscall.ENOSYS) || errors.Is(err, syscall.ESPIPE) || errors.Is(err, syscall.EINVAL) {
				return nil // fsync does it
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (h *handle) Flush(ctx context.Context) syscall.Errno {
	if h.file != nil {
		return errnoOf(h.file.Flush())
	}
	return h.LoopbackFile.Flush(ctx)
}

func (h *handle) Release(ctx context.Context) syscall.Errno {
	r := h.request(ctx, Close, 0, 0)
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
