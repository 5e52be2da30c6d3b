package analyze

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
	commonSizes   = 4    // that a report names, as Darshan's ACCESS1 to ACCESS4
	trackedSizes  = 4096 // different ones that are counted; Darshan tracks 32
	uniformShare  = 2. / 3
	trackedHoles  = 64
	pageSize      = 4 << 10
	trackedStripe = 1 << 20 // stripes of a shared file that are looked at
)

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

// stripes finds out which stripes of a file several ranks write. Of a file with
// very many it looks at every second one, every fourth, and so on.
type stripes struct {
	size   int64
	owner  map[int64]int32 // the rank, or several
	sample int64           // stripes that are multiples of it count
	inner  int64           // stripes that a write covers to both ends
	last   int64
	rank   int32
}

const several = -2

func newStripes(size int64) *stripes {
	return &stripes{size: size, owner: map[int64]int32{}, sample: 1, last: -1}
}

// add looks at the first and the last stripe of a write: those between belong to
// it alone, or to someone who writes the same bytes.
func (s *stripes) add(rank int32, off, end int64) {
	a, b := off/s.size, max(off, end-1)/s.size
	s.touch(rank, a)
	if b != a {
		s.touch(rank, b)
		s.inner = add(s.inner, b-a-1)
	}
}

func (s *stripes) touch(rank int32, stripe int64) {
	if stripe == s.last && rank == s.rank || stripe%s.sample != 0 {
		return
	}
	s.last, s.rank = stripe, rank
	switch o, ok := s.owner[stripe]; {
	case !ok:
		s.owner[stripe] = rank
		for len(s.owner) > trackedStripe {
			s.sample *= 2
			for k := range s.owner {
				if k%s.sample != 0 {
					delete(s.owner, k)
				}
			}
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
	return ratio(float64(n), float64(len(s.owner))+float64(s.inner)/float64(s.sample))
}

// kind says whether requests of which there are n, with so many bytes in all,
// have one size, the first of the common ones: two thirds of them, and of the
// bytes. What a collective buffer
// leaves over at the end does not count against it; a few large areas between
// many pages, as in an image of DMTCP, do.
func kind(common []counted, n int64, bytes float64) string {
	switch {
	case n == 0 || len(common) == 0:
		return "none"
	case share(common[0].count, n) >= uniformShare && float64(common[0].value)*float64(common[0].count) >= uniformShare*bytes:
		return "uniform"
	}
	return "variable"
}
