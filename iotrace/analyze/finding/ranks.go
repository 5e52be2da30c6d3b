package finding

import (
	"fmt"
	"slices"
	"strings"
)

// Rules about ranks side by side, and about time that could be hidden.

func oneRank(s *search, f *Finding) bool {
	b := s.Balance
	if !s.parallel() || int64(s.Ranks) < s.t.Writers || b.LargestShare < s.t.OneRankShare || b.Aggregated {
		return false
	}
	n := min(float64(s.Ranks), max(1, float64(s.t.ScaleRanks)))
	f.Title = fmt.Sprintf("rank %d does nearly all of the I/O", b.LargestRank)
	f.Model = fmt.Sprintf("The time in which it reads and writes, less what %.0f ranks would take (scale_ranks).", n)
	f.Evidence = []Number{{"largest_share", b.LargestShare, s.t.OneRankShare}, {"ranks", float64(s.Ranks), float64(s.t.Writers)}}
	f.Hints = s.ifMPI(mpiio)
	if x := s.largestFile(); x != nil {
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
	return f.worth(s.Busy * (1 - 1/n))
}

// parallel reports whether one program has all ranks, so that they can be compared.
func (s *search) parallel() bool { return s.MPI || s.Ours }

// largestFile is the file with the most bytes, or nil if no file has any.
func (s *search) largestFile() (best *File) {
	for _, x := range s.files() {
		if n := x.bytes(); n > 0 && (best == nil || n > best.bytes()) {
			best = x
		}
	}
	return best
}

// largerDirection is that which moves more bytes.
func (s *search) largerDirection() int {
	if s.Data[1].Bytes > s.Data[0].Bytes {
		return 1
	}
	return 0
}

// imbalance is about ranks that the others wait for. Why they are late decides what
// helps: too many bytes, too many requests, a slow node or target, or a late start.
func imbalance(s *search, f *Finding) bool {
	if !s.parallel() || s.has("CK20") {
		return false
	}
	found := false
	for _, cause := range []func(*search, *Finding) bool{unevenBytes, slowRanks, lateRanks} {
		if x := (Finding{Code: f.Code}); cause(s, &x) && (!found || gain(&x) > gain(f)) {
			*f, found = x, true
		}
	}
	return found
}

func unevenBytes(s *search, f *Finding) bool {
	b := s.Balance
	if b.Imbalance < s.t.ImbalanceShare || s.ActiveRanks < 2 || b.Aggregated {
		return false
	}
	f.Title = fmt.Sprintf("rank %d moves more bytes than others", b.LargestRank)
	f.Model = "The time of the rank with the most bytes, less the mean of the ranks."
	f.Evidence = []Number{{"bytes_imbalance", b.Imbalance, s.t.ImbalanceShare}, {"max_s", b.LargestTime, 0}, {"mean_s", b.Mean, 0}}
	f.Advice = "The job is as slow as its slowest rank: give the ranks equal parts of the bytes."
	if x := s.largestFile(); x != nil && x.Touchers > 1 {
		f.Advice += " In a shared file, aggregators do that."
		f.Hints = s.collective(x.Name, s.largerDirection())
	}
	if s.Data[0].Count > 0 {
		f.Remedies = []Remedy{AggregatorsAuto, LayoutShared}
	}
	return f.worth(max(0, b.LargestTime-b.Mean))
}

func slowRanks(s *search, f *Finding) bool {
	b, w := s.Balance, s.Balance.Slow
	// A small delay compared with all work does not matter.
	if w.Ranks == 0 || w.Late <= s.t.StragglerShare*b.Active {
		return false
	}
	f.Model = "The time of that rank, less the median of ranks that move as many bytes."
	f.Evidence = []Number{{"stragglers", float64(w.Ranks), 0}, {"slowest_factor", w.Factor, s.t.StragglerFactor},
		{"late_share", min(1, ratio(w.Late, b.Active)), s.t.StragglerShare}}
	switch {
	case w.Bytes > 1 && w.Factor/w.Bytes <= s.t.StragglerFactor:
		f.Title = fmt.Sprintf("rank %d moves more bytes than others", w.Rank)
		f.Evidence = append(f.Evidence, Number{"bytes_factor", w.Bytes, 0})
		f.Advice = "Give the ranks equal parts of the bytes."
		f.Remedies = []Remedy{AggregatorsAuto, LayoutShared}
	case w.Requests > 1 && w.Factor/w.Requests <= s.t.StragglerFactor && float64(w.MeanBytes) < float64(s.t.SmallBytes):
		f.Title = fmt.Sprintf("rank %d moves its bytes in more requests than others", w.Rank)
		f.Evidence = append(f.Evidence, Number{"requests_factor", w.Requests, 0}, Number{"mean_bytes", float64(w.MeanBytes), float64(s.t.SmallBytes)})
		f.Advice = "It moves as many bytes as others, in smaller pieces: gather them into larger requests."
		f.Remedies, f.Hints = []Remedy{Buffer}, []Hint{buffer}
	case len(w.OSTs) == 0 && !w.WholeNode && (s.together() || s.has("CK26") || s.unclaimed() < mostly):
		return false // they wait for each other, or what another finding says is slow
	default:
		s.slowPlace(f)
	}
	if s.Data[0].Count == 0 {
		f.Remedies = nil
	}
	return f.worth(w.Late)
}

// together reports whether the ranks are on one node and share most of their bytes in
// files: then they share one node and its targets.
func (s *search) together() bool {
	var all, shared float64
	for _, x := range s.files() {
		all += float64(x.bytes())
		if x.Touchers > 1 {
			shared += float64(x.bytes())
		}
	}
	return s.Nodes == 1 && shared > mostly*all
}

// slowPlace is about ranks whose requests are slow, though they are like the requests of
// others. Nothing in the program mends that.
func (s *search) slowPlace(f *Finding) {
	w := s.Balance.Slow
	f.Title = fmt.Sprintf("ranks that take longer than others: rank %d first", w.Rank)
	f.Advice = "They move as many bytes as others: their node (its processors, its network), or the target of their files, is slow. No change of the program mends that."
	f.Remedies = []Remedy{Async}
	f.Hints = []Hint{compareRuns}
	switch {
	case len(w.OSTs) > 0:
		name := ostNames(w.OSTs)
		f.Title = "ranks with files on " + name + " take longer than others"
		f.Advice = "Only the ranks with files on " + name + " are slow, and they move as many bytes as others: that storage is slow, full or in use by another job. No change of the program mends that; leave it out, and tell the administrators."
		f.Evidence = append(f.Evidence, Number{"slow_osts", float64(len(w.OSTs)), 0})
		f.Hints = []Hint{otherTarget}
	case w.WholeNode:
		f.Title = fmt.Sprintf("the ranks of node %s take longer than others", w.Node)
		f.Advice = fmt.Sprintf("Only the ranks of node %s are slow, and they move as many bytes as others. No change of the program mends that: leave the node out, and tell the administrators.", w.Node)
		f.Hints = []Hint{otherNode}
	case w.Node != "" && s.Nodes > 1:
		f.Advice = fmt.Sprintf("They move as many bytes as others: their node (that of rank %d is %s), or the target of their files, is slow. No change of the program mends that.", w.Rank, w.Node)
		fallthrough
	default:
		if s.anyFile((*File).onLustre) {
			f.Hints = append(f.Hints, otherTarget)
		}
	}
}

// ostNames names a few targets.
func ostNames(osts []int64) string {
	const most = 4
	if len(osts) == 1 {
		return fmt.Sprint("OST ", osts[0])
	}
	var names []string
	for _, o := range osts[:min(most, len(osts))] {
		names = append(names, fmt.Sprint(o))
	}
	text := "OSTs " + strings.Join(names, ", ")
	if n := len(osts) - most; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return text
}

func lateRanks(s *search, f *Finding) bool {
	b, l := s.Balance, s.Balance.Late
	if l.Ranks == 0 || l.Gain <= s.t.StragglerShare*b.Active {
		return false
	}
	f.Title = fmt.Sprintf("rank %d begins later than others", l.Rank)
	f.Model = "The time from the end of the other ranks to that of the late ones, at most their delay, over all phases of I/O."
	f.Evidence = []Number{{"late_ranks", float64(l.Ranks), 0}, {"late_share", min(1, ratio(l.Gain, b.Active)), s.t.StragglerShare}}
	f.Advice = "Its reads and writes are as fast as those of others, but come later: see what this rank does before them, and share that work."
	return f.worth(l.Gain)
}

// exchange is about calls of MPI-IO that take longer than the requests that they become.
// In collective ones the ranks send each other the data, and wait for each other. Beside
// a rank that does more than the others, or slower, it is that rank that they wait for.
func exchange(s *search, f *Finding) bool {
	if s.has("CK05", "CK20") {
		return false
	}
	var kinds [2]outlasting // files with mostly independent calls, and mostly collective ones
	for _, x := range s.files() {
		collective, others := x.Collective[0]+x.Collective[1], x.Independent[0]+x.Independent[1]
		switch {
		case x.InCalls <= x.InRequests || collective+others == 0:
		case share(collective, collective+others) >= mostly:
			kinds[1].add(x)
		default:
			kinds[0].add(x)
		}
	}
	k, finish := &kinds[1], s.exchanged
	if kinds[0].gain() > k.gain() {
		k, finish = &kinds[0], s.insideCalls
	}
	part := ratio(k.gain(), k.calls)
	if k.files == 0 || part < s.t.ExchangeShare {
		return false
	}
	f.File, f.Files = k.file.Name, k.files
	f.Evidence = []Number{{"exchange_share", part, s.t.ExchangeShare}, {"mpiio_s", k.calls, 0}, {"posix_s", k.requests, 0}}
	finish(f)
	return f.worth(k.gain())
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

func serial(s *search, f *Finding) bool {
	n := float64(s.ActiveRanks)
	part := ratio(s.Concurrency, n)
	// Without durations nothing is known about waiting. Ranks that encode meanwhile do
	// not wait for each other.
	if !s.parallel() || s.Busy == 0 || s.Concurrency == 0 || int64(s.ActiveRanks) < s.t.ConcurrencyRanks || part >= s.t.ConcurrencyShare ||
		s.Encode.Time > s.Data[0].Time+s.Data[1].Time || s.has("CK20", "CK05") {
		return false
	}
	f.Evidence = []Number{{"concurrency_mean", s.Concurrency, 0}, {"concurrency_share", part, s.t.ConcurrencyShare}, {"active_ranks", n, float64(s.t.ConcurrencyRanks)}}
	f.Hints = s.ifMPI(mpiio)
	if s.Data[0].Count == 0 {
		f.Remedies, f.Hints = nil, s.ifMPI(broadcast)
		f.Advice = "If the storage has spare bandwidth, let more ranks read at the same time. Data that all ranks need can be read by one and sent to the others."
	}
	return f.worth(max(0, s.Busy*(1-s.Concurrency/min(n, max(1, float64(s.t.ScaleRanks))))))
}

func encoding(s *search, f *Finding) bool {
	// Ranks encode and write at the same time, so the wall times of both are compared.
	encode, write := s.Encode.Wall, s.Data[0].Wall
	if encode == 0 || encode < s.t.EncodeFactor*write {
		return false
	}
	f.Evidence = []Number{{"encoding_s", encode, s.t.EncodeFactor * write}, {"writing_s", write, 0}}
	switch s.Codec {
	case CodecFixed:
		f.Remedies = []Remedy{CodecAuto, CodecNone, Async}
		f.Advice = "The storage is faster than the codec. auto packs an extent only where that makes it durable sooner; none never packs, and takes more space. Writing while the job computes hides the time."
	case CodecLearns:
		f.Severity, f.Remedies = Info, []Remedy{Async}
		f.Advice = "The job has measured the same, and uses it at the next checkpoint: it packs an extent only where that makes it durable sooner. Writing while the job computes hides the rest."
	default:
		f.Remedies = []Remedy{CodecAuto, Async}
		f.Advice = "The storage is faster than the codec, unless the codec was auto: that learns from each checkpoint what to pack. Or write while the job computes, if it does not yet."
	}
	return f.worth(s.EncodeOnly)
}

func unencoded(s *search, f *Finding) bool {
	write := s.Data[0]
	if s.Encode.Count > 0 || !s.Gathers && !s.Ours || write.Time < s.t.UnencodedSeconds || write.Time == 0 {
		return false
	}
	f.Evidence = []Number{{"write_s", write.Time, s.t.UnencodedSeconds}, {"bytes_written", float64(write.Bytes), 0}}
	return f.worth(write.Wall * s.t.CodecShare)
}

// waiting is about I/O that the job could do while it computes.
func waiting(s *search, f *Finding) bool {
	limit := s.t.OverlapShare
	if s.Ours {
		limit = s.t.BusyShare
	}
	io := min(s.Busy+s.Syncs.Wall, s.Balance.Active)
	part := min(1, ratio(io, s.Wall))
	// The trace of one checkpoint does not show the rest of the job.
	if s.OneCheckpoint || s.Bursts < 2 || part < limit || s.Data[0].Count == 0 {
		return false
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
	f.Evidence = []Number{{"busy_share", part, limit}, {"bursts", float64(s.Bursts), 0}}
	f.Hints = append(s.ifMPI(nonblocking), queue)
	switch {
	case s.Ours:
		f.Advice = "Write while the job computes, or checkpoint less often."
	case s.Data[1].Time > s.Data[0].Time+s.Syncs.Time:
		f.Advice = "Read ahead: fetch what comes next while the job computes."
		f.Hints = slices.Insert(f.Hints, len(f.Hints)-1, ahead)
	}
	if s.anyFile((*File).inHDF5) {
		f.Hints = append([]Hint{hdf5Async}, f.Hints...)
	}
	if s.Period > 0 {
		f.Evidence = append(f.Evidence, Number{"period_s", s.Period, 0})
	}
	return f.worth(max(0, min(left, idle)))
}
