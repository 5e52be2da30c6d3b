package mount

import (
	"context"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Allocate makes a file of Files longer; it keeps no space for it.
func (h *handle) Allocate(ctx context.Context, off, bytes uint64, mode uint32) syscall.Errno {
	switch {
	case h.file == nil:
		return h.LoopbackFile.Allocate(ctx, off, bytes, mode)
	case mode == unix.FALLOC_FL_KEEP_SIZE:
		return 0
	case mode != 0:
		return syscall.EOPNOTSUPP
	}
	size, err := h.file.Size()
	if end := int64(off + bytes); err == nil && end > size {
		err = h.file.Truncate(end)
	}
	return errnoOf(err)
}

// Lseek finds data and holes: a file of Files is all data.
func (h *handle) Lseek(ctx context.Context, off uint64, whence uint32) (uint64, syscall.Errno) {
	if h.file == nil {
		return h.LoopbackFile.Lseek(ctx, off, whence)
	}
	size, err := h.file.Size()
	switch {
	case err != nil:
		return 0, errnoOf(err)
	case off >= uint64(size):
		return 0, syscall.ENXIO
	case whence == unix.SEEK_DATA:
		return off, 0
	case whence == unix.SEEK_HOLE:
		return uint64(size), 0
	}
	return 0, syscall.EINVAL
}

// end returns where to write. The kernel does not know what others have appended to a file, through
// another mount, or in the directory.
func (h *handle) end(off int64) (int64, error) {
	switch {
	case !h.appends || h.file != nil && !h.loop.o.Shared:
		return off, nil
	case h.file != nil:
		return h.file.Size()
	}
	var st unix.Stat_t
	err := unix.Fstat(h.fd, &st)
	return st.Size, err
}

// write writes some of b at an offset, or at the end, wherever that has gone meanwhile.
func (h *handle) write(b []byte, off int64) (int, error) {
	if !h.appends {
		return syscall.Pwrite(h.fd, b, off)
	}
	return unix.Pwritev2(h.fd, [][]byte{b}, off, unix.RWF_APPEND)
}

// Setlkw waits for a lock of a program on another node. It asks again and again: a call that waits in
// the kernel would go on when the program has been interrupted, or killed.
func (h *handle) Setlkw(ctx context.Context, owner uint64, lk *fuse.FileLock, flags uint32) syscall.Errno {
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		errno := h.Setlk(ctx, owner, lk, flags)
		if errno != syscall.EAGAIN && errno != syscall.EACCES {
			return errno
		}
		select {
		case <-ctx.Done():
			return syscall.EINTR
		case <-time.After(wait):
		}
	}
}

// Statx has the kernel ask Getattr instead, which knows the sizes of Files and of files without a
// name. The time of birth is lost.
func (n *node) Statx(context.Context, fs.FileHandle, uint32, uint32, *fuse.StatxOut) syscall.Errno {
	return syscall.ENOSYS
}
