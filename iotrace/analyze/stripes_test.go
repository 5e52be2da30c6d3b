package analyze

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"ckpt/iotrace"
)

// TestSharedStripes: the share does not depend on how writes are cut, or how often
// they are done.
func TestSharedStripes(t *testing.T) {
	const mib = 1 << 20
	// write writes length bytes at off, so many at a time.
	write := func(rank int32, off, length, piece int64) (out []iotrace.Event) {
		for at := off; at < off+length; at += piece {
			out = append(out, iotrace.Event{Op: iotrace.Write, Rank: rank, Offset: at, Bytes: min(piece, off+length-at)})
		}
		return out
	}
	for _, piece := range []int64{mib / 2, mib, 3 * mib, 1 << 40} {
		for _, times := range []int{1, 20} {
			var same, halves []iotrace.Event
			for range times {
				same = append(append(same, write(0, 0, 100*mib, piece)...), write(1, 0, 100*mib, piece)...)
				halves = append(append(halves, write(0, 0, 9*mib/2, piece)...), write(1, 9*mib/2, 9*mib/2, piece)...)
			}
			r := Analyze(script(2, same...), Options{})
			if i := found(r, "CK03"); r.SharedStripes != 1 || i == nil || i.Severity == "" {
				t.Errorf("the same in pieces of %d, %d times: %v, %+v", piece, times, r.SharedStripes, i)
			}
			if got := Analyze(script(2, halves...), Options{}).SharedStripes; got != 1./9 {
				t.Errorf("halves in pieces of %d, %d times: %v", piece, times, got)
			}
		}
	}
}

// TestManyStripes: huge requests take neither the memory nor the time of their
// stripes.
func TestManyStripes(t *testing.T) {
	s := newStripes(1 << 20)
	for k := range int64(1000) {
		s.add(int32(k%2), (k%2)<<40, (k%2)<<40+3<<39) // 1.5 TiB, half a TiB of it of both
	}
	if got := s.shared(); math.Abs(got-0.2) > 0.001 || len(s.owner) > 1<<14 {
		t.Errorf("%v, %d stripes looked at", got, len(s.owner))
	}
	for k := range int64(100) {
		s.add(int32(k), k, math.MaxInt64)
	}
	for k := range int64(3 << 20) {
		s.add(0, k<<20, k<<20+1)
	}
	if len(s.owner) > trackedStripe {
		t.Errorf("%d stripes looked at", len(s.owner))
	}
	small := newStripes(1) // indices up to the largest there is
	small.add(0, math.MaxInt64-5, math.MaxInt64)
	small.add(1, 0, math.MaxInt64)
	small.add(1, math.MaxInt64, math.MaxInt64)
}

// TestStripesByCount holds the share against a count of every stripe.
func TestStripesByCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const size, stripes, ranks = 10, 50, 3
		s := newStripes(size)
		var by [stripes]map[int32]bool
		for range rapid.IntRange(1, 30).Draw(t, "writes") {
			rank := int32(rapid.IntRange(0, ranks-1).Draw(t, "rank"))
			off := rapid.Int64Range(0, size*stripes-1).Draw(t, "off")
			n := rapid.Int64Range(1, size*stripes-off).Draw(t, "bytes")
			s.add(rank, off, off+n)
			for k := off / size; k <= (off+n-1)/size; k++ {
				if by[k] == nil {
					by[k] = map[int32]bool{}
				}
				by[k][rank] = true
			}
		}
		var shared, all float64
		for _, b := range by {
			if len(b) > 0 {
				all++
			}
			if len(b) > 1 {
				shared++
			}
		}
		if got := s.shared(); got != shared/all {
			t.Fatalf("%v, want %v of %v", got, shared, all)
		}
	})
}
