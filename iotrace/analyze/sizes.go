package analyze

import (
	"maps"

	"ckpt/iotrace"
)

// The bins of Darshan's size histograms, each up to and including the number
// (DARSHAN_BUCKET_INC in darshan-common.h compares with < 101, < 1025, …).
var (
	binEnds  = [...]int64{100, 1 << 10, 10 << 10, 100 << 10, 1 << 20, 4 << 20, 10 << 20, 100 << 20, 1 << 30}
	binNames = [...]string{"0-100", "100-1K", "1K-10K", "10K-100K", "100K-1M", "1M-4M", "4M-10M", "10M-100M", "100M-1G", "1G+"}
)

type histogram [len(binNames)]int64

func (h *histogram) add(size int64) {
	i := 0
	for i < len(binEnds) && size > binEnds[i] {
		i++
	}
	h[i]++
}

const (
	commonSizes   = 4    // named in a report, like Darshan's ACCESS1 to ACCESS4
	trackedSizes  = 4096 // different sizes that are counted; Darshan tracks 32
	uniformShare  = 2. / 3
	trackedHoles  = 64
	pageSize      = 4 << 10
	trackedStripe = 1 << 20 // stripes of a shared file that are tracked
	writeStripes  = 1 << 12 // of one write; 1 TiB in stripes of 1 MiB is sampled at every 256th
)

func sizeCounts(common []counted) []iotrace.SizeCount {
	out := []iotrace.SizeCount{}
	for _, c := range common {
		out = append(out, iotrace.SizeCount{Size: c.value, Count: c.count})
	}
	return out
}

func bins(writes, reads *histogram) []SizeBin {
	out := make([]SizeBin, len(binNames))
	for i, name := range binNames {
		out[i] = SizeBin{Bin: name, Count: writes[i] + reads[i], Writes: writes[i], Reads: reads[i]}
		if i < len(binEnds) {
			out[i].Upto = binEnds[i]
		}
	}
	return out
}

// stripes finds the stripes of a file that several ranks write. In a very large file
// or write it samples every second stripe, every fourth, and so on.
type stripes struct {
	size   int64
	owner  map[int64]int32 // the rank, or several
	sample int64           // only multiples of it count; a power of two
	last   int64
	rank   int32
}

const several = -2

func newStripes(size int64) *stripes {
	return &stripes{size: size, owner: map[int64]int32{}, sample: 1, last: -1}
}

// add adds the stripes of a write.
func (s *stripes) add(rank int32, off, end int64) {
	a, b := off/s.size, max(off, end-1)/s.size
	for (b-a)/s.sample >= writeStripes {
		s.coarser()
	}
	// Negative values have overflowed.
	for k := s.next(a); k >= 0 && k <= b; k = s.next(k + 1) {
		s.touch(rank, k)
	}
}

// next returns the first counted stripe from k on.
func (s *stripes) next(k int64) int64 { return (k + s.sample - 1) &^ (s.sample - 1) }

// coarser halves the sample.
func (s *stripes) coarser() {
	s.sample *= 2
	maps.DeleteFunc(s.owner, func(k int64, _ int32) bool { return k != s.next(k) })
}

func (s *stripes) touch(rank int32, stripe int64) {
	if stripe == s.last && rank == s.rank {
		return
	}
	s.last, s.rank = stripe, rank
	switch o, ok := s.owner[stripe]; {
	case !ok:
		s.owner[stripe] = rank
		for len(s.owner) > trackedStripe {
			s.coarser()
		}
	case o != rank:
		s.owner[stripe] = several
	}
}

func (s *stripes) shared() float64 {
	n := 0
	for _, o := range s.owner {
		if o == several {
			n++
		}
	}
	return ratio(float64(n), float64(len(s.owner)))
}

// kind reports whether n requests with so many bytes in all have one size, the first
// of the common ones: two thirds of the requests and of the bytes. The last, smaller
// request of a collective buffer does not prevent that. A few large areas between many
// pages, as in an image of DMTCP, do.
func kind(common []counted, n int64, bytes float64) string {
	switch {
	case n == 0 || len(common) == 0:
		return "none"
	case share(common[0].count, n) >= uniformShare && float64(common[0].value)*float64(common[0].count) >= uniformShare*bytes:
		return "uniform"
	}
	return "variable"
}
