package codec

import "bytes"

// IsZero reports whether all bytes of b are zero. It reads b as fast as memory
// delivers it and stops soon after the first byte that is not.
func IsZero(b []byte) bool {
	head := b[:min(len(b), 256)]
	for _, x := range head {
		if x != 0 {
			return false
		}
	}
	// Bytes that equal themselves shifted by their zero head are all zero. Equal
	// uses wide registers, and finds one of its two operands in the cache.
	return bytes.Equal(b[len(head):], b[:len(b)-len(head)])
}
