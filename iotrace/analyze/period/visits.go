package period

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
	LeastVisits = 3       // needed to show a period: two intervals
	weighty     = 0.1     // of the bytes of the largest; smaller visits do not count
	jitter      = 0.2     // of the time between phases: how early or late one may be
)

// Visits finds the phases of a job from the requests in their order.
type Visits struct {
	list []visit
}

// Len returns the number of phases.
func (v *Visits) Len() int { return len(v.list) }

// Add adds a request. A silence of gap seconds ends a phase.
func (v *Visits) Add(start, end, bytes, gap float64) {
	end = max(start, end)
	if n := len(v.list); n > 0 && start-v.list[n-1].end <= gap {
		last := &v.list[n-1]
		last.end = max(last.end, end)
		last.bytes += bytes
	} else if n < maxVisits {
		v.list = append(v.list, visit{start, end, bytes})
	}
}

// recurrence measures how reliably another phase follows a phase after a period: 1 if
// it always does, 0 if it does as often as by chance. The spectrum alone cannot tell:
// it also shows the beat between equally spaced requests and the samples of the
// bandwidth, and peaks for random requests.
func (v *Visits) recurrence(period float64) float64 {
	starts := v.starts()
	n := len(starts)
	if n < LeastVisits || !(period > 0) {
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
	if all < LeastVisits-1 {
		return 0
	}
	chance := 1 - math.Exp(-2*near/between)
	return max(0, (followed/all-chance)/(1-chance))
}
