package iosched_test

import (
	"time"

	"ckpt/image/iosched"
)

// A job is one burst that a client has to do, after a time of thinking.
type job struct {
	think   time.Duration
	file    string
	bytes   int64
	unknown bool // it does not say how many
	op      int64
	// meet: in the middle the ranks of the application wait for each other,
	// as in a collective write; quiet: they say nothing while they wait.
	meet, quiet bool
}

// A client is one process with one connection, doing its jobs one by one.
type client struct {
	s         *sim
	app, user string
	jobs      []job
	link      *link // nil: without a controller

	number  uint64 // of the burst under way
	moved   int64
	left    int64 // bytes at the moment
	active  bool  // a burst is under way
	underOp bool
	granted bool
	turn    uint64
	// answer is the turn to release once the operation under way is over.
	answer uint64

	stopped  bool // as by SIGSTOP
	dead     bool
	inbox    []func()
	excused  bool // it was stopped for ever or killed
	served   int64
	bursts   int
	reached  int // the burst whose middle it has reached
	let      int // the burst of which it was told that all have
	finishes []time.Duration
	starts   []time.Duration
}

func (c *client) finished() bool { return c.excused || len(c.jobs) == 0 }

func (c *client) start() {
	c.join()
	c.beat()
	c.next()
}

// beat gives signs of life, and looks for a controller.
func (c *client) beat() {
	if c.dead {
		return
	}
	if !c.stopped {
		if c.link != nil {
			c.link.send(iosched.Alive{Conn: c.link.id})
		} else {
			c.join()
		}
	}
	c.s.after(c.s.o.Lease/4, c.beat)
}

func (c *client) join() {
	if c.link = c.s.connect(c); c.link == nil {
		return
	}
	c.granted, c.answer = false, 0
	c.link.send(iosched.Join{Conn: c.link.id, App: c.app, User: c.user})
	if c.active {
		c.ask()
	}
}

func (c *client) ask() {
	c.number++
	n := c.left
	if c.jobs[0].unknown {
		n = -1
	}
	c.link.send(iosched.Ask{Conn: c.link.id, Burst: c.number, File: c.jobs[0].file, Offset: c.moved, Bytes: n})
}

func (c *client) next() {
	if len(c.jobs) == 0 {
		if c.link != nil {
			c.link.send(iosched.Leave{Conn: c.link.id})
			c.link = nil
		}
		c.dead = true
		return
	}
	c.s.after(c.jobs[0].think, func() { c.do(c.begin) })
}

// do runs something now, or when the process continues.
func (c *client) do(f func()) {
	switch {
	case c.dead:
	case c.stopped:
		c.inbox = append(c.inbox, f)
	default:
		f()
	}
}

func (c *client) begin() {
	c.active, c.moved, c.left = true, 0, c.jobs[0].bytes
	c.starts = append(c.starts, c.s.now)
	if c.link != nil {
		c.ask()
	}
	c.work()
}

// work starts the next operation if it may.
func (c *client) work() {
	if !c.active || c.underOp || c.stopped || c.dead || c.link != nil && !c.granted {
		return
	}
	if c.left == 0 {
		c.end()
		return
	}
	if c.jobs[0].meet && c.moved*2 >= c.jobs[0].bytes && !c.met() {
		if !c.jobs[0].quiet && c.link != nil {
			c.link.send(iosched.Idle{Conn: c.link.id, Burst: c.number})
		}
		return
	}
	n := min(c.left, c.jobs[0].op)
	c.underOp = true
	c.left -= n
	c.s.after(c.s.disk.serve(c.s.now, c.app, n)-c.s.now, func() { c.do(func() { c.operated(n) }) })
}

// met reports whether all ranks have come to the middle of this burst. The last
// one lets the others continue.
func (c *client) met() bool {
	c.reached = c.bursts + 1
	for _, d := range c.s.clients {
		if d.app == c.app && !d.excused && d.reached < c.reached {
			return false
		}
	}
	for _, d := range c.s.clients {
		if d.app == c.app && d != c && d.active && d.reached == c.reached && d.let < c.reached {
			d.let = c.reached
			c.s.after(c.s.between(0, ms), func() { d.do(d.work) })
		}
	}
	return true
}

// operated is called when an operation is over.
func (c *client) operated(n int64) {
	c.underOp = false
	c.moved += n
	c.served += n
	if c.link != nil {
		c.link.send(iosched.Progress{Conn: c.link.id, Burst: c.number, Bytes: n})
		if c.answer > 0 {
			c.link.send(iosched.Release{Conn: c.link.id, Burst: c.number, Turn: c.answer})
			c.answer = 0
		}
	}
	c.work()
	if c.active && c.left == 0 && !c.underOp {
		c.end()
	}
}

func (c *client) end() {
	if c.moved != c.jobs[0].bytes {
		c.s.fault("%s has moved %d bytes of %d", c.app, c.moved, c.jobs[0].bytes)
	}
	if c.link != nil {
		c.link.send(iosched.End{Conn: c.link.id, Burst: c.number})
	}
	c.met()
	c.active, c.granted, c.answer = false, false, 0
	c.jobs = c.jobs[1:]
	c.bursts++
	c.finishes = append(c.finishes, c.s.now)
	c.next()
}

// receive handles an action of the controller.
func (c *client) receive(l *link, x iosched.Action) {
	c.do(func() {
		if l != c.link || x.Burst != c.number || !c.active {
			return // for a burst that is over
		}
		switch x.Verb {
		case iosched.GrantTurn:
			c.granted, c.turn = true, x.Turn
			c.work()
		case iosched.RevokeTurn, iosched.EvictTurn:
			if x.Turn != c.turn {
				return
			}
			c.granted = false
			if c.underOp {
				c.answer = x.Turn
				return
			}
			c.link.send(iosched.Release{Conn: l.id, Burst: x.Burst, Turn: x.Turn})
		}
	})
}

// linkLost is how a client learns that its controller has died.
func (c *client) linkLost(l *link) {
	c.do(func() {
		if c.link == l {
			c.link, c.granted, c.answer = nil, false, 0
			c.work()
		}
	})
}

// kill ends the process. The controller learns of it if its host lives.
func (c *client) kill(hostLives bool) {
	if c.dead {
		return
	}
	c.dead, c.excused = true, true
	c.missed()
	if l := c.link; l != nil && hostLives {
		l.send(iosched.Leave{Conn: l.id})
	}
}

// missed lets the other ranks continue without this one.
func (c *client) missed() {
	for _, d := range c.s.clients {
		if d.app == c.app && d != c {
			c.s.after(50*ms, func() { d.do(d.work) })
		}
	}
}

// stop stops the process, for ever if d is 0.
func (c *client) stop(d time.Duration) {
	if c.dead || c.stopped {
		return
	}
	c.stopped = true
	if d == 0 {
		c.excused = true
		c.missed()
		return
	}
	c.s.after(d, func() {
		c.stopped = false
		if c.s.rng.IntN(2) == 0 {
			c.work() // before it reads that it was evicted
		}
		inbox := c.inbox
		c.inbox = nil
		for _, f := range inbox {
			c.do(f)
		}
	})
}
