package protocol

import (
	"cmp"
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// world is a seeded simulation of a job: virtual time, FIFO channels with
// random delays between the coordinator and each rank, ranks that exchange a
// message with their neighbours in every iteration, and faults. It checks the
// promises of the package at every action.
type world struct {
	t    *testing.T
	seed uint64
	rng  *rand.Rand
	now  time.Duration
	todo eventHeap
	seq  int
	cfg  Config
	co   *Coordinator
	tick time.Duration // time of the tick under way, 0 none

	gen       int
	ranks     []*simRank
	committed map[int]int // number to iteration
	damaged   map[int]bool
	preparing int
	refused   int // requests answered with an error
	answers   map[int]int
	requests  int
	outcome   *Outcome
	slowed    bool
	diskError bool
	kills     int
	losses    map[int]bool // checkpoints reported lost
}

type simRank struct {
	id, gen  int
	m        *Member
	frozen   bool
	dead     bool
	computed int // iterations completed
	running  bool
	slow     time.Duration // the next iteration takes so much longer
	sent     map[int]uint64
	arrived  map[int]uint64
	expected []Count
	draining bool
	writing  int // number, 0 none
	written  int // number whose image is durable
	cancel   bool
	toCo     time.Duration // FIFO: last delivery in each direction
	fromCo   time.Duration
}

type simEvent struct {
	at  time.Duration
	seq int
	do  func()
}

type eventHeap []simEvent

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(h[i].at, h[j].at), h[i].seq-h[j].seq) < 0
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(x any)   { *h = append(*h, x.(simEvent)) }
func (h *eventHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

func (w *world) after(d time.Duration, do func()) {
	w.seq++
	heap.Push(&w.todo, simEvent{w.now + d, w.seq, do})
}

func (w *world) upTo(d time.Duration) time.Duration {
	return time.Duration(w.rng.Int64N(int64(d) + 1))
}

func (w *world) failf(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("seed %d at %v: %s", w.seed, w.now, fmt.Sprintf(format, args...))
}

func (w *world) event(ev Event) { w.actions(w.co.Step(w.now, ev)) }

func (w *world) actions(acts []Action) {
	for _, a := range acts {
		w.act(a)
	}
	if at, ok := w.co.Deadline(); ok {
		w.arm(max(at, w.now+1))
	}
}

func (w *world) arm(at time.Duration) {
	if w.tick != 0 && w.tick <= at {
		return
	}
	w.tick = at
	w.after(at-w.now, func() {
		if w.tick == at {
			w.tick = 0
		}
		w.event(Tick{})
	})
}

func (w *world) act(a Action) {
	if w.outcome != nil {
		w.failf("action %T after the end", a)
	}
	switch a := a.(type) {
	case Send:
		w.send(w.ranks[a.Message.Rank], a.Message)
	case Broadcast:
		for _, r := range w.ranks {
			w.send(r, a.Message)
		}
	case Kill:
		w.ranks[a.Rank].dead = true
	case Spawn:
		w.spawn(a)
	case Prepare:
		w.preparing = a.Number
		if w.diskError && w.rng.IntN(8) == 0 {
			w.after(0, func() { w.event(CommitFailed{Number: a.Number, Reason: "no room"}) })
		}
	case Commit:
		w.commit(a.Checkpoint)
	case Discard:
		for _, r := range w.ranks {
			if r.writing != 0 && !r.dead {
				w.failf("rank %d still writes %d when it is discarded", r.id, r.writing)
			}
		}
	case Answer:
		w.answers[a.ID]++
		if a.Err != "" {
			w.refused++
		}
	case Report:
		if a.Notice.Kind == CheckpointLost {
			w.losses[a.Notice.Checkpoint] = true
			if w.kills == 0 && !w.diskError && !w.slowed && a.Notice.Text != "the job is finishing" {
				w.failf("checkpoint %d is lost without a fault: %s", a.Notice.Checkpoint, a.Notice.Text)
			}
		}
	case Finish:
		w.outcome = &a.Outcome
	}
}

func (w *world) spawn(a Spawn) {
	if _, ok := w.committed[a.From]; a.From != 0 && !ok {
		w.failf("restart from checkpoint %d, which does not exist", a.From)
	}
	if a.Gen != w.gen+1 {
		w.failf("generation %d follows %d", a.Gen, w.gen)
	}
	w.gen = a.Gen
	w.ranks = nil
	from := w.committed[a.From]
	for i := range w.cfg.Ranks {
		r := &simRank{id: i, gen: a.Gen, m: NewMember(i, from), computed: from,
			sent: map[int]uint64{}, arrived: map[int]uint64{}}
		w.ranks = append(w.ranks, r)
		w.after(w.upTo(50*time.Millisecond), func() { w.tell(r, Message{Kind: Hello, Rank: i}); w.beat(r) })
		w.after(w.upTo(80*time.Millisecond)+50*time.Millisecond, func() {
			if w.damaged[a.From] && i == 0 {
				w.tell(r, Message{Kind: Unrestorable, Rank: i, Text: "damaged"})
				return
			}
			if w.diskError && a.Gen > 1 && w.rng.IntN(20) == 0 {
				w.tell(r, Message{Kind: SetupFailed, Rank: i, Text: "out of memory"})
				return
			}
			w.tell(r, Message{Kind: Ready, Rank: i})
		})
	}
}

// beat is the sign of life of a rank that is not frozen.
func (w *world) beat(r *simRank) {
	if r.dead || r.frozen || r.gen != w.gen || w.outcome != nil {
		return
	}
	w.tell(r, Message{Kind: Beat, Rank: r.id, Iter: r.m.Iteration(), Progress: uint64(r.m.Iteration())})
	w.after(w.cfg.Limits.Silence/4, func() { w.beat(r) })
}

// tell delivers a message to the coordinator, in order.
func (w *world) tell(r *simRank, m Message) {
	if r.dead || r.frozen || w.outcome != nil {
		return
	}
	r.toCo = max(r.toCo, w.now+w.upTo(20*time.Millisecond))
	w.after(r.toCo-w.now, func() {
		if w.outcome == nil {
			w.event(FromRank{r.gen, m})
		}
	})
}

// send delivers a message to a rank, in order.
func (w *world) send(r *simRank, m Message) {
	r.fromCo = max(r.fromCo, w.now+w.upTo(20*time.Millisecond))
	w.after(r.fromCo-w.now, func() { w.step(r, Received{m}) })
}

func (w *world) step(r *simRank, ev MemberEvent) {
	if r.dead || r.frozen || r.gen != w.gen || w.outcome != nil {
		return
	}
	for _, a := range r.m.Step(ev) {
		switch a := a.(type) {
		case Tell:
			if a.Message.Kind == Stopped && a.Message.Iter != r.computed {
				w.failf("rank %d says it stopped at %d but is at %d", r.id, a.Message.Iter, r.computed)
			}
			w.tell(r, a.Message)
		case Proceed:
			w.proceed(r)
		case BeginDrain:
			r.draining, r.expected = true, a.Expected
			w.drained(r)
		case CancelDrain:
			r.draining = false
			w.after(0, func() { w.step(r, DrainCancelled{}) })
		case BeginWrite:
			w.write(r, a)
		case CancelWrite:
			r.cancel = true
		}
	}
}

// proceed computes one iteration: send to both neighbours, wait for theirs.
func (w *world) proceed(r *simRank) {
	if r.writing != 0 {
		w.failf("rank %d goes on while it writes checkpoint %d", r.id, r.writing)
	}
	if r.written != 0 && w.committed[r.written] == 0 && !w.losses[r.written] {
		w.failf("rank %d passes the boundary of checkpoint %d before it is committed or lost", r.id, r.written)
	}
	r.running = true
	if r.computed == w.cfg.Iterations {
		w.after(w.upTo(10*time.Millisecond), func() { w.step(r, Ended{[]byte{byte(r.id)}}) })
		return
	}
	n := len(w.ranks)
	for _, peer := range []int{(r.id + 1) % n, (r.id + n - 1) % n} {
		r.sent[peer]++
		to := w.ranks[peer]
		w.after(w.upTo(60*time.Millisecond), func() {
			to.arrived[r.id]++
			w.drained(to)
			w.compute(to)
		})
	}
	w.compute(r)
}

// compute ends the iteration when the messages that both neighbours sent in the
// one before are there: those of this one may still be under way at its end.
func (w *world) compute(r *simRank) {
	n := len(w.ranks)
	per := uint64(1)
	if n <= 2 {
		per = 2 // both neighbours are the same rank
	}
	first := w.committed[w.co.from]
	need := uint64(r.computed-first) * per
	if !r.running || r.computed == w.cfg.Iterations || r.gen != w.gen {
		return
	}
	if r.arrived[(r.id+1)%n] < need || r.arrived[(r.id+n-1)%n] < need {
		return
	}
	r.running = false
	extra := r.slow
	r.slow = 0
	w.after(w.upTo(30*time.Millisecond)+extra, func() {
		if r.gen != w.gen {
			return
		}
		r.computed++
		counts := make([]Count, 0, len(r.sent))
		for peer, n := range r.sent {
			counts = append(counts, Count{peer, n})
		}
		slices.SortFunc(counts, func(a, b Count) int { return a.Peer - b.Peer })
		w.step(r, Reached{r.computed, counts})
	})
}

func (w *world) drained(r *simRank) {
	if !r.draining {
		return
	}
	for _, c := range r.expected {
		if r.arrived[c.Peer] < c.N {
			return
		}
	}
	r.draining = false
	w.after(0, func() { w.step(r, DrainDone{}) })
}

func (w *world) write(r *simRank, a BeginWrite) {
	if a.Number != w.preparing {
		w.failf("rank %d writes checkpoint %d, prepared was %d", r.id, a.Number, w.preparing)
	}
	for _, from := range w.ranks {
		if from.sent[r.id] != r.arrived[from.id] {
			w.failf("rank %d writes checkpoint %d while %d messages of rank %d are under way to it",
				r.id, a.Number, from.sent[r.id]-r.arrived[from.id], from.id)
		}
	}
	r.writing, r.cancel = a.Number, false
	w.after(w.upTo(200*time.Millisecond), func() {
		if r.dead || r.gen != w.gen {
			return
		}
		r.writing = 0
		if r.cancel || (w.diskError && w.rng.IntN(10) == 0) {
			w.step(r, WriteEnded{Text: "input/output error"})
			return
		}
		r.written = a.Number
		w.step(r, WriteDone{[]byte{byte(r.id)}})
	})
}

// commit checks that the checkpoint is a consistent global state.
func (w *world) commit(cp Checkpoint) {
	for _, r := range w.ranks {
		if r.written != cp.Number {
			w.failf("checkpoint %d is committed, but rank %d has not written it", cp.Number, r.id)
		}
		if r.computed != cp.Iter {
			w.failf("checkpoint %d at iteration %d, but rank %d is at %d", cp.Number, cp.Iter, r.id, r.computed)
		}
	}
	if len(cp.Bodies) != len(w.ranks) {
		w.failf("checkpoint %d has %d bodies", cp.Number, len(cp.Bodies))
	}
	for n := range w.committed {
		if n >= cp.Number {
			w.failf("checkpoint %d follows %d", cp.Number, n)
		}
	}
	w.after(w.upTo(50*time.Millisecond), func() {
		if w.outcome != nil {
			return
		}
		if w.diskError && w.rng.IntN(6) == 0 {
			w.event(CommitFailed{Number: cp.Number, Reason: "input/output error"})
			return
		}
		w.committed[cp.Number] = cp.Iter
		w.event(Committed{cp.Number})
	})
}

// disturb injects one fault at a random time.
func (w *world) disturb() {
	w.after(w.upTo(2*time.Second), func() {
		if w.outcome != nil {
			return
		}
		r := w.ranks[w.rng.IntN(len(w.ranks))]
		switch w.rng.IntN(5) {
		case 0, 1: // killed, noticed a little later
			r.dead = true
			w.kills++
			w.after(w.upTo(30*time.Millisecond), func() {
				if w.outcome == nil {
					w.event(RankLost{r.gen, r.id, "was killed"})
				}
			})
		case 2: // stopped: only its silence tells
			r.frozen = true
			w.kills++
		case 3: // alive, but too slow for the phase
			r.slow = w.upTo(2 * w.cfg.Limits.Phase)
			w.slowed = true
		case 4: // the newest checkpoint rots on disk
			if n := w.co.latest(); n > 0 && n != w.co.from {
				w.damaged[n] = true
			}
		}
	})
}

// run simulates a job from a seed to its end.
func run(t *testing.T, seed uint64) *world {
	rng := rand.New(rand.NewPCG(seed, 1))
	w := &world{t: t, seed: seed, rng: rng, committed: map[int]int{0: 0}, damaged: map[int]bool{},
		answers: map[int]int{}, losses: map[int]bool{}, diskError: rng.IntN(3) == 0}
	w.cfg = Config{Ranks: 1 + rng.IntN(7), Iterations: 1 + rng.IntN(30), AutoRestart: rng.IntN(5) > 0,
		Limits: Limits{Silence: time.Second, Phase: 3 * time.Second, Restarts: 50}}
	switch rng.IntN(4) {
	case 0:
		w.cfg.Schedule.Every = 1 + rng.IntN(6)
	case 1:
		w.cfg.Schedule.Interval = 100*time.Millisecond + w.upTo(time.Second)
	case 2:
		w.cfg.Schedule.Overhead = 0.05 + rng.Float64()
		w.cfg.Cost = w.upTo(time.Second)
	}
	w.co = NewCoordinator(w.cfg)
	w.actions(w.co.Begin(0))
	for range rng.IntN(5) {
		w.disturb()
	}
	for id := range rng.IntN(4) {
		w.after(w.upTo(3*time.Second), func() {
			w.requests++
			w.event(Requested{Request{ID: id, Stop: rng.IntN(6) == 0, Now: rng.IntN(2) == 0}})
		})
	}
	for w.outcome == nil {
		if len(w.todo) == 0 {
			w.failf("nothing left to do while %v in generation %d", w.co.Phase(), w.gen)
		}
		ev := heap.Pop(&w.todo).(simEvent)
		w.now = ev.at
		if w.now > 10*time.Minute {
			w.failf("no end in sight while %v in generation %d", w.co.Phase(), w.gen)
		}
		ev.do()
	}
	w.check()
	return w
}

func (w *world) check() {
	for id, n := range w.answers {
		if n != 1 {
			w.failf("request %d was answered %d times", id, n)
		}
	}
	if len(w.answers) != w.requests {
		w.failf("%d answers to %d requests", len(w.answers), w.requests)
	}
	switch w.outcome.Result {
	case Completed:
		if len(w.outcome.Results) != len(w.ranks) {
			w.failf("completed with %d results", len(w.outcome.Results))
		}
		for _, r := range w.ranks {
			if r.computed != w.cfg.Iterations {
				w.failf("completed, but rank %d is at iteration %d", r.id, r.computed)
			}
		}
	case Failed:
		if w.cfg.AutoRestart && w.kills == 0 {
			w.failf("failed without a death: %s", w.outcome.Text)
		}
		if w.cfg.AutoRestart {
			w.failf("failed although it could be restarted: %s", w.outcome.Text)
		}
	}
}

// TestSchedules runs seeded schedules of faults and checks the promises of
// doc.go on each. A failing seed is printed and replays exactly.
func TestSchedules(t *testing.T) {
	n := 20000
	if testing.Short() {
		n = 2000
	}
	results := map[Result]int{}
	checkpoints, lost, generations := 0, 0, 0
	for seed := range n {
		w := run(t, uint64(seed))
		results[w.outcome.Result]++
		checkpoints += len(w.committed) - 1
		lost += len(w.losses)
		generations += w.gen
	}
	t.Logf("%d schedules: %v; %d checkpoints taken, %d given up, %d generations", n, results, checkpoints, lost, generations)
	if checkpoints == 0 || lost == 0 || generations <= n || len(results) != 3 {
		t.Error("the schedules do not exercise the protocol")
	}
}
