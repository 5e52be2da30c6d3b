package supervisor

import (
	"slices"
	"strings"

	"ckpt/coordinator/protocol"
	"ckpt/coordinator/protocol/channel"
	rec "ckpt/coordinator/recovery"
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

// seen counts what has happened, so that a test can tell that it happens.
type seen struct {
	spawns, commits, recoveries, survivors, rolledBack, decisions int
	crashes, partitions, stops, failures, anew, refused           int
	forgotten, collected, replayed, lines                         int
}

func (s *seen) add(o seen) {
	s.spawns += o.spawns
	s.commits += o.commits
	s.recoveries += o.recoveries
	s.survivors += o.survivors
	s.rolledBack += o.rolledBack
	s.decisions += o.decisions
	s.crashes += o.crashes
	s.partitions += o.partitions
	s.stops += o.stops
	s.failures += o.failures
	s.anew += o.anew
	s.refused += o.refused
	s.forgotten += o.forgotten
	s.collected += o.collected
	s.replayed += o.replayed
	s.lines += o.lines
}

// missing reports whether something never happened.
func (s *seen) missing() bool {
	return slices.Contains([]int{s.spawns, s.commits, s.recoveries, s.survivors, s.rolledBack, s.decisions, s.crashes, s.partitions,
		s.stops, s.anew, s.refused, s.forgotten, s.collected, s.replayed, s.lines}, 0)
}

func (w *world) single() bool { return len(w.groups) == 1 }

// inspectTrace checks that a rank with a pessimistic log that goes back receives
// again just what it received before, in the same order.
func (w *world) inspectTrace(p *proc) {
	if w.single() || !pessimistic(w.log) || p.gen != p.g.gen {
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
	if m.Kind != protocol.Drain {
		return
	}
	w.inspectNumber(g, m.Number)
	if w.storing[g.id] != m.Number {
		w.storing[g.id] = m.Number
		w.begun[m.Number] = true
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
	case a.Gen <= w.disk.incarnation && w.single(), a.Gen <= g.gen:
		w.failf("group %d begins generation %d after %d", g.id, a.Gen, g.gen)
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

// inspectDecision checks that a failure costs no more than it has to, where all
// is known that bears on it: with a pessimistic log a group goes back to its
// newest checkpoint; otherwise the line is the latest that there is, with what
// all logs hold.
func (w *world) inspectDecision(acts []Action) {
	i := slices.IndexFunc(acts, func(a Action) bool { _, ok := a.Action.(protocol.Recovery); return ok })
	if i < 0 || w.damage || len(w.committing) > 0 {
		return
	}
	w.seen.decisions++
	r := acts[i].Action.(protocol.Recovery)
	if pessimistic(w.log) {
		list := append([]int{0}, w.disk.numbers(r.RolledBack[0])...)
		if newest := list[len(list)-1]; r.From[0] != newest {
			w.failf("group %d goes back to checkpoint %d, and %d is newer", r.RolledBack[0], r.From[0], newest)
		}
		return
	}
	line, current := w.latestLine(r.Failed)
	for _, g := range w.groups {
		k := slices.Index(r.RolledBack, g.id)
		p := line.Places[g.ranks[0]]
		switch {
		case p.Current && k >= 0 && current[g.id]:
			w.failf("group %d goes back and need not", g.id)
		case !p.Current && k >= 0 && p.State.Number != r.From[k]:
			w.failf("group %d goes back to checkpoint %d, and %d would do", g.id, r.From[k], p.State.Number)
		case !p.Current && k < 0 && current[g.id]:
			w.failf("group %d has to go back to checkpoint %d and does not", g.id, p.State.Number)
		}
	}
}

// latestLine finds the recovery line from all that there is: the store, all logs
// and what the survivors have said. It returns also which groups survive.
func (w *world) latestLine(failed []int) (*rec.Line, []bool) {
	h := &rec.History{Ranks: make([]rec.Rank, w.ranks)}
	current := make([]bool, len(w.groups))
	var without []int
	for _, g := range w.groups {
		current[g.id] = !slices.Contains(failed, g.id) && !slices.ContainsFunc(g.procs, func(p *proc) bool { return p.frozen != w.sup.round })
		for local, rank := range g.ranks {
			w.addStates(h, g, local)
			if !current[g.id] {
				without = append(without, rank)
				continue
			}
			states := h.Ranks[rank].Checkpoints
			last := states[len(states)-1]
			now := w.lineState(g, rank, len(states), g.procs[local].moment)
			now.Number, now.Iteration = last.Number, last.Iteration
			for r := range now.Sent {
				now.Sent[r], now.Received[r] = max(now.Sent[r], last.Sent[r]), max(now.Received[r], last.Received[r])
			}
			h.Ranks[rank].Current = &now
		}
	}
	opt := rec.Options{InTransit: rec.Forbidden}
	if w.log == channel.Optimistic {
		opt.InTransit = rec.Allowed
	}
	line, err := rec.Find(h, without, opt)
	if err != nil {
		w.failf("%v", err)
	}
	return line, current
}

// addStates adds those that a rank can go back to.
func (w *world) addStates(h *rec.History, g *simGroup, local int) {
	rank := g.ranks[local]
	numbers := w.disk.numbers(g.id)
	if w.disk.base[g.id] == 0 || w.log == channel.None {
		numbers = append([]int{0}, numbers...)
	}
	list := &h.Ranks[rank].Checkpoints
	var logged map[int][]channel.Vector
	if w.log == channel.Optimistic {
		logged = w.logged(rank, numbers)
	}
	for k, n := range numbers {
		im := w.image(rank, n)
		s := w.lineState(g, rank, len(*list), im.state.Vector)
		s.Number, s.Iteration = n, im.app.iter
		*list = append(*list, s)
		for _, v := range logged[n] {
			if k+1 < len(numbers) && v.Matches > w.image(rank, numbers[k+1]).state.Vector.Matches {
				break
			}
			s := w.lineState(g, rank, len(*list), v)
			s.Number, s.Iteration, s.Logged = n, im.app.iter, true
			*list = append(*list, s)
		}
	}
}

// lineState returns the counters that make a state consistent with others: those
// of the channels, or of the determinants. Ranks of a group are kept together.
func (w *world) lineState(g *simGroup, rank, index int, v channel.Vector) rec.State {
	s := rec.State{Sent: make([]uint64, w.ranks), Received: make([]uint64, w.ranks)}
	if w.log == channel.None {
		copy(s.Sent, v.Sent)
		copy(s.Received, v.Received)
	} else {
		for r := range s.Sent {
			s.Sent[r] = v.Matches
		}
		copy(s.Received, v.Depends)
		s.Received[rank] = 0
	}
	for _, peer := range g.ranks {
		if peer != rank {
			s.Sent[peer], s.Received[peer] = uint64(index), uint64(index)
		}
	}
	return s
}

// inspectLine checks, when groups were sent back, that the state of the job is
// one that it could have been in: nobody depends on what has not happened any
// more, and nothing that was sent is lost.
func (w *world) inspectLine(acts []Action) {
	w.recovered = nil
	if w.single() || pessimistic(w.log) || !slices.ContainsFunc(acts, func(a Action) bool { _, ok := a.Action.(protocol.Spawn); return ok }) {
		return
	}
	for i := range w.ranks {
		for j := range w.ranks {
			if w.at[i].group != w.at[j].group {
				w.inspectChannel(i, j)
			}
		}
	}
}

// inspectChannel checks the channel from rank i to rank j.
func (w *world) inspectChannel(i, j int) {
	from, to := w.groupOf(i), w.groupOf(j)
	if from.live && to.live {
		return
	}
	if w.log == channel.Optimistic {
		// Where both go back, Restore sees to it.
		if to.live && from.line != nil && w.procOf(j).e.Vector().Depends[i] > from.line[i] {
			w.failf("rank %d keeps a state that depends on receive %d of rank %d, which goes back to %d",
				j, w.procOf(j).e.Vector().Depends[i], i, from.line[i])
		}
		return
	}
	sent, received, kept := uint64(0), uint64(0), uint64(0)
	if from.live {
		e := w.procOf(i).e
		sent = e.Vector().Sent[j]
		n, _, _ := e.Kept(j)
		kept = uint64(n)
	} else {
		sent = w.image(i, from.from).state.Vector.Sent[j]
	}
	if to.live {
		received = w.procOf(j).e.Vector().Received[i]
	} else {
		received = w.image(j, to.from).state.Vector.Received[i]
	}
	switch {
	case received > sent:
		w.failf("orphans: rank %d goes on with %d messages of rank %d, which goes on after sending %d", j, received, i, sent)
	case received+kept < sent:
		w.failf("lost: rank %d goes on with %d messages of rank %d, which goes on after sending %d", j, received, i, sent)
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
	case protocol.CheckpointLost:
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
