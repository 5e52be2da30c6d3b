package analyze

import (
	"ckpt/iotrace/analyze/pattern"
	"math"
)

// phases finds the patterns of the requests in each burst of a file. A file with a
// single burst does without: the burst has the pattern of the file.
type phases struct {
	bursts *bursts
	list   []phase
	blocks [2]block
}

type phase struct {
	tallies [2]tally
	ranks   int
	last    int32 // rank that was counted, plus one
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

// A walk visits the bursts of a direction.
type walk struct {
	stints []stint
	cut    int32
	next   int32 // first event behind the burst
	over   bool  // behind the last burst that is kept
}

func (p *phases) walk(d int) walk {
	w := walk{stints: p.bursts.stints[d], cut: p.bursts.cut[d]}
	w.over = len(w.stints) == 0
	w.find()
	return w
}

func (w *walk) find() {
	switch {
	case len(w.stints) > 1:
		w.next = w.stints[1].first
	case w.cut > 0:
		w.next = w.cut
	default:
		w.next = math.MaxInt32
	}
}

// step goes on to the next burst.
func (w *walk) step() {
	w.stints = w.stints[1:]
	w.over = len(w.stints) == 0
	w.find()
}

// stream processes the requests of a rank.
func (p *phases) stream(x *activity, s *stream) {
	if len(p.list) == 0 {
		return
	}
	walks := [2]walk{p.walk(0), p.walk(1)}
	judge := func(d int) {
		if w := &walks[d]; !w.over {
			x.class.judge(&p.blocks[d], &p.list[w.stints[0].place].tallies[d])
		}
	}
	p.blocks[0].pass, p.blocks[1].pass = pass{}, pass{}
	opens, counts := 0, isRank(x.a.trace, int(s.rank))
	for k := range s.requests {
		q := &s.requests[k]
		opens = s.opensBefore(q, opens)
		d := direction(q.read())
		w := &walks[d]
		for !w.over && q.event() >= w.next {
			judge(d)
			w.step()
		}
		if w.over {
			continue
		}
		ph := &p.list[w.stints[0].place]
		if counts && ph.last != s.rank+1 {
			ph.ranks, ph.last = ph.ranks+1, s.rank+1
		}
		switch {
		case ph.votes == 0:
			ph.size, ph.votes = q.size, 1
		case ph.size == q.size:
			ph.votes++
		default:
			ph.votes--
		}
		switch {
		case q.size == 0:
			continue
		case q.off < 0:
			ph.tallies[d].add(pattern.Verdict{Detail: pattern.Sequential}, 1)
			continue
		}
		b := &p.blocks[d]
		x.class.pass(b, q.off, opens, &ph.tallies[d])
		if b.add(q.off, end(q.off, q.size)) {
			judge(d)
		}
	}
	judge(0)
	judge(1)
}

// finish counts the requests with the winning size.
func (p *phases) finish(all []stream) {
	if len(p.list) == 0 {
		return
	}
	for s := range all {
		walks := [2]walk{p.walk(0), p.walk(1)}
		for k := range all[s].requests {
			q := &all[s].requests[k]
			w := &walks[direction(q.read())]
			for !w.over && q.event() >= w.next {
				w.step()
			}
			if w.over {
				continue
			}
			if ph := &p.list[w.stints[0].place]; q.size == ph.size {
				ph.equal++
			}
		}
	}
}
