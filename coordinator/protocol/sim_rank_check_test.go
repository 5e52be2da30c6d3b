package protocol

import "slices"

// allEnded reports whether the coordinator has the results of all ranks.
func (w *world) allEnded() bool {
	return !slices.ContainsFunc(w.ranks, func(r *simRank) bool { return !r.ended })
}

// allCaptured reports whether every rank has a copy of its memory.
func (w *world) allCaptured(number int) bool {
	for _, r := range w.ranks {
		if r.captured < number {
			return false
		}
	}
	return true
}

// inspectProceed checks a rank that passes a boundary.
func (w *world) inspectProceed(r *simRank) {
	behind := func(n int) bool { return w.cfg.Async && w.allCaptured(n) }
	if r.writing != 0 && !behind(r.writing) {
		w.failf("rank %d goes on while it writes checkpoint %d", r.id, r.writing)
	}
	if r.copying != 0 {
		w.failf("rank %d goes on while it copies its memory for checkpoint %d", r.id, r.copying)
	}
	if n := r.written; n != 0 && w.committed[n] == 0 && !w.losses[n] && !behind(n) {
		w.failf("rank %d passes the boundary of checkpoint %d before it is committed or lost", r.id, n)
	}
}

func (w *world) inspectTell(r *simRank, m Message) {
	afterAbort := func(number int) {
		if number == r.aborted {
			w.failf("rank %d says %s of checkpoint %d after its abort", r.id, Name(m), number)
		}
	}
	switch m := m.(type) {
	case Stopped:
		if m.Iter != r.computed {
			w.failf("rank %d says it stopped at %d but is at %d", r.id, m.Iter, r.computed)
		}
		w.seen.held += w.flag(w.behind != 0)
	case Captured:
		if _, copied := r.copies[m.Number]; r.captured < m.Number || r.writing != m.Number && !copied {
			w.failf("rank %d says it has captured %d, but captured %d and writes %d", r.id, m.Number, r.captured, r.writing)
		}
		afterAbort(m.Number)
	case Written:
		afterAbort(m.Number)
	case Aborted:
		if _, copied := r.copies[m.Number]; r.writing == m.Number || r.copying == m.Number || copied {
			w.failf("rank %d says that %d is over, but still writes it", r.id, m.Number)
		}
	case Done:
		w.seen.ends += w.flag(w.behind != 0)
	}
}

func (w *world) inspectWrite(r *simRank, a BeginWrite) {
	if a.Number != w.open {
		w.failf("rank %d writes checkpoint %d, prepared was %d", r.id, a.Number, w.open)
	}
	if r.writing != 0 {
		w.failf("rank %d writes checkpoint %d while it writes %d", r.id, a.Number, r.writing)
	}
	if !a.Copied {
		w.inspectCapture(r)
	} else if _, copied := r.copies[a.Number]; !copied {
		w.failf("rank %d writes checkpoint %d without a copy", r.id, a.Number)
	}
}

// inspectCapture checks that nothing is under way to a rank whose memory is
// being copied or written.
func (w *world) inspectCapture(r *simRank) {
	for _, from := range w.ranks {
		if from.sent[r.id] != r.arrived[from.id] {
			w.failf("rank %d saves its memory while %d messages of rank %d are under way to it",
				r.id, from.sent[r.id]-r.arrived[from.id], from.id)
		}
	}
}
