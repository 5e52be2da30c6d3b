package codec

import (
	"time"

	"golang.org/x/sys/unix"

	"ckpt/zones"
)

// UseAuto stores each extent in the way that is estimated to be on storage first. A writer
// packs a round of extents while it writes the round before: a pipeline of two stages. An
// extent of L bytes that takes Z seconds of a processor to encode, by a factor of r, and H
// seconds for the rest (zeros, digests, checksums), needs
//
//	P = (H+Z)/C seconds of packing, with C processors, and
//	S = L/(rB)  seconds of storage, with bandwidth B.
//
// Of R equal rounds the first is packed while nothing is written, and the last written while
// nothing is packed; in all others the slower stage counts. So an extent takes on average
//
//	max(P, S) + min(P, S)/R
//
// seconds. For R = 1, where packing and writing take turns, this chooses compression if its
// speed C·L/Z exceeds B·r/(r-1), the "pays below" of package bench: the safe choice if little
// is known. For large R the packing hides behind the writes, until it takes longer.
//
// Z and H are processor time; C is less than one if ranks outnumber processors. B, C, H and R
// are measured at each checkpoint for the next (Learn). A gain must be at least 1-autoGain,
// since estimates are no better than that and the processor has other work.
const (
	autoGain = 0.95

	// Without a bandwidth, encoding counts as free, as S2 nearly is, and the sample must
	// promise a ratio of 1.1.
	autoBlindGain = 1 / 1.1

	// zstdCeiling is the bandwidth per processor, in bytes/s, beyond which zstd is not tried: a
	// Xeon at 2.6 GHz encodes 200-900 MB/s where it beats S2 clearly.
	zstdCeiling = 500e6

	// zstdShare is the part of the extent that zstd is tried on, one in so many: in a smaller
	// sample its tables and headers hide the gain.
	zstdShare = 16

	// maxGap is for how many extents a decision may stand unexamined.
	maxGap = 32

	// paceAge is after how many looks the speed of a way not chosen is measured again, on
	// timedShare of the extent at least, lest the fixed costs of a compressor drown its speed.
	paceAge    = 8
	timedShare = 32
)

// auto is what UseAuto knows and has learnt.
type auto struct {
	Conditions // Bandwidth 0: unknown
	now        func() time.Time
	kinds      [zones.Int64 + 1]kind // by element type
}

// kind is what was learnt from extents of one element type.
type kind struct {
	look backoff // at extents at all
	zstd backoff // at zstd
	pace [numIDs][numFilters]pace
}

func newAuto(opt Options) auto {
	a := auto{Conditions: opt.Conditions.sane(), now: opt.Now}
	if a.now == nil {
		a.now = threadClock
	}
	return a
}

// Learn has the encoder decide by new conditions. It keeps measured speeds, and looks again at
// what did not pay.
func (e *Encoder) Learn(c Conditions) {
	e.auto.Conditions = c.sane()
	for i := range e.auto.kinds {
		k := &e.auto.kinds[i]
		k.look, k.zstd = backoff{}, backoff{}
	}
}

// seconds estimates the time for raw bytes that a processor encodes in so many seconds to so
// many bytes; without a bandwidth, in another unit for comparison.
func (a *auto) seconds(raw int, encode, stored float64) float64 {
	if a.Bandwidth == 0 {
		return stored
	}
	pack, write := (float64(raw)*a.Rest+encode)/a.Processors, stored/a.Bandwidth
	return max(pack, write) + min(pack, write)/a.Rounds
}

// encodeAuto makes a plan, carries it out and learns from it.
func (e *Encoder) encodeAuto(raw []byte, elem zones.Elem) Encoded {
	if int(elem) >= len(e.auto.kinds) {
		elem = zones.Bytes
	}
	k := &e.auto.kinds[elem]
	if !k.look.due() {
		return Encoded{ID: Raw, Data: raw}
	}
	p := e.choose(k, raw, elem)
	x := Encoded{ID: Raw, Data: raw}
	if p.id != Raw {
		data, d := e.timed(p, raw)
		k.pace[p.id][p.filter].measured(d, len(raw))
		x = accept(p, raw, data)
	}
	k.look.result(x.ID != Raw)
	return x
}

// choose finds the plan with the least estimated time; Raw if the gain is too small.
func (e *Encoder) choose(k *kind, raw []byte, elem zones.Elem) plan {
	a := &e.auto
	gain := autoGain
	if a.Bandwidth == 0 {
		gain = autoBlindGain
	}
	var best plan
	least := a.seconds(len(raw), 0, float64(len(raw))) * gain
	consider := func(p plan, length, sample int) bool {
		encode := 0.0
		if speed := k.pace[p.id][p.filter].speed; speed > 0 {
			encode = float64(len(raw)) / speed
		}
		stored := zones.PageRound(int64(float64(len(raw)) * float64(length) / float64(sample)))
		s := a.seconds(len(raw), encode, float64(stored))
		if s >= least {
			return false
		}
		best, least = p, s
		return true
	}
	// clock returns k if speeds are to be measured: when old, or after a no, lest one hiccup of
	// the machine stands for long.
	clock := func(id ID, failing bool, filters ...Filter) *kind {
		if a.Bandwidth > 0 && (k.stale(id, filters...) || failing) {
			return k
		}
		return nil
	}

	filters := filtersFor(elem, len(raw))
	lens, size := e.trial(raw, S2, filters, sampleShare, clock(S2, k.look.failing(), filters...))
	for i, f := range filters {
		consider(plan{S2, f}, lens[i], size)
	}
	if a.Bandwidth > 0 && a.Bandwidth < zstdCeiling*a.Processors && k.zstd.due() {
		f := smallest(filters, lens, true)
		lens, size = e.trial(raw, Zstd, []Filter{f}, zstdShare, clock(Zstd, k.look.failing() || k.zstd.failing(), f))
		k.zstd.result(consider(plan{Zstd, f}, lens[0], size))
	}
	return best
}

// pace is how fast compressing in one way was lately.
type pace struct {
	speed float64 // bytes per second, moving average; 0 unknown
	age   int     // looks since it was measured
}

// maxSpeed bounds what a coarse clock may seem to say, in bytes/s.
const maxSpeed = 100e9

// measured takes in that n bytes took d. The average of speeds, not times, favours fast
// measurements: what else happens on a machine only makes them slower.
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

// stale reports whether one of the ways to compress with id is to be measured again, since it
// was not chosen for some looks, which it counts.
func (k *kind) stale(id ID, filters ...Filter) bool {
	stale := false
	for _, f := range filters {
		p := &k.pace[id][f]
		p.age++
		stale = stale || p.speed == 0 || p.age > paceAge
	}
	return stale
}

// backoff spaces attempts that keep failing: after each failure twice as many turns pass, up to
// maxGap.
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

// ProcessorTime returns the processor time of the calling thread. Elapsed time would count the
// turns of other processes. Lock the goroutine to its thread to compare two calls.
func ProcessorTime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0 // the kernel has had this clock since 2.6.12
	}
	return time.Duration(t.Nano())
}

func threadClock() time.Time { return time.Unix(0, int64(ProcessorTime())) }
