package channel

import (
	"math/rand/v2"
	"slices"
)

// An op is one step of a rank's program. Any-source receives take messages with
// tag 1, the others those with tag 0, so that no schedule can starve a receive.
type op struct {
	kind byte // 's'end, 'r'eceive, 'a'ny source, 'o'utput
	peer int
	tag  int32
}

// drawPrograms returns programs that come to their end under every schedule: what
// is received was sent before, in the order in which the ops are made up.
func drawPrograms(rng *rand.Rand, size, ops int, anySource bool) [][]op {
	progs := make([][]op, size)
	left := make([][]int, size) // messages with tag 0 by receiver and sender
	any := make([]int, size)
	for r := range left {
		left[r] = make([]int, size)
	}
	receive := func(r int) bool {
		if any[r] > 0 && rng.IntN(2) == 0 {
			any[r]--
			progs[r] = append(progs[r], op{kind: 'a', tag: 1})
			return true
		}
		if src := rng.IntN(size); left[r][src] > 0 {
			left[r][src]--
			progs[r] = append(progs[r], op{kind: 'r', peer: src})
			return true
		}
		return false
	}
	for range ops {
		r := rng.IntN(size)
		switch k := rng.IntN(10); {
		case k == 0:
			progs[r] = append(progs[r], op{kind: 'o'})
		case k < 5 && receive(r):
		default:
			dst, tag := rng.IntN(size), int32(0)
			if anySource && rng.IntN(4) > 0 {
				tag = 1
				any[dst]++
			} else {
				left[dst][r]++
			}
			progs[r] = append(progs[r], op{'s', dst, tag})
		}
	}
	for r := range progs {
		for any[r] > 0 || slices.Max(left[r]) > 0 {
			receive(r)
		}
	}
	return progs
}
