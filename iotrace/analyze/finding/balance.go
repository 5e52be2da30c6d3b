package finding

import (
	"fmt"
	"slices"
)

// Rules about ranks side by side, and about time that could be hidden.

func oneRank(s *search) *Finding {
	b := s.Balance
	if !s.parallel() || int64(s.Ranks) < s.t.Writers || b.LargestShare < s.t.OneRankShare || b.Aggregated {
		return nil
	}
	n := min(float64(s.Ranks), max(1, float64(s.t.ScaleRanks)))
	gain := s.Busy * (1 - 1/n)
	f := &Finding{Code: "CK20", Title: fmt.Sprintf("rank %d does nearly all of the I/O", b.LargestRank), Gain: &gain,
		Model:    fmt.Sprintf("The time in which it reads and writes, less what %.0f ranks would take (scale_ranks).", n),
		Evidence: []Number{{"largest_share", b.LargestShare, s.t.OneRankShare}, {"ranks", float64(s.Ranks), float64(s.t.Writers)}},
		Advice:   "Let several ranks do their part of the I/O, on several nodes if there are.",
		Remedies: []Remedy{LayoutPerRank, AggregatorsAuto}, Hints: s.ifMPI(mpiio)}
	if best := s.largestFile(); best >= 0 {
		x := &s.Files[best]
		f.File, f.Files = x.Name, 1
		f.Hints = s.collective(x.Name, s.largerDirection())
		if x.gathers() { // collective already
			f.Advice = "The calls are collective, and one aggregator moves the bytes of all ranks: have the library take more of them. On Lustre, it takes one for each stripe of the file."
			f.Hints = []Hint{cbNodes, mpiStripes}
			if s.Library == "OMPIO" {
				f.Hints[0] = ompio
			}
		}
	}
	return f
}

// parallel reports whether the ranks are those of one program, which can be compared.
func (s *search) parallel() bool { return s.MPI || s.Ours }

func (s *search) largestFile() int {
	best, most := -1, int64(0)
	for i := range s.Files {
		if n := s.Files[i].Data[0].Bytes + s.Files[i].Data[1].Bytes; n > most {
			best, most = i, n
		}
	}
	return best
}

func serial(s *search) *Finding {
	n := float64(s.ActiveRanks)
	part := ratio(s.Concurrency, n)
	// Without durations nothing is known about waiting. Ranks that encode meanwhile do
	// not wait for each other.
	if !s.parallel() || s.Busy == 0 || s.Concurrency == 0 || int64(s.ActiveRanks) < s.t.ConcurrencyRanks || part >= s.t.ConcurrencyShare ||
		s.Encode.Time > s.Data[0].Time+s.Data[1].Time || s.has("CK20", "CK05") {
		return nil
	}
	gain := max(0, s.Busy*(1-s.Concurrency/min(n, max(1, float64(s.t.ScaleRanks)))))
	f := &Finding{Code: "CK08", Title: "ranks do their I/O one after the other", Gain: &gain,
		Model:    "The time in which any rank reads or writes, less the time that the same requests take if scale_ranks of them run at once.",
		Evidence: []Number{{"concurrency_mean", s.Concurrency, 0}, {"concurrency_share", part, s.t.ConcurrencyShare}, {"active_ranks", n, float64(s.t.ConcurrencyRanks)}},
		Advice:   "If the storage has spare bandwidth, let more ranks write at the same time.",
		Remedies: []Remedy{Aggregators, LayoutPerRank}, Hints: s.ifMPI(mpiio)}
	if s.Data[0].Count == 0 {
		f.Remedies, f.Hints = nil, s.ifMPI(broadcast)
		f.Advice = "If the storage has spare bandwidth, let more ranks read at the same time. Data that all ranks need can be read by one and sent to the others."
	}
	return f
}

// waiting is about I/O that the job could do while it computes.
func waiting(s *search) *Finding {
	limit := s.t.OverlapShare
	if s.Ours {
		limit = s.t.BusyShare
	}
	io := min(s.Busy+s.Syncs.Wall, s.Balance.Active)
	part := min(1, ratio(io, s.Wall))
	// The trace of one checkpoint does not show the rest of the job.
	if s.OneCheckpoint || s.Bursts < 2 || part < limit || s.Data[0].Count == 0 {
		return nil
	}
	// Faster I/O comes first; the rest can hide behind computation, if there is any.
	left := io
	for i := range s.out {
		left = min(left, io-gain(&s.out[i]))
	}
	idle := s.Wall - s.Balance.Active // opening a file, or waiting for a lock, is no computation
	if s.Counted {
		idle -= s.Metadata
	}
	gain := max(0, min(left, idle))
	f := &Finding{Code: "CK09", Severity: Info, Title: "the job waits for its I/O", Gain: &gain,
		Model:    "The time of reads, writes and syncs that is left after the largest other gain. It is at most the time without any operation, in which the job can compute.",
		Evidence: []Number{{"busy_share", part, limit}, {"bursts", float64(s.Bursts), 0}},
		Remedies: []Remedy{Async, Interval},
		Advice:   "Write while the job computes.",
		Hints:    append(s.ifMPI(nonblocking), queue)}
	switch {
	case s.Ours:
		f.Advice = "Write while the job computes, or checkpoint less often."
	case s.Data[1].Time > s.Data[0].Time+s.Syncs.Time:
		f.Advice = "Read ahead: fetch what comes next while the job computes."
		f.Hints = slices.Insert(f.Hints, len(f.Hints)-1, ahead)
	}
	for i := range s.Files {
		if isHDF5(s.Files[i].Name) {
			f.Hints = append([]Hint{hdf5Async}, f.Hints...)
			break
		}
	}
	if s.Period > 0 {
		f.Evidence = append(f.Evidence, Number{"period_s", s.Period, 0})
	}
	return f
}
