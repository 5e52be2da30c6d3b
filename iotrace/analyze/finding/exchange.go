package finding

// exchange is about collective calls that take longer than the requests that they
// become: the ranks send each other the data, and wait for each other. Beside a rank that
// does more than the others, or slower, it is that rank that they wait for.
func exchange(s *search) *Finding {
	if s.has("CK05") || s.has("CK20") {
		return nil
	}
	f := &Finding{Code: "CK27", Title: "collective calls take longer than their requests",
		Model:  "The mean time of a rank in the calls, less the time of the slowest rank in the requests below: an upper bound, for the data must be exchanged at some time.",
		Advice: "The rest is exchange of data, and waiting: for ranks that call late, and for the slowest aggregator of each call. Make fewer calls with more data each; parts that are large and contiguous need no exchange.",
	}
	if s.Library != "OMPIO" {
		f.Hints = append(f.Hints, cbNodes)
	}
	if s.Library != "ROMIO" {
		f.Hints = append(f.Hints, ompio)
	}
	f.Hints = append(f.Hints, ownCalls)
	var gain, calls, requests, most float64
	for i := range s.Files {
		x := &s.Files[i]
		collective, others := x.Collective[0]+x.Collective[1], x.Independent[0]+x.Independent[1]
		extra := x.InCalls - x.InRequests
		if extra <= 0 || collective == 0 || share(collective, collective+others) < mostly {
			continue
		}
		f.Files++
		gain, calls, requests = gain+extra, calls+x.InCalls, requests+x.InRequests
		if extra > most {
			f.File, most = x.Name, extra
		}
	}
	part := ratio(gain, calls)
	if f.Files == 0 || part < s.t.ExchangeShare {
		return nil
	}
	f.Gain = &gain
	f.Evidence = []Number{{"exchange_share", part, s.t.ExchangeShare}, {"mpiio_s", calls, 0}, {"posix_s", requests, 0}}
	return f
}
