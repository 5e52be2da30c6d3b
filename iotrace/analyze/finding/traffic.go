package finding

import "ckpt/iotrace"

// Rules about bytes that need not be moved, or not so often made durable.

// again chooses the files of which bytes are moved again, in one direction; nil if too
// few are.
func (s *search) again(d int) (*choice, []Number) {
	c := s.choose(d)
	var again int64
	for i := range s.Files {
		f := &s.Files[i]
		if part := share(f.Again[d], f.Data[d].Bytes); part > 0 {
			again = iotrace.Sum(again, f.Again[d])
			c.fewer(i, min(1, part))
		}
	}
	part := share(again, s.Data[d].Bytes)
	if c.files == 0 || part < s.t.TrafficShare {
		return nil, nil
	}
	return c, []Number{{"again_share", part, s.t.TrafficShare}, {"again_bytes", float64(again), 0}}
}

// redundantReads is about bytes that are read again.
func redundantReads(s *search) *Finding {
	c, seen := s.again(1)
	if c == nil {
		return nil
	}
	x := &s.Files[c.best]
	f := Finding{Code: "CK16", Title: "the same bytes are read again",
		Model:    "The time of reading, in the proportion of the bytes that were read before.",
		Evidence: append(seen, Number{"readers", float64(x.Readers), 0}),
		Advice:   "Read once and keep it in memory.",
		Hints:    []Hint{cache}}
	if x.Readers > 1 {
		f.Advice = "Several processes read the same: let one read it and send it to the others, or read once and keep it in memory."
		f.Hints = append(s.ifMPI(broadcast), cache)
	}
	if isHDF5(x.Name) {
		f.Hints = append([]Hint{hdf5Chunks}, f.Hints...)
	}
	return c.finding(f)
}

// rewriting is about bytes that are written again.
func rewriting(s *search) *Finding {
	c, seen := s.again(0)
	if c == nil {
		return nil
	}
	f := Finding{Code: "CK17", Title: "the same bytes are written again",
		Model:    "The time of writing, in the proportion of the bytes that are written in a place that was written before.",
		Evidence: seen,
		Advice:   "Hold what changes often in memory, and write it once; write no fill values before the data.",
		Remedies: []Remedy{Interval}, Hints: []Hint{writeOnce}}
	if isHDF5(s.Files[c.best].Name) {
		f.Hints = append([]Hint{hdf5Fill}, f.Hints...)
	}
	return c.finding(f)
}

// readModifyWrite is about blocks that are read to change a part of them.
func readModifyWrite(s *search) *Finding {
	c := s.choose(1)
	var bytes, reads int64
	for i := range s.Files {
		f := &s.Files[i]
		part := share(f.ReadModifyWrite, f.Data[1].Bytes)
		if part < s.t.TrafficShare {
			continue
		}
		bytes, reads = iotrace.Sum(bytes, f.ReadModifyWrite), iotrace.Sum(reads, f.Data[1].Count)
		c.fewer(i, min(1, part))
		// Whole blocks spare small and random writes, too.
		w := s.choose(0)
		if !s.claimed[i][0].excess && f.Data[0].Count > 0 {
			w.faster(i, f.Data[0].Work)
			c.amount = c.plus(w.amount)
			c.claims = append(c.claims, w.claims...)
		}
	}
	part := share(bytes, s.Data[1].Bytes)
	if c.files == 0 || part < s.t.TrafficShare || reads < s.t.RandomRequests {
		return nil
	}
	f := Finding{Code: "CK15", Title: "read, modify, write",
		Model:    "The time of the reads whose bytes are then written, and that of the writes, less the time that their bytes would take at " + s.source[0] + ".",
		Evidence: []Number{{"read_modify_write_share", part, s.t.TrafficShare}, {"read_modify_write_bytes", float64(bytes), 0}},
		Advice:   "Write whole blocks, so that nothing must be read first; or hold the blocks in memory until they are whole.",
		Remedies: []Remedy{Buffer},
		Hints:    append(s.ifMPI(sieveWrite), wholeBlks)}
	if x := &s.Files[c.best]; x.Asked[0] > 0 && x.Asked[1] == 0 {
		f.Advice = sieving
	}
	return c.finding(f)
}

// eagerSyncs is about syncs after little data.
func eagerSyncs(s *search) *Finding {
	e := s.EagerSyncs
	if e.Count < s.t.Syncs || s.Counted || s.has("CK12") {
		return nil
	}
	// The bytes must reach the storage at some time.
	saved := s.excess(e.Wall, e, 0)
	best, most := -1, 0.
	for i := range s.Files {
		x := s.Files[i].EagerSyncs
		if weight := x.Time + 1e-12*float64(x.Count); x.Count > 0 && weight > most {
			best, most = i, weight
		}
	}
	f := &Finding{Code: "CK12", Title: "syncs after little data", Gain: &saved.gain, sure: &saved.sure,
		Model:    "The time of the syncs with little written since the one before, less the time that their bytes would take at " + s.source[0] + ".",
		Evidence: []Number{{"eager_syncs", float64(e.Count), float64(s.t.Syncs)}, {"syncs", float64(s.Syncs.Count), 0}, {"bytes_per_sync", share(e.Bytes, e.Count), float64(s.t.SyncBytes)}},
		Advice:   "Make many writes durable with one sync.",
		Remedies: []Remedy{Async, Interval}, Hints: []Hint{fdatasync}}
	if best >= 0 {
		f.File = s.Files[best].Name
		for i := range s.Files {
			if s.Files[i].EagerSyncs.Count > 0 {
				f.Files++
			}
		}
	}
	return f
}

// streams is about large data through stdio.
func streams(s *search) *Finding {
	var bytes, all int64
	best := [2]*choice{s.choose(0), s.choose(1)}
	for i := range s.Files {
		f := &s.Files[i]
		// Where requests are seen one by one, those of streams are not among them.
		all = iotrace.Sum(all, max(iotrace.Sum(f.Data[0].Bytes, f.Data[1].Bytes), f.STDIO.Bytes))
		if f.STDIO.Count == 0 {
			continue
		}
		bytes = iotrace.Sum(bytes, f.STDIO.Bytes)
		for d := range 2 {
			if f.Data[d].Count > 0 {
				best[d].faster(i, f.Data[d].Work)
			}
		}
	}
	part := share(bytes, all)
	if bytes < s.t.STDIOBytes || part < s.t.STDIOShare {
		return nil
	}
	d := 0
	if best[1].gain > best[0].gain || best[0].files == 0 {
		d = 1
	}
	c := best[d]
	c.amount = c.plus(best[1-d].amount)
	c.claims = append(c.claims, best[1-d].claims...)
	return c.finding(Finding{Code: "CK25", Title: "large data through streams of the C library",
		Model:    s.sizeModel("their requests", d),
		Evidence: []Number{{"stdio_share", part, s.t.STDIOShare}, {"stdio_bytes", float64(bytes), float64(s.t.STDIOBytes)}},
		Advice:   "Streams copy each byte once more, and write what their buffer holds, often 4 KiB: use write and read with large blocks, MPI-IO, or a larger buffer.",
		Hints:    []Hint{stream}})
}
