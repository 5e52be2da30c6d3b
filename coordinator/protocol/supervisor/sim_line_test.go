package supervisor

import (
	"slices"

	"ckpt/coordinator/protocol"
	"ckpt/coordinator/protocol/channel"
	"ckpt/coordinator/recovery"
)

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
func (w *world) latestLine(failed []int) (*recovery.Line, []bool) {
	h := &recovery.History{Ranks: make([]recovery.Rank, w.ranks)}
	current := make([]bool, len(w.groups))
	var without []int
	for _, g := range w.groups {
		current[g.id] = !slices.Contains(failed, g.id) && !slices.ContainsFunc(g.procs, func(p *proc) bool { return p.fencedRound != w.sup.round })
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
	opt := recovery.Options{InTransit: recovery.Forbidden}
	if w.log == channel.Optimistic {
		opt.InTransit = recovery.Allowed
	}
	line, err := recovery.Find(h, without, opt)
	if err != nil {
		w.failf("%v", err)
	}
	return line, current
}

// addStates adds those that a rank can go back to.
func (w *world) addStates(h *recovery.History, g *simGroup, local int) {
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
func (w *world) lineState(g *simGroup, rank, index int, v channel.Vector) recovery.State {
	s := recovery.State{Sent: make([]uint64, w.ranks), Received: make([]uint64, w.ranks)}
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
