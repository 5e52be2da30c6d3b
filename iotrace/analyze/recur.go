package analyze

import (
	"math"
	"slices"
)

// A visit is a time in which the job does I/O: a phase between silences.
type visit struct {
	start, end, bytes float64
}

const (
	maxVisits   = 1 << 14 // that are kept, from the first on; there are fewer samples
	leastVisits = 3       // needed to show a period: two intervals
	weighty     = 0.1     // of the bytes of the largest; smaller visits do not count
	jitter      = 0.2     // of the time between phases: how early or late one may be
)

// visits finds the phases of a job from the requests in their order.
type visits struct {
	list []visit
}

// add adds a request. A silence of gap seconds ends a phase.
func (v *visits) add(start, end, bytes, gap float64) {
	end = max(start, end)
	if n := len(v.list); n > 0 && start-v.list[n-1].end <= gap {
		last := &v.list[n-1]
		last.end = max(last.end, end)
		last.bytes += bytes
	} else if n < maxVisits {
		v.list = append(v.list, visit{start, end, bytes})
	}
}

// visits finds the phases of a job that is never silent. A phase begins with more
// than the mean bandwidth, and ends with less than a quarter of it for more than gap
// seconds.
func (t *timeline) visits(gap float64) visits {
	var v visits
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
			v.add(float64(i)*width, float64(i+1)*width, b, max(gap, width))
		}
	}
	return v
}

// recurrence measures how reliably another phase follows a phase after a period: 1 if
// it always does, 0 if it does as often as by chance. The spectrum alone cannot tell:
// it also shows the beat between equally spaced requests and the samples of the
// bandwidth, and peaks for random requests.
func (v *visits) recurrence(period float64) float64 {
	var largest float64
	for _, x := range v.list {
		largest = max(largest, x.bytes)
	}
	var starts []float64
	for _, x := range v.list {
		if x.bytes >= weighty*largest {
			starts = append(starts, x.start)
		}
	}
	n := len(starts)
	if n < leastVisits || !(period > 0) {
		return 0
	}
	between := (starts[n-1] - starts[0]) / float64(n-1)
	near := jitter * min(period, between)
	var followed, all float64
	for _, at := range starts {
		if at+period > starts[n-1]+near {
			break
		}
		all++
		if i, _ := slices.BinarySearch(starts, at+period-near); i < n && starts[i] <= at+period+near {
			followed++
		}
	}
	if all < leastVisits-1 {
		return 0
	}
	chance := 1 - math.Exp(-2*near/between)
	return max(0, (followed/all-chance)/(1-chance))
}
