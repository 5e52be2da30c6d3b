package iosched

import (
	"math"
	"time"
)

// window is the time for which a queue has the unit.
type window struct {
	queue   *queue // nil if no window is open
	opened  time.Duration
	longest time.Duration
	quantum int64
	used    int64
}

// begin opens the window of a queue.
func (p *mlf) begin(now time.Duration, q *queue) {
	if q.quantum == 0 {
		q.quantum = p.o.QB
	}
	share := q.weight / p.maxWeight
	p.window = window{queue: q, opened: now,
		longest: time.Duration(float64(p.o.WindowMax) * share),
		quantum: max(1, int64(float64(q.quantum)*q.weight)),
	}
}

func (p *mlf) open(now time.Duration) bool {
	w := &p.window
	return w.used < w.quantum && now-w.opened < w.longest
}

// close ends the window, and sizes the next one of the queue by how much of this one
// was used. The queue is now behind those that had requests before.
func (p *mlf) close() {
	w, q := p.window, p.window.queue
	p.window = window{}
	switch used := float64(w.used) / float64(w.quantum); {
	case used < p.o.Reset:
		q.quantum = p.o.QB
	case used < p.o.Low:
		q.quantum = max(p.o.QB, int64(float64(q.quantum)*p.o.Shrink))
	case used > p.o.High:
		longest := math.MaxInt64 / 4.
		if p.rate > 0 {
			longest = min(longest, max(float64(p.o.QB), p.o.WindowMax.Seconds()*p.rate))
		}
		q.quantum = int64(min(float64(q.quantum)*p.o.Grow, longest))
	}
	p.turns++
	q.closed, q.turn = p.last, p.turns
	if q.index >= 0 {
		p.rank(q)
	}
}

// wait is a time for which the unit stays idle.
type wait struct {
	queue  *queue // nil if it does not wait
	reason Reason
	until  time.Duration
	number int // of waits so far
	file   string
	op     Op
}

// Waiting describes the wait that Next asked for last.
func (p *mlf) Waiting() Wait {
	return Wait{File: p.wait.file, Op: p.wait.op, Reason: p.wait.reason, Number: p.wait.number}
}

func (p *mlf) pause(q *queue, reason Reason, until time.Duration) time.Duration {
	p.wait = wait{queue: q, reason: reason, until: until, number: p.wait.number + 1, file: q.name, op: q.op}
	return until
}

// patience forgoes chances to wait after several waits in a row that were for nothing,
// and then more and more of them. A single one costs less than a wait that was missed:
// what is left behind has to be fetched, and breaks the order of the next ones.
type patience struct{ failures, forgo int }

const (
	mostFailures = 8
	mostForgone  = 64
)

func (p *patience) try() bool {
	if p.forgo > 0 {
		p.forgo--
		return false
	}
	return true
}

func (p *patience) failed() {
	p.failures++
	if n := p.failures - mostFailures; n >= 0 {
		p.forgo = min(mostForgone, 1<<min(n, 16))
	}
}

// hesitate returns until when e is to wait for requests that would come before it, or
// make it longer; 0 says that it need not.
//
// The thesis gives the times, but no rule. This one waits if a process that has had
// requests of the file is likely to have another soon, and there is a gap between the
// end of the last service and e, or e is shorter than the last virtual request. While
// the window lasts, what would make e longer is served after it without a wait.
func (p *mlf) hesitate(now time.Duration, e *entry) time.Duration {
	q := e.queue
	gap := e.offset > q.end
	short := p.o.Aggregate && e.count < q.last && e.bytes < p.o.MaxAgg && !p.lasts(now, e)
	if p.wait.queue == q && p.wait.reason != Synchronous {
		return p.goOn(now, q, p.wait.reason == Shift && !gap || p.wait.reason == Better && !short)
	}
	switch {
	case q.expected == 0 && (q.started || len(q.members) < 2):
	case gap && p.o.ShiftWait > 0:
		if q.gap.try() {
			return p.pause(q, Shift, now+p.o.ShiftWait)
		}
	case short && p.o.AggWait > 0:
		if q.gap.try() {
			return p.pause(q, Better, now+p.o.AggWait)
		}
	}
	return 0
}

// lasts says whether the window of e's queue is still open when e is done.
func (p *mlf) lasts(now time.Duration, e *entry) bool {
	w := &p.window
	if w.queue != e.queue || w.used+e.bytes >= w.quantum {
		return false
	}
	if p.rate > 0 {
		now += time.Duration(float64(e.bytes) / p.rate * float64(time.Second))
	}
	return now-w.opened < w.longest
}

// goOn returns until when a wait lasts, or 0 if it is over.
func (p *mlf) goOn(now time.Duration, q *queue, success bool) time.Duration {
	switch {
	case success:
		q.gap = patience{}
		return 0
	case q.expected == 0 && q.started:
		q.gap.failed()
		return 0
	case now >= p.wait.until:
		q.gap.failed()
		q.forget()
		return 0
	}
	return p.wait.until
}

// worth is how long to wait for the next request of a queue. Where it usually comes a little after
// IdleWait, as on a busy machine, a wait that is as much longer costs less than going there and back.
func (p *mlf) worth(q *queue) time.Duration {
	if longer := 2 * q.returns; longer <= 4*p.o.IdleWait {
		return max(p.o.IdleWait, longer)
	}
	return p.o.IdleWait
}

// idle returns until when the unit waits for the next request of the queue that has
// the window, while others have requests; 0 says that it need not.
func (p *mlf) idle(now time.Duration, q *queue) time.Duration {
	if p.o.IdleWait == 0 || q.expected == 0 {
		return 0
	}
	if p.wait.queue != q || p.wait.reason != Synchronous {
		if !q.pause.try() {
			return 0
		}
		return p.pause(q, Synchronous, min(now+p.worth(q), p.window.opened+p.window.longest))
	}
	if now < p.wait.until {
		return p.wait.until
	}
	q.pause.failed()
	q.forget()
	return 0
}
