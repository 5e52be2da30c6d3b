package finding

// exchange is about calls of MPI-IO that take longer than the requests that they become.
// In collective ones the ranks send each other the data, and wait for each other. Beside
// a rank that does more than the others, or slower, it is that rank that they wait for.
func exchange(s *search) *Finding {
	if s.has("CK05") || s.has("CK20") {
		return nil
	}
	var kinds [2]outlasting // files with mostly independent calls, and mostly collective ones
	for i := range s.Files {
		x := &s.Files[i]
		collective, others := x.Collective[0]+x.Collective[1], x.Independent[0]+x.Independent[1]
		if x.InCalls <= x.InRequests || collective+others == 0 {
			continue
		}
		kind := 0
		if share(collective, collective+others) >= mostly {
			kind = 1
		}
		kinds[kind].add(x)
	}
	k := &kinds[1]
	if kinds[0].gain() > k.gain() {
		k = &kinds[0]
	}
	part := ratio(k.gain(), k.calls)
	if k.files == 0 || part < s.t.ExchangeShare {
		return nil
	}
	gain := k.gain()
	f := &Finding{Code: "CK27", File: k.file.Name, Files: k.files, Gain: &gain,
		Evidence: []Number{{"exchange_share", part, s.t.ExchangeShare}, {"mpiio_s", k.calls, 0}, {"posix_s", k.requests, 0}}}
	if k == &kinds[0] {
		s.insideCalls(f)
	} else {
		s.exchanged(f)
	}
	return f
}

// outlasting is the time in calls of MPI-IO and in the requests that they become.
type outlasting struct {
	files           int
	file            *File // with the largest difference
	calls, requests float64
}

func (k *outlasting) gain() float64 { return k.calls - k.requests }

func (k *outlasting) add(x *File) {
	k.files++
	k.calls, k.requests = k.calls+x.InCalls, k.requests+x.InRequests
	if k.file == nil || x.InCalls-x.InRequests > k.file.InCalls-k.file.InRequests {
		k.file = x
	}
}

func (s *search) exchanged(f *Finding) {
	f.Title = "collective calls take longer than their requests"
	f.Model = "The mean time of a rank in the calls, less the time of the slowest rank in the requests below: an upper bound, for the data must be exchanged at some time."
	f.Advice = "The rest is exchange of data, and waiting: for ranks that call late, and for the slowest aggregator of each call. Make fewer calls with more data each; parts that are large and contiguous need no exchange."
	if s.Library != "OMPIO" {
		f.Hints = append(f.Hints, cbNodes)
	}
	if s.Library != "ROMIO" {
		f.Hints = append(f.Hints, ompio)
	}
	f.Hints = append(f.Hints, ownCalls)
}

// insideCalls is about independent calls: no rank needs another for them.
func (s *search) insideCalls(f *Finding) {
	f.Title = "calls of MPI-IO take longer than their requests"
	f.Model = "The mean time of a rank in the calls, less the time of the slowest rank in the requests below: an upper bound, for the library needs some of it."
	f.Advice = "Most of the calls are independent, and those need no other rank. The rest is time inside the library: locks on the file, data sieving, opening the file, or messages. Make fewer calls with more data each, and try collective ones."
	if s.Library != "OMPIO" {
		f.Hints = append(f.Hints, sieveWrite)
	}
	f.Hints = append(f.Hints, s.collective(f.File, s.largerDirection())...)
}
