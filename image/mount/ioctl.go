package mount

import (
	"context"
	"encoding/binary"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fs"
	"golang.org/x/sys/unix"
)

// A ConditionalFile is a File that writes a cell only if it is free.
type ConditionalFile interface {
	// WriteIf writes b if no bit of mask is set in any of its bytes, in one step for all programs.
	WriteIf(b []byte, off int64, mask byte) (written bool, err error)
}

// Conditional writes of programs are calls of ioctl(2) with the number WriteIf, whose argument has 16
// bytes, the offset (64 bits of the machine's order), the mask (8 bits), zeros, and the cell behind
// them. The length is part of the number, as of all calls that write: _IOW('k', 'w', char[16+n]).
const (
	writeIfHead   = 16
	writeIfNumber = 1<<30 | 'k'<<8 | 'w' // _IOC_WRITE
	ioctlLength   = 0x3fff << 16
)

// attributes are calls that the kernel has checked before: others would have the rights of the daemon.
var attributes = map[uint32]bool{unix.FS_IOC_GETFLAGS: true, unix.FS_IOC_SETFLAGS: true, fsGetXattr: true, fsSetXattr: true}

const (
	fsGetXattr = 0x801c581f
	fsSetXattr = 0x401c5820
)

// Ioctl is a conditional write, or is about the attributes of a file.
func (n *node) Ioctl(ctx context.Context, file fs.FileHandle, number uint32, arg uint64, in, out []byte) (int32, syscall.Errno) {
	h, ok := file.(*handle)
	if !ok {
		return 0, syscall.ENOTTY
	}
	if attributes[number] {
		return h.LoopbackFile.Ioctl(ctx, number, arg, in, out)
	}
	f, ok := h.file.(ConditionalFile)
	switch {
	case number&^ioctlLength != writeIfNumber || !ok:
		return 0, syscall.ENOTTY
	case h.readOnly:
		return 0, syscall.EBADF
	case len(in) <= writeIfHead:
		return 0, syscall.EINVAL
	}
	off, cell := int64(binary.NativeEndian.Uint64(in)), in[writeIfHead:]
	if off < 0 {
		return 0, syscall.EINVAL
	}
	r := h.request(ctx, Write, off, int64(len(cell)))
	written, err := f.WriteIf(cell, off, in[8])
	if !written {
		r.Bytes = 0
	}
	h.loop.tell(r, errnoOf(err))
	if err != nil || !written {
		return 0, errnoOf(err)
	}
	if !n.loop.seen() {
		_ = n.NotifyContent(off, r.Bytes) // pages and the size that the kernel keeps; it may have none
	}
	return 1, 0
}
