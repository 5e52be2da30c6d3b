package analyze

import (
	"cmp"
	"slices"
	"time"

	"ckpt/iotrace"
	"ckpt/iotrace/analyze/finding"
)

// Balance measures how evenly ranks share the I/O. The time of a rank is the time in
// which it reads, writes or does other operations on files. Only ranks that read or
// write count.
type Balance struct {
	MedianTime float64 `json:"median_s"`
	MaxTime    float64 `json:"max_s"`
	// Imbalance is (max - mean) / max of the bytes that a rank moves: 0 if all ranks
	// move the same, near 1 if one rank moves everything.
	Imbalance float64 `json:"imbalance"`
	// Stragglers are ranks that take more than Thresholds.StragglerFactor times the
	// median time of ranks with about as many bytes, half to twice as many. The
	// slowest comes first; there are at most ten. Aggregators are not stragglers.
	Stragglers      []Straggler `json:"stragglers"`
	StragglersTotal int         `json:"stragglers_total"`
}

// A Straggler is a rank that takes longer than others.
type Straggler struct {
	Rank   int     `json:"rank"`
	Node   string  `json:"node_name"`
	Time   float64 `json:"time_s"`
	Factor float64 `json:"factor"` // time over that median
}

const namedStragglers = 10

// rankWork is the I/O of a rank.
type rankWork struct {
	union
	bytes    int64
	requests int64 // reads and writes; of ranks of which only sums are known, 0
}

// A union is the time covered by at least one of some intervals. They come in the
// order of their starts.
type union struct {
	until int64
	time  float64 // s
	begun bool
}

func (u *union) add(start, end int64) {
	from := start
	if u.begun {
		from = max(from, u.until)
	}
	if end > from {
		u.time += seconds(from, end)
	}
	if !u.begun || end > u.until {
		u.until = max(start, end)
	}
	u.begun = true
}

// balance returns the balance of ranks, and those that are slow.
func balance(tr *iotrace.Trace, work []rankWork, factor float64) (Balance, []slowRank) {
	var slow []slowRank
	b := Balance{Stragglers: []Straggler{}}
	var times []float64
	var sum, most, n float64 // bytes; ranks
	for i := range work {
		if w := &work[i]; w.begun && isRank(tr, i) {
			times = append(times, w.time)
			b.MaxTime = max(b.MaxTime, w.time)
			sum += float64(w.bytes)
			most = max(most, float64(w.bytes))
			n++
		}
	}
	b.MedianTime = median(times)
	b.Imbalance = max(0, ratio(most-sum/n, most))
	for i := range tr.Ranks {
		w := &work[i]
		if !w.begun || !isRank(tr, i) || w.time <= factor*b.MedianTime {
			continue
		}
		if m := peers(tr, work, w); m > 0 && w.time > factor*m {
			b.Stragglers = append(b.Stragglers, Straggler{Rank: tr.Ranks[i].Rank, Node: tr.Ranks[i].Node, Time: w.time, Factor: ratio(w.time, m)})
			slow = append(slow, slowRank{index: i, late: w.time - m})
		}
	}
	b.StragglersTotal = len(b.Stragglers)
	slices.SortStableFunc(b.Stragglers, func(x, y Straggler) int {
		return cmp.Or(cmp.Compare(y.Time, x.Time), cmp.Compare(x.Rank, y.Rank))
	})
	if len(b.Stragglers) > namedStragglers {
		b.Stragglers = b.Stragglers[:namedStragglers]
	}
	return b, slow
}

// peers returns the median time of ranks that move about as many bytes as w.
func peers(tr *iotrace.Trace, work []rankWork, w *rankWork) float64 {
	return peerMedian(tr, work, w, func(o *rankWork) float64 { return o.time })
}

// median sorts s. For an even count it returns the lower middle value.
func median(s []float64) float64 {
	if len(s) == 0 {
		return 0
	}
	slices.Sort(s)
	return s[(len(s)-1)/2]
}

func peerMedian(tr *iotrace.Trace, work []rankWork, w *rankWork, of func(*rankWork) float64) float64 {
	var values []float64
	for i := range work {
		if o := &work[i]; o.begun && isRank(tr, i) && o.bytes >= w.bytes/2 && o.bytes/2 <= w.bytes {
			values = append(values, of(o))
		}
	}
	return median(values)
}

// A slowRank takes longer than ranks that move as many bytes.
type slowRank struct {
	index int     // into Trace.Ranks
	late  float64 // s beyond the median of its like
}

const (
	// blamed is the share of the slow ranks that a node or target must have, and the
	// share of its ranks that must be slow.
	blamed = 0.75
	// narrow files have few targets, which tell something about the rank that uses them.
	narrow = 8
)

// slowFacts says of the slow ranks which loses most, in what it differs from its like,
// and which node or targets the slow ranks share.
func (a *analysis) slowFacts() finding.Slow {
	if len(a.slow) == 0 {
		return finding.Slow{}
	}
	worst := slices.MaxFunc(a.slow, func(x, y slowRank) int {
		return cmp.Or(cmp.Compare(x.late, y.late), cmp.Compare(y.index, x.index))
	})
	w := &a.work[worst.index]
	s := finding.Slow{Ranks: len(a.slow), Rank: a.trace.Ranks[worst.index].Rank, Node: a.trace.Ranks[worst.index].Node,
		Late: worst.late, Factor: ratio(w.time, w.time-worst.late)}
	s.Bytes = ratio(float64(w.bytes), peerMedian(a.trace, a.work, w, func(o *rankWork) float64 { return float64(o.bytes) }))
	s.Requests = ratio(float64(w.requests), peerMedian(a.trace, a.work, w, func(o *rankWork) float64 { return float64(o.requests) }))
	s.MeanBytes = share(w.bytes, w.requests)
	slow := make([]bool, len(a.trace.Ranks)+1)
	for _, x := range a.slow {
		slow[x.index] = true
	}
	s.WholeNode = a.slowNode(slow, s.Node)
	s.OSTs = a.slowTargets(slow)
	return s
}

// slowNode reports whether one node has the slow ranks. A node with a single
// rank cannot be told from its rank.
func (a *analysis) slowNode(slow []bool, node string) bool {
	var all, of, onNode int
	for i, r := range a.trace.Ranks {
		if !isRank(a.trace, i) || !a.work[i].begun {
			continue
		}
		here := r.Node == node && node != ""
		if here {
			onNode++
		}
		if slow[i] {
			all++
			if here {
				of++
			}
		}
	}
	_, nodes := members(a.trace)
	return nodes > 1 && onNode > 1 && blames(of, all, onNode)
}

// blames reports whether so many slow ranks of all slow ones, and of all those of a
// node or target, put the blame on it.
func blames(slow, allSlow, ranks int) bool {
	return float64(slow) >= blamed*float64(allSlow) && float64(slow) >= blamed*float64(ranks)
}

// slowTargets returns the targets (OSTs) of which ranks are slow: one if three quarters
// of the slow ranks use it and three quarters of its ranks are slow; several if their
// ranks together are so. Files on many targets tell nothing.
func (a *analysis) slowTargets(slow []bool) []int64 {
	of := map[int32][]int64{}
	for _, s := range a.trace.Striping {
		if len(s.OSTs) <= narrow {
			of[s.File] = append(of[s.File], s.OSTs...)
		}
	}
	if len(of) == 0 {
		return nil
	}
	users := map[int64]map[int32]bool{}
	use := func(file, rank int32) {
		for _, o := range of[file] {
			if users[o] == nil {
				users[o] = map[int32]bool{}
			}
			users[o][rank] = true
		}
	}
	for _, s := range a.streams.list {
		if len(s.requests) > 0 {
			use(s.file, s.rank)
		}
	}
	for _, c := range a.records.list {
		if c.Rank >= 0 && known(c.Reads)+known(c.Writes) > 0 {
			use(c.File, c.Rank)
		}
	}
	var osts []int64
	ranks, late := map[int32]bool{}, map[int32]bool{}
	for ost, by := range users {
		n := 0
		for r := range by {
			if slow[r] {
				n++
			}
		}
		if float64(n) < blamed*float64(len(by)) {
			continue
		}
		osts = append(osts, ost)
		for r := range by {
			ranks[r] = true
			if slow[r] {
				late[r] = true
			}
		}
	}
	// If nearly every target has slow ranks, or each slow rank its own, the targets are not to blame.
	if len(osts) == 0 || 2*len(osts) > len(users) || len(late) < 2 || 2*len(osts) > len(late) || !blames(len(late), len(a.slow), len(ranks)) {
		return nil
	}
	slices.Sort(osts)
	return osts
}

// begins finds ranks that begin their reads or writes later than the others in a phase
// of the job: I/O of any rank between silences.
type begins struct {
	gap, until int64
	begun      bool
	cur        []begin // ranks of this phase, in the order in which they begin
	place      []int32 // of a rank in cur, plus one
	late       map[int32]float64
	lost       float64
}

type begin struct {
	rank       int32
	start, end int64
	bytes      int64
}

const (
	fewRanks = 4    // of a phase, at least, so that most can have begun
	punctual = 0.75 // of them begin in time
	muchLate = 3    // times the time in which those begin
)

func newBegins(gap time.Duration, ranks int) begins {
	return begins{gap: int64(gap), place: make([]int32, ranks), late: map[int32]float64{}}
}

func (b *begins) add(rank int, e *iotrace.Event) {
	if b.begun && after(b.until, e.Start, b.gap) {
		b.finish()
	}
	if !b.begun || e.End > b.until {
		b.until, b.begun = max(e.Start, e.End), true
	}
	if b.place[rank] == 0 {
		b.cur = append(b.cur, begin{rank: int32(rank), start: e.Start, end: e.Start})
		b.place[rank] = int32(len(b.cur))
	}
	x := &b.cur[b.place[rank]-1]
	x.end, x.bytes = max(x.end, e.End), iotrace.Sum(x.bytes, max(e.Bytes, 0))
}

// finish ends a phase. Ranks that move less than half of the mean do not count, as a
// rank that adds a line to a log.
func (b *begins) finish() {
	var bytes float64
	for i := range b.cur {
		bytes += float64(b.cur[i].bytes)
		b.place[b.cur[i].rank] = 0
	}
	n := len(b.cur)
	mean := ratio(bytes, float64(n))
	all := slices.DeleteFunc(b.cur, func(x begin) bool { return 2*float64(x.bytes) < mean })
	b.cur, b.begun = b.cur[:0], false
	if len(all) < fewRanks || 4*len(all) < 3*n {
		return
	}
	last := int(punctual*float64(len(all))) - 1 // of those that begin in time
	first, bound := all[0].start, all[last].start
	done := all[0].end
	for _, x := range all[:last+1] {
		done = max(done, x.end)
	}
	var lost float64
	for _, x := range all[last+1:] {
		delay := seconds(bound, x.start)
		if delay <= muchLate*seconds(first, bound) {
			done = max(done, x.end)
			continue
		}
		delay = min(delay, seconds(done, x.end))
		b.late[x.rank] += delay
		lost = max(lost, delay)
	}
	b.lost += lost
}

// facts names the rank that loses most.
func (b *begins) facts(tr *iotrace.Trace) finding.Late {
	l := finding.Late{Gain: b.lost}
	most := 0.0
	for rank, late := range b.late {
		if late > most || late == most && late > 0 && int(rank) < l.Rank {
			most, l.Rank = late, int(rank)
		}
	}
	if l.Ranks = len(b.late); most == 0 || l.Rank >= len(tr.Ranks) {
		return finding.Late{}
	}
	l.Rank = tr.Ranks[l.Rank].Rank
	return l
}
