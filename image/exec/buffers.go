package exec

import (
	"sync"
	"unsafe"

	"ckpt/image/plan"
	"ckpt/internal/vfs"
)

// Buffers keeps the memory of one call of Run for the next. It holds as
// many buffers as were ever in use at the same time, until it is itself
// forgotten. The zero value is empty; goroutines may share it.
type Buffers struct {
	mu   sync.Mutex
	free [][]byte
}

// get returns n bytes, page-aligned, with anything in them.
func (b *Buffers) get(n int64) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	last := len(b.free) - 1
	for i, mem := range b.free {
		if int64(cap(mem)) >= n {
			b.free[i] = b.free[last]
			b.free = b.free[:last]
			return mem[:n]
		}
	}
	if last >= 0 {
		// A buffer that is too small gives way to one that is not.
		b.free[last] = nil
		b.free = b.free[:last]
	}
	return vfs.Aligned(int(n))
}

func (b *Buffers) put(mem []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free = append(b.free, mem)
}

func isAligned(b []byte) bool { return address(b)%plan.PageSize == 0 }

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// adjoins says that b follows a in the same piece of memory, so that a can be
// extended over b.
func adjoins(a, b []byte) bool {
	n := len(a)
	return len(b) > 0 && cap(a)-n >= len(b) && &a[:n+1][n] == &b[0]
}
