package finding

// Rules about what only counters tell.

const sieving = "The program only writes. The parts of the ranks leave holes, so that the MPI library reads a block, changes a part of it and writes all of it (data sieving): write without holes, or turn that off."

// unasked is about reads and bytes of the MPI library that the program did not ask for:
// it reads blocks of which it writes a part, and writes the holes as well. Events show
// such blocks (readModifyWrite); counters show the difference of both layers.
func unasked(s *search) *Finding {
	if !s.Counted {
		return nil
	}
	c := s.choose(0)
	var reads, more, asked int64
	for i := range s.Files {
		f := &s.Files[i]
		if f.Asked[0] == 0 || f.Data[0].Count == 0 {
			continue
		}
		extra := max(0, f.Data[0].Bytes-f.Asked[0])
		sieved := int64(0) // reads, of files of which the program reads nothing
		if f.Collective[1]+f.Independent[1] == 0 {
			sieved = f.Under[1]
		}
		part := share(extra, f.Data[0].Bytes)
		if part < s.t.TrafficShare && sieved < s.t.RandomRequests {
			continue
		}
		reads, more, asked = reads+sieved, more+extra, asked+f.Asked[0]
		c.fewer(i, part)
		if sieved > 0 {
			r := s.choose(1)
			r.fewer(i, 1)
			c.amount = c.plus(r.amount)
			c.claims = append(c.claims, r.claims...)
		}
	}
	if c.files == 0 {
		return nil
	}
	x := &s.Files[c.best]
	f := Finding{Code: "CK15", Title: "the MPI library moves bytes that the program did not ask for",
		Model: "The time of reads in files that the program only writes, and that of writing, in the proportion of the bytes beyond those asked for.",
		Evidence: []Number{{"unasked_reads", float64(reads), float64(s.t.RandomRequests)}, {"unasked_bytes", float64(more), 0},
			{"asked_bytes", float64(asked), 0}},
		Advice: sieving,
		Hints:  []Hint{sieveWrite, wholeBlks}}
	if isNetCDF(x.Name) {
		f.Hints = append(f.Hints, netcdf)
	}
	if isHDF5(x.Name) {
		f.Hints = append(f.Hints, hdf5Collective)
	}
	return c.finding(f)
}

// syncedWrites is about files with a sync for every other write, or more; countedSyncs
// about the others, unless their writes are small. Counters have one time for both, and so
// have synchronous writes.
func syncedWrites(s *search) *Finding {
	return s.syncs(func(f *File) bool { return 2*f.EagerSyncs.Count >= f.Data[0].Count })
}

func countedSyncs(s *search) *Finding {
	if s.has("CK12") {
		return nil
	}
	return s.syncs(func(*File) bool { return true })
}

func (s *search) syncs(of func(*File) bool) *Finding {
	c := s.choose(0)
	var n, all, bytes int64
	for i := range s.Files {
		f := &s.Files[i]
		if (s.Counted || f.Synchronous) && f.EagerSyncs.Count > 0 && !s.claimed[i][0].excess && of(f) {
			n, all, bytes = n+f.EagerSyncs.Count, all+f.Syncs.Count, bytes+f.EagerSyncs.Bytes
			c.faster(i, f.Data[0].Work)
		}
	}
	if n < s.t.Syncs {
		return nil
	}
	f := Finding{Code: "CK12", Title: "syncs after little data",
		Model:    "The time of writing and syncing these files, which counters do not tell apart, less the time that their bytes would take at " + s.source[0] + ": an upper bound.",
		Evidence: []Number{{"eager_syncs", float64(n), float64(s.t.Syncs)}, {"syncs", float64(all), 0}, {"bytes_per_sync", share(bytes, all), float64(s.t.SyncBytes)}},
		Advice:   "Make many writes durable with one sync.",
		Remedies: []Remedy{Async, Interval}, Hints: []Hint{fdatasync}}
	if !s.Counted {
		f.Model = "The time of the synchronous writes to these files (O_SYNC, O_DSYNC), each with its sync, less the time that their bytes would take at " + s.source[0] + ": an upper bound."
		f.Advice = "Make many writes durable with one sync: without O_SYNC and O_DSYNC, and with fdatasync after the last of them."
	}
	return c.finding(f)
}
