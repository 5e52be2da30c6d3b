package probe

import "ckpt/image/plan"

// depth is how many requests of a writer package container has under way.
const depth = 4

// roundsWanted is how many rounds shall fit into the time, at the rate measured first.
const roundsWanted = 8

// list returns the probes, of which the large write size bytes each.
func list(size, most int64, direct bool) []Probe {
	const small = 2 << 20
	ways := []bool{false}
	if direct {
		ways = []bool{true, false}
	}
	var probes []Probe
	add := func(p Probe, bytes int64) {
		p.Requests = int(max(1, min(bytes, most)/int64(p.Writers)/p.Request))
		if p.Kind = Write; p.Bytes() <= most {
			probes = append(probes, p)
		}
	}
	for _, way := range ways {
		// One request after the other: the latency of a request.
		for _, request := range []int64{plan.PageSize, 64 << 10, 1 << 20} {
			add(Probe{Writers: 1, Request: request, Depth: 1, Direct: way}, min(32*request, size))
		}
		for _, writers := range []int{1, 2, 4, 8, 16} {
			for _, shared := range []bool{false, true} {
				if shared && writers == 1 || direct && !way && (shared || writers%3 != 1) {
					continue // where direct writes work, package container makes no others
				}
				p := Probe{Writers: writers, Depth: depth, Shared: shared, Direct: way}
				p.Request = 256 << 10
				add(p, max(small, int64(writers)*p.Request))
				p.Request = 1 << 20
				add(p, size)
				p.Request = plan.WriteBytes
				add(p, max(size, int64(writers)*p.Request))
			}
		}
	}
	for _, writers := range []int{1, 4, 16} {
		probes = append(probes, Probe{Kind: Sync, Writers: writers, Requests: 2, Request: plan.PageSize, Depth: 1})
	}
	for _, kind := range []Kind{Create, Rename, Remove} {
		probes = append(probes, Probe{Kind: kind, Writers: 1, Requests: 64, Depth: 1}, Probe{Kind: kind, Writers: 8, Requests: 16, Depth: 1})
	}
	return append(probes, Probe{Kind: SyncDir, Writers: 1, Requests: 4, Depth: 1})
}

// tryDirect finds out whether the file system takes direct I/O.
func (r *runner) tryDirect() error {
	w, err := r.open(r.name(), true, true)
	if err == nil {
		_, err = w.WriteAt(r.data[:plan.PageSize], 0)
		err = r.closed(w, err)
	}
	if notDirect(err) {
		r.res.Direct, err = false, nil
	}
	return r.cleared(err)
}

// size returns how many bytes the large probes write, so that some rounds fit into the
// time: from the rate of a first write.
func (r *runner) size(most int64) (int64, error) {
	p := Probe{Kind: Write, Writers: 1, Requests: int(min(16<<20, most) / (1 << 20)), Request: 1 << 20, Depth: depth, Direct: r.res.Direct}
	for range 2 {
		if err := r.probe(&p); err != nil {
			return 0, err
		}
	}
	rate := float64(p.Bytes()) / max(p.Seconds[1], 1e-6)
	count := float64(len(list(16<<20, most, r.res.Direct)))
	size := int64(rate * r.opt.Time.Seconds() / roundsWanted / count)
	return min(max(size, 4<<20), most, 128<<20) &^ (1<<20 - 1), nil
}
