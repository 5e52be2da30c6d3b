package channel

import (
	"fmt"
)

// The data of a cut are the numbers of the line, 8 bytes each, by rank.

func encodeLine(line []uint64) []byte { return appendNumbers(nil, line) }

func decodeLine(b []byte, size int) ([]uint64, error) {
	if len(b) != 8*size {
		return nil, fmt.Errorf("%w log: cut of %d bytes for %d ranks", ErrCorrupt, len(b), size)
	}
	r := reader{b}
	return r.numbers(size), nil
}
