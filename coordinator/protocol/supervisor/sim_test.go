package supervisor

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"ckpt/coordinator/protocol"
	"ckpt/coordinator/protocol/channel"
)

// world is a seeded simulation of a job of groups: virtual time; processes that
// run small programs over the endpoints of package channel and the members of
// package protocol; connections, logs and a store with random delays; a
// coordinator that carries out what a Supervisor says; and faults. It checks the
// promises of the package as it goes along and at the end.
type world struct {
	seed   uint64
	rng    *rand.Rand
	mutant *mutant
	now    time.Duration
	todo   eventHeap
	seq    int
	steps  int

	// The job.
	ranks, iterations int
	log               channel.Kind
	async             bool
	limits            protocol.Limits
	cfg               Config // of a new job
	program           *program
	groups            []*simGroup
	at                []place // by rank

	// The faults.
	until     time.Duration // when they end
	diskFails bool
	lazy      time.Duration // how long an optimistic log may take
	chatty    bool          // what a peer has is sent to it again
	hangs     int
	trigger   int // faults at the action that brings this to 0
	onAction  func()
	tender    int // faults left that happen just before one of the turns of a recovery

	disk  disk
	procs map[string]*proc // by address
	all   []*proc

	// The coordinator of the moment.
	sup     *Supervisor
	epoch   int
	tick    time.Duration
	storing map[int]int // group to the number it drains for or stores
	ended   bool        // the job has completed
	outcome *protocol.Outcome
	watch   func(Action) // told of each action; may be nil
	checker
}

// simGroup is what the driver knows of a group.
type simGroup struct {
	id          int
	ranks       []int
	incarnation int
	from        int
	line        []uint64
	procs       []*proc
	live        bool // told to start in this incarnation
	excuse      bool // to be restarted: something of it failed
}

type simEvent struct {
	at  time.Duration
	seq int
	do  func()
}

type eventHeap []simEvent

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	if h[i].at != h[j].at {
		return h[i].at < h[j].at
	}
	return h[i].seq < h[j].seq
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(x any)   { *h = append(*h, x.(simEvent)) }
func (h *eventHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	old[len(old)-1].do = nil
	*h = old[:len(old)-1]
	return x
}

// A violation ends a simulation.
type violation struct{ text string }

func (w *world) failf(format string, args ...any) {
	panic(violation{fmt.Sprintf("at %v: ", w.now) + fmt.Sprintf(format, args...)})
}

func (w *world) after(d time.Duration, do func()) {
	w.seq++
	heap.Push(&w.todo, simEvent{w.now + d, w.seq, do})
}

func (w *world) upTo(d time.Duration) time.Duration {
	return time.Duration(w.rng.Uint64N(uint64(d) + 1))
}

func (w *world) diskErrors() bool { return w.diskFails && w.now < w.until }

// place is where a rank is: its group, and its number in there.
type place struct{ group, local int }

func (w *world) groupOf(rank int) *simGroup { return w.groups[w.at[rank].group] }
func (w *world) localOf(rank int) int       { return w.at[rank].local }

func (w *world) endpointConfig(rank int) channel.Config {
	return channel.Config{Kind: w.log, Rank: rank, Size: w.ranks, Group: w.groupOf(rank).ranks}
}

func (w *world) event(ev Event) {
	if w.sup == nil || w.outcome != nil {
		return
	}
	w.perform(w.sup.Step(w.now, ev))
}

// perform carries the actions out, unless the coordinator dies on the way.
func (w *world) perform(acts []Action) {
	epoch := w.epoch
	w.inspectDecision(acts)
	for i, a := range acts {
		if w.trigger--; w.trigger == 0 {
			w.onAction()
		}
		w.touch(a)
		if w.epoch != epoch {
			return
		}
		if w.watch != nil {
			w.watch(a)
		}
		w.act(a, acts[i+1:])
	}
	w.inspectLine(acts)
	if at, ok := w.sup.Deadline(); ok && w.outcome == nil {
		w.arm(max(at, w.now+1))
	}
}

func (w *world) arm(at time.Duration) {
	if w.tick != 0 && w.tick <= at {
		return
	}
	w.tick = at
	epoch := w.epoch
	w.after(at-w.now, func() {
		if w.tick == at {
			w.tick = 0
		}
		if w.epoch == epoch {
			w.event(Event{Job, protocol.Tick{}})
		}
	})
}

// simulate runs a schedule to its end and returns what it violates, "" if
// nothing.
func simulate(seed uint64, m *mutant) (w *world, text string) {
	w = newWorld(seed, m)
	return w, w.simulate()
}

func (w *world) simulate() (text string) {
	defer func() {
		if v, ok := recover().(violation); ok {
			text = v.text
		}
	}()
	w.begin()
	for range w.rng.IntN(5) {
		w.disturb(w.upTo(w.until))
	}
	if w.rng.IntN(3) == 0 {
		w.trigger, w.onAction = 1+w.rng.IntN(400), func() { w.fault(w.rng.IntN(4)) }
	}
	if w.rng.IntN(4) == 0 {
		w.tender = 3
	}
	for id := range w.rng.IntN(4) {
		w.after(w.upTo(time.Second), func() { w.ask(id) })
	}
	for !w.ended {
		if len(w.todo) == 0 {
			w.failf("nothing is left to do: %s", w.state())
		}
		ev := heap.Pop(&w.todo).(simEvent)
		w.now = ev.at
		if w.steps++; w.now > 10*time.Minute || w.steps > 1000000 {
			w.failf("no end in sight: %s", w.state())
		}
		ev.do()
	}
	w.inspectEnd()
	return ""
}

func (w *world) state() string {
	if w.sup == nil {
		return "no coordinator"
	}
	return w.sup.Phase()
}

// replay runs one schedule again and shows what the supervisor did.
func replay(t *testing.T, seed string) {
	n, err := strconv.ParseUint(seed, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(n, &mutant{})
	w.watch = func(a Action) {
		what := fmt.Sprintf("%T %+v", a.Action, a.Action)
		switch b := a.Action.(type) {
		case protocol.Broadcast:
			what = fmt.Sprintf("to all: %s %+v", protocol.Name(b.Message), b.Message)
		case protocol.Send:
			if _, ok := b.Message.(protocol.Moved); ok {
				return
			}
			what = fmt.Sprintf("to rank %d: %s %+v", b.Rank, protocol.Name(b.Message), b.Message)
		}
		fmt.Fprintf(t.Output(), "%12v group %2d: %s\n", w.now, a.Group, what)
	}
	text := w.simulate()
	t.Logf("seed %d: groups %v, log %v, %d iterations, %+v", n, w.groupRanks(), w.log, w.iterations, w.cfg.Schedule)
	t.Logf("%d steps, %+v", w.steps, w.seen)
	if text != "" {
		t.Errorf("seed %d %s", n, text)
	}
}
