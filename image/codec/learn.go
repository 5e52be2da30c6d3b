package codec

import "time"

// pace is how fast compressing in one way was lately.
type pace struct {
	speed float64 // bytes per second, moving average; 0 unknown
	age   int     // looks since it was measured
}

// maxSpeed bounds what a coarse clock may seem to say, in bytes/s.
const maxSpeed = 100e9

// measured takes in that n bytes took d. Averaging speeds, not times, gives
// more weight to the faster measurements: what else happens on a machine can
// make a measurement slower than it should be, but not faster. How many
// processors there are for it is measured apart (Conditions).
func (p *pace) measured(d time.Duration, n int) {
	speed := maxSpeed
	if d > 0 {
		speed = min(float64(n)/d.Seconds(), maxSpeed)
	}
	if p.speed > 0 {
		speed = (p.speed + speed) / 2
	}
	*p = pace{speed: speed}
}

// stale reports whether one of the ways to compress with id should be measured
// again because it was not chosen, and so not measured, for some time. It
// counts the looks.
func (k *kind) stale(id ID, filters ...Filter) bool {
	stale := false
	for _, f := range filters {
		p := &k.pace[id][f]
		p.age++
		stale = stale || p.speed == 0 || p.age > paceAge
	}
	return stale
}

// backoff spaces attempts that keep failing: after each failure twice as many
// turns are let go by, up to maxGap. The zero value is due at once.
type backoff struct{ gap, left int }

// due reports whether it is time for an attempt, and counts the turn.
func (b *backoff) due() bool {
	if b.left > 0 {
		b.left--
		return false
	}
	return true
}

// failing reports whether the last attempt failed.
func (b *backoff) failing() bool { return b.gap > 0 }

// result tells how the attempt went.
func (b *backoff) result(ok bool) {
	if ok {
		*b = backoff{}
		return
	}
	b.gap = min(max(2*b.gap, 1), maxGap)
	b.left = b.gap
}
