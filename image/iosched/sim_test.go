package iosched

import (
	"math/rand/v2"
	"testing"
	"time"
)

const ms = time.Millisecond

// sim is a disk with a controller, and clients that act at times of their own.
type sim struct {
	t        testing.TB
	c        *Controller
	now      time.Duration
	seek     time.Duration
	unitRate float64 // bytes a second
	file     string
	head     int64
	events   heap[*event]
	seq      uint64
	busy     int     // grants in service
	order    []Grant // as they were served
	came     func(r *Request)
	done     func(r *Request)
	begin    func(g Grant, at time.Duration)
	left     map[*Request]int64
}

type event struct {
	at  time.Duration
	seq uint64
	do  func()
}

func newSim(t testing.TB, policy string, o Options, seek time.Duration) *sim {
	t.Helper()
	p, err := New(policy, o)
	if err != nil {
		t.Fatal(err)
	}
	return &sim{t: t, c: NewController("disk", p), seek: seek, unitRate: o.Rate, left: make(map[*Request]int64),
		events: heap[*event]{less: func(a, b *event) bool { return a.at < b.at || a.at == b.at && a.seq < b.seq }}}
}

func (s *sim) at(when time.Duration, do func()) *event {
	s.seq++
	e := &event{at: max(when, s.now), seq: s.seq, do: do}
	s.events.push(e)
	return e
}

// add hands in a request, now.
func (s *sim) add(r *Request) {
	s.left[r] = r.Bytes
	if s.came != nil {
		s.came(r)
	}
	if err := s.c.Add(s.now, r); err != nil {
		s.t.Fatal(err)
	}
}

// run lets everything happen. Of events at one time, those that were scheduled
// first happen first; the disk looks for work when all have happened.
func (s *sim) run() {
	for s.events.len() > 0 {
		e := s.events.pop()
		s.now = e.at
		e.do()
		if s.events.len() == 0 || s.events.first().at > s.now {
			s.serve()
		}
	}
	if s.c.Len() > 0 || s.c.policy.Len() > 0 {
		s.t.Fatalf("%d requests were not served, %d of them are in the policy", s.c.Len(), s.c.policy.Len())
	}
}

// serve begins what the controller says, if the disk does nothing.
func (s *sim) serve() {
	if s.busy > 0 {
		return
	}
	grants, wake := s.c.Next(s.now)
	if len(grants) == 0 {
		if wake > 0 {
			if wake <= s.now {
				s.t.Fatalf("at %v the policy asks to be asked again at %v", s.now, wake)
			}
			s.at(wake, func() {})
		}
		return
	}
	began := s.now
	for _, g := range grants {
		end := began + time.Duration(float64(g.Bytes)/s.unitRate*float64(time.Second)+0.5)
		if g.Request.File != s.file || g.Offset != s.head {
			end += s.seek
		}
		s.file, s.head = g.Request.File, g.End()
		s.busy++
		b := began
		if s.begin != nil {
			s.begin(g, b)
		}
		s.at(end, func() {
			s.busy--
			s.order = append(s.order, g)
			s.c.Done(b, s.now, g)
			if s.left[g.Request] -= g.Bytes; s.left[g.Request] == 0 {
				delete(s.left, g.Request)
				if s.done != nil {
					s.done(g.Request)
				}
			}
		})
		began = end
	}
}

// reader is a process that reads a file step by step, one request after the other.
type reader struct {
	app          string
	rank         int
	file         string
	op           Op
	offset, size int64
	stride       int64
	count        int
	think        time.Duration // between the end of one request and the next
	jitter       *rand.Rand    // up to twice that, if not nil
}

func (r *reader) thinks() time.Duration {
	if r.jitter == nil {
		return r.think
	}
	return time.Duration(r.jitter.Int64N(int64(2 * r.think)))
}

// start has processes begin at their times.
func (s *sim) start(at time.Duration, procs ...*reader) {
	of := make(map[*Request]*reader)
	issue := func(p *reader) {
		r := &Request{App: p.app, User: p.app, Rank: p.rank, File: p.file, Op: p.op, Offset: p.offset, Bytes: p.size}
		p.offset += p.stride
		p.count--
		of[r] = p
		s.add(r)
	}
	before := s.done
	s.done = func(r *Request) {
		if before != nil {
			before(r)
		}
		if p := of[r]; p != nil {
			delete(of, r)
			if p.count > 0 {
				s.at(s.now+p.thinks(), func() { issue(p) })
			}
		}
	}
	for _, p := range procs {
		s.at(at, func() { issue(p) })
	}
}
