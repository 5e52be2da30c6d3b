package finding

import (
	"fmt"
	"math"

	"ckpt/iotrace"
)

// Rules about the size and the order of requests.

// sizeModel is the model of gains by size or order.
func (s *search) sizeModel(what string, d int) string {
	return fmt.Sprintf("The time of %s, less the time that their bytes would take at %s.", what, s.source[d])
}

// whole is the number of small requests with which a small file is moved at best: one,
// and one for its end or header.
const whole = 2

// small is about small writes, or small reads.
func small(d int) func(*search, *Finding) bool {
	return func(s *search, f *Finding) bool { return s.small(f, d) }
}

func (s *search) small(f *Finding, d int) bool {
	all, small := s.Data[d], s.Small[d]
	part := share(small.Count, all.Count)
	if small.Count < s.t.SmallRequests || part < s.t.SmallShare {
		return false
	}
	c := s.choose()
	for i, x := range s.files() {
		if w := x.Small[d]; w.Count > whole && !s.claimed[i][d].excess {
			w = s.onlySmall(w, x.Data[d].Work, d)
			if d == 1 { // larger reads have the holes as well
				w.Bytes = iotrace.Sum(w.Bytes, x.holes(w.Count))
			}
			c.faster(i, d, w)
		}
	}
	// Small requests among large ones cost something only if they take time.
	took := ratio(small.Time, all.Time)
	if c.of[d].files == 0 || c.of[d].work.Count < s.t.SmallRequests || s.Timed && took < s.t.SmallShare {
		return false
	}
	f.Model = s.sizeModel(fmt.Sprintf("the %ss below %s", writeRead[d], bytesText(s.t.SmallBytes)), d)
	f.Evidence = []Number{{"small_share", part, s.t.SmallShare}, {"small_time_share", took, s.t.SmallShare},
		{"small", float64(small.Count), float64(s.t.SmallRequests)},
		{"mean_bytes", share(all.Bytes, all.Count), 0}}
	if d == 0 {
		f.Advice, f.Remedies = s.gatherMore()
	}
	switch x := c.best(d); {
	case d == 1 && x.Hole > 0:
		s.sieve(f, x)
	case s.MPI && x.Touchers > 1:
		f.Hints = s.collective(x.Name, d)
	case d == 1 && x.Direct: // nothing is read ahead around the page cache
		f.Hints = alone(x.Name, x.queueing(d, buffer)...)
	case d == 1:
		f.Hints = alone(x.Name, ahead, buffer)
	default:
		f.Hints = alone(x.Name, buffer)
	}
	return c.gives(f, d)
}

// sieve advises on small reads with holes between them: one large read over the holes is
// faster than a read for each part, if a hole takes less time than a request does.
func (s *search) sieve(f *Finding, x *File) {
	w := x.Small[1]
	f.Model += " The holes are read as well."
	f.Evidence = append(f.Evidence, Number{"hole_bytes", math.Round(x.Hole), 0})
	if even := ratio(w.Time, float64(w.Count))*s.rate[1] - share(w.Bytes, w.Count); s.Timed && even > 0 {
		f.Evidence[len(f.Evidence)-1].Limit = math.Round(even)
		f.Advice = "Read over the holes: one large read, of which the parts are taken, is faster up to the limit of hole_bytes."
	}
	switch {
	case s.MPI && x.Touchers > 1:
		f.Hints = append([]Hint{overHoles}, s.collective(x.Name, 1)...)
	default:
		f.Hints = alone(x.Name, x.queueing(1, overHoles)...)
	}
}

// holes are the bytes before so many reads that no read wants.
func (f *File) holes(reads int64) int64 { return int64(min(float64(reads)*f.Hole, math.MaxInt64/2)) }

// onlySmall takes off what the other requests need: counters have one time for all.
func (s *search) onlySmall(small, all Work, d int) Work {
	left := max(0, all.Time-float64(all.Bytes-small.Bytes)/s.assumed(d))
	if s.Counted && left < small.Time {
		small.Wall *= left / small.Time
		small.Time = left
	}
	return small
}

// gatherMore is the advice on small writes.
func (s *search) gatherMore() (string, []Remedy) {
	switch {
	case !s.Gathers && s.Ours:
		return "Gather small requests into large ones: aggregators that write for the others, with a large buffer.",
			[]Remedy{LayoutAggregated, AggregatorsAuto, Buffer}
	case !s.Gathers:
		return "Gather small requests into large ones, in a buffer or, in a parallel program, by aggregators that write for the others.", nil
	}
	// The job gathers already. In a shared file each stripe is a request.
	remedies, advice := []Remedy{Buffer}, "Gather more into a request: a larger buffer"
	if s.Layout == LayoutShared {
		remedies = []Remedy{LayoutAggregated}
		advice = "Let aggregators write files of their own, without the ends of stripes in between"
	}
	if s.ActiveRanks > 1 {
		remedies = append(remedies, Aggregators)
		advice += ", or fewer aggregators"
	}
	return advice + ".", remedies
}

// random is about writes, or reads, in random order.
func random(d int) func(*search, *Finding) bool {
	return func(s *search, f *Finding) bool { return s.random(f, d) }
}

func (s *search) random(f *Finding, d int) bool {
	c := s.choose()
	var n float64
	for i, x := range s.files() {
		n += x.Random[d] * float64(x.Data[d].Count)
		if x.Random[d] >= mostly && x.Data[d].Count >= s.t.RandomRequests {
			c.faster(i, d, x.Data[d].Work)
		}
	}
	part := ratio(n, float64(s.Data[d].Count))
	if n < float64(s.t.RandomRequests) || part < s.t.RandomShare || !c.gives(f, d) {
		return false
	}
	f.Model = s.sizeModel(fmt.Sprintf("the %ss in random order", writeRead[d]), d)
	f.Evidence = []Number{{"random_share", part, s.t.RandomShare},
		{"random_requests", n, float64(s.t.RandomRequests)},
		{"mean_bytes", share(c.of[d].work.Bytes, c.of[d].work.Count), 0}}
	x := c.best(d)
	f.Hints = x.queueing(d)
	if !x.Direct {
		f.Hints = x.queueing(d, fadvise)
	}
	if isHDF5(x.Name) {
		f.Hints = append([]Hint{hdf5Chunks}, f.Hints...)
	}
	return true
}

// queueing adds the hint to keep requests under way, unless the processes that use the
// file do: then their times add up to more than the time that passes.
func (f *File) queueing(d int, h ...Hint) []Hint {
	if w := f.Data[d].Work; w.Wall > 0 && w.Time > 1.5*w.Wall*float64(max(1, f.users(d))) {
		return h
	}
	return append(h, queue)
}

func misaligned(s *search, f *Finding) bool {
	m := s.Misaligned
	if m.Count < s.t.MisalignedRequests || m.Share < s.t.MisalignedShare || m.Touched == 0 {
		return false
	}
	f.Model = fmt.Sprintf("A request costs as much as the stripes that it touches: these touch %d, and as many bytes need %d.", m.Touched, m.Least)
	f.Evidence = []Number{{"misaligned_share", m.Share, s.t.MisalignedShare},
		{"misaligned", float64(m.Count), float64(s.t.MisalignedRequests)}, {"unit_bytes", float64(m.Unit), 0}}
	if m.Unit <= pageSize {
		f.Title, f.Advice = "requests that begin within a page", "Begin at multiples of a page, with whole pages: a part of a page must be read before it can be written."
	}
	if s.Data[0].Count == 0 {
		f.Remedies, f.Advice = nil, "Read from the beginning of a stripe on, whole stripes if possible."
	}
	if s.anyFile((*File).onLustre) {
		f.Hints = append(f.Hints, stripeSize)
	}
	f.Hints = append(f.Hints, s.ifMPI(mpiStripes)...)
	if s.anyFile((*File).inHDF5) {
		f.Hints = append(f.Hints, hdf5Align)
	}
	return f.worth(m.Time * (1 - share(m.Least, m.Touched)) * s.unclaimed())
}

const pageSize = 4 << 10

func bytesText(n int64) string {
	for i, unit := range []string{"GiB", "MiB", "KiB"} {
		if size := int64(1) << (30 - 10*i); n >= size && n%size == 0 {
			return fmt.Sprintf("%d %s", n/size, unit)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}
