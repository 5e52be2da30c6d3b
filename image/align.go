package image

import (
	"unsafe"

	"ckpt/zones"
)

// aligned returns n zero bytes that start on a page boundary, as direct I/O
// wants its buffers. The garbage collector of Go does not move them.
func aligned(n int) []byte {
	b := make([]byte, n+zones.PageSize)
	skip := 0
	if r := int(uintptr(unsafe.Pointer(unsafe.SliceData(b))) % zones.PageSize); r != 0 {
		skip = zones.PageSize - r
	}
	return b[skip : skip+n : skip+n]
}

func isAligned(b []byte) bool {
	return uintptr(unsafe.Pointer(unsafe.SliceData(b)))%zones.PageSize == 0
}
