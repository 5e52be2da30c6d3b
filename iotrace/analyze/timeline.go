package analyze

import (
	"math"

	"ckpt/iotrace"
	"ckpt/iotrace/analyze/pattern"
)

const (
	fineBins   = 4096 // of the bandwidth, for its period
	reportBins = 256  // for a report
)

// A timeline sums bytes over time, in fineBins bins.
type timeline struct {
	start int64
	width float64 // of a bin, ns
	// In each bin, for writes and reads: the bytes of requests that begin or end
	// there, and the change in the rate of longer requests at its start.
	part, change [2][fineBins]float64
}

func newTimeline(start, end int64) *timeline {
	return &timeline{start: start, width: seconds(start, end) * 1e9 / fineBins}
}

func (t *timeline) add(op iotrace.Op, start, end, bytes int64) {
	d := 0
	if op == iotrace.Read {
		d = 1
	}
	b := float64(max(bytes, 0))
	from := t.place(start)
	to := t.place(max(start, end))
	i, j := min(int(from), fineBins-1), min(int(to), fineBins-1)
	if i == j {
		t.part[d][i] += b
		return
	}
	perBin := b / (to - from)
	t.part[d][i] += perBin * (float64(i+1) - from)
	t.part[d][j] += perBin * (to - float64(j))
	t.change[d][i+1] += perBin
	t.change[d][j] -= perBin
}

// place converts a time to bins.
func (t *timeline) place(at int64) float64 {
	return max(0, min(fineBins, ratio(seconds(t.start, at)*1e9, t.width)))
}

// bytes returns the bytes of each bin.
func (t *timeline) bytes(d int) []float64 {
	out := make([]float64, fineBins)
	var rate, largest float64
	for i := range out {
		rate += t.change[d][i]
		largest = max(largest, rate)
		out[i] = t.part[d][i]
		if rate > 1e-9*largest { // smaller rates are rounding errors
			out[i] += rate
		}
	}
	return out
}

func (t *timeline) bandwidth() Bandwidth {
	const merge = fineBins / reportBins
	b := Bandwidth{Start: float64(t.start) / 1e9, Bin: t.width * merge / 1e9, Write: []float64{}, Read: []float64{}}
	if b.Bin == 0 {
		return b
	}
	for d, out := range []*[]float64{&b.Write, &b.Read} {
		fine := t.bytes(d)
		for i := 0; i < fineBins; i += merge {
			var sum float64
			for _, x := range fine[i : i+merge] {
				sum += x
			}
			*out = append(*out, math.Round(ratio(sum, b.Bin)))
		}
	}
	return b
}

// signal returns the bandwidth in bytes per second for the analysis of periods. Bins
// have at least the given length in seconds, so that phases show and single requests
// do not.
func (t *timeline) signal(least float64) (samples []float64, width float64) {
	merge := 1
	for float64(merge)*t.width/1e9 < least && merge < fineBins {
		merge *= 2
	}
	width = float64(merge) * t.width / 1e9
	write, read := t.bytes(0), t.bytes(1)
	for i := 0; i < fineBins; i += merge {
		var sum float64
		for k := i; k < i+merge; k++ {
			sum += write[k] + read[k]
		}
		samples = append(samples, ratio(sum, width))
	}
	return samples, width
}

// concurrent counts active ranks. Events should come in the order of Start; the part
// of an event before the latest start is ignored.
type concurrent struct {
	until  []int64 // of each rank, the end of its last request
	busy   []bool  // whether the rank is in the heap
	active ends
	max    int
	sum    float64 // of the times of all ranks, s
	any    float64 // time with at least one active rank
	last   int64   // until this time
	now    int64   // the latest start
	begun  bool
}

func newConcurrent(ranks int) *concurrent {
	return &concurrent{until: make([]int64, ranks), busy: make([]bool, ranks)}
}

func (c *concurrent) add(rank int, start, end int64) {
	if c.begun {
		start = max(start, c.now)
	}
	end = max(start, end)
	c.now = start
	if !c.begun || c.last < start {
		c.any += seconds(start, end)
		c.last = end
	} else if end > c.last {
		c.any += seconds(c.last, end)
		c.last = end
	}
	c.begun = true
	// Remove the ranks that have finished.
	for len(c.active) > 0 && c.active[0].at <= start {
		r := c.active[0].rank
		if c.until[r] > c.active[0].at { // it started another request meanwhile
			c.active[0].at = c.until[r]
			c.active.sink()
			continue
		}
		c.busy[r] = false
		c.active.pop()
	}
	switch {
	case !c.busy[rank]:
		c.sum += seconds(start, end)
		c.until[rank] = end
		if end > start {
			c.busy[rank] = true
			c.active.push(rankEnd{end, int32(rank)})
		}
		c.max = max(c.max, len(c.active), 1)
	case end > c.until[rank]:
		c.sum += seconds(c.until[rank], end)
		c.until[rank] = end
	}
}

type rankEnd struct {
	at   int64
	rank int32
}

// ends is a heap, the earliest first. container/heap would allocate for every event.
type ends []rankEnd

func (h *ends) push(x rankEnd) {
	*h = append(*h, x)
	s := *h
	for i := len(s) - 1; i > 0; {
		up := (i - 1) / 2
		if s[up].at <= s[i].at {
			return
		}
		s[up], s[i] = s[i], s[up]
		i = up
	}
}

func (h *ends) pop() {
	s := *h
	s[0] = s[len(s)-1]
	*h = s[:len(s)-1]
	h.sink()
}

// sink moves the first element, which has become later, into its place.
func (h ends) sink() {
	for i := 0; ; {
		least := i
		for _, c := range [2]int{2*i + 1, 2*i + 2} {
			if c < len(h) && h[c].at < h[least].at {
				least = c
			}
		}
		if least == i {
			return
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}

// visits finds the phases of a job that is never silent. A phase begins with more
// than the mean bandwidth, and ends with less than a quarter of it for more than gap
// seconds.
func (t *timeline) visits(gap float64) pattern.Visits {
	var v pattern.Visits
	write, read := t.bytes(0), t.bytes(1)
	var mean float64
	for i := range write {
		write[i] += read[i]
		mean += write[i] / fineBins
	}
	width := t.width / 1e9
	busy := false
	for i, b := range write {
		if busy = b > mean || busy && b >= mean/4; busy {
			v.Add(float64(i)*width, float64(i+1)*width, b, max(gap, width))
		}
	}
	return v
}
