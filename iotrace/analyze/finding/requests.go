package finding

import "fmt"

// Rules about the size and the order of requests.

// sizeModel is the model of gains by size or order.
func (s *search) sizeModel(what string, d int) string {
	return fmt.Sprintf("The time of %s, less the time that their bytes would take at %s.", what, s.source[d])
}

// whole is the number of small requests with which a small file is moved at best: one,
// and one for its end or header.
const whole = 2

func smallWrites(s *search) *Finding { return s.small("CK01", 0) }
func smallReads(s *search) *Finding  { return s.small("CK13", 1) }

func (s *search) small(code string, d int) *Finding {
	all, small := s.Data[d], s.Small[d]
	part := share(small.Count, all.Count)
	if small.Count < s.t.SmallRequests || part < s.t.SmallShare {
		return nil
	}
	c := s.choose(d)
	for i := range s.Files {
		if w := s.Files[i].Small[d]; w.Count > whole && !s.claimed[i][d].excess {
			c.faster(i, s.onlySmall(w, s.Files[i].Data[d].Work, d))
		}
	}
	if c.work.Count < s.t.SmallRequests || c.files == 0 {
		return nil
	}
	// Small requests among large ones cost something only if they take time.
	took := ratio(small.Time, all.Time)
	if s.Timed && took < s.t.SmallShare {
		return nil
	}
	f := Finding{Code: code, Title: "small " + writeRead[d] + "s",
		Model: s.sizeModel(fmt.Sprintf("the %ss below %s", writeRead[d], bytesText(s.t.SmallBytes)), d),
		Evidence: []Number{{"small_share", part, s.t.SmallShare}, {"small_time_share", took, s.t.SmallShare},
			{"small", float64(small.Count), float64(s.t.SmallRequests)}, {"mean_bytes", share(all.Bytes, all.Count), 0}}}
	if d == 1 {
		f.Advice = "Read more at a time: larger requests, or collective reads; a library that reads ahead gathers what is in order."
	} else {
		f.Advice, f.Remedies = s.gatherMore()
	}
	switch x := &s.Files[c.best]; {
	case s.MPI && x.Touchers > 1:
		f.Hints = s.collective(x.Name, d)
	case d == 1 && x.Direct: // nothing is read ahead around the page cache
		f.Hints = alone(x.Name, x.queueing(d, buffer)...)
	case d == 1:
		f.Hints = alone(x.Name, ahead, buffer)
	default:
		f.Hints = alone(x.Name, buffer)
	}
	return c.finding(f)
}

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
	if !s.Gathers {
		if s.Ours {
			return "Gather small requests into large ones: aggregators that write for the others, with a large buffer.",
				[]Remedy{LayoutAggregated, AggregatorsAuto, Buffer}
		}
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

func randomWrites(s *search) *Finding {
	return s.random("CK07", 0, Finding{Remedies: []Remedy{LayoutPerRank, Buffer},
		Advice: "Write in order: sort what is written by offset in a buffer, or write to files of one's own from the beginning to the end."})
}

func randomReads(s *search) *Finding {
	return s.random("CK14", 1, Finding{
		Advice: "Read in order: sort what is asked for by offset, or read the file as a whole if most of it is needed."})
}

func (s *search) random(code string, d int, f Finding) *Finding {
	c := s.choose(d)
	var n float64
	for i := range s.Files {
		x := &s.Files[i]
		n += x.Random[d] * float64(x.Data[d].Count)
		if x.Random[d] >= mostly && x.Data[d].Count >= s.t.RandomRequests && !s.claimed[i][d].excess {
			c.faster(i, x.Data[d].Work)
		}
	}
	part := ratio(n, float64(s.Data[d].Count))
	if n < float64(s.t.RandomRequests) || part < s.t.RandomShare || c.files == 0 {
		return nil
	}
	f.Code, f.Title = code, "random "+writeRead[d]+"s"
	f.Model = s.sizeModel(fmt.Sprintf("the %ss in random order", writeRead[d]), d)
	f.Evidence = []Number{{"random_share", part, s.t.RandomShare}, {"random_requests", n, float64(s.t.RandomRequests)},
		{"mean_bytes", share(c.work.Bytes, c.work.Count), 0}}
	x := &s.Files[c.best]
	f.Hints = x.queueing(d)
	if !x.Direct {
		f.Hints = x.queueing(d, fadvise)
	}
	if isHDF5(x.Name) {
		f.Hints = append([]Hint{hdf5Chunks}, f.Hints...)
	}
	return c.finding(f)
}

// queueing adds the hint to keep requests under way, unless the processes that use the
// file do: then their times add up to more than the time that passes.
func (f *File) queueing(d int, h ...Hint) []Hint {
	users := max(1, [2]int{f.Writers, f.Readers}[d])
	if w := f.Data[d].Work; w.Wall > 0 && w.Time > 1.5*w.Wall*float64(users) {
		return h
	}
	return append(h, queue)
}

func misaligned(s *search) *Finding {
	m := s.Misaligned
	if m.Count < s.t.MisalignedRequests || m.Share < s.t.MisalignedShare || m.Touched == 0 {
		return nil
	}
	gain := m.Time * (1 - share(m.Least, m.Touched)) * s.unclaimed()
	f := &Finding{Code: "CK02", Title: "requests that begin within a stripe", Gain: &gain,
		Model: fmt.Sprintf("A request costs as much as the stripes that it touches: these touch %d, and as many bytes need %d.", m.Touched, m.Least),
		Evidence: []Number{{"misaligned_share", m.Share, s.t.MisalignedShare}, {"misaligned", float64(m.Count), float64(s.t.MisalignedRequests)},
			{"unit_bytes", float64(m.Unit), 0}},
		Advice:   "Let each rank begin at a stripe; the stripe size must be that of the file system.",
		Remedies: []Remedy{StripeSize, LayoutPerRank, LayoutAggregated}, Hints: []Hint{align}}
	if m.Unit <= pageSize {
		f.Title, f.Advice = "requests that begin within a page", "Begin at multiples of a page, with whole pages: a part of a page must be read before it can be written."
	}
	if s.Data[0].Count == 0 {
		f.Remedies, f.Advice = nil, "Read from the beginning of a stripe on, whole stripes if possible."
	}
	for i := range s.Files {
		x := &s.Files[i]
		if x.Storage == Lustre {
			f.Hints = append(f.Hints, stripeSize)
			break
		}
	}
	if s.MPI {
		f.Hints = append(f.Hints, mpiStripes)
	}
	for i := range s.Files {
		if isHDF5(s.Files[i].Name) {
			f.Hints = append(f.Hints, hdf5Align)
			break
		}
	}
	return f
}

const pageSize = 4 << 10

func bytesText(n int64) string {
	switch {
	case n >= 1<<30 && n%(1<<30) == 0:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d bytes", n)
}
