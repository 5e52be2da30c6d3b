package mount

import (
	"context"
	"syscall"

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

// end returns where to write. The kernel does not know what others have appended to a shared file.
func (h *handle) end(off int64) (int64, error) {
	if !h.appends || h.file == nil || !h.loop.o.Shared {
		return off, nil
	}
	return h.file.Size()
}

// Statx has the kernel ask Getattr instead, which knows the sizes of Files and of files without a
// name. The time of birth is lost.
func (n *node) Statx(context.Context, fs.FileHandle, uint32, uint32, *fuse.StatxOut) syscall.Errno {
	return syscall.ENOSYS
}
