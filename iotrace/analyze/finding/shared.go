package finding

// Rules about files that several ranks share.

func pieces(s *search) *Finding {
	c := s.choose(0)
	var small int64
	for i := range s.Files {
		f := &s.Files[i]
		if int64(f.Writers) < s.t.Writers || share(int64(f.Writers), int64(s.Ranks)) < s.t.WritersShare ||
			share(f.Small[0].Count, f.Data[0].Count) < mostly || s.claimed[i][0].excess {
			continue
		}
		small += f.Small[0].Count
		c.faster(i, f.Small[0])
	}
	if c.files == 0 || small < s.t.SmallRequests {
		return nil
	}
	x := &s.Files[c.best]
	return c.finding(Finding{Code: "CK06", Title: "many ranks write small pieces of a shared file",
		Model: s.sizeModel("these small writes", 0),
		Evidence: []Number{{"writers", float64(x.Writers), float64(s.t.Writers)}, {"writers_share", min(1, share(int64(x.Writers), int64(s.Ranks))), s.t.WritersShare},
			{"small_write_share", share(x.Small[0].Count, x.Data[0].Count), mostly}, {"small", float64(small), float64(s.t.SmallRequests)}},
		Advice:   "Collective buffering: a few aggregators gather the pieces and write large blocks.",
		Remedies: []Remedy{LayoutAggregated, LayoutShared, AggregatorsAuto, Buffer},
		Hints:    s.collective(x.Name, 0)})
}

func contention(s *search) *Finding {
	c := s.choose(0)
	var worst float64
	for i := range s.Files {
		f := &s.Files[i]
		if f.SharedStripes <= s.t.SharedStripeShare || f.Writers < 2 || f.Storage == Local || s.claimed[i][0].excess {
			continue
		}
		w := f.Data[0].Work
		w.Wall *= f.SharedStripes
		c.faster(i, w)
		worst = max(worst, f.SharedStripes)
	}
	if c.files == 0 {
		return nil
	}
	x := &s.Files[c.best]
	return c.finding(Finding{Code: "CK03", Title: "ranks write the same stripes of a shared file",
		Model:    s.sizeModel("the writes to stripes with several writers, in proportion", 0),
		Evidence: []Number{{"shared_stripe_share", worst, s.t.SharedStripeShare}, {"ranks", float64(x.Writers), 0}},
		Advice:   "Each stripe from one writer: files of their own, or aggregators that own whole stripes; more stripes spread the locks.",
		Remedies: []Remedy{LayoutPerRank, LayoutAggregated, AggregatorsAuto, StripeCount},
		Hints:    append(s.collective(x.Name, 0), striping(x, stripeSize, stripeMore)...)})
}

// notCollective is about ranks that use MPI-IO, but each by itself.
func notCollective(s *search) *Finding {
	var n int64
	most := 0
	choices := [2]*choice{s.choose(0), s.choose(1)}
	for i := range s.Files {
		f := &s.Files[i]
		for d := range 2 {
			if f.Touchers < 2 || f.Collective[d] > 0 || f.Independent[d] < s.t.CollectiveRequests || share(f.Small[d].Count, f.Data[d].Count) < mostly {
				continue
			}
			n += f.Independent[d]
			choices[d].faster(i, f.Data[d].Work)
		}
	}
	if choices[1].gain > choices[0].gain || choices[0].files == 0 {
		most = 1
	}
	c := choices[most]
	if c.files == 0 {
		return nil
	}
	other := choices[1-most]
	c.amount = c.plus(other.amount)
	c.claims = append(c.claims, other.claims...)
	c.files = max(c.files, other.files)
	return c.finding(Finding{Code: "CK18", Title: "MPI-IO without collective calls on a shared file",
		Model:    s.sizeModel("these requests", most),
		Evidence: []Number{{"independent_requests", float64(n), float64(s.t.CollectiveRequests)}, {"ranks", float64(s.Files[c.best].Touchers), 0}},
		Advice:   "Use the collective calls, MPI_File_write_all and MPI_File_read_all and their like: the library then gathers the pieces of the ranks into large requests.",
		Hints:    s.collective(s.Files[c.best].Name, most)})
}

// splitCollective is about collective calls of which each rank makes requests of its
// own, and small ones.
func splitCollective(s *search) *Finding {
	c := s.choose(0)
	best := [2]*choice{c, s.choose(1)}
	var calls, under int64
	for i := range s.Files {
		f := &s.Files[i]
		for d := range 2 {
			// Independent calls are requests as they are, those of metadata small ones.
			requests, small := f.Under[d]-f.Independent[d], f.Small[d].Count-f.Independent[d]
			if f.Touchers < 2 || 2*f.Ranks <= f.Touchers || f.Collective[d] < s.t.CollectiveRequests || requests < f.Collective[d] || share(small, requests) < mostly {
				continue
			}
			calls, under = calls+f.Collective[d], under+requests
			w := f.Data[d].Work
			w.Wall *= share(requests, f.Under[d])
			best[d].faster(i, w)
		}
	}
	d := 0
	if best[1].gain > best[0].gain || best[0].files == 0 {
		d = 1
	}
	c = best[d]
	if c.files == 0 {
		return nil
	}
	return c.finding(Finding{Code: "CK19", Title: "collective calls that gather nothing",
		Model:    s.sizeModel("the requests that they become", d),
		Evidence: []Number{{"collective_requests", float64(calls), float64(s.t.CollectiveRequests)}, {"posix_requests", float64(under), float64(calls)}},
		Advice:   "Collective buffering is off, or decides that it does not pay: turn it on by hints.",
		Hints:    append(s.aggregation(d), sieveWrite)})
}

// oneStripe is about a large file on a single target. Ranks whose bytes an aggregator
// moves use it as well.
func oneStripe(s *search) *Finding {
	c := s.choose(0)
	for i := range s.Files {
		f := &s.Files[i]
		bytes := f.Data[0].Bytes + f.Data[1].Bytes
		users := max(f.Writers, f.Readers)
		if f.gathers() {
			users = max(users, f.Touchers)
		}
		if f.Storage != Lustre || f.Stripes != 1 || bytes < s.t.StripeFileBytes || users < 2 {
			continue
		}
		spread := min(float64(users), max(1, float64(s.t.ScaleRanks)))
		var gain float64
		for d := range 2 {
			was := s.claimed[i][d]
			if !was.excess {
				gain += f.Data[d].Wall * s.scale[d] * (1 - was.volume) * (1 - 1/spread)
			}
		}
		c.take(i, 0, Work{Bytes: bytes, Count: 1}, certain(gain), s.claimed[i][0])
	}
	if c.files == 0 {
		return nil
	}
	f := Finding{Code: "CK24", Title: "one stripe for a large file of several ranks",
		Model:    "The time of its requests, less what they would take on so many targets as fast as this one: the ranks at work, at most scale_ranks.",
		Evidence: []Number{{"stripe_count", 1, 0}, {"bytes", float64(c.work.Bytes), float64(s.t.StripeFileBytes)}},
		Advice:   "Spread the file over several targets before it is made.",
		Remedies: []Remedy{StripeCount},
		Hints:    append([]Hint{stripeMore}, s.ifMPI(mpiStripes)...)}
	if x := &s.Files[c.best]; x.gathers() && max(x.Writers, x.Readers) < 2 {
		f.Advice += " One aggregator moves the bytes of all ranks; on Lustre, MPI libraries take one for each stripe."
	}
	return c.finding(f)
}

// gathers reports whether ranks use collective calls, for which aggregators move the
// bytes of others.
func (f *File) gathers() bool { return f.Collective[0]+f.Collective[1] > 0 }

func (s *search) ifMPI(h ...Hint) []Hint {
	if s.MPI {
		return h
	}
	return nil
}
