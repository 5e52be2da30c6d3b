// Package live has a controller of requests (image/iosched) decide for the requests of goroutines,
// and of other processes, in real time:
//
//	u, err := live.New("/scratch", "mlf", live.Options{})
//	err = u.Move(&iosched.Request{App: "bt", File: "ckpt", Op: iosched.Write, Bytes: 1 << 20},
//		func(offset, bytes, behind int64) error { … })
//
// # Promises
//
//   - Each byte of a request is moved once, in one part or several, from front to back, or not at
//     all after an error (TestUnit).
//   - One part moves at a time. A part that takes longer than the lease, since its process is
//     stopped or has gone, holds others up no longer than that (TestLease).
//   - A client that is dropped leaves nothing behind (TestDrop).
//   - A request waits for others only while they wait or move: the unit is idle for an expected
//     one at most as long as the policy's own waits (iosched.MLFOptions, TestIdle).
//   - Under wsjf users move as many bytes, whatever the number of their applications (TestUsers).
package live

import (
	"time"

	"ckpt/image/iosched"
)

// A Part is what is to move now: bytes of a request. Behind is how many more bytes of the file are
// read next, by other requests that wait, and only with the first of them: the storage can get
// them all in one piece.
type Part struct {
	Request               *iosched.Request
	Offset, Bytes, Behind int64
	Number                uint64
}

// A desk hands out what a controller grants, one part at a time. It is a pure machine.
type desk struct {
	c     *iosched.Controller
	lease time.Duration
	queue []iosched.Grant // behind the part that moves
	moves bool
	part  Part
	since time.Duration
	last  uint64
	live  map[*iosched.Request]bool // whether the client has gone
	fresh func() (*iosched.Controller, error)
	adds  int
}

// mostAdds is after how many requests a controller gives way to a new one: it remembers each file.
const mostAdds = 1 << 16

func (d *desk) add(now time.Duration, r *iosched.Request) error {
	if d.adds >= mostAdds && len(d.live) == 0 {
		d.c, d.adds = nil, 0
	}
	if d.c == nil {
		c, err := d.fresh()
		if err != nil {
			return err
		}
		d.c = c
	}
	if err := d.c.Add(now, r); err != nil {
		return err
	}
	d.adds++
	d.live[r] = false
	return nil
}

// done says that a part has moved. One whose lease was over is forgotten already.
func (d *desk) done(now time.Duration, number uint64) {
	if d.moves && d.part.Number == number {
		d.finish(now)
	}
}

func (d *desk) finish(now time.Duration) {
	p := d.part
	d.moves, d.part = false, Part{}
	d.settle(now, iosched.Grant{Request: p.Request, Offset: p.Offset, Bytes: p.Bytes}, d.since)
}

func (d *desk) settle(now time.Duration, g iosched.Grant, began time.Duration) {
	d.c.Done(began, now, g)
	if g.End() == g.Request.End() {
		delete(d.live, g.Request)
	}
}

// drop forgets requests: what they are granted is over at once.
func (d *desk) drop(now time.Duration, list []*iosched.Request) {
	for _, r := range list {
		if _, ok := d.live[r]; ok {
			d.live[r] = true
		}
	}
	if d.moves && d.live[d.part.Request] {
		d.finish(now)
	}
}

// next returns the part that may begin now, or when to ask again; 0 says after the next call.
func (d *desk) next(now time.Duration) (p Part, ok bool, wake time.Duration) {
	for {
		if d.moves {
			if now-d.since < d.lease || !d.waits() {
				if d.waits() {
					wake = d.since + d.lease
				}
				return p, false, wake
			}
			d.finish(now)
		}
		if len(d.live) == 0 {
			return p, false, 0
		}
		var behind int64
		if len(d.queue) == 0 {
			grants, wake := d.c.Next(now)
			if len(grants) == 0 {
				return p, false, wake
			}
			d.queue = append(d.queue[:0], grants...)
			behind = readBehind(grants)
		}
		g := d.queue[0]
		d.queue = d.queue[1:]
		if d.live[g.Request] {
			d.settle(now, g, now)
			continue
		}
		d.last++
		d.part = Part{g.Request, g.Offset, g.Bytes, behind, d.last}
		d.moves, d.since = true, now
		return d.part, true, 0
	}
}

// readBehind returns how many bytes follow the first of the grants, in reads.
func readBehind(grants []iosched.Grant) int64 {
	end := grants[0].End()
	for _, g := range grants[1:] {
		if g.Request.Op != iosched.Read || g.Request.File != grants[0].Request.File || g.Offset != end {
			break
		}
		end = g.End()
	}
	return end - grants[0].End()
}

// waits reports whether a request waits beside the part that moves.
func (d *desk) waits() bool { return len(d.queue) > 0 || len(d.live) > 1 }
