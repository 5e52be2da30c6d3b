package supervisor

import (
	"slices"
	"strings"

	"ckpt/coordinator/protocol"
)

// checker is what a world remembers to check the promises of the package. It
// looks at actions, processes and the store, not into the supervisor.
type checker struct {
	trace      [][]uint64 // by rank: the trace after each receive
	committing map[int]bool
	begun      map[int]bool // numbers ever drained for
	losses     map[int]bool
	requests   map[int]protocol.Request // that have not been answered
	damage     bool                     // a checkpoint rotted
	recovered  *protocol.Recovery       // of the actions being carried out
	seen       seen
}

func newChecker() checker {
	return checker{committing: map[int]bool{}, begun: map[int]bool{}, losses: map[int]bool{}, requests: map[int]protocol.Request{}}
}

func (w *world) single() bool { return len(w.groups) == 1 }

// inspectTrace checks that a rank with a pessimistic log that goes back receives
// again just what it received before, in the same order.
func (w *world) inspectTrace(p *proc) {
	if w.single() || !pessimistic(w.log) || p.incarnation != p.g.incarnation {
		return
	}
	t, n := &w.trace[p.rank], p.app.taken
	switch {
	case n > len(*t):
		*t = append(*t, p.app.trace)
	case (*t)[n-1] != p.app.trace:
		w.failf("rank %d: receive %d is not the one it was before the failure", p.rank, n)
	default:
		w.seen.replayed++
	}
}

func (w *world) inspectSend(g *simGroup, m protocol.Message) {
	d, ok := m.(protocol.Drain)
	if !ok {
		return
	}
	w.inspectNumber(g, d.Number)
	if w.storing[g.id] != d.Number {
		w.storing[g.id] = d.Number
		w.begun[d.Number] = true
		if len(w.storing) > w.cfg.Storing && w.cfg.Storing > 0 && !w.single() {
			w.failf("%d groups store at the same time", len(w.storing))
		}
	}
}

// inspectNumber checks the number of a checkpoint that is begun.
func (w *world) inspectNumber(g *simGroup, number int) {
	if number < 1 || (number-1)%len(w.groups) != g.id {
		w.failf("checkpoint %d is not one of group %d", number, g.id)
	}
	if w.disk.checkpoints[number] != nil || w.losses[number] || w.committing[number] {
		w.failf("checkpoint %d is begun again", number)
	}
}

func (w *world) inspectCommit(g *simGroup, cp protocol.Checkpoint) {
	w.inspectNumber(g, cp.Number)
	w.seen.commits++
	images := w.disk.writing[cp.Number]
	if images == nil {
		w.failf("checkpoint %d is committed, and there is none", cp.Number)
	}
	for i, im := range images {
		if im == nil {
			w.failf("checkpoint %d is committed, and rank %d has not written", cp.Number, g.ranks[i])
		}
		if im.app.iter != cp.Iter {
			w.failf("checkpoint %d of iteration %d holds rank %d at %d", cp.Number, cp.Iter, g.ranks[i], im.app.iter)
		}
	}
	// In the group nothing is under way: each has received what the others sent.
	for i, a := range images {
		for j, b := range images {
			if i != j && b.app.got[g.ranks[i]]+b.held(g.ranks[i]) != a.app.sent[g.ranks[j]] {
				w.failf("checkpoint %d: not all that rank %d has sent to rank %d is there", cp.Number, g.ranks[i], g.ranks[j])
			}
		}
	}
}

// held is what an inbox holds of a rank.
func (im *image) held(src int) uint64 {
	sum := uint64(0)
	for _, l := range im.inbox {
		if l.src == src {
			sum += mix(mix(l.sum, l.trace), uint64(l.tag))
		}
	}
	return sum
}

func (w *world) inspectSpawn(g *simGroup, a protocol.Spawn) {
	w.seen.spawns++
	switch {
	case a.Incarnation <= w.disk.incarnation && w.single(), a.Incarnation <= g.incarnation:
		w.failf("group %d begins incarnation %d after %d", g.id, a.Incarnation, g.incarnation)
	case w.storing[g.id] != 0 && w.committing[w.storing[g.id]]:
		w.failf("group %d goes back while checkpoint %d is being committed", g.id, w.storing[g.id])
	case a.From != 0 && w.disk.checkpoints[a.From] == nil:
		w.failf("group %d goes back to checkpoint %d, which is gone", g.id, a.From)
	}
	if a.Fresh {
		for _, r := range g.ranks {
			w.trace[r] = nil
		}
		w.seen.anew++
	}
	if g.excuse {
		return
	}
	if rec := w.recovered; rec == nil || pessimistic(w.log) && !a.Fresh || !slices.Contains(rec.RolledBack, g.id) {
		w.failf("group %d goes back, though nothing of it failed", g.id)
	}
}

func (w *world) inspectRecovery(r protocol.Recovery) {
	w.recovered = &r
	w.seen.recoveries++
	w.seen.rolledBack += len(r.RolledBack)
	w.seen.survivors += len(w.groups) - len(r.RolledBack)
	ranks := 0
	for i, id := range r.RolledBack {
		ranks += len(w.groups[id].ranks)
		if r.From[i] > 0 && w.disk.checkpoints[r.From[i]] == nil {
			w.failf("group %d is said to go back to checkpoint %d, which is gone", id, r.From[i])
		}
	}
	if ranks != r.Ranks {
		w.failf("%d ranks go back, and %d are counted", ranks, r.Ranks)
	}
}

func (w *world) print(a protocol.Print) {
	d := &w.disk
	if a.Index != d.printed[a.Rank]+1 {
		w.failf("rank %d puts out line %d after %d", a.Rank, a.Index, d.printed[a.Rank])
	}
	d.printed[a.Rank] = a.Index
	w.seen.lines++
}

func (w *world) inspectAnswer(a protocol.Answer) {
	r, ok := w.requests[a.ID]
	if !ok {
		w.failf("request %d is answered again, or was never made", a.ID)
	}
	delete(w.requests, a.ID)
	if a.Err != "" {
		w.seen.refused++
		return
	}
	if r.Stop && a.Number > 0 {
		w.seen.stops++
		iter := -1
		for _, g := range w.groups {
			list := w.disk.numbers(g.id)
			c := w.disk.checkpoints[list[len(list)-1]]
			if iter >= 0 && c.iter != iter {
				w.failf("stopped, but group %d at iteration %d and others at %d", g.id, c.iter, iter)
			}
			iter = c.iter
		}
	}
}

func (w *world) inspectNotice(g *simGroup, n protocol.Notice) {
	switch n.Kind {
	case protocol.RankDied:
		delete(w.storing, g.id)
	case protocol.CheckpointAborted:
		if w.disk.checkpoints[n.Checkpoint] != nil || w.losses[n.Checkpoint] {
			w.failf("checkpoint %d is lost, and exists or was lost before", n.Checkpoint)
		}
		w.losses[n.Checkpoint] = true
	case protocol.CheckpointTaken:
		if w.disk.checkpoints[n.Checkpoint] == nil {
			w.failf("checkpoint %d of group %d is taken, and does not exist", n.Checkpoint, g.id)
		}
	}
}

func (w *world) inspectOutcome(o protocol.Outcome) {
	if len(w.committing) > 0 {
		w.failf("the job ends while a checkpoint is being committed")
	}
	for id := range w.requests {
		w.failf("the job ends and request %d has no answer", id)
	}
	switch o.Result {
	case protocol.Failed:
		if !w.single() || !strings.Contains(o.Text, "damaged") && !strings.Contains(o.Text, "out of memory") {
			w.failf("the job fails: %s", o.Text)
		}
		w.seen.failures++
	case protocol.Completed:
		for r := range w.ranks {
			if len(o.Results[r]) != 1 || o.Results[r][0] != byte(r) {
				w.failf("the result of rank %d is %v", r, o.Results[r])
			}
		}
	}
}

// inspectEnd checks that a job that has completed ends as if nothing had ever
// failed.
func (w *world) inspectEnd() {
	var states []*proc
	for r := range w.ranks {
		states = append(states, w.procOf(r))
	}
	for r, want := range w.program.expected() {
		got := &states[r].app
		if got.iter != want.iter || got.sum != want.sum || got.votes != want.votes || got.taken != want.taken {
			w.failf("rank %d ends with iteration %d, sum %x, votes %x after %d receives; want %d, %x, %x after %d",
				r, got.iter, got.sum, got.votes, got.taken, want.iter, want.sum, want.votes, want.taken)
		}
		if w.disk.printed[r] != want.outputs {
			w.failf("rank %d has put out %d lines, want %d", r, w.disk.printed[r], want.outputs)
		}
		for peer, p := range states {
			if got.got[peer] != p.app.sent[r] {
				w.failf("what rank %d has received from rank %d is not what that has sent in the end", r, peer)
			}
		}
	}
}
