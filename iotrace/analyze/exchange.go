package analyze

import (
	"ckpt/iotrace"
	"ckpt/iotrace/analyze/finding"
)

// exchangeFacts fills in how long a rank is in the calls of MPI-IO on a file. Only
// counters tell: DXT does not say which calls were collective.
func exchangeFacts(x *finding.File, r *File, inRequests float64) {
	m := r.MPIIO
	if m == nil || m.Calls == nil || m.Callers == 0 || m.PosixWrites == 0 && m.PosixReads == 0 {
		return
	}
	for _, l := range r.Layers {
		if l.Layer == moduleNames[iotrace.MPIIO] {
			x.InCalls, x.InRequests = (l.WriteTime+l.ReadTime)/float64(m.Callers), inRequests
		}
	}
}

// inRequests returns by file how long its slowest rank reads and writes through POSIX,
// as far as counters tell.
func (a *analysis) inRequests() map[int32]float64 {
	type place struct{ file, rank int32 }
	own, slowest, all := map[place]float64{}, map[int32]float64{}, map[int32]float64{}
	for _, c := range a.records.list {
		if c.Module != iotrace.POSIX {
			continue
		}
		took := max(0, c.ReadTime.Seconds()) + max(0, c.WriteTime.Seconds())
		switch n, _, _ := a.records.movers(c); {
		case c.Rank >= 0:
			p := place{c.File, c.Rank}
			own[p] += took
			slowest[c.File] = max(slowest[c.File], own[p])
		case c.Slowest.Time > 0:
			all[c.File] += min(took, c.Slowest.Time.Seconds())
		default:
			all[c.File] += took / float64(max(n, 1))
		}
	}
	for file, took := range all {
		slowest[file] += took
	}
	return slowest
}
