package supervisor

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
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
	id     int
	ranks  []int
	gen    int
	from   int
	line   []uint64
	procs  []*proc
	live   bool // told to start in this generation
	excuse bool // to be restarted: something of it failed
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

func (w *world) groupOf(rank int) *simGroup { return w.groups[w.at[rank].group] }
func (w *world) localOf(rank int) int       { return w.at[rank].local }

func (w *world) endpointConfig(rank int) channel.Config {
	return channel.Config{Kind: w.log, Rank: rank, Size: w.ranks, Group: w.groupOf(rank).ranks}
}

// newWorld makes a job from a seed.
func newWorld(seed uint64, m *mutant) *world {
	rng := rand.New(rand.NewPCG(seed, 2))
	w := &world{seed: seed, rng: rng, mutant: m, procs: map[string]*proc{}, storing: map[int]int{},
		limits:  protocol.Limits{Silence: time.Second, Phase: 3 * time.Second, Restarts: 100},
		disk:    disk{checkpoints: map[int]*stored{}, writing: map[int][]*image{}},
		checker: newChecker()}
	w.ranks, w.iterations = 2+rng.IntN(5), 2+rng.IntN(14)
	w.log = []channel.Kind{channel.Receiver, channel.Sender, channel.Optimistic, channel.None}[seed%4]
	w.async = rng.IntN(3) == 0
	w.program = newProgram(rng, w.ranks, w.iterations, rng.IntN(4))
	w.until = time.Duration(rng.IntN(2500)) * time.Millisecond
	w.lazy = []time.Duration{20, 200, 1000}[rng.IntN(3)] * time.Millisecond
	w.diskFails, w.chatty = rng.IntN(3) == 0, rng.IntN(3) == 0
	w.layout()
	w.cfg = Config{Groups: w.groupRanks(), Log: w.log, Iterations: w.iterations, Limits: w.limits, AutoRestart: true, Async: w.async,
		Seed: seed, Stagger: Stagger(rng.IntN(3)), Keep: 1 + rng.IntN(2)}
	if rng.IntN(2) == 0 {
		w.cfg.Jitter = rng.Float64()
	}
	if rng.IntN(3) == 0 {
		w.cfg.Storing = 1 + rng.IntN(2)
	}
	switch rng.IntN(4) {
	case 0, 1:
		w.cfg.Schedule.Every = 1 + rng.IntN(5)
	case 2:
		w.cfg.Schedule.Interval = 20*time.Millisecond + w.upTo(300*time.Millisecond)
	}
	w.disk.base = make([]int, len(w.groups))
	w.disk.printed = make([]uint64, w.ranks)
	w.disk.logs = make([]simLog, w.ranks)
	w.trace = make([][]uint64, w.ranks)
	return w
}

// layout divides the ranks into groups: mostly one each, or of two and three,
// rarely all in one.
func (w *world) layout() {
	size := 1
	if w.log != channel.Optimistic {
		size = []int{1, 1, 1, 2, 2, 3, w.ranks}[w.rng.IntN(7)]
	}
	order := w.rng.Perm(w.ranks)
	if w.rng.IntN(2) == 0 {
		slices.Sort(order)
	}
	w.at = make([]place, w.ranks)
	for ranks := range slices.Chunk(order, size) {
		slices.Sort(ranks)
		g := &simGroup{id: len(w.groups), ranks: ranks}
		for i, r := range ranks {
			w.at[r] = place{g.id, i}
		}
		w.groups = append(w.groups, g)
	}
}

func (w *world) groupRanks() [][]int {
	var list [][]int
	for _, g := range w.groups {
		list = append(list, g.ranks)
	}
	return list
}

// begin has a coordinator begin with what is in the store.
func (w *world) begin() {
	cfg := w.cfg
	d := &w.disk
	cfg.Base, cfg.Printed = slices.Clone(d.base), slices.Clone(d.printed)
	if w.mutant.noPrinted {
		cfg.Printed = nil
	}
	cfg.Incarnation, cfg.Next = d.incarnation+1, d.used+1
	w.storing, w.outcome, w.tick, w.requests = map[int]int{}, nil, 0, map[int]protocol.Request{}
	clear(w.losses) // a number that was never committed is free again
	for _, g := range w.groups {
		g.excuse, g.live = true, false
		for _, n := range d.numbers(g.id) {
			c := d.checkpoints[n]
			if c.damaged && (len(w.groups) == 1 || w.rng.IntN(2) == 0) {
				continue // its manifest cannot be read
			}
			cfg.Known = append(cfg.Known, Stored{Group: g.id, Number: n, Iter: c.iter, Vectors: c.vectors()})
			cfg.From = n
		}
	}
	if len(w.groups) > 1 {
		cfg.From = 0
	}
	if w.log == channel.Optimistic {
		cfg.Logged = make([]map[int][]channel.Vector, w.ranks)
		for r := range cfg.Logged {
			numbers := []int{0}
			for _, k := range cfg.Known {
				if k.Group == w.at[r].group {
					numbers = append(numbers, k.Number)
				}
			}
			cfg.Logged[r] = w.logged(r, numbers)
		}
	}
	sup, err := New(cfg)
	if err != nil {
		w.noLine(err)
		return
	}
	w.sup = sup
	w.sup.faults = w.mutant.supervisor
	w.perform(w.sup.Begin(w.now))
}

// noLine is what a user is left with when a damaged checkpoint was the last one
// that would have done: the job from its beginning.
func (w *world) noLine(err error) {
	if !w.damage {
		w.failf("%v", err)
	}
	d := &w.disk
	clear(d.checkpoints)
	clear(d.base)
	for r := range d.logs {
		d.logs[r] = simLog{}
	}
	for r := range w.trace {
		w.trace[r] = nil
	}
	w.seen.anew++
	w.begin()
}

// logged returns the states in the log of a rank behind each of the checkpoints.
func (w *world) logged(rank int, numbers []int) map[int][]channel.Vector {
	states := map[int][]channel.Vector{}
	for _, n := range numbers {
		if c := w.disk.checkpoints[n]; c != nil && c.damaged || n == 0 && w.disk.base[w.at[rank].group] > 0 {
			continue
		}
		im := w.image(rank, n)
		if im == nil {
			w.failf("checkpoint %d of rank %d is gone", n, rank)
		}
		list, err := im.state.Logged(w.disk.logs[rank].reader())
		if err != nil {
			w.failf("log of rank %d: %v", rank, err)
		}
		states[n] = list
	}
	return states
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
			what = fmt.Sprintf("to all: %v %d, iteration %d %v", b.Message.Kind, b.Message.Number, b.Message.Iter, b.Message.Counts)
		case protocol.Send:
			if b.Message.Kind == protocol.Moved {
				return
			}
			what = fmt.Sprintf("to rank %d: %v %d, iteration %d %v", b.Message.Rank, b.Message.Kind, b.Message.Number, b.Message.Iter, b.Message.Counts)
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
