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

// continues says that b follows a in the same piece of memory.
func continues(a, b []byte) bool {
	n := len(a)
	return n > 0 && cap(a)-n >= len(b) && &a[:n+1][n] == &b[0]
}
