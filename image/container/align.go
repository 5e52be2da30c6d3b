package container

import (
	"unsafe"

	"ckpt/internal/vfs"
	"ckpt/zones"
)

// aligned returns n zero bytes that direct I/O takes.
func aligned(n int) []byte { return vfs.Aligned(n) }

func isAligned(b []byte) bool {
	return uintptr(unsafe.Pointer(unsafe.SliceData(b)))%zones.PageSize == 0
}
