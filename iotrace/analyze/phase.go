package analyze

import "math"

// phases finds the patterns of the requests in each burst of a file. A file with a
// single burst needs none: the burst has the pattern of the file.
type phases struct {
	bursts *bursts
	list   []phase
	block  block
}

type phase struct {
	tally tally
	ranks int
	// The size of the majority, if there is one (Boyer and Moore 1981), the votes for
	// it, and its count.
	size, votes, equal int64
}

func (p *phases) reset(b *bursts) {
	p.bursts, p.list = b, p.list[:0]
	if b.total > 1 {
		for range b.list {
			p.list = append(p.list, phase{})
		}
	}
}

// next is the first event after burst i.
func (p *phases) next(i int) int32 {
	switch {
	case i+1 < len(p.list):
		return p.bursts.list[i+1].first
	case p.bursts.cut > 0:
		return p.bursts.cut
	}
	return math.MaxInt32
}

// stream processes the requests of a rank.
func (p *phases) stream(x *activity, s *stream) {
	if len(p.list) == 0 {
		return
	}
	i, next, took := 0, p.next(0), false
	done := func() {
		x.judge(&p.block, &p.list[i].tally)
		if took && isRank(x.a.trace, int(s.rank)) {
			p.list[i].ranks++
		}
		took = false
	}
	for k := range s.requests {
		q := &s.requests[k]
		for q.event >= next {
			done()
			if i++; i == len(p.list) {
				return
			}
			next = p.next(i)
		}
		ph := &p.list[i]
		took = true
		switch {
		case ph.votes == 0:
			ph.size, ph.votes = q.size, 1
		case ph.size == q.size:
			ph.votes++
		default:
			ph.votes--
		}
		if q.off < 0 {
			ph.tally.add(verdict{detail: Sequential}, 1)
		} else if p.block.add(q.off, end(q.off, q.size)) {
			x.judge(&p.block, &ph.tally)
		}
	}
	done()
}

// finish counts the requests with the winning size.
func (p *phases) finish(all []stream) {
	if len(p.list) == 0 {
		return
	}
	for s := range all {
		i, next := 0, p.next(0)
		for k := range all[s].requests {
			q := &all[s].requests[k]
			for i < len(p.list) && q.event >= next {
				if i++; i < len(p.list) {
					next = p.next(i)
				}
			}
			if i == len(p.list) {
				break
			}
			if q.size == p.list[i].size {
				p.list[i].equal++
			}
		}
	}
}
