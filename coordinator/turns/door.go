package turns

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"ckpt/image/iosched"
	"ckpt/image/iosched/live"
	"ckpt/internal/vfs"
)

// A Door has the requests of a mount ordered by the controller of the storage unit of a directory.
// Where there is none, the process of the door becomes it. A request fails for no reason of the
// door: without a controller it moves at once.
type Door struct {
	dir  string
	o    DoorOptions
	ctx  context.Context
	end  context.CancelFunc
	work sync.WaitGroup

	mu    sync.Mutex
	own   *live.Unit // of this process, or nil
	other *requests  // of another, or nil
	busy  bool       // it looks for one
	again time.Time  // when to look again
}

const (
	lookAgain = time.Second
	lookTime  = 5 * time.Second
)

// DoorOptions say how a door works where its process becomes the controller.
type DoorOptions struct {
	Policy string
	// Listen is HOST or HOST:PORT for doors on other hosts; "" for this host only.
	Listen string
	// Told gets a line when the controller changes.
	Told func(line string)
}

// NewDoor returns a door to the storage unit of a directory.
func NewDoor(dir string, o DoorOptions) (*Door, error) {
	u, err := live.New(dir, o.Policy, live.Options{})
	if err != nil {
		return nil, err
	}
	u.Close()
	if o.Listen != "" {
		if _, err := listenAddress(o.Listen); err != nil {
			return nil, err
		}
	}
	d := &Door{dir: dir, o: o}
	d.ctx, d.end = context.WithCancel(context.Background())
	d.look()
	return d, nil
}

// Close ends the door, and the controller if it is this process.
func (d *Door) Close() {
	d.end()
	d.work.Wait()
}

// Move moves the bytes of a request when the controller says so. move also gets what Part.Behind of
// package live says.
func (d *Door) Move(r *iosched.Request, move func(offset, bytes, behind int64) error) error {
	d.mu.Lock()
	own, other := d.own, d.other
	if own == nil && other == nil && !d.busy && time.Now().After(d.again) && d.ctx.Err() == nil {
		d.busy = true
		d.work.Go(d.look)
	}
	d.mu.Unlock()
	switch {
	case own != nil:
		return own.Move(r, move)
	case other != nil:
		return other.Move(r, move)
	}
	return move(r.Offset, r.Bytes, 0)
}

// look finds a controller, or becomes it.
func (d *Door) look() {
	err := d.join()
	if errors.Is(err, ErrNone) || errors.Is(err, errDied) {
		if err = d.serve(); errors.Is(err, ErrServed) {
			err = d.join()
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.busy, d.again = false, time.Now().Add(lookAgain)
	if err != nil && d.ctx.Err() == nil {
		d.o.Told(fmt.Sprintf("requests are not ordered: %v", err))
	}
}

// join connects to a controller.
func (d *Door) join() error {
	ctx, cancel := context.WithTimeout(d.ctx, lookTime)
	defer cancel()
	info, err := Find(vfs.OS{}, d.dir)
	if err != nil {
		return err
	}
	conn, err := dial(ctx, info)
	if err != nil {
		return fmt.Errorf("%w: %w", errDied, err)
	}
	l, _, err := greet(ctx, conn, info, Who{App: "mount", User: UserName(uint32(os.Getuid()))})
	if err != nil {
		return err
	}
	other := &requests{link: l, inboxes: make(map[uint64]func(live.Part))}
	d.mu.Lock()
	d.other = other
	d.mu.Unlock()
	d.o.Told(fmt.Sprintf("process %d on host %s orders requests, by policy %s", info.PID, info.Host, cmp.Or(info.Requests, info.Policy)))
	d.work.Go(func() {
		stop := context.AfterFunc(d.ctx, l.Drop)
		defer stop()
		why := other.read()
		d.mu.Lock()
		d.other = nil
		d.mu.Unlock()
		other.pass()
		l.end()
		if d.ctx.Err() == nil {
			d.o.Told(why.Error())
		}
	})
	return nil
}

// serve becomes the controller. It returns when that serves.
func (d *Door) serve() error {
	u, err := live.New(d.dir, d.o.Policy, live.Options{})
	if err != nil {
		return err
	}
	ready, failed := make(chan struct{}), make(chan error, 1)
	d.work.Go(func() {
		err := Serve(d.ctx, d.dir, ServeOptions{Unit: u, Listen: d.o.Listen, Arbiter: iosched.TurnOptions{Policy: turnPolicyOf(d.o.Policy)}, Observer: herald{ready}})
		d.mu.Lock()
		d.own = nil
		d.mu.Unlock()
		failed <- err
	})
	select {
	case <-ready:
	case err := <-failed:
		return err
	}
	d.mu.Lock()
	d.own = u
	d.mu.Unlock()
	d.o.Told(fmt.Sprintf("this process orders requests, by policy %s", d.o.Policy))
	return nil
}

// turnPolicyOf is the policy of turns beside one of requests.
func turnPolicyOf(requests string) string {
	for _, name := range iosched.TurnPolicies() {
		if name == requests {
			return name
		}
	}
	return iosched.DefaultPolicy
}

// A herald closes a channel when a controller serves.
type herald struct{ ready chan struct{} }

func (h herald) Observe(e Event) {
	if e.What == Serving {
		close(h.ready)
	}
}

// requests are those of a mount at another process's controller.
type requests struct {
	link *link

	mu      sync.Mutex
	last    uint64
	inboxes map[uint64]func(live.Part) // nil once there is no controller
}

func (q *requests) Move(r *iosched.Request, move func(offset, bytes, behind int64) error) error {
	var id uint64
	ask := func(grant func(live.Part)) error {
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.inboxes == nil {
			return errDied
		}
		q.last++
		id = q.last
		q.inboxes[id] = grant
		m := &want{ID: id, App: r.App, User: r.User, File: r.File, Rank: uint64(max(0, r.Rank)), Offset: r.Offset, Bytes: r.Bytes}
		if r.Op == iosched.Write {
			m.Write = 1
		}
		q.link.send(m)
		return nil
	}
	defer func() {
		q.mu.Lock()
		delete(q.inboxes, id)
		q.mu.Unlock()
	}()
	return live.Parts(r, move, ask, func(p live.Part) {
		if p.Request != nil {
			q.link.send(&moved{p.Number})
		}
	})
}

// read passes parts on until the connection ends or the controller is silent while requests wait.
func (q *requests) read() error {
	watch := time.NewTicker(defaultPatience / 5)
	defer watch.Stop()
	heard, frames, failed := time.Now(), make(chan message), make(chan error, 1)
	over := make(chan struct{})
	defer close(over)
	go func() {
		for {
			m, err := readFrame(q.link.r, maxReport)
			if err != nil {
				failed <- err
				return
			}
			select {
			case frames <- m:
			case <-over:
				return
			}
		}
	}()
	for {
		select {
		case m := <-frames:
			heard = time.Now()
			if p, ok := m.(*portion); ok {
				q.mu.Lock()
				grant := q.inboxes[p.ID]
				q.mu.Unlock()
				if grant != nil && p.Bytes > 0 {
					grant(live.Part{Request: remote, Offset: p.Offset, Bytes: p.Bytes, Behind: p.Behind, Number: p.Number})
				}
			}
		case err := <-failed:
			return fmt.Errorf("%w: %w", errDied, err)
		case now := <-watch.C:
			q.mu.Lock()
			waiting := len(q.inboxes) > 0
			q.mu.Unlock()
			switch {
			case !waiting:
				heard = now
			case now.Sub(heard) > defaultPatience:
				q.link.Drop()
				return errSilent
			}
		}
	}
}

// remote stands for a request that another process knows.
var remote = new(iosched.Request)

// pass lets all requests move that wait for parts.
func (q *requests) pass() {
	q.mu.Lock()
	waiting := q.inboxes
	q.inboxes = nil
	q.mu.Unlock()
	for _, grant := range waiting {
		grant(live.Part{})
	}
}
