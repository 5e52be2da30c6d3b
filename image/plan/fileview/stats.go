package fileview

// Stats counts what a File did, or would do, since it was made.
type Stats struct {
	Reads, Writes int64 // calls to the file
	Read, Written int64 // bytes that these calls moved, holes included
	Useful        int64 // bytes that the caller gave or got
	Locks         int64 // ranges locked
	Rewrites      int64 // read-modify-writes: one read, one write and one lock each
}

func (s *Stats) add(t Stats) {
	s.Reads += t.Reads
	s.Writes += t.Writes
	s.Read += t.Read
	s.Written += t.Written
	s.Useful += t.Useful
	s.Locks += t.Locks
	s.Rewrites += t.Rewrites
}

// Stats returns the sums of all calls so far. Bytes are counted when they have
// been moved, calls and locks when they are made.
func (f *File) Stats() Stats {
	f.statsMu.Lock()
	defer f.statsMu.Unlock()
	return f.stats
}

func (f *File) count(s Stats) {
	f.statsMu.Lock()
	defer f.statsMu.Unlock()
	f.stats.add(s)
}

// Plan returns what a request for the n bytes at viewOff would do, the part of
// it that is within the view, without access to the file: the end of the file is
// not known to it. Times follow from Stats and a model of the storage, so that
// rules can be compared before one is used.
func (f *File) Plan(a Access, viewOff, n int64) Stats {
	var s Stats
	p := f.planner(a, viewOff, n)
	for w, ok := p.next(); ok; w, ok = p.next() {
		s.Useful += w.data
		rewrite := a == Write && !w.plain()
		if a == Read || rewrite {
			s.Reads++
			s.Read += w.len
		}
		if a == Write {
			s.Locks++
			s.Writes++
			s.Written += w.len
		}
		if rewrite {
			s.Rewrites++
		}
	}
	return s
}
