package analyze

import (
	"cmp"
	"slices"

	"ckpt/iotrace"
)

// busyEstimate estimates the time in which some rank reads or writes, and counts the
// phases: parts of the time from the first read or write of any file to the last, with
// silences of the burst gap in between. A phase takes the time of the slowest rank in
// each file of all ranks, plus that of the slowest rank in the other files, as
// darshan-parser estimates the performance; at most the time that its files span.
func (a *analysis) busyEstimate() (busy float64, phases int) {
	type window struct {
		from, to int64
		rank     int32
		took     float64
		bytes    int64
	}
	var windows []window
	for _, c := range a.records.list {
		if data, _ := a.adds(c); !data {
			continue
		}
		both := halves(c)
		all := both[0].time + both[1].time
		for d := range both {
			h := &both[d]
			if h.requests == 0 || h.from < 0 || h.to <= h.from {
				continue
			}
			w := window{h.from, h.to, c.Rank, h.time, h.bytes}
			switch {
			case c.Rank >= 0:
			case c.Slowest.Time > 0:
				w.took = min(h.time, c.Slowest.Time.Seconds()*ratio(h.time, all))
			default:
				w.took /= float64(max(a.records.ranks, 1))
			}
			windows = append(windows, w)
		}
	}
	slices.SortStableFunc(windows, func(x, y window) int { return cmp.Or(cmp.Compare(x.from, y.from), cmp.Compare(x.to, y.to)) })
	own := map[int32]float64{}
	var slowest, alone float64
	var u union
	var moved []int64 // by phase
	end := func() {
		busy += min(u.time, slowest+alone)
		clear(own)
		slowest, alone, u.time = 0, 0, 0
	}
	for _, w := range windows {
		if !u.begun || after(u.until, w.from, int64(a.options.BurstGap)) {
			end()
			moved = append(moved, 0)
		}
		last := &moved[len(moved)-1]
		*last = iotrace.Sum(*last, w.bytes)
		u.add(w.from, w.to)
		if w.rank >= 0 {
			own[w.rank] += w.took
			alone = max(alone, own[w.rank])
		} else {
			slowest += w.took
		}
	}
	end()
	return busy, phasesAmong(moved)
}
