package codec

import "encoding/binary"

// The fast paths move eight words of eight bytes at a time, as an 8×8 matrix of
// bytes in registers that is transposed by swapping halves of halves (Warren,
// Hacker's Delight, 2nd ed., s. 7-3, with bytes in place of bits). Columns of
// an element become rows of a plane.

// shuffle writes the bytes of src to dst in the order of the filter. Both have one length, a
// multiple of the filter's width, and do not overlap.
func shuffle(dst, src []byte, f Filter) {
	if f == Shuffle4 {
		shuffle4(dst, src)
	} else {
		shuffle8(dst, src)
	}
}

// unshuffle reverses shuffle.
func unshuffle(dst, src []byte, f Filter) {
	if f == Shuffle4 {
		unshuffle4(dst, src)
	} else {
		unshuffle8(dst, src)
	}
}

const (
	half8  = 0x00ff00ff00ff00ff // the lower byte of each pair
	half16 = 0x0000ffff0000ffff
	half32 = 0x00000000ffffffff
)

// swap8 exchanges the upper bytes of the pairs in a with the lower bytes of those in b.
func swap8(a, b uint64) (uint64, uint64) {
	return a&half8 | b&half8<<8, a>>8&half8 | b&^half8
}

func swap16(a, b uint64) (uint64, uint64) {
	return a&half16 | b&half16<<16, a>>16&half16 | b&^half16
}

func swap32(a, b uint64) (uint64, uint64) {
	return a&half32 | b<<32, a>>32 | b&^half32
}

// transpose8 transposes the matrix with the words as rows and their bytes, least first, as
// columns.
func transpose8(a, b, c, d, e, f, g, h uint64) (_, _, _, _, _, _, _, _ uint64) {
	a, e = swap32(a, e)
	b, f = swap32(b, f)
	c, g = swap32(c, g)
	d, h = swap32(d, h)

	a, c = swap16(a, c)
	b, d = swap16(b, d)
	e, g = swap16(e, g)
	f, h = swap16(f, h)

	a, b = swap8(a, b)
	c, d = swap8(c, d)
	e, f = swap8(e, f)
	g, h = swap8(g, h)
	return a, b, c, d, e, f, g, h
}

func shuffle8(dst, src []byte) {
	le := binary.LittleEndian
	n := len(src) / 8 // elements, and the length of a plane
	p0, p1, p2, p3 := dst[:n], dst[n:2*n], dst[2*n:3*n], dst[3*n:4*n]
	p4, p5, p6, p7 := dst[4*n:5*n], dst[5*n:6*n], dst[6*n:7*n], dst[7*n:8*n]
	i := 0
	for ; i+8 <= n; i += 8 {
		s := src[8*i : 8*i+64 : 8*i+64]
		a, b, c, d, e, f, g, h := transpose8(
			le.Uint64(s[0:]), le.Uint64(s[8:]), le.Uint64(s[16:]), le.Uint64(s[24:]),
			le.Uint64(s[32:]), le.Uint64(s[40:]), le.Uint64(s[48:]), le.Uint64(s[56:]))
		le.PutUint64(p0[i:i+8], a)
		le.PutUint64(p1[i:i+8], b)
		le.PutUint64(p2[i:i+8], c)
		le.PutUint64(p3[i:i+8], d)
		le.PutUint64(p4[i:i+8], e)
		le.PutUint64(p5[i:i+8], f)
		le.PutUint64(p6[i:i+8], g)
		le.PutUint64(p7[i:i+8], h)
	}
	for ; i < n; i++ {
		for k := range 8 {
			dst[k*n+i] = src[8*i+k]
		}
	}
}

func unshuffle8(dst, src []byte) {
	le := binary.LittleEndian
	n := len(dst) / 8
	p0, p1, p2, p3 := src[:n], src[n:2*n], src[2*n:3*n], src[3*n:4*n]
	p4, p5, p6, p7 := src[4*n:5*n], src[5*n:6*n], src[6*n:7*n], src[7*n:8*n]
	i := 0
	for ; i+8 <= n; i += 8 {
		a, b, c, d, e, f, g, h := transpose8(
			le.Uint64(p0[i:i+8]), le.Uint64(p1[i:i+8]), le.Uint64(p2[i:i+8]), le.Uint64(p3[i:i+8]),
			le.Uint64(p4[i:i+8]), le.Uint64(p5[i:i+8]), le.Uint64(p6[i:i+8]), le.Uint64(p7[i:i+8]))
		s := dst[8*i : 8*i+64 : 8*i+64]
		le.PutUint64(s[0:], a)
		le.PutUint64(s[8:], b)
		le.PutUint64(s[16:], c)
		le.PutUint64(s[24:], d)
		le.PutUint64(s[32:], e)
		le.PutUint64(s[40:], f)
		le.PutUint64(s[48:], g)
		le.PutUint64(s[56:], h)
	}
	for ; i < n; i++ {
		for k := range 8 {
			dst[8*i+k] = src[k*n+i]
		}
	}
}

// transpose4 does the same for eight elements of four bytes, two in each word.
func transpose4(a, b, c, d uint64) (_, _, _, _ uint64) {
	// Element i beside element i+4: each half of the four words is a 4×4 matrix.
	a, c = swap32(a, c)
	b, d = swap32(b, d)
	// a: 0 4, b: 2 6, c: 1 5, d: 3 7
	a, b = swap16(a, b)
	c, d = swap16(c, d)

	a, c = swap8(a, c)
	b, d = swap8(b, d)
	return a, c, b, d
}

// untranspose4 reverses transpose4.
func untranspose4(a, c, b, d uint64) (_, _, _, _ uint64) {
	a, c = swap8(a, c)
	b, d = swap8(b, d)

	a, b = swap16(a, b)
	c, d = swap16(c, d)

	a, c = swap32(a, c)
	b, d = swap32(b, d)
	return a, b, c, d
}

func shuffle4(dst, src []byte) {
	le := binary.LittleEndian
	n := len(src) / 4
	p0, p1, p2, p3 := dst[:n], dst[n:2*n], dst[2*n:3*n], dst[3*n:4*n]
	i := 0
	for ; i+8 <= n; i += 8 {
		s := src[4*i : 4*i+32 : 4*i+32]
		a, b, c, d := transpose4(le.Uint64(s[0:]), le.Uint64(s[8:]), le.Uint64(s[16:]), le.Uint64(s[24:]))
		le.PutUint64(p0[i:i+8], a)
		le.PutUint64(p1[i:i+8], b)
		le.PutUint64(p2[i:i+8], c)
		le.PutUint64(p3[i:i+8], d)
	}
	for ; i < n; i++ {
		for k := range 4 {
			dst[k*n+i] = src[4*i+k]
		}
	}
}

func unshuffle4(dst, src []byte) {
	le := binary.LittleEndian
	n := len(dst) / 4
	p0, p1, p2, p3 := src[:n], src[n:2*n], src[2*n:3*n], src[3*n:4*n]
	i := 0
	for ; i+8 <= n; i += 8 {
		a, b, c, d := untranspose4(le.Uint64(p0[i:i+8]), le.Uint64(p1[i:i+8]), le.Uint64(p2[i:i+8]), le.Uint64(p3[i:i+8]))
		s := dst[4*i : 4*i+32 : 4*i+32]
		le.PutUint64(s[0:], a)
		le.PutUint64(s[8:], b)
		le.PutUint64(s[16:], c)
		le.PutUint64(s[24:], d)
	}
	for ; i < n; i++ {
		for k := range 4 {
			dst[4*i+k] = src[k*n+i]
		}
	}
}
