package process

import "math/bits"

// A bitset has a bit for each page of a region.
type bitset []uint64

func newBitset(n int) bitset { return make(bitset, (n+63)/64) }

// setRange sets the bits of [from, to).
func (b bitset) setRange(from, to int) {
	for i := from; i < to; {
		if i%64 == 0 && to-i >= 64 {
			b[i/64] = ^uint64(0)
			i += 64
			continue
		}
		b[i/64] |= 1 << (i % 64)
		i++
	}
}

// anyIn reports whether a bit of [from, to) is set.
func (b bitset) anyIn(from, to int) bool {
	i := b.next(from)
	return i >= 0 && i < to
}

// next returns the first bit at or after i that is set, or -1.
func (b bitset) next(i int) int {
	for w := i / 64; w < len(b); w++ {
		word := b[w]
		if w == i/64 {
			word &= ^uint64(0) << (i % 64)
		}
		if word != 0 {
			return w*64 + bits.TrailingZeros64(word)
		}
	}
	return -1
}

// runs calls f for each run of set bits below n.
func (b bitset) runs(n int, f func(from, to int)) {
	for i := b.next(0); i >= 0 && i < n; {
		end := i
		for end < n && b[end/64]&(1<<(end%64)) != 0 {
			if end%64 == 0 && b[end/64] == ^uint64(0) {
				end += 64
				continue
			}
			end++
		}
		end = min(end, n)
		f(i, end)
		if end >= n {
			return
		}
		i = b.next(end)
	}
}

func (b bitset) count() (n int) {
	for _, w := range b {
		n += bits.OnesCount64(w)
	}
	return n
}

func (b bitset) or(other bitset) {
	for i, w := range other {
		b[i] |= w
	}
}
