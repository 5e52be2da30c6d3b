package protocol

import (
	"slices"
	"strings"
	"time"
)

// checker is what a world remembers to check the promises of doc.go. It looks
// at actions and ranks only, not into the coordinator.
type checker struct {
	used       int          // the greatest number of a checkpoint begun
	open       int          // the checkpoint prepared and neither committed nor discarded, 0 none
	behind     int          // the same, once the ranks were resumed
	taking     int          // the one that the ranks copy, or have copied when they are resumed
	waiting    []flight     // copies that are to be written
	committing bool         // Commit is under way
	losses     map[int]bool // checkpoints reported lost
	noSpace    int          // the checkpoint that could not be prepared last
	dying      int          // the incarnation of which a rank died last
	ordered    time.Duration
	durable    time.Duration
	resumed    time.Duration
	last       Checkpoint // for which Commit came last
	stop       int        // iteration of the checkpoint that a stop request was answered with
	seen       seen
}

// A flight is a checkpoint of which every rank has a copy, and since when the ranks go on.
type flight struct {
	number  int
	resumed time.Duration
}

// stoppedNow reports whether somebody has asked for an end without a checkpoint.
func (w *world) stoppedNow() bool {
	for _, r := range w.requests {
		if r.Stop && r.Now {
			return true
		}
	}
	return false
}

// inFlight is how many checkpoints are behind the computation.
func (w *world) inFlight() int { return w.flag(w.open != 0) + len(w.waiting) }

// seen counts what happened to checkpoints written behind the computation.
type seen struct{ taken, dropped, deaths, stuck, held, waits, ends, stops, discards, queued, lost int }

func (s *seen) add(o seen) {
	s.taken += o.taken
	s.dropped += o.dropped
	s.deaths += o.deaths
	s.stuck += o.stuck
	s.held += o.held
	s.waits += o.waits
	s.ends += o.ends
	s.stops += o.stops
	s.discards += o.discards
	s.queued += o.queued
	s.lost += o.lost
}

func (s seen) missing() bool {
	return slices.Contains([]int{s.taken, s.dropped, s.deaths, s.stuck, s.held, s.waits, s.ends, s.stops, s.discards, s.queued, s.lost}, 0)
}

func (w *world) flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

// resolve notes that the open checkpoint is committed, or that nothing is left
// of it.
func (w *world) resolve() { w.open, w.behind, w.committing = 0, 0, false }

// inspect checks an action of the coordinator; rest are those that follow it.
func (w *world) inspect(a Action, rest []Action) {
	if w.outcome != nil {
		w.failf("action %T after the end", a)
	}
	switch a := a.(type) {
	case Send:
		if d, ok := a.Message.(Drain); ok {
			w.inspectBegin(d, d.Number)
		}
	case Broadcast:
		w.inspectBroadcast(a.Message)
	case Kill:
		if r := w.ranks[a.Rank]; !r.dead && !r.silent && !r.stuck {
			w.failf("rank %d is killed for nothing", a.Rank)
		}
	case Spawn:
		w.inspectSpawn(a)
	case Prepare:
		w.inspectPrepare(a.Number)
	case Commit:
		w.inspectCommit(a.Checkpoint)
	case Discard:
		w.inspectDiscard(a.Number, rest)
	case Answer:
		if r, ok := w.requests[a.ID]; !ok || w.answers[a.ID] > 0 {
			w.failf("answer to request %d, asked %v, answered %d times", a.ID, ok, w.answers[a.ID])
		} else if r.Stop && a.Number > 0 {
			w.stop = w.committed[a.Number]
		}
	case Report:
		w.inspectNotice(a.Notice)
	case Finish:
		for _, f := range w.waiting {
			if !w.stoppedNow() && !w.losses[f.number] {
				w.failf("the job ends while a copy for checkpoint %d waits", f.number)
			}
		}
		if w.behind != 0 || w.committing {
			w.failf("the job ends while checkpoint %d is written behind, committing %v", w.open, w.committing)
		}
		if w.allEnded() && a.Outcome.Result != Completed {
			w.failf("%v, though every rank has ended", a.Outcome.Result)
		}
	}
}

func (w *world) inspectBroadcast(m Message) {
	switch m := m.(type) {
	case Propose:
		w.inspectBegin(m, m.Number)
	case StopAt:
		w.inspectBegin(m, m.Number)
	case Capture:
		if m.Number != w.used || w.inFlight() >= w.cfg.InFlight || w.taking != 0 {
			w.failf("checkpoint %d is copied, begun was %d, %d are in flight", m.Number, w.used, w.inFlight())
		}
		w.taking = m.Number
	case Write:
		if m.Number != w.open {
			w.failf("write of checkpoint %d, open is %d", m.Number, w.open)
		}
		w.ordered = w.now
	case Abort:
		if !w.losses[m.Number] || w.committing && m.Number == w.open {
			w.failf("abort of checkpoint %d: lost %v, committing %v", m.Number, w.losses[m.Number], w.committing)
		}
		w.seen.dropped += w.flag(m.Number == w.behind)
	case Start:
		w.inspectGoing(m, m.Number)
	case Resume:
		w.inspectGoing(m, m.Number)
	}
}

// inspectGoing checks that ranks may compute, up to checkpoint number.
func (w *world) inspectGoing(m Message, number int) {
	if number <= w.used {
		w.failf("%s announces checkpoint %d, which was begun already", Name(m), number)
	}
	if w.open != 0 && w.behind == 0 {
		w.inspectResume()
	}
	if n := w.taking; n != 0 && !w.losses[n] {
		if !w.allCaptured(n) {
			w.failf("the ranks are resumed before all have copied checkpoint %d", n)
		}
		w.seen.queued += w.flag(w.inFlight() > 0)
		w.waiting = append(w.waiting, flight{n, w.now})
	}
	w.taking = 0
}

// inspectPrepare checks that copies are written in their order.
func (w *world) inspectPrepare(number int) {
	want := w.used
	if len(w.waiting) > 0 {
		want, w.behind, w.resumed = w.waiting[0].number, w.waiting[0].number, w.waiting[0].resumed
		w.waiting = w.waiting[1:]
	}
	if w.open != 0 || number != want {
		w.failf("checkpoint %d is prepared, open is %d; want %d", number, w.open, want)
	}
	w.open = number
}

// inspectBegin checks what comes before the order to write: no checkpoint is
// begun under a used number, nor drained for before the last one is resolved.
func (w *world) inspectBegin(m Message, number int) {
	_, drains := m.(Drain)
	if n := w.inFlight(); n > 0 && n >= w.cfg.InFlight && (drains || w.cfg.InFlight < 2) {
		w.failf("%s of checkpoint %d while %d is open and %v wait", Name(m), number, w.open, w.waiting)
	}
	if number < w.used || w.losses[number] {
		w.failf("%s of checkpoint %d after %d, lost %v", Name(m), number, w.used, w.losses[number])
	}
	if _, ok := w.committed[number]; ok {
		w.failf("%s of checkpoint %d, which exists", Name(m), number)
	}
	w.used = number
}

// inspectResume checks the ranks when they go on before the commit.
func (w *world) inspectResume() {
	if !w.cfg.Async || w.losses[w.open] {
		w.failf("the ranks are resumed while checkpoint %d is written", w.open)
	}
	for _, r := range w.ranks {
		if r.captured != w.open {
			w.failf("the ranks are resumed, but rank %d has not captured checkpoint %d", r.id, w.open)
		}
	}
	w.behind, w.resumed = w.open, w.now
}

func (w *world) inspectSpawn(a Spawn) {
	if _, ok := w.committed[a.From]; a.From != 0 && !ok {
		w.failf("restart from checkpoint %d, which does not exist", a.From)
	}
	if len(w.ranks) > 0 && w.allEnded() {
		w.failf("restart, though every rank has ended")
	}
	if a.Incarnation != w.incarnation+1 {
		w.failf("incarnation %d follows %d", a.Incarnation, w.incarnation)
	}
	if w.committing || w.open != 0 && !w.losses[w.open] {
		w.failf("restart while checkpoint %d is neither committed nor lost", w.open)
	}
	for _, f := range w.waiting {
		if !w.losses[f.number] {
			w.failf("restart while a copy for checkpoint %d waits", f.number)
		}
		w.seen.lost++
	}
	w.stop, w.taking, w.waiting = 0, 0, nil
	w.resolve()
}

// inspectCommit checks that the checkpoint is a consistent global state.
func (w *world) inspectCommit(cp Checkpoint) {
	if cp.Number != w.open || w.losses[cp.Number] || w.committing || cp.Number == w.noSpace {
		w.failf("checkpoint %d is committed, open is %d, lost %v, without room %d",
			cp.Number, w.open, w.losses[cp.Number], w.noSpace)
	}
	for _, r := range w.ranks {
		if r.written != cp.Number {
			w.failf("checkpoint %d is committed, but rank %d has not written it", cp.Number, r.id)
		}
		if r.image != cp.Iter || w.behind == 0 && r.computed != cp.Iter {
			w.failf("checkpoint %d at iteration %d, but the image of rank %d is of %d and it is at %d",
				cp.Number, cp.Iter, r.id, r.image, r.computed)
		}
		if len(cp.Bodies) != len(w.ranks) || len(cp.Bodies[r.id]) != 1 || cp.Bodies[r.id][0] != byte(r.id) {
			w.failf("checkpoint %d has the bodies %v", cp.Number, cp.Bodies)
		}
	}
	for n := range w.committed {
		if n >= cp.Number {
			w.failf("checkpoint %d follows %d", cp.Number, n)
		}
	}
	resumed := time.Duration(0)
	if w.behind != 0 {
		resumed = w.resumed
	}
	if cp.Resumed != resumed || cp.Writing != w.now-w.ordered {
		w.failf("checkpoint %d: resumed at %v, writing took %v; want %v and %v",
			cp.Number, cp.Resumed, cp.Writing, resumed, w.now-w.ordered)
	}
	w.committing, w.durable, w.last = true, w.now, cp
}

func (w *world) inspectDiscard(number int, rest []Action) {
	if _, ok := w.committed[number]; ok || w.committing && number == w.open {
		w.failf("checkpoint %d is discarded, exists %v", number, ok)
	}
	ending := false
	for _, a := range rest {
		if _, ok := a.(Finish); ok {
			ending = true
		}
	}
	for _, r := range w.ranks {
		if r.writing == number && !r.dead && !ending {
			w.failf("rank %d still writes %d when it is discarded", r.id, r.writing)
		}
	}
	if !ending && !w.losses[number] {
		w.failf("checkpoint %d is discarded before it is lost", number)
	}
	w.seen.discards += w.flag(ending)
	if number == w.open {
		w.resolve()
	}
}

func (w *world) inspectNotice(n Notice) {
	switch n.Kind {
	case CheckpointTaken:
		pause := w.now - slices.Min(w.last.Stopped)
		if w.last.Resumed > 0 {
			pause = w.last.Resumed - slices.Min(w.last.Stopped)
			w.seen.taken++
		}
		if n.Pause != pause || n.Commit != w.now-w.durable {
			w.failf("checkpoint %d: pause %v, commit %v; want %v and %v", n.Checkpoint, n.Pause, n.Commit, pause, w.now-w.durable)
		}
	case CheckpointAborted:
		if _, ok := w.committed[n.Checkpoint]; ok || w.losses[n.Checkpoint] || w.committing && n.Checkpoint == w.open {
			w.failf("checkpoint %d is lost: exists %v, lost before %v", n.Checkpoint, ok, w.losses[n.Checkpoint])
		}
		if !w.slowed && strings.Contains(n.Text, "no progress") {
			w.failf("checkpoint %d is lost, though nobody was slow: %s", n.Checkpoint, n.Text)
		}
		w.losses[n.Checkpoint] = true
		w.used = max(w.used, n.Checkpoint)
		if w.kills == 0 && !w.diskError && !w.slowed && n.Text != "the job is finishing" {
			w.failf("checkpoint %d is lost without a fault: %s", n.Checkpoint, n.Text)
		}
	}
}

// check looks at the end of the job.
func (w *world) check() {
	for id, n := range w.answers {
		if n != 1 {
			w.failf("request %d was answered %d times", id, n)
		}
	}
	if len(w.answers) != len(w.requests) {
		w.failf("%d answers to %d requests", len(w.answers), len(w.requests))
	}
	switch w.outcome.Result {
	case Completed:
		if len(w.outcome.Results) != len(w.ranks) {
			w.failf("completed with %d results", len(w.outcome.Results))
		}
		for _, r := range w.ranks {
			if r.computed != w.length || len(w.outcome.Results[r.id]) != 1 || w.outcome.Results[r.id][0] != byte(r.id) {
				w.failf("completed, but rank %d is at iteration %d, its result %v", r.id, r.computed, w.outcome.Results[r.id])
			}
		}
	case StoppedByRequest:
		for _, r := range w.ranks {
			if w.stop > 0 && (r.computed != w.stop || r.running) {
				w.failf("stopped after iteration %d, but rank %d has computed %d", w.stop, r.id, r.computed)
			}
		}
		w.seen.stops += w.flag(w.cfg.Async && w.stop > 0)
	case Failed:
		if w.cfg.AutoRestart && w.kills == 0 {
			w.failf("failed without a death: %s", w.outcome.Text)
		}
		if w.cfg.AutoRestart {
			w.failf("failed although it could be restarted: %s", w.outcome.Text)
		}
	}
}
