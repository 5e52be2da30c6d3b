package pfs

// resource is a part of the system through which bytes pass one request after
// the other. A rate of zero is no limit.
type resource struct {
	rate float64
	free float64 // when it has done all that it was given
	busy float64 // seconds of work
}

// flow is when the first request of a run of bytes, and when its last, has come out
// of a part of the system. So the next part begins before the run is complete.
type flow struct{ head, tail float64 }

// pass has the resource work on bytes that come as f, in requests of unit bytes.
// It works for as long as the bytes take, not for as long as it waits for them.
func (r *resource) pass(f flow, bytes, unit float64) flow {
	if r.rate == 0 {
		return flow{max(f.head, r.free), max(f.tail, r.free)}
	}
	return r.work(f, bytes/r.rate, unit/r.rate)
}

// work is pass with the time of the whole and that of its last request.
func (r *resource) work(f flow, all, last float64) flow {
	begin := max(r.free, f.head)
	r.free = begin + all
	r.busy += all
	return flow{head: begin + last, tail: max(f.tail+last, begin+all)}
}

// processors work each on one thing at a time.
type processors struct {
	free []float64
	busy float64
}

// do gives some work to the processor that is free first, and returns when it is
// done.
func (p *processors) do(at, seconds float64) float64 {
	first := 0
	for i := range p.free {
		if p.free[i] < p.free[first] {
			first = i
		}
	}
	p.free[first] = max(p.free[first], at) + seconds
	p.busy += seconds
	return p.free[first]
}
