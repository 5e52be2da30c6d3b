package analyze

import (
	"cmp"
	"slices"

	"ckpt/iotrace"
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
