package codec

import (
	"time"

	"ckpt/zones"
)

// UseAuto stores each extent in the way that is estimated to be on storage
// first. With W workers that share storage of bandwidth B, an extent of L bytes
// that is encoded in Z seconds by a factor of r occupies the storage for
// S = L/(rB). In the long run the workers together finish one extent every
//
//	max((Z+S)/W, S)
//
// seconds: each of them needs Z+S for its own extent, and the storage S for
// every one (the asymptotic bounds of a closed queueing network; Lazowska et
// al., Quantitative System Performance, 1984, ch. 5). Raw extents take L/B.
//
// For W = 1, where encoding and writing take turns, compressing is thus chosen
// if Z+S < L/B, that is if the speed L/Z exceeds B·r/(r-1): it must cost less
// than the bytes it saves. That is also the safe choice if little is known of
// the overlap, since it holds whatever the overlap is. For W > 1 the writes of
// some hide behind the encoding of others: the speed need only exceed
// B·r/(W·r-1), and among the ways that pass, the smallest wins once the
// storage is what all wait for, since speed beyond that is of no use.
//
// Z is measured while all workers run, and so contains what they take from each
// other. The estimates must promise a gain of at least 1-autoGain, because they
// are no better than that and because the processor has other work.
const (
	autoGain = 0.95

	// Without a bandwidth, encoding counts as free, which is about true of S2
	// only, and the sample must promise a ratio of 1.1.
	autoBlindGain = 1 / 1.1

	// zstdCeiling is the bandwidth per worker in bytes/s beyond which zstd is
	// not tried: a Xeon at 2.6 GHz encodes 200-900 MB/s of data that it makes
	// much smaller than S2 does.
	zstdCeiling = 500e6

	// zstdShare is how much of the extent zstd is tried on, one part in so
	// many. In a smaller sample its tables and headers hide what it gains.
	zstdShare = 16

	// maxGap is for how many extents a decision may stand unexamined.
	maxGap = 32

	// paceAge is after how many looks the speed of a way that was not chosen is
	// measured again, and timedShare how much of the extent that takes at
	// least: in small samples the compressors' fixed costs drown their speed.
	paceAge    = 8
	timedShare = 32
)

// auto is what UseAuto knows and has learnt.
type auto struct {
	bandwidth, workers float64 // bandwidth 0: unknown
	now                func() time.Time
	kinds              [zones.Int64 + 1]kind // by element type
}

// kind is what was learnt from extents of one element type.
type kind struct {
	look backoff // at extents at all
	zstd backoff // at zstd
	pace [numIDs][numFilters]pace
}

func newAuto(opt Options) auto {
	a := auto{workers: float64(max(opt.Workers, 1)), now: opt.Now}
	if opt.Bandwidth > 0 { // which NaN is not
		a.bandwidth = opt.Bandwidth
	}
	if a.now == nil {
		a.now = time.Now
	}
	return a
}

// seconds estimates the time between two extents that are encoded in so many
// seconds and stored in so many bytes. Without a bandwidth it is in another
// unit, but as good for comparison.
func (a *auto) seconds(encode, stored float64) float64 {
	if a.bandwidth == 0 {
		return stored
	}
	write := stored / a.bandwidth
	return max((encode+write)/a.workers, write)
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

// choose finds the plan with the least estimated time, Raw if no other gains
// enough.
func (e *Encoder) choose(k *kind, raw []byte, elem zones.Elem) plan {
	a := &e.auto
	gain := autoGain
	if a.bandwidth == 0 {
		gain = autoBlindGain
	}
	var best plan
	least := a.seconds(0, float64(len(raw))) * gain
	consider := func(p plan, length, sample int) bool {
		encode := 0.0
		if speed := k.pace[p.id][p.filter].speed; speed > 0 {
			encode = float64(len(raw)) / speed
		}
		stored := zones.PageRound(int64(float64(len(raw)) * float64(length) / float64(sample)))
		s := a.seconds(encode, float64(stored))
		if s >= least {
			return false
		}
		best, least = p, s
		return true
	}
	// clock returns k if speeds should be measured. They are measured whenever
	// the last answer was no, lest one hiccup of the machine stands for long.
	clock := func(id ID, failing bool, filters ...Filter) *kind {
		if a.bandwidth > 0 && (k.stale(id, filters...) || failing) {
			return k
		}
		return nil
	}

	filters := filtersFor(elem, len(raw))
	lens, size := e.trial(raw, S2, filters, sampleShare, clock(S2, k.look.failing(), filters...))
	for i, f := range filters {
		consider(plan{S2, f}, lens[i], size)
	}
	if a.bandwidth > 0 && a.bandwidth < zstdCeiling*a.workers && k.zstd.due() {
		f := smallest(filters, lens, true)
		lens, size = e.trial(raw, Zstd, []Filter{f}, zstdShare, clock(Zstd, k.look.failing() || k.zstd.failing(), f))
		k.zstd.result(consider(plan{Zstd, f}, lens[0], size))
	}
	return best
}
