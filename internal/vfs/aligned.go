package vfs

import "unsafe"

// DirectUnit is what offsets, lengths and memory addresses of direct I/O are
// multiples of.
const DirectUnit = 4096

// Aligned returns n zero bytes that begin where direct I/O wants its buffers to. The
// garbage collector of Go does not move them.
func Aligned(n int) []byte {
	b := make([]byte, n+DirectUnit-1)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & (DirectUnit - 1))
	return b[skip : skip+n : skip+n]
}
