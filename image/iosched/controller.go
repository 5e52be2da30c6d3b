package iosched

import (
	"fmt"
	"time"
)

// Controller decides for one storage unit: applications hand it their requests, and it
// says what the unit serves next. It chooses by a [Policy], but keeps the order of
// requests that overlap if one of them is a write. It is not for use by several
// goroutines at once.
type Controller struct {
	unit   string
	policy Policy
	waiter Waiter // nil if the policy never waits
	now    time.Duration
	seq    uint64
	len    int // requests with bytes that are not done
	held   int // of these, requests that wait for others that they overlap
	files  map[string]*file
	found  []*Request
	stats  counters
}

// NewController returns the controller of a storage unit.
func NewController(unit string, p Policy) *Controller {
	c := &Controller{unit: unit, policy: p, files: make(map[string]*file), stats: newCounters()}
	c.waiter, _ = p.(Waiter)
	return c
}

// Len is how many requests wait or are being served.
func (c *Controller) Len() int { return c.len }

// Add hands in a request. It belongs to the controller until all its bytes are done.
func (c *Controller) Add(now time.Duration, r *Request) error {
	if err := r.check(); err != nil {
		return err
	}
	if r.pending.file != nil {
		return fmt.Errorf("request %d of file %q was not done before it was added again (want another Request)", r.Seq, r.File)
	}
	c.advance(now)
	c.seq++
	c.len++
	r.Seq, r.Arrival = c.seq, c.now
	r.pending = pending{file: c.file(r.File), waiters: r.pending.waiters[:0]}
	c.stats.arrived(r)
	if c.order(r) {
		c.policy.Add(c.now, r)
	} else {
		c.held++
	}
	return nil
}

// advance keeps the clock from running backwards.
func (c *Controller) advance(now time.Duration) { c.now = max(c.now, now) }

func (c *Controller) file(name string) *file {
	f := c.files[name]
	if f == nil {
		f = &file{}
		c.files[name] = f
	}
	return f
}

// Next returns what the unit serves now, in that order, one after the other. The slice
// is valid until the next call. Without grants, nothing waits that can be served
// before a [Controller.Done]; or, if wake is more than 0, the unit stays idle until
// then or until the next Add.
func (c *Controller) Next(now time.Duration) (grants []Grant, wake time.Duration) {
	c.advance(now)
	grants, wake = c.policy.Next(c.now)
	switch {
	case len(grants) > 0:
		c.stats.granted(c.now, grants)
	case wake > 0 && c.waiter != nil:
		c.stats.waits(c.now, c.waiter.Waiting())
	}
	return grants, wake
}

// Done says that the unit has served a grant between began and now.
func (c *Controller) Done(began, now time.Duration, g Grant) {
	c.advance(now)
	r := g.Request
	c.stats.served(began, now, g)
	c.policy.Done(began, now, g)
	if r.pending.done += g.Bytes; r.pending.done < r.Bytes {
		return
	}
	c.len--
	f := c.stats.of(r.File, r.Op)
	f.Longest = max(f.Longest, c.now-r.Arrival)
	c.release(r)
}

// file has the requests of a file that are not done and that later ones may overlap.
type file struct {
	requests tree[*Request]
}

// pending is what the controller knows of a request until it is done.
type pending struct {
	span     node[*Request]
	file     *file // nil if the request is not here
	indexed  bool
	done     int64
	blockers int        // earlier requests that must be done before this one
	waiters  []*Request // later ones that must wait for this one
}

// order has r wait for the earlier requests that it overlaps, unless all of them
// read. It reports whether the policy may have r now.
func (c *Controller) order(r *Request) bool {
	f := r.pending.file
	c.found = overlapping(f.requests.root, r.Offset, r.End(), c.found[:0])
	for _, earlier := range c.found {
		if r.Op == Read && earlier.Op == Read {
			continue
		}
		earlier.pending.waiters = append(earlier.pending.waiters, r)
		r.pending.blockers++
		// Whatever overlaps the earlier one from now on overlaps this write, and
		// waits for it. So a block that is written often stays cheap.
		if r.Op == Write && r.Offset <= earlier.Offset && earlier.End() <= r.End() {
			f.remove(earlier)
		}
	}
	f.requests.insert(&r.pending.span, spanKey(r), r.End(), r)
	r.pending.indexed = true
	return r.pending.blockers == 0
}

func spanKey(r *Request) key { return key{offset: r.Offset, seq: r.Seq} }

func (f *file) remove(r *Request) {
	if r.pending.indexed {
		f.requests.remove(spanKey(r))
		r.pending.indexed = false
	}
}

// release lets go of a request that is done, and gives the policy those that waited
// for nothing else.
func (c *Controller) release(r *Request) {
	r.pending.file.remove(r)
	r.pending.file = nil
	for i, later := range r.pending.waiters {
		r.pending.waiters[i] = nil
		if later.pending.blockers--; later.pending.blockers == 0 {
			c.held--
			c.policy.Add(c.now, later)
		}
	}
	r.pending.waiters = r.pending.waiters[:0]
}
