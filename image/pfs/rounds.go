package pfs

import (
	"iter"

	"ckpt/image/plan"
)

// rounds makes the rounds of a writer one after the other.
type rounds interface {
	next() (plan.Round, bool)
	stop()
}

// manyWriters are too many for each to stand still in an iterator, whose stack takes
// some kilobytes.
const manyWriters = 1 << 14

// rounds returns those of a rank.
func (j *job) rounds(rank int) rounds {
	seq := j.Plan.WriterPlan(rank)
	if n := len(j.Plan.Writers); n > manyWriters {
		return &batches{seq: seq, most: max(1, 1<<18/n)}
	}
	next, stop := iter.Pull(seq)
	return &pulled{next, stop}
}

// pulled stands still in the iterator between two rounds.
type pulled struct {
	pull func() (plan.Round, bool)
	end  func()
}

func (p *pulled) next() (plan.Round, bool) { return p.pull() }
func (p *pulled) stop()                    { p.end() }

// batches begins the iterator again for each few rounds. Writers that are many have
// few rounds each.
type batches struct {
	seq   iter.Seq[plan.Round]
	most  int
	made  int // rounds so far
	ready []plan.Round
}

func (b *batches) next() (plan.Round, bool) {
	if len(b.ready) == 0 {
		b.fill()
	}
	if len(b.ready) == 0 {
		return plan.Round{}, false
	}
	r := b.ready[0]
	b.ready[0] = plan.Round{}
	b.ready = b.ready[1:]
	return r, true
}

func (b *batches) fill() {
	skip := b.made
	for r := range b.seq {
		if skip > 0 {
			skip--
			continue
		}
		b.ready = append(b.ready, r)
		b.made++
		if len(b.ready) == b.most {
			return
		}
	}
}

func (b *batches) stop() { b.ready = nil }
