package finding

import "ckpt/iotrace"

// Rules about files that several ranks share, and about bytes that need not be moved.

func pieces(s *search, f *Finding) bool {
	c := s.choose()
	var small int64
	for i, x := range s.files() {
		if int64(x.Writers) < s.t.Writers || share(int64(x.Writers), int64(s.Ranks)) < s.t.WritersShare ||
			share(x.Small[0].Count, x.Data[0].Count) < mostly || s.claimed[i][0].excess {
			continue
		}
		small += x.Small[0].Count
		c.faster(i, 0, x.Small[0])
	}
	if small < s.t.SmallRequests || !c.gives(f, 0) {
		return false
	}
	x := c.best(0)
	f.Model = s.sizeModel("these small writes", 0)
	f.Evidence = []Number{{"writers", float64(x.Writers), float64(s.t.Writers)},
		{"writers_share", min(1, share(int64(x.Writers), int64(s.Ranks))), s.t.WritersShare},
		{"small_write_share", share(x.Small[0].Count, x.Data[0].Count), mostly},
		{"small", float64(small), float64(s.t.SmallRequests)}}
	f.Hints = s.collective(x.Name, 0)
	return true
}

func contention(s *search, f *Finding) bool {
	c := s.choose()
	var worst float64
	for i, x := range s.files() {
		if x.SharedStripes <= s.t.SharedStripeShare || x.Writers < 2 || x.Storage == Local || s.claimed[i][0].excess {
			continue
		}
		w := x.Data[0].Work
		w.Wall *= x.SharedStripes
		c.faster(i, 0, w)
		worst = max(worst, x.SharedStripes)
	}
	if !c.gives(f, 0) {
		return false
	}
	x := c.best(0)
	f.Model = s.sizeModel("the writes to stripes with several writers, in proportion", 0)
	f.Evidence = []Number{{"shared_stripe_share", worst, s.t.SharedStripeShare}, {"ranks", float64(x.Writers), 0}}
	f.Hints = s.collective(x.Name, 0)
	if x.onLustre() {
		f.Hints = append(f.Hints, stripeSize, stripeMore)
	}
	return true
}

// notCollective is about ranks that use MPI-IO, but each by itself.
func notCollective(s *search, f *Finding) bool {
	var n int64
	c := s.choose()
	for i, x := range s.files() {
		for d := range 2 {
			if x.Touchers < 2 || x.Collective[d] > 0 || x.Independent[d] < s.t.CollectiveRequests ||
				share(x.Small[d].Count, x.Data[d].Count) < mostly {
				continue
			}
			n += x.Independent[d]
			c.faster(i, d, x.Data[d].Work)
		}
	}
	d := c.main()
	if !c.gives(f, d) {
		return false
	}
	f.Files = max(c.of[0].files, c.of[1].files)
	f.Model = s.sizeModel("these requests", d)
	f.Evidence = []Number{{"independent_requests", float64(n), float64(s.t.CollectiveRequests)},
		{"ranks", float64(c.best(d).Touchers), 0}}
	f.Hints = s.collective(f.File, d)
	return true
}

// splitCollective is about collective calls of which each rank makes requests of its
// own, and small ones.
func splitCollective(s *search, f *Finding) bool {
	c := s.choose()
	var calls, under int64
	for i, x := range s.files() {
		for d := range 2 {
			// Independent calls are requests as they are, for metadata small ones.
			requests, small := x.Under[d]-x.Independent[d], x.Small[d].Count-x.Independent[d]
			if x.Touchers < 2 || 2*x.Ranks <= x.Touchers || x.Collective[d] < s.t.CollectiveRequests ||
				requests < x.Collective[d] || share(small, requests) < mostly {
				continue
			}
			calls, under = calls+x.Collective[d], under+requests
			w := x.Data[d].Work
			w.Wall *= share(requests, x.Under[d])
			c.faster(i, d, w)
		}
	}
	d := c.main()
	c.of[1-d] = chosen{}
	f.Model = s.sizeModel("the requests that they become", d)
	f.Evidence = []Number{{"collective_requests", float64(calls), float64(s.t.CollectiveRequests)},
		{"posix_requests", float64(under), float64(calls)}}
	f.Hints = append(s.aggregation(d), sieveWrite)
	return c.gives(f, d)
}

// oneStripe is about a large file on a single target. Ranks whose bytes an aggregator
// moves use it as well.
func oneStripe(s *search, f *Finding) bool {
	c := s.choose()
	for i, x := range s.files() {
		users := max(x.Writers, x.Readers)
		if x.gathers() {
			users = max(users, x.Touchers)
		}
		if !x.onLustre() || x.Stripes != 1 || x.bytes() < s.t.StripeFileBytes || users < 2 {
			continue
		}
		spread := min(float64(users), max(1, float64(s.t.ScaleRanks)))
		var gain float64
		for d := range 2 {
			if was := s.claimed[i][d]; !was.excess {
				gain += x.Data[d].Wall * s.scale[d] * (1 - was.volume) * (1 - 1/spread)
			}
		}
		c.take(i, 0, Work{Bytes: x.bytes(), Count: 1}, certain(gain), s.claimed[i][0])
	}
	if !c.gives(f, 0) {
		return false
	}
	f.Evidence = []Number{{"stripe_count", 1, 0}, {"bytes", float64(c.of[0].work.Bytes), float64(s.t.StripeFileBytes)}}
	f.Hints = append([]Hint{stripeMore}, s.ifMPI(mpiStripes)...)
	if x := c.best(0); x.gathers() && max(x.Writers, x.Readers) < 2 {
		f.Advice += " One aggregator moves the bytes of all ranks; on Lustre, MPI libraries take one for each stripe."
	}
	return true
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

// again chooses the files of which bytes are moved again, in one direction; nil if too
// few are.
func (s *search) again(f *Finding, d int) *File {
	c := s.choose()
	var again int64
	for i, x := range s.files() {
		if part := share(x.Again[d], x.Data[d].Bytes); part > 0 {
			again = iotrace.Sum(again, x.Again[d])
			c.fewer(i, d, min(1, part))
		}
	}
	part := share(again, s.Data[d].Bytes)
	if part < s.t.TrafficShare || !c.gives(f, d) {
		return nil
	}
	f.Evidence = []Number{{"again_share", part, s.t.TrafficShare}, {"again_bytes", float64(again), 0}}
	return c.best(d)
}

// redundantReads is about bytes that are read again.
func redundantReads(s *search, f *Finding) bool {
	x := s.again(f, 1)
	if x == nil {
		return false
	}
	f.Evidence = append(f.Evidence, Number{"readers", float64(x.Readers), 0})
	if x.Readers > 1 {
		f.Advice = "Several processes read the same: let one read it and send it to the others, or read once and keep it in memory."
		f.Hints = append(s.ifMPI(broadcast), cache)
	}
	if x.inHDF5() {
		f.Hints = append([]Hint{hdf5Chunks}, f.Hints...)
	}
	return true
}

// rewriting is about bytes that are written again.
func rewriting(s *search, f *Finding) bool {
	x := s.again(f, 0)
	if x != nil && x.inHDF5() {
		f.Hints = append([]Hint{hdf5Fill}, f.Hints...)
	}
	return x != nil
}

const sieving = "The program only writes. The parts of the ranks leave holes, so that the MPI library reads a block, changes a part of it and writes all of it (data sieving): write without holes, or turn that off."

// readModifyWrite is about blocks that are read to change a part of them.
func readModifyWrite(s *search, f *Finding) bool {
	c := s.choose()
	var bytes, reads int64
	for i, x := range s.files() {
		part := share(x.ReadModifyWrite, x.Data[1].Bytes)
		if part < s.t.TrafficShare {
			continue
		}
		bytes, reads = iotrace.Sum(bytes, x.ReadModifyWrite), iotrace.Sum(reads, x.Data[1].Count)
		c.fewer(i, 1, min(1, part))
		if x.Data[0].Count > 0 { // whole blocks spare small and random writes, too
			c.faster(i, 0, x.Data[0].Work)
		}
	}
	part := share(bytes, s.Data[1].Bytes)
	if part < s.t.TrafficShare || reads < s.t.RandomRequests || !c.gives(f, 1) {
		return false
	}
	f.Model = "The time of the reads whose bytes are then written, and that of the writes, less the time that their bytes would take at " + s.source[0] + "."
	f.Evidence = []Number{{"read_modify_write_share", part, s.t.TrafficShare},
		{"read_modify_write_bytes", float64(bytes), 0}}
	f.Hints = append(s.ifMPI(sieveWrite), wholeBlks)
	if x := c.best(1); x.Asked[0] > 0 && x.Asked[1] == 0 {
		f.Advice = sieving
	}
	return true
}

// unasked is about reads and bytes of the MPI library that the program did not ask for:
// it reads blocks of which it writes a part, and writes the holes as well. Events show
// such blocks (readModifyWrite); counters show the difference of both layers.
func unasked(s *search, f *Finding) bool {
	c := s.choose()
	var reads, more, asked int64
	for i, x := range s.files() {
		if !s.Counted || x.Asked[0] == 0 || x.Data[0].Count == 0 {
			continue
		}
		extra := max(0, x.Data[0].Bytes-x.Asked[0])
		sieved := int64(0) // reads, of files of which the program reads nothing
		if x.Collective[1]+x.Independent[1] == 0 {
			sieved = x.Under[1]
		}
		part := share(extra, x.Data[0].Bytes)
		if part < s.t.TrafficShare && sieved < s.t.RandomRequests {
			continue
		}
		reads, more, asked = reads+sieved, more+extra, asked+x.Asked[0]
		c.fewer(i, 0, part)
		if sieved > 0 {
			c.fewer(i, 1, 1)
		}
	}
	if !c.gives(f, 0) {
		return false
	}
	f.Evidence = []Number{{"unasked_reads", float64(reads), float64(s.t.RandomRequests)},
		{"unasked_bytes", float64(more), 0}, {"asked_bytes", float64(asked), 0}}
	if isNetCDF(f.File) {
		f.Hints = append(f.Hints, netcdf)
	}
	if isHDF5(f.File) {
		f.Hints = append(f.Hints, hdf5Collective)
	}
	return true
}

// syncedWrites is about files with a sync for every other write, or more; countedSyncs
// about the others, unless their writes are small. Counters have one time for both, and so
// have synchronous writes.
func syncedWrites(s *search, f *Finding) bool {
	return s.syncs(f, func(x *File) bool { return 2*x.EagerSyncs.Count >= x.Data[0].Count })
}

func countedSyncs(s *search, f *Finding) bool {
	return !s.has("CK12") && s.syncs(f, func(*File) bool { return true })
}

func (s *search) syncs(f *Finding, of func(*File) bool) bool {
	c := s.choose()
	var n, all, bytes int64
	for i, x := range s.files() {
		if (s.Counted || x.Synchronous) && x.EagerSyncs.Count > 0 && !s.claimed[i][0].excess && of(x) {
			n, all, bytes = n+x.EagerSyncs.Count, all+x.Syncs.Count, bytes+x.EagerSyncs.Bytes
			c.faster(i, 0, x.Data[0].Work)
		}
	}
	if n < s.t.Syncs {
		return false
	}
	f.Model = "The time of writing and syncing these files, which counters do not tell apart, less the time that their bytes would take at " + s.source[0] + ": an upper bound."
	f.Evidence = s.syncEvidence(n, all, bytes, all)
	f.Advice = "Make many writes durable with one sync."
	if !s.Counted {
		f.Model = "The time of the synchronous writes to these files (O_SYNC, O_DSYNC), each with its sync, less the time that their bytes would take at " + s.source[0] + ": an upper bound."
		f.Advice = "Make many writes durable with one sync: without O_SYNC and O_DSYNC, and with fdatasync after the last of them."
	}
	return c.gives(f, 0)
}

// syncEvidence is about n of all syncs; bytes were synced so many times.
func (s *search) syncEvidence(n, all, bytes, times int64) []Number {
	return []Number{{"eager_syncs", float64(n), float64(s.t.Syncs)}, {"syncs", float64(all), 0},
		{"bytes_per_sync", share(bytes, times), float64(s.t.SyncBytes)}}
}

// eagerSyncs is about syncs after little data.
func eagerSyncs(s *search, f *Finding) bool {
	e := s.EagerSyncs
	if e.Count < s.t.Syncs || s.Counted || s.has("CK12") {
		return false
	}
	f.longest(s, func(x *File) Work { return x.EagerSyncs })
	f.Model = "The time of the syncs with little written since the one before, less the time that their bytes would take at " + s.source[0] + "."
	f.Evidence = s.syncEvidence(e.Count, s.Syncs.Count, e.Bytes, e.Count)
	saved := s.excess(e.Wall, e, 0) // the bytes must reach the storage at some time
	f.sure = &saved.sure
	return f.worth(saved.gain)
}

// longest names the file where some work takes longest, and counts those with such work.
func (f *Finding) longest(s *search, of func(*File) Work) {
	most := 0.
	for _, x := range s.files() {
		w := of(x)
		if w.Count > 0 {
			f.Files++
		}
		if weight := w.Time + 1e-12*float64(w.Count); w.Count > 0 && weight > most {
			f.File, most = x.Name, weight
		}
	}
}

// streams is about large data through stdio.
func streams(s *search, f *Finding) bool {
	var bytes, all int64
	c := s.choose()
	for i, x := range s.files() {
		// Where requests are seen one by one, streams are missing.
		all = iotrace.Sum(all, max(x.bytes(), x.STDIO.Bytes))
		if x.STDIO.Count == 0 {
			continue
		}
		bytes = iotrace.Sum(bytes, x.STDIO.Bytes)
		for d := range 2 {
			if x.Data[d].Count > 0 {
				c.faster(i, d, x.Data[d].Work)
			}
		}
	}
	part := share(bytes, all)
	if bytes < s.t.STDIOBytes || part < s.t.STDIOShare {
		return false
	}
	d := c.main()
	f.Model = s.sizeModel("their requests", d)
	f.Evidence = []Number{{"stdio_share", part, s.t.STDIOShare}, {"stdio_bytes", float64(bytes), float64(s.t.STDIOBytes)}}
	return c.gives(f, d)
}

// lockWaits is about processes that wait for locks on files. Time in which others read
// or write belongs to other findings.
func lockWaits(s *search, f *Finding) bool {
	if s.Ours || s.Locks.Count < s.t.LockWaits {
		return false
	}
	f.longest(s, func(x *File) Work { return x.Locks })
	f.Evidence = []Number{{"lock_waits", float64(s.Locks.Count), float64(s.t.LockWaits)}, {"lock_wait_s", s.Locks.Time, 0}}
	var sieved, written int64
	for _, x := range s.files() {
		if x.Locks.Count > 0 {
			sieved, written = iotrace.Sum(sieved, x.ReadModifyWrite), iotrace.Sum(written, x.Data[0].Bytes)
		}
	}
	if part := share(sieved, written); part >= s.t.TrafficShare {
		f.Evidence = append(f.Evidence, Number{"sieved_share", part, s.t.TrafficShare})
		f.Advice = "Single writes read a block, change a part of it and write it back, under a lock (data sieving): write without it, or collectively."
	}
	f.Hints = append(s.ifMPI(sieveWrite, cbWrite), ownParts)
	return f.worth(s.LockOnly)
}
