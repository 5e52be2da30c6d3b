package iosched

import (
	"fmt"
	"time"
)

// Controller decides for one storage unit: its clients hand it their requests, and it
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

// A Client is who hands in requests: the server of a file system, a job.
type Client struct {
	name    string
	control *Controller
	process func([]Grant)
}

// NewController returns the controller of a storage unit.
func NewController(unit string, p Policy) *Controller {
	c := &Controller{unit: unit, policy: p, files: make(map[string]*file), stats: newCounters()}
	c.waiter, _ = p.(Waiter)
	return c
}

// Unit returns the name of the storage unit.
func (c *Controller) Unit() string { return c.unit }

// Policy returns the policy.
func (c *Controller) Policy() Policy { return c.policy }

// Len is how many requests wait or are being served.
func (c *Controller) Len() int { return c.len }

// Held is how many requests wait for others that they overlap.
func (c *Controller) Held() int { return c.held }

// Register adds a client. [Controller.Dispatch] calls process with the grants of its
// requests; a client without process is served by who calls [Controller.Next].
func (c *Controller) Register(name string, process func([]Grant)) *Client {
	return &Client{name: name, control: c, process: process}
}

// Name returns the name of the client.
func (c *Client) Name() string { return c.name }

// Add hands in a request. It belongs to the controller until all its bytes are done.
func (c *Client) Add(now time.Duration, r *Request) error { return c.control.add(now, r, c) }

// Add hands in a request of no client.
func (c *Controller) Add(now time.Duration, r *Request) error { return c.add(now, r, nil) }

func (c *Controller) add(now time.Duration, r *Request, from *Client) error {
	if err := r.check(); err != nil {
		return err
	}
	if r.pending.file != nil {
		return fmt.Errorf("request %d of file %q was not done before it was added again (want another Request)", r.Seq, r.File)
	}
	c.advance(now)
	c.seq++
	c.len++
	r.Seq, r.Arrival, r.client = c.seq, c.now, from
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

// Dispatch is Next for clients that registered a function: it calls each with its
// grants, in the order in which they are to be served, and returns how many there
// were.
func (c *Controller) Dispatch(now time.Duration) (n int, wake time.Duration) {
	grants, wake := c.Next(now)
	n = len(grants)
	for len(grants) > 0 {
		to, k := grants[0].Request.client, 1
		for k < len(grants) && grants[k].Request.client == to {
			k++
		}
		if to != nil && to.process != nil {
			to.process(grants[:k:k])
		}
		grants = grants[k:]
	}
	return n, wake
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
