package protocol

import (
	"cmp"
	"container/heap"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"ckpt/internal/testkit"
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
	co   lone
	tick time.Duration // time of the tick under way, 0 none

	incarnation int
	ranks       []*simRank
	committed   map[int]int // number to iteration
	damaged     map[int]bool
	refused     int // requests answered with an error
	answers     map[int]int
	requests    map[int]Request
	outcome     *Outcome
	slowed      bool
	diskError   bool
	kills       int
	ticks       int
	watch       func(time.Duration, Event, []Action)
	costs       func(number int) time.Duration // of writing a checkpoint; nil: random
	slowdown    float64                        // of iterations while a checkpoint is written behind
	saving      int                            // all ranks demand a checkpoint so often, 0 never
	mistaken    bool                           // one of them does so at other boundaries
	limit       time.Duration                  // of the run
	length      int                            // iterations of each rank
	ragged      bool                           // some ranks end without the last boundary
	checker
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

func (w *world) event(ev Event) {
	acts := w.co.Step(w.now, ev)
	if w.watch != nil {
		w.watch(w.now, ev, acts)
	}
	w.actions(acts)
}

func (w *world) actions(acts []Action) {
	for i, a := range acts {
		w.act(a, acts[i+1:])
	}
	if w.dying == w.incarnation && w.outcome == nil && !w.committing {
		w.failf("incarnation %d goes on after a death", w.incarnation)
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
		if w.ticks++; time.Duration(w.ticks) > 50000*w.limit/(10*time.Minute) {
			w.failf("ticks without end while %v", w.co.Phase())
		}
		w.event(Tick{})
	})
}

// act checks and carries out an action; rest are those that follow it.
func (w *world) act(a Action, rest []Action) {
	w.inspect(a, rest)
	switch a := a.(type) {
	case Send:
		w.send(w.ranks[a.Rank], a.Message)
	case Broadcast:
		for _, r := range w.ranks {
			w.send(r, a.Message)
		}
	case Kill:
		w.ranks[a.Rank].dead = true
		w.dying = w.incarnation
	case Spawn:
		w.spawn(a)
	case Prepare:
		w.prepare(a.Number)
	case Commit:
		w.commit(a.Checkpoint)
	case Answer:
		w.answers[a.ID]++
		if a.Err != "" {
			w.refused++
		}
	case Finish:
		w.outcome = &a.Outcome
	}
}

func (w *world) prepare(number int) {
	if !w.diskError || w.rng.IntN(8) > 0 {
		return
	}
	late := time.Duration(0)
	if w.cfg.Async {
		late = w.upTo(300 * time.Millisecond)
	}
	w.after(late, func() {
		if w.outcome == nil && w.open == number && !w.committing {
			w.noSpace = number
			w.event(CommitFailed{Number: number, Reason: "no space"})
		}
	})
}

func (w *world) commit(cp Checkpoint) {
	w.after(w.upTo(50*time.Millisecond), func() {
		if w.outcome != nil {
			return
		}
		w.resolve()
		if w.diskError && w.rng.IntN(6) == 0 {
			w.event(CommitFailed{Number: cp.Number, Reason: "input/output error"})
			return
		}
		w.committed[cp.Number] = cp.Iter
		w.event(Committed{Number: cp.Number})
	})
}

// disturb injects one fault at a random time.
func (w *world) disturb() {
	kinds, within := 5, 2*time.Second
	if w.cfg.Async {
		kinds, within = 7, 3*time.Second
	}
	w.after(w.upTo(within), func() {
		if w.outcome != nil {
			return
		}
		r := w.ranks[w.rng.IntN(len(w.ranks))]
		switch w.rng.IntN(kinds) {
		case 0, 1: // killed, noticed a little later
			r.dead = true
			w.kills++
			w.after(w.upTo(30*time.Millisecond), func() {
				if w.outcome == nil {
					if r.incarnation == w.incarnation {
						w.seen.deaths += w.flag(w.behind != 0)
						w.dying = w.incarnation
					}
					w.event(RankLost{Incarnation: r.incarnation, Rank: r.id, Cause: "was killed"})
				}
			})
		case 2: // stopped: only its silence tells
			r.silent = true
			w.kills++
		case 3: // alive, but too slow for the phase
			r.slow = w.upTo(2 * w.cfg.Limits.Phase)
			w.slowed = true
		case 4: // the newest checkpoint rots on disk
			if n := w.co.latest(); n > 0 && n != w.co.from {
				w.damaged[n] = true
			}
		case 5: // its next image is not written, until that is cancelled
			r.hung = true
			w.slowed = true
		case 6: // not even then
			r.hung, r.stuck = true, true
			w.slowed = true
			w.kills++
		}
	})
}

// run simulates a job from a seed to its end; the odd seeds are asynchronous.
func run(t *testing.T, seed uint64) *world { return runWatched(t, seed, nil, nil) }

func runWatched(t *testing.T, seed uint64, setUp func(Config), watch func(time.Duration, Event, []Action)) *world {
	rng := rand.New(rand.NewPCG(seed, 1))
	w := &world{t: t, seed: seed, rng: rng, committed: map[int]int{0: 0}, damaged: map[int]bool{},
		answers: map[int]int{}, requests: map[int]Request{}, diskError: rng.IntN(3) == 0,
		limit: 10 * time.Minute, checker: checker{losses: map[int]bool{}}}
	w.cfg = Config{Ranks: ranks(1 + rng.IntN(7)), Iterations: 1 + rng.IntN(30), AutoRestart: rng.IntN(5) > 0,
		Limits: Limits{Silence: time.Second, Phase: 3 * time.Second, Restarts: 50}, Async: seed%2 == 1}
	switch rng.IntN(4) {
	case 0:
		w.cfg.Schedule.Every = 1 + rng.IntN(6)
	case 1:
		w.cfg.Schedule.Interval = 100*time.Millisecond + w.upTo(time.Second)
	case 2:
		w.cfg.Schedule.Overhead = 0.05 + rng.Float64()
		w.cfg.Cost.First = w.upTo(time.Second)
	}
	if w.cfg.Async {
		w.cfg.InFlight = rand.New(rand.NewPCG(seed, 3)).IntN(5)
	}
	w.length = w.cfg.Iterations
	program := rand.New(rand.NewPCG(seed, 2))
	if program.IntN(3) == 0 {
		w.saving, w.mistaken = 1+program.IntN(6), program.IntN(3) == 0
	}
	if program.IntN(4) == 0 { // nobody knows how long it runs
		w.cfg.Iterations, w.ragged = 0, program.IntN(2) == 0
	}
	w.co = newLone(w.cfg)
	w.watch = watch
	acts := w.co.Begin(0)
	if watch != nil {
		setUp(w.cfg)
		watch(0, nil, acts)
	}
	w.actions(acts)
	for range rng.IntN(5) {
		w.disturb()
	}
	for id := range rng.IntN(4) {
		w.after(w.upTo(3*time.Second), func() {
			r := Request{ID: id, Stop: rng.IntN(6) == 0, Now: rng.IntN(2) == 0}
			w.requests[id] = r
			w.seen.waits += w.flag(w.behind != 0 && w.outcome == nil && !r.Now)
			w.event(Requested{r})
		})
	}
	w.toEnd()
	return w
}

// saves reports whether a rank demands a checkpoint at the boundary that it has reached.
func (w *world) saves(r *simRank) bool {
	at := r.computed
	if w.mistaken && r.id == 0 {
		at++
	}
	return w.saving > 0 && at%w.saving == 0
}

// toEnd simulates the job to its end.
func (w *world) toEnd() {
	for w.outcome == nil {
		if len(w.todo) == 0 {
			w.failf("nothing left to do while %v in incarnation %d", w.co.Phase(), w.incarnation)
		}
		ev := heap.Pop(&w.todo).(simEvent)
		w.now = ev.at
		if w.now > w.limit {
			w.failf("no end in sight while %v in incarnation %d", w.co.Phase(), w.incarnation)
		}
		ev.do()
	}
	w.check()
}

// TestSchedules runs seeded schedules of faults and checks the promises of
// doc.go on each, 2,000 or at night 30,000. A failing seed is printed and replays exactly.
func TestSchedules(t *testing.T) {
	n := 2000
	if testkit.Nightly() {
		n = 30000
	}
	results := map[Result]int{}
	checkpoints, lost, incarnations := 0, 0, 0
	var all seen
	for seed := range n {
		w := run(t, uint64(seed))
		results[w.outcome.Result]++
		checkpoints += len(w.committed) - 1
		lost += len(w.losses)
		incarnations += w.incarnation
		all.add(w.seen)
	}
	t.Logf("%d schedules: %v; %d checkpoints taken, %d aborted, %d incarnations", n, results, checkpoints, lost, incarnations)
	t.Logf("written behind the computation: %+v", all)
	if checkpoints == 0 || lost == 0 || incarnations <= n || len(results) != 3 || all.missing() {
		t.Error("the schedules do not exercise the protocol")
	}
}
