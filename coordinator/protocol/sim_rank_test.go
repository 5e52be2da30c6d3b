package protocol

import (
	"slices"
	"time"
)

// simRank is one rank of a simulated job.
type simRank struct {
	id, incarnation int
	m               *Member
	silent          bool
	dead            bool
	computed        int // iterations completed
	running         bool
	slow            time.Duration // the next iteration takes so much longer
	sent            map[int]uint64
	arrived         map[int]uint64
	expected        []Count
	draining        bool
	writing         int         // number, 0 none
	copies          map[int]int // iterations completed at the copy, by number, which waits
	copying         int         // number
	captured        int         // number of which a copy or the image is there
	written         int         // number whose image is durable
	image           int         // iterations completed at the last order to write
	wrote           uint64
	hung            bool // the next image will not be written
	stuck           bool // nor does cancelling it help
	hanging         bool // that is so now
	end             func()
	aborted         int           // number of which it last heard Abort
	ended           bool          // the coordinator has its result
	toCo            time.Duration // FIFO: last delivery in each direction
	fromCo          time.Duration
}

func (w *world) spawn(a Spawn) {
	w.incarnation = a.Incarnation
	w.ranks = nil
	from := w.committed[a.From]
	for i := range w.cfg.Ranks {
		r := &simRank{id: i, incarnation: a.Incarnation, m: NewMember(from), computed: from,
			sent: map[int]uint64{}, arrived: map[int]uint64{}, copies: map[int]int{}}
		w.ranks = append(w.ranks, r)
		w.after(w.upTo(50*time.Millisecond), func() { w.tell(r, Hello{}); w.beat(r) })
		w.after(w.upTo(80*time.Millisecond)+50*time.Millisecond, func() {
			if w.damaged[a.From] && i == 0 {
				w.tell(r, SetupFailed{Damaged: true, Text: "damaged"})
				return
			}
			if w.diskError && a.Incarnation > 1 && w.rng.IntN(20) == 0 {
				w.tell(r, SetupFailed{Text: "out of memory"})
				return
			}
			w.tell(r, Ready{})
		})
	}
}

// beat is the sign of life of a rank that is not silent.
func (w *world) beat(r *simRank) {
	if !w.runs(r) {
		return
	}
	if r.writing != 0 && !r.hanging {
		r.wrote++
	}
	w.tell(r, Beat{Iter: r.m.Iteration(), Progress: uint64(r.m.Iteration()) + r.wrote})
	w.after(w.cfg.Limits.Silence/4, func() { w.beat(r) })
}

// runs reports whether a rank does anything any more.
func (w *world) runs(r *simRank) bool {
	return !r.dead && !r.silent && r.incarnation == w.incarnation && w.outcome == nil
}

// tell delivers a message to the coordinator, in order.
func (w *world) tell(r *simRank, m Message) {
	if r.dead || r.silent || w.outcome != nil {
		return
	}
	r.toCo = max(r.toCo, w.now+w.upTo(20*time.Millisecond))
	w.after(r.toCo-w.now, func() {
		if w.outcome == nil {
			_, done := m.(Done)
			r.ended = r.ended || done
			w.event(FromRank{r.incarnation, r.id, m})
		}
	})
}

// send delivers a message to a rank, in order.
func (w *world) send(r *simRank, m Message) {
	r.fromCo = max(r.fromCo, w.now+w.upTo(20*time.Millisecond))
	w.after(r.fromCo-w.now, func() {
		if a, ok := m.(Abort); ok {
			r.aborted = a.Number
		}
		w.step(r, Received{m})
	})
}

func (w *world) step(r *simRank, ev MemberEvent) {
	if !w.runs(r) {
		return
	}
	for _, a := range r.m.Step(ev) {
		switch a := a.(type) {
		case Tell:
			w.inspectTell(r, a.Message)
			w.tell(r, a.Message)
		case Proceed:
			w.inspectProceed(r)
			w.proceed(r)
		case BeginDrain:
			r.draining, r.expected = true, a.Expected
			w.drained(r)
		case CancelDrain:
			r.draining = false
			w.after(0, func() { w.step(r, DrainCancelled{}) })
		case BeginWrite:
			w.inspectWrite(r, a)
			w.write(r, a)
		case BeginCapture:
			w.inspectCapture(r)
			w.copyImage(r, a.Number)
		case DropCapture:
			delete(r.copies, a.Number)
		case CancelWrite:
			w.cancelWrite(r)
		}
	}
}

// proceed computes one iteration: send to both neighbours, wait for theirs.
func (w *world) proceed(r *simRank) {
	r.running = true
	if r.computed == w.length {
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
	if !r.running || r.computed == w.length || r.incarnation != w.incarnation {
		return
	}
	if r.arrived[(r.id+1)%n] < need || r.arrived[(r.id+n-1)%n] < need {
		return
	}
	r.running = false
	extra := r.slow
	r.slow = 0
	takes := w.upTo(30 * time.Millisecond)
	if r.writing != 0 {
		takes += time.Duration(w.slowdown * float64(takes))
	}
	w.after(takes+extra, func() {
		if r.incarnation != w.incarnation {
			return
		}
		r.computed++
		if r.computed == w.length && w.ragged && r.id%2 == 0 {
			w.step(r, Ended{[]byte{byte(r.id)}})
			return
		}
		counts := make([]Count, 0, len(r.sent))
		for peer, n := range r.sent {
			counts = append(counts, Count{Peer: peer, N: n})
		}
		slices.SortFunc(counts, func(a, b Count) int { return a.Peer - b.Peer })
		w.step(r, Reached{Iter: r.computed, Counts: counts, Save: w.saves(r)})
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

// write writes the image of a rank; its end comes once, in time, when it is
// cancelled, or never.
func (w *world) write(r *simRank, a BeginWrite) {
	r.writing, r.image = a.Number, r.computed
	if a.Copied {
		r.image = r.copies[a.Number]
		delete(r.copies, a.Number)
	}
	cancelled := false
	end := func() {
		if r.writing != a.Number || r.dead || r.incarnation != w.incarnation {
			return
		}
		r.writing, r.hanging, r.end = 0, false, nil
		if cancelled || (w.diskError && w.rng.IntN(10) == 0) {
			w.step(r, WriteEnded{Text: "input/output error"})
			return
		}
		r.captured, r.written = max(r.captured, a.Number), a.Number
		w.step(r, WriteDone{Body: []byte{byte(r.id)}})
	}
	r.end = func() { cancelled = true; end() }
	takes := w.upTo(200 * time.Millisecond)
	if w.cfg.Async {
		if !a.Copied && (w.costs != nil || w.rng.IntN(10) > 0) {
			// It may well come after the end of the write, or much later.
			w.after(w.upTo(100*time.Millisecond), func() { w.capture(r, a.Number) })
		}
		switch w.rng.IntN(8) {
		case 0:
			takes = w.upTo(8 * time.Second) // slow, but alive
		case 1, 2:
			takes = w.upTo(time.Second)
		}
	}
	if w.costs != nil {
		takes = w.costs(a.Number)
	}
	if r.hung {
		r.hung, r.hanging = false, true
		return
	}
	w.after(takes, end)
}

// copyImage copies the memory of a rank, which takes a while and may fail.
func (w *world) copyImage(r *simRank, number int) {
	r.copying = number
	w.after(w.upTo(100*time.Millisecond), func() {
		if r.dead || r.incarnation != w.incarnation {
			return
		}
		w.inspectCapture(r)
		r.copying = 0
		if w.diskError && w.rng.IntN(10) == 0 {
			w.step(r, CaptureEnded{Number: number, Text: "out of memory"})
			return
		}
		r.captured, r.copies[number] = number, r.computed
		w.step(r, CaptureDone{number})
	})
}

func (w *world) capture(r *simRank, number int) {
	if r.dead || r.incarnation != w.incarnation {
		return
	}
	if r.writing == number {
		w.inspectCapture(r)
		r.captured = number
	}
	w.step(r, CaptureDone{number})
}

func (w *world) cancelWrite(r *simRank) {
	if r.end == nil || r.writing != r.aborted {
		w.failf("rank %d cancels its write of %d after the abort of %d", r.id, r.writing, r.aborted)
	}
	if r.stuck && r.hanging {
		w.seen.stuck++
		return
	}
	w.after(w.upTo(50*time.Millisecond), r.end)
}
