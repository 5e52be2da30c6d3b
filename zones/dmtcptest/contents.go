package dmtcptest

import (
	"encoding/binary"
	"math"
)

// Contents makes the contents of an area: it fills p with the bytes from off on.
// It is called for what is stored only, in order.
type Contents func(p []byte, off int64)

// Noise returns bytes that no compressor makes smaller.
func Noise(seed uint64) Contents {
	return words(func(i uint64) uint64 { return mix(seed ^ mix(i)) })
}

// Doubles returns a smooth field of float64 as a solver has it: neighbours
// differ in their lower bits.
func Doubles(seed uint64) Contents {
	return words(func(i uint64) uint64 {
		x := 1 + float64((seed+i)%4096)/4096
		return math.Float64bits(x) | mix(seed^mix(i))>>40
	})
}

// Literal returns b and zeros after it.
func Literal(b []byte) Contents {
	return func(p []byte, off int64) { overlay(p, off, b, 0) }
}

// Repeated returns the first n bytes of data over and over.
func Repeated(data Contents, n int64) Contents {
	unit := make([]byte, n)
	data(unit, 0)
	return func(p []byte, off int64) {
		for i := range p {
			p[i] = unit[(off+int64(i))%n]
		}
	}
}

// Changed returns the bytes of data before from, and the bytes of other from there on.
func Changed(data, other Contents, from int64) Contents {
	return func(p []byte, off int64) {
		n := min(max(from-off, 0), int64(len(p)))
		data(p[:n], off)
		other(p[n:], off+n)
	}
}

func words(f func(i uint64) uint64) Contents {
	return func(p []byte, off int64) {
		for ; off%8 == 0 && len(p) >= 8; p, off = p[8:], off+8 {
			binary.LittleEndian.PutUint64(p, f(uint64(off)/8))
		}
		for len(p) > 0 {
			var w [8]byte
			binary.LittleEndian.PutUint64(w[:], f(uint64(off)/8))
			n := copy(p, w[off%8:])
			p, off = p[n:], off+int64(n)
		}
	}
}

// overlay copies of b, which lies at the offset at, what falls into p, which
// lies at off.
func overlay(p []byte, off int64, b []byte, at int64) {
	switch {
	case at >= off+int64(len(p)), at+int64(len(b)) <= off:
	case at >= off:
		copy(p[at-off:], b)
	default:
		copy(p, b[off-at:])
	}
}

// mix is the output function of splitmix64 (Steele, Lea, Flood 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// An rng is a small generator of random numbers.
type rng uint64

func (r *rng) next() uint64 {
	*r += 0x9e3779b97f4a7c15
	return mix(uint64(*r))
}
