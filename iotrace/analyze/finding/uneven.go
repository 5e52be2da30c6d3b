package finding

import (
	"fmt"
	"slices"
	"strings"
)

// imbalance is about ranks that the others wait for. Why they are late decides what
// helps: too many bytes, too many requests, a slow node or target, or a late start.
func imbalance(s *search) *Finding {
	if !s.parallel() || s.has("CK20") {
		return nil
	}
	var best *Finding
	for _, cause := range []func(*search) *Finding{unevenBytes, slowRanks, lateRanks} {
		if f := cause(s); f != nil && (best == nil || gain(f) > gain(best)) {
			best = f
		}
	}
	if best != nil {
		best.Code = "CK05"
	}
	return best
}

func unevenBytes(s *search) *Finding {
	b := s.Balance
	if b.Imbalance < s.t.ImbalanceShare || s.ActiveRanks < 2 || b.Aggregated {
		return nil
	}
	gain := max(0, b.LargestTime-b.Mean)
	f := &Finding{Title: fmt.Sprintf("rank %d moves more bytes than others", b.LargestRank), Gain: &gain,
		Model:    "The time of the rank with the most bytes, less the mean of the ranks.",
		Evidence: []Number{{"bytes_imbalance", b.Imbalance, s.t.ImbalanceShare}, {"max_s", b.LargestTime, 0}, {"mean_s", b.Mean, 0}},
		Advice:   "The job is as slow as its slowest rank: give the ranks equal parts of the bytes.",
		Remedies: []Remedy{AggregatorsAuto, LayoutShared}}
	if i := s.largestFile(); i >= 0 && s.Files[i].Touchers > 1 {
		f.Advice += " In a shared file, aggregators do that."
		f.Hints = s.collective(s.Files[i].Name, s.largerDirection())
	}
	if s.Data[0].Count == 0 {
		f.Remedies = nil
	}
	return f
}

// largerDirection is that which moves more bytes.
func (s *search) largerDirection() int {
	if s.Data[1].Bytes > s.Data[0].Bytes {
		return 1
	}
	return 0
}

func slowRanks(s *search) *Finding {
	b, w := s.Balance, s.Balance.Slow
	// A small delay compared with all work delays nobody.
	if w.Ranks == 0 || w.Late <= s.t.StragglerShare*b.Active {
		return nil
	}
	gain := w.Late
	f := &Finding{Gain: &gain,
		Model: "The time of that rank, less the median of ranks that move as many bytes.",
		Evidence: []Number{{"stragglers", float64(w.Ranks), 0}, {"slowest_factor", w.Factor, s.t.StragglerFactor},
			{"late_share", min(1, ratio(w.Late, b.Active)), s.t.StragglerShare}}}
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
		return nil // they wait for each other, or what another finding says is slow
	default:
		s.slowPlace(f)
	}
	if s.Data[0].Count == 0 {
		f.Remedies = nil
	}
	return f
}

// together reports whether the ranks are on one node and share most of their bytes in
// files: then no node or target is slower than that of the others.
func (s *search) together() bool {
	if s.Nodes != 1 {
		return false
	}
	var all, shared float64
	for i := range s.Files {
		f := &s.Files[i]
		bytes := float64(f.Data[0].Bytes) + float64(f.Data[1].Bytes)
		all += bytes
		if f.Touchers > 1 {
			shared += bytes
		}
	}
	return shared > mostly*all
}

// slowPlace is about ranks whose requests are slow, though they are like those of
// others. Nothing in the program mends that.
func (s *search) slowPlace(f *Finding) {
	w := s.Balance.Slow
	f.Title = fmt.Sprintf("ranks that take longer than others: rank %d first", w.Rank)
	f.Advice = "They move as many bytes as others: their node (its processors, its network), or the target of their files, is slow. No change of the program mends that."
	f.Remedies = []Remedy{Async}
	f.Hints = []Hint{compareRuns}
	lustre := slices.ContainsFunc(s.Files, func(x File) bool { return x.Storage == Lustre })
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
		if lustre {
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

func lateRanks(s *search) *Finding {
	b, l := s.Balance, s.Balance.Late
	if l.Ranks == 0 || l.Gain <= s.t.StragglerShare*b.Active {
		return nil
	}
	gain := l.Gain
	return &Finding{Title: fmt.Sprintf("rank %d begins later than others", l.Rank), Gain: &gain,
		Model:    "The time from the end of the other ranks to that of the late ones, at most their delay, over all phases of I/O.",
		Evidence: []Number{{"late_ranks", float64(l.Ranks), 0}, {"late_share", min(1, ratio(l.Gain, b.Active)), s.t.StragglerShare}},
		Advice:   "Its reads and writes are as fast as those of others, but come later: see what this rank does before them, and share that work."}
}
