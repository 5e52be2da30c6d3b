package turns

import (
	"fmt"
	"sync/atomic"
	"time"
)

// An Observer gets the events of a controller, one after the other. While it is slow,
// events are left out; the controller does not wait for it.
type Observer interface{ Observe(Event) }

// Kinds of events.
const (
	Serving  = "serving"  // the controller listens; Info says where
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
	Time time.Time
	What string // Serving, Joined, ...
	// App, User, Rank and PID name the client, as far as it is known.
	App, User string
	Rank, PID int
	Burst     uint64
	Info      *Info // of Serving, without its token
	Text      string
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
	e.Time = time.Now()
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
