package iosched

import (
	"fmt"
	"math"
	"time"
)

// An Expected burst is one that Predict is asked about.
type Expected struct {
	App, User string
	Arrival   time.Duration
	// Alone is how long it takes with the unit to itself.
	Alone time.Duration
	// Bytes is what the policy knows of its length; below 0: nothing.
	Bytes int64
}

// A Cost is what sharing a unit costs.
type Cost struct {
	// Switch is the time between two turns, in which the unit does nothing:
	// the operation under way, messages, the first seek.
	Switch time.Duration
	// Together is the part of its rate that the unit has left while several
	// applications use it at once; 0 is 1: they share it without loss.
	Together float64
}

// A Flow is what becomes of an Expected burst.
type Flow struct {
	// Began is when it was first granted, Finish when its last byte was moved.
	Began, Finish time.Duration
	// Flow is Finish without Arrival; Stretch is Flow over Alone.
	Flow    time.Duration
	Stretch float64
	// Turns is how often it was granted.
	Turns int
}

// horizon is how long nothing may happen in a prediction.
const horizon = 1 << 60

// Predict runs bursts through an Arbiter on a virtual clock, and returns their
// flow times in the same order. Bursts of one application that overlap have
// their turns together and share the rate of the unit.
func Predict(o TurnOptions, c Cost, bursts []Expected) ([]Flow, error) {
	if c.Together == 0 {
		c.Together = 1
	}
	if !(c.Together > 0 && c.Together <= 1) || c.Switch < 0 {
		return nil, fmt.Errorf("cost of sharing is %v per turn and a rate of %v, want 0 or more and a part of 1", c.Switch, c.Together)
	}
	o.Lease, o.Grace = horizon, horizon // Every client lives here.
	o.MaxConns, o.MaxBursts = math.MaxInt, math.MaxInt
	a, err := NewArbiter("predicted", o)
	if err != nil {
		return nil, err
	}
	f := &forecast{a: a, cost: c}
	for i, b := range bursts {
		if b.Alone < 0 || b.Arrival < 0 || b.Alone > horizon || b.Arrival > horizon {
			return nil, fmt.Errorf("burst %d of %q arrives at %v and takes %v, want 0 or more", i, b.App, b.Arrival, b.Alone)
		}
		f.bursts = append(f.bursts, &expected{Expected: b, left: float64(b.Alone)})
	}
	if err := f.run(); err != nil {
		return nil, err
	}
	flows := make([]Flow, len(bursts))
	for i, b := range f.bursts {
		b.flow.Flow = b.flow.Finish - b.Arrival
		b.flow.Stretch = 1
		if b.Alone > 0 {
			b.flow.Stretch = float64(b.flow.Flow) / float64(b.Alone)
		}
		flows[i] = b.flow
	}
	return flows, nil
}

type expected struct {
	Expected
	left    float64 // nanoseconds alone
	told    int64   // bytes that the Arbiter knows to be moved
	arrived bool
	granted bool
	over    bool
	flow    Flow
}

// A forecast is the state of a prediction.
type forecast struct {
	a      *Arbiter
	cost   Cost
	now    time.Duration
	busy   time.Duration // until when the unit is occupied by a change of turns
	last   string        // application that had the unit
	bursts []*expected
}

func (f *forecast) run() error {
	for {
		at, ok := f.nextTime()
		if !ok {
			return nil
		}
		f.move(at)
		for i, b := range f.bursts {
			if err := f.handle(i, b); err != nil {
				return err
			}
		}
		if err := f.step(Tick{}); err != nil {
			return err
		}
	}
}

// nextTime returns when something happens next.
func (f *forecast) nextTime() (at time.Duration, ok bool) {
	at = math.MaxInt64
	n := f.sharing()
	for _, b := range f.bursts {
		switch {
		case b.over:
		case !b.arrived:
			at, ok = min(at, max(b.Arrival, f.now)), true
		case b.granted:
			finish := max(f.now, f.busy) + time.Duration(math.Ceil(b.left/n))
			// Progress is reported several times per window.
			at, ok = min(at, finish, max(f.now, f.busy)+f.a.o.Window/4+1), true
		default:
			ok = true
		}
	}
	if wake, due := f.a.Wake(); due && ok {
		at = min(at, max(wake, f.now))
	}
	return at, ok && at < math.MaxInt64
}

// sharing returns the part of the unit that each granted burst has.
func (f *forecast) sharing() float64 {
	n, apps := 0, map[[2]string]bool{}
	for _, b := range f.bursts {
		if b.granted {
			n++
			apps[[2]string{b.User, b.App}] = true
		}
	}
	if n == 0 {
		return 1
	}
	if len(apps) > 1 {
		return f.cost.Together / float64(n)
	}
	return 1 / float64(n)
}

// move lets the granted bursts move their bytes until a time.
func (f *forecast) move(at time.Duration) {
	n := f.sharing()
	passed := max(0, float64(at-max(f.now, f.busy)))
	for _, b := range f.bursts {
		if b.granted {
			b.left -= passed * n
		}
	}
	f.now = max(f.now, at)
}

func (f *forecast) handle(i int, b *expected) error {
	id := Conn(i)
	switch {
	case b.over:
	case !b.arrived && b.Arrival <= f.now:
		b.arrived = true
		if err := f.step(Join{Conn: id, App: b.App, User: b.User}); err != nil {
			return err
		}
		return f.step(Ask{Conn: id, Burst: 1, Bytes: b.Bytes})
	case b.granted:
		if err := f.tell(id, b); err != nil || b.left >= 1 {
			return err
		}
		b.over, b.granted, b.flow.Finish = true, false, f.now
		if err := f.step(End{Conn: id, Burst: 1}); err != nil {
			return err
		}
		return f.step(Leave{Conn: id})
	}
	return nil
}

// tell reports the progress of a burst.
func (f *forecast) tell(id Conn, b *expected) error {
	total := float64(b.Bytes)
	if b.Bytes < 0 {
		total = b.Alone.Seconds() * defaultRate
	}
	moved := int64(total)
	if b.Alone > 0 {
		moved = int64(total * (1 - max(0, b.left)/float64(b.Alone)))
	}
	n := max(0, moved-b.told)
	b.told += n
	return f.step(Progress{Conn: id, Burst: 1, Bytes: n})
}

// step passes an event on and does what the Arbiter says.
func (f *forecast) step(e Event) error {
	queue := []Event{e}
	for len(queue) > 0 {
		actions, err := f.a.Step(f.now, queue[0])
		if err != nil {
			return err
		}
		queue = queue[1:]
		for _, x := range actions {
			b := f.bursts[x.Conn]
			switch x.Verb {
			case GrantTurn:
				f.granted(b)
			case RevokeTurn:
				b.granted = false
				queue = append(queue, Release{Conn: x.Conn, Burst: x.Burst, Turn: x.Turn})
			case EvictTurn:
				return fmt.Errorf("a burst of %q was evicted in a prediction", b.App)
			}
		}
	}
	return nil
}

func (f *forecast) granted(b *expected) {
	b.granted = true
	b.flow.Turns++
	if b.flow.Turns == 1 {
		b.flow.Began = f.now
	}
	if app := b.User + "\x00" + b.App; app != f.last {
		if f.last != "" && f.a.policy.cost != nil {
			f.busy = max(f.busy, f.now) + f.cost.Switch
		}
		f.last = app
	}
}
