package finding

import "ckpt/iotrace"

// Rules about operations that move no bytes.

// partOf returns the wall time of a part of some work, in proportion.
func partOf(w Work, time float64) float64 { return min(w.Wall, w.Wall*ratio(time, w.Time)) }

// repeated adds up operations that are done again on files, and names the file where
// they take most time. Of returns the operations of a file, how many of them are
// repetitions, and the time of all.
func (s *search) repeated(f *Finding, of func(*File) (all, again int64, time float64)) (all, again int64, time float64) {
	var most float64
	for _, x := range s.files() {
		n, repetitions, took := of(x)
		if repetitions <= 0 {
			continue
		}
		all, again = all+n, again+repetitions
		part := took * share(repetitions, n)
		time += part
		f.Files++
		if weight := part + 1e-12*float64(repetitions); weight > most {
			f.File, most = x.Name, weight
		}
	}
	return all, again, time
}

// reopening is about files that are opened for every request.
func reopening(s *search, f *Finding) bool {
	opens, again, time := s.repeated(f, func(x *File) (all, again int64, time float64) {
		return x.Opens, max(0, x.Opens-int64(x.Touchers)-x.Fresh), x.OpenClose.Time
	})
	if again < s.t.Reopenings {
		return false
	}
	f.Evidence = []Number{{"reopenings", float64(again), float64(s.t.Reopenings)}, {"opens", float64(opens), 0},
		{"requests_per_open", share(s.Data[0].Count+s.Data[1].Count, opens), 0}}
	return f.worth(partOf(s.OpenClose, time))
}

// statStorm is about files whose status is asked for again and again.
func statStorm(s *search, f *Finding) bool {
	spared := s.has("CK23")
	_, again, time := s.repeated(f, func(x *File) (all, again int64, time float64) {
		if spared && s.tiny(x) {
			return 0, 0, 0 // one file for all of them spares these too
		}
		return x.Stats.Count, x.Stats.Count - int64(max(1, x.Touchers)), x.Stats.Time
	})
	if again < s.t.StatRequests {
		return false
	}
	f.Evidence = []Number{{"stats_again", float64(again), float64(s.t.StatRequests)}, {"stats", float64(s.Stats.Count), 0}}
	return f.worth(partOf(s.Stats, time))
}

// smallFiles is about data in many small files.
func smallFiles(s *search, f *Finding) bool {
	var n, bytes int64
	var openClose, stats, others float64
	for _, x := range s.files() {
		if !s.tiny(x) {
			continue
		}
		n++
		bytes = iotrace.Sum(bytes, x.bytes())
		// Another finding has the cost of opening a file again.
		part := 1.
		if x.Opens > 1 {
			part = 1 / float64(x.Opens)
		}
		openClose += x.OpenClose.Time * part
		stats += x.Stats.Time
		others += x.Others.Time
	}
	if n < s.t.SmallFiles {
		return false
	}
	gain := partOf(s.OpenClose, openClose) + partOf(s.Stats, stats) + partOf(s.Others, others)
	f.Files = int(n)
	f.Evidence = []Number{{"small_files", float64(n), float64(s.t.SmallFiles)},
		{"mean_file_bytes", share(bytes, n), float64(s.t.SmallFileBytes)}}
	return f.worth(gain * (1 - 1/float64(n)))
}

// tiny reports whether a file has little data, of one process.
func (s *search) tiny(f *File) bool {
	size := f.bytes()
	return size > 0 && size <= s.t.SmallFileBytes && f.OpenClose.Count > 0 && f.Touchers <= 1
}

// metadata is about what the rules above leave.
func metadata(s *search, f *Finding) bool {
	ops := s.OpenClose.Count + s.Stats.Count + s.Others.Count
	took := s.OpenClose.Time + s.Stats.Time + s.Others.Time
	data := s.Data[0].Time + s.Data[1].Time
	requests := s.Data[0].Count + s.Data[1].Count
	timeShare := ratio(took, took+data+s.Syncs.Time)
	per := ratio(float64(ops), float64(max(requests, 1)))
	slow := ops >= s.t.MetadataTimeOps && timeShare >= s.t.MetadataTimeShare
	many := ops >= s.t.MetadataOps && per >= s.t.MetadataPerRequest
	if !slow && !many {
		return false
	}
	limit := s.t.MetadataTimeOps
	if !slow {
		limit = s.t.MetadataOps
	}
	left := s.Metadata
	for i := range s.out {
		switch f := &s.out[i]; f.Code {
		case "CK21", "CK22", "CK23":
			left -= gain(f)
		}
	}
	f.Evidence = []Number{{"metadata_time_share", timeShare, s.t.MetadataTimeShare}, {"metadata_ops", float64(ops), float64(limit)},
		{"metadata_per_request", per, s.t.MetadataPerRequest}, {"files", float64(len(s.Files)), 0}}
	f.Advice, f.Hints = s.fewerOperations()
	switch {
	case !s.Ours:
	case s.Layout == LayoutShared || s.sharesFiles():
		f.Remedies, f.Advice = []Remedy{Interval}, "Ranks share files already: open each once, and checkpoint less often."
	default:
		f.Advice = "Fewer files: let ranks share them; or checkpoint less often."
	}
	if s.MPI && s.anyFile((*File).inHDF5) {
		f.Hints = append([]Hint{hdf5Metadata}, f.Hints...)
	}
	return f.worth(max(0, left))
}

// fewerOperations returns what helps against the operations that there are.
func (s *search) fewerOperations() (advice string, h []Hint) {
	// Files that are written under other names first have to be opened.
	if s.Renames > 0 && 4*s.Renames >= s.OpenClose.Count {
		advice = "Save less often: each time, a file is opened, closed and renamed"
		if s.Stats.Count > 0 {
			h = append(h, statOnce)
		}
		return advice + ".", append(h, pack)
	}
	advice = "Open each file once"
	if len(s.Files) > 1 {
		advice = "Fewer, larger files; open each once"
	}
	if s.OpenClose.Count > 0 {
		h = append(h, keepOpen)
	}
	if s.Stats.Count > 0 {
		advice += ", and ask once what it is like"
		h = append(h, statOnce)
	}
	if len(s.Files) > 1 {
		h = append(h, pack)
	}
	if s.OpenClose.Count == 0 && s.Stats.Count == 0 {
		return "Move, cut and remove files less often.", h
	}
	return advice + ".", h
}

// sharesFiles reports whether several ranks use each file that has data.
func (s *search) sharesFiles() bool {
	used := func(f *File) bool { return f.Data[0].Count+f.Data[1].Count > 0 }
	return s.anyFile(used) && !s.anyFile(func(f *File) bool { return used(f) && f.Ranks <= 1 })
}
