package codec

import (
	"bytes"
	"fmt"
	"testing"
)

// naiveShuffle is the definition in the package comment.
func naiveShuffle(dst, src []byte, w int) {
	n := len(src) / w
	for i := range n {
		for k := range w {
			dst[n*k+i] = src[w*i+k]
		}
	}
}

func naiveUnshuffle(dst, src []byte, w int) {
	n := len(src) / w
	for i := range n {
		for k := range w {
			dst[w*i+k] = src[n*k+i]
		}
	}
}

func TestShuffle(t *testing.T) {
	for _, f := range []Filter{Shuffle4, Shuffle8} {
		w := f.width()
		var lengths []int
		for n := range 40 { // all remainders that the fast path leaves
			lengths = append(lengths, n*w)
		}
		lengths = append(lengths, page, 3*page, 17*page, 64*page, 5*page+w)
		for _, n := range lengths {
			src, want, got := noise(n+8, uint64(n))[:n], make([]byte, n), make([]byte, n)
			naiveShuffle(want, src, w)
			shuffle(got, src, f)
			if !bytes.Equal(got, want) {
				t.Fatalf("%v of %d bytes is not what the format says", f, n)
			}
			unshuffle(got, want, f)
			if !bytes.Equal(got, src) {
				t.Fatalf("%v of %d bytes does not come back", f, n)
			}
		}
	}
}

// TestShuffleLayout is the example of the package comment.
func TestShuffleLayout(t *testing.T) {
	got := make([]byte, 12)
	shuffle(got, []byte("aBcDeFgHiJkL"), Shuffle4)
	if want := "aeiBFJcgkDHL"; string(got) != want {
		t.Errorf("shuffled to %s, want %s", got, want)
	}
}

func TestIsZero(t *testing.T) {
	for _, n := range []int{0, 1, 63, 64, 65, 200, page, 3 * page} {
		b := make([]byte, n)
		if !IsZero(b) {
			t.Errorf("%d zeros are not zero", n)
		}
		for i := range b {
			b[i] = 0x80
			if IsZero(b) {
				t.Fatalf("byte %d of %d is overlooked", i, n)
			}
			b[i] = 0
		}
	}
}

func benchmarkFilter(b *testing.B, f func(dst, src []byte)) {
	for _, n := range []int{256 << 10, 4 << 20} {
		b.Run(fmt.Sprintf("%dKiB", n>>10), func(b *testing.B) {
			src, dst := noise(n, 1), make([]byte, n)
			b.SetBytes(int64(n))
			for b.Loop() {
				f(dst, src)
			}
		})
	}
}

func BenchmarkShuffle8(b *testing.B)   { benchmarkFilter(b, shuffle8) }
func BenchmarkUnshuffle8(b *testing.B) { benchmarkFilter(b, unshuffle8) }
func BenchmarkShuffle4(b *testing.B)   { benchmarkFilter(b, shuffle4) }
func BenchmarkUnshuffle4(b *testing.B) { benchmarkFilter(b, unshuffle4) }

func BenchmarkShuffle8Naive(b *testing.B) {
	benchmarkFilter(b, func(dst, src []byte) { naiveShuffle(dst, src, 8) })
}

func BenchmarkUnshuffle8Naive(b *testing.B) {
	benchmarkFilter(b, func(dst, src []byte) { naiveUnshuffle(dst, src, 8) })
}

func BenchmarkShuffle4Naive(b *testing.B) {
	benchmarkFilter(b, func(dst, src []byte) { naiveShuffle(dst, src, 4) })
}

func BenchmarkUnshuffle4Naive(b *testing.B) {
	benchmarkFilter(b, func(dst, src []byte) { naiveUnshuffle(dst, src, 4) })
}

func BenchmarkIsZero(b *testing.B) {
	for _, n := range []int{256 << 10, 64 << 20} {
		b.Run(fmt.Sprintf("%dKiB", n>>10), func(b *testing.B) {
			zeros := make([]byte, n)
			for i := range zeros {
				zeros[i] = 0 // pages of their own, not the kernel's one of zeros
			}
			b.SetBytes(int64(n))
			for b.Loop() {
				if !IsZero(zeros) {
					b.Fatal("not zero")
				}
			}
		})
	}
}
