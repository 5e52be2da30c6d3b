package live

import (
	"cmp"
	"sync"
	"time"

	"ckpt/image/iosched"
)

// DefaultLease is how long one part may hold the others up.
const DefaultLease = 5 * time.Second

// Options are the settings of a unit. Zero values are defaults.
type Options struct {
	Lease  time.Duration
	Policy iosched.Options
}

// A Unit is a storage unit whose requests move one after the other.
type Unit struct {
	policy string
	began  time.Time

	mu    sync.Mutex
	desk  desk
	timer *time.Timer
}

// New returns a unit with a policy of iosched.Names.
func New(name, policy string, o Options) (*Unit, error) {
	u := &Unit{policy: policy, began: time.Now(), desk: desk{lease: cmp.Or(o.Lease, DefaultLease), live: make(map[*iosched.Request]bool)}}
	u.desk.fresh = func() (*iosched.Controller, error) {
		p, err := iosched.New(policy, o.Policy)
		if err != nil {
			return nil, err
		}
		return iosched.NewController(name, p), nil
	}
	if _, err := u.desk.fresh(); err != nil {
		return nil, err
	}
	u.timer = time.AfterFunc(time.Hour, u.tick)
	return u, nil
}

// Policy returns the name of the policy.
func (u *Unit) Policy() string { return u.policy }

func (u *Unit) now() time.Duration { return time.Since(u.began) }

func (u *Unit) tick() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.goOn(u.now())
}

// goOn hands out what may move now. The caller holds mu.
func (u *Unit) goOn(now time.Duration) {
	p, ok, wake := u.desk.next(now)
	if ok {
		p.Request.Data.(func(Part))(p)
		_, _, wake = u.desk.next(now) // when the lease is over
	}
	if wake > 0 {
		u.timer.Reset(max(wake-now, 0))
	}
}

// Ask hands a request in. grant gets each part of it when it may move; it must return at once. The
// caller says Done after each.
func (u *Unit) Ask(r *iosched.Request, grant func(Part)) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := u.now()
	r.Data = grant
	if err := u.desk.add(now, r); err != nil {
		return err
	}
	u.goOn(now)
	return nil
}

// Done says that a part has moved.
func (u *Unit) Done(number uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := u.now()
	u.desk.done(now, number)
	u.goOn(now)
}

// Drop forgets requests whose client has gone. They must have been asked for and not be done.
func (u *Unit) Drop(list []*iosched.Request) {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := u.now()
	u.desk.drop(now, list)
	u.goOn(now)
}

// Move moves the bytes of a request when the policy says so, and returns the first error of move.
// A request that no controller takes moves at once. move also gets what Part.Behind says.
func (u *Unit) Move(r *iosched.Request, move func(offset, bytes, behind int64) error) error {
	return Parts(r, move, func(grant func(Part)) error { return u.Ask(r, grant) }, func(p Part) { u.Done(p.Number) })
}

// Parts moves a request that ask hands in, and says done after each part. A part without a request
// is all that is left: there is no controller any more.
func Parts(r *iosched.Request, move func(offset, bytes, behind int64) error, ask func(grant func(Part)) error, done func(Part)) error {
	offset, left := r.Offset, r.Bytes // r is another's once it is done
	in := inbox{ready: make(chan struct{}, 1)}
	if ask(in.put) != nil {
		return move(offset, left, 0)
	}
	var err error
	for left > 0 {
		p := in.take()
		if p.Request == nil || p.Offset != offset || p.Bytes < 1 || p.Bytes > left {
			p.Offset, p.Bytes, p.Behind = offset, left, 0
		}
		if err == nil {
			err = move(p.Offset, p.Bytes, p.Behind)
		}
		left -= p.Bytes
		offset += p.Bytes
		done(p)
	}
	return err
}

// An inbox holds the parts of one request. More than one is in it only if leases were over.
type inbox struct {
	ready chan struct{}
	mu    sync.Mutex
	parts []Part
}

func (in *inbox) put(p Part) {
	in.mu.Lock()
	in.parts = append(in.parts, p)
	in.mu.Unlock()
	select {
	case in.ready <- struct{}{}:
	default:
	}
}

func (in *inbox) take() Part {
	for {
		in.mu.Lock()
		if len(in.parts) > 0 {
			p := in.parts[0]
			in.parts = in.parts[1:]
			in.mu.Unlock()
			return p
		}
		in.mu.Unlock()
		<-in.ready
	}
}

// Close ends the clock. No request may wait.
func (u *Unit) Close() { u.timer.Stop() }
