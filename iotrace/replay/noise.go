package replay

import (
	"encoding/binary"
	"math/rand/v2"
	"unsafe"
)

const (
	page = 4096
	// maxPool bounds the memory of a noise. Larger requests repeat it within one call;
	// no file system compresses over such a distance.
	maxPool = 64 << 20
	minPool = 1 << 20
)

// A noise is incompressible bytes at an address that O_DIRECT accepts.
type noise struct{ pool []byte }

// newNoise makes noise for requests of up to most bytes.
func newNoise(seed uint64, largest int64) noise {
	pool := alignedMemory(int(min(max(largest+minPool, minPool), maxPool)))
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	_, _ = rand.NewChaCha8(key).Read(pool) // never fails
	return noise{pool}
}

// bytes returns n bytes for one call. They begin at a page chosen by which, so that
// requests differ.
func (x noise) bytes(n int64, which uint64) [][]byte {
	at := int64(scatter(which)%uint64(len(x.pool)/page)) * page
	return around(x.pool, at, n)
}

// scatter is the finalizer of SplitMix64 (Steele, Lea, Flood: Fast splittable
// pseudorandom number generators, OOPSLA 2014).
func scatter(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// around returns n bytes from at on, and wraps around at the end of the memory.
func around(memory []byte, at, n int64) [][]byte {
	if n <= int64(len(memory))-at {
		return [][]byte{memory[at : at+n]}
	}
	var out [][]byte
	for n > 0 {
		k := min(n, int64(len(memory))-at)
		out = append(out, memory[at:at+k])
		n -= k
		at = 0
	}
	return out
}

// alignedMemory returns at least n bytes of whole pages, aligned to a page.
func alignedMemory(n int) []byte {
	n = (n + page - 1) / page * page
	b := make([]byte, n+page)
	skip := -int(uintptr(unsafe.Pointer(&b[0]))) & (page - 1)
	return b[skip : skip+n : skip+n]
}
