// Package turns lets jobs and commands that share a storage unit use it one after the other.
// Serve is the controller of one unit: it listens on a Unix socket in the directory, and for
// other hosts on TCP. A Client is one process that moves bytes: it opens a burst with Begin,
// moves its bytes through Turn.FS, or after Await, and closes it with End. Package
// image/iosched decides whose turn it is.
//
// # Promises
//
//   - A Client never fails. Without a controller, and with one that died, does not
//     answer or speaks another version, all bytes pass at once, and Report.Passed says why.
//   - A client waits for a silent controller at most ClientOptions.Patience, and for a turn
//     at most ClientOptions.MaxWait.
//   - While a turn is granted, an operation costs one atomic addition and no message.
//   - A turn is given back only while no operation is under way.
//   - Messages to clients never block the controller, and none has a length that it trusts.
//   - On a Unix socket, the kernel says which user a client is, not the client.
package turns

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"ckpt/coordinator/wire"
	"ckpt/image/iosched"
)

// A controller gives out the turns of one storage unit.
type controller struct {
	o       ServeOptions
	info    Info
	access  access
	watcher *watcher
	workers sync.WaitGroup
	changed chan struct{} // the next decision may be due sooner

	mu      sync.Mutex
	arbiter *iosched.Arbiter
	clock   clock
	conns   map[iosched.Conn]*client
	last    iosched.Conn
	users   map[string]int // connections
	armed   time.Duration  // when the next decision is due
	idle    time.Duration  // since when there is no connection
	ended   bool
}

type client struct {
	id      iosched.Conn
	conn    net.Conn
	link    *link
	peer    peer
	hello   hello
	user    string
	counted bool // as a connection of user
	joined  bool
	bursts  int
	wants   wants
}

// A clock stands still while the process is stopped, when clients could not be heard.
type clock struct {
	began   time.Time
	last    time.Duration
	skipped time.Duration
	// most is how much time passes between two readings unless the process is stopped.
	most time.Duration
}

func (c *clock) now() time.Duration {
	t := time.Since(c.began)
	if gap := t - c.last; gap > 2*c.most {
		c.skipped += gap - c.most
	}
	c.last = t
	return t - c.skipped
}

func newController(unit string, o ServeOptions) (*controller, error) {
	a, err := iosched.NewArbiter(unit, o.Arbiter)
	if err != nil {
		return nil, err
	}
	return &controller{o: o, arbiter: a, conns: map[iosched.Conn]*client{}, users: map[string]int{},
		changed: make(chan struct{}, 1), clock: clock{began: time.Now(), most: o.Beat}}, nil
}

// serve takes connections until ctx is done or the controller was idle for long enough.
func (c *controller) serve(ctx context.Context, listeners []net.Listener) error {
	c.watcher = watch(c.o.Observer)
	defer c.watcher.end()
	i := c.info
	c.watcher.tell(Event{What: Serving, Dir: i.Dir, Policy: i.Policy, Address: i.Address})
	var accepting sync.WaitGroup
	for _, l := range listeners {
		accepting.Go(func() { wire.AcceptAll(l, c.take, helloTime, func(error) {}) })
	}
	why := c.decide(ctx)
	c.watcher.tell(Event{What: Ending, Text: why})
	closeAll(listeners)
	accepting.Wait()
	c.mu.Lock()
	c.ended = true
	for _, k := range c.conns {
		k.conn.Close()
	}
	c.mu.Unlock()
	c.workers.Wait()
	return nil
}

// decide has the arbiter decide when it is time, and gives signs of life.
func (c *controller) decide(ctx context.Context) (why string) {
	timer := time.NewTimer(c.o.Beat)
	defer timer.Stop()
	beat := c.o.Beat
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx).Error()
		case <-c.changed:
		case <-timer.C:
		}
		c.mu.Lock()
		_ = c.step(iosched.Tick{})
		now := c.clock.now()
		if now >= beat {
			beat = now + c.o.Beat
			c.beat()
		}
		if c.o.IdleExit > 0 && len(c.conns) == 0 && now-c.idle >= c.o.IdleExit {
			c.mu.Unlock()
			return fmt.Sprintf("idle for %v", c.o.IdleExit)
		}
		next := min(c.armed, beat)
		if c.o.IdleExit > 0 && len(c.conns) == 0 {
			next = min(next, c.idle+c.o.IdleExit)
		}
		c.mu.Unlock()
		timer.Reset(max(next-now, time.Millisecond))
	}
}

// beat tells clients with bursts that the controller lives. One that does not read gets nothing
// more. The caller holds mu.
func (c *controller) beat() {
	for _, k := range c.conns {
		if (k.bursts > 0 || k.wants.waiting()) && !k.link.Blocked() {
			k.link.send(&alive{})
		}
	}
}

func (c *controller) step(e iosched.Event) error {
	actions, err := c.arbiter.Step(c.clock.now(), e)
	for _, a := range actions {
		k := c.conns[a.Conn]
		if k == nil {
			continue
		}
		what := ""
		switch a.Verb {
		case iosched.GrantTurn:
			k.link.send(&granted{a.Burst, a.Turn})
			what = Granted
		case iosched.RevokeTurn:
			k.link.send(&revoked{a.Burst, a.Turn})
			what = Revoking
		case iosched.EvictTurn:
			k.link.send(&evicted{a.Burst, a.Turn})
			what = Evicted
		}
		c.tell(k, Event{What: what})
	}
	due, ok := c.arbiter.Wake()
	if !ok {
		due = math.MaxInt64
	}
	if due < c.armed {
		select {
		case c.changed <- struct{}{}:
		default:
		}
	}
	c.armed = due
	return err
}

func (c *controller) tell(k *client, e Event) {
	e.App, e.User, e.PID = k.hello.App, k.user, k.peer.pid
	if e.App != "" {
		rank := int(k.hello.Rank)
		e.Rank = &rank
	}
	c.watcher.tell(e)
}

// handle handles a message of a client. After an error the connection ends.
func (c *controller) handle(k *client, m message) error {
	switch m := m.(type) {
	case *want:
		return c.want(k, m)
	case *moved:
		return c.moved(k, m)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch m := m.(type) {
	case *ask:
		if !k.joined {
			err := c.step(iosched.Join{Conn: k.id, App: k.hello.App, User: k.user, Rank: int(k.hello.Rank), Weight: k.hello.Weight})
			if err != nil {
				return err
			}
			k.joined = true
			c.tell(k, Event{What: Joined})
		}
		k.bursts++
		return c.step(iosched.Ask{Conn: k.id, Burst: m.Burst, Kind: m.Kind, File: m.File, Offset: m.Offset, Bytes: m.Bytes, Whole: m.Whole})
	case *progress:
		return c.step(iosched.Progress{Conn: k.id, Burst: m.Burst, Bytes: int64(min(m.Bytes, math.MaxInt64))})
	case *idle:
		return c.step(iosched.Idle{Conn: k.id, Burst: m.Burst})
	case *release:
		return c.step(iosched.Release{Conn: k.id, Burst: m.Burst, Turn: m.Turn})
	case *end:
		k.bursts--
		return c.step(iosched.End{Conn: k.id, Burst: m.Burst})
	case *alive:
		if k.joined {
			return c.step(iosched.Alive{Conn: k.id})
		}
		return nil
	case *status:
		return c.report(k)
	}
	return errors.New("unexpected message")
}

func (c *controller) report(k *client) error {
	s := Status{c.arbiter.Status(c.clock.now()), c.info.Host, c.info.PID, c.info.Address}
	for {
		b, err := json.Marshal(s)
		if err != nil {
			return err
		}
		if len(b) <= maxReport-16 {
			k.link.send(&report{string(b)})
			return nil
		}
		s.Apps = s.Apps[:len(s.Apps)/2] // the newest come first
	}
}

// An Observer gets the events of a controller, one after the other. While it is slow, events are
// left out.
type Observer interface{ Observe(Event) }

const (
	Serving  = "serving"  // the controller listens
	Joined   = "joined"   // a client asks for its first turn
	Refused  = "refused"  // a connection, for the reason in Text
	Left     = "left"     // a client that had asked for turns
	Granted  = "granted"  // a burst has the turn
	Revoking = "revoking" // a burst is to give its turn back
	Evicted  = "evicted"  // a burst lost its turn, since its client was silent or too slow
	Omitted  = "omitted"  // Text says how many events were left out
	Ending   = "ending"   // for the reason in Text
)

// An Event is something that happened in a controller.
type Event struct {
	What string    `json:"type"` // Serving, Joined, ...
	Time time.Time `json:"time"`
	// Dir, Policy and Address are the controller's, in Serving.
	Dir     string `json:"dir,omitempty"`
	Policy  string `json:"policy,omitempty"`
	Address string `json:"address,omitempty"`
	// App, User, Rank and PID name the client, as far as it is known.
	App  string `json:"name,omitempty"`
	User string `json:"user,omitempty"`
	Rank *int   `json:"rank,omitempty"`
	PID  int    `json:"pid,omitempty"`
	Text string `json:"reason,omitempty"`
}

// A watcher passes events on without waiting.
type watcher struct {
	events  chan Event
	omitted atomic.Int64
	done    chan struct{}
}

// watch starts to pass events on; to may be nil.
func watch(to Observer) *watcher {
	w := &watcher{events: make(chan Event, 256), done: make(chan struct{})}
	go func() {
		defer close(w.done)
		for e := range w.events {
			if to != nil {
				to.Observe(e)
			}
		}
	}()
	return w
}

func (w *watcher) tell(e Event) {
	e.Time = time.Now().UTC()
	if n := w.omitted.Swap(0); n > 0 {
		w.put(Event{Time: e.Time, What: Omitted, Text: fmt.Sprintf("%d events", n)}, n)
	}
	w.put(e, 1)
}

func (w *watcher) put(e Event, n int64) {
	select {
	case w.events <- e:
	default:
		w.omitted.Add(n)
	}
}

func (w *watcher) end() {
	close(w.events)
	<-w.done
}
