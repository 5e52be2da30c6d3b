package channel

import (
	"io"
	"slices"
)

// checkpoint takes one of a whole group.
func (w *world) checkpoint(g int) bool {
	for _, k := range w.ranks {
		if w.group[k.id] == g && (k.ep == nil || k.ep.Durable() < k.wait) {
			return false
		}
	}
	for _, k := range w.ranks {
		if w.group[k.id] != g {
			continue
		}
		if w.kind == Optimistic {
			w.flush(k) // the log has no holes behind an older checkpoint
		}
		durable := k.ep.Durable()
		w.save(k)
		if w.kind == Receiver || w.kind == Sender {
			k.checkpoints = k.checkpoints[len(k.checkpoints)-1:]
			if w.rng.IntN(2) == 0 { // the log is truncated
				keep := 0
				if len(k.tail) > 0 {
					keep = int(k.tail[0].Index - 1 - durable)
				} else {
					keep = int(k.ep.Appended() - durable)
				}
				k.disk = k.disk[len(k.disk)-keep:]
			}
			for _, p := range w.ranks {
				if p.ep != nil {
					p.ep.Collected(k.id, k.checkpoints[0].vec.Received[p.id])
				}
			}
		}
	}
	return true
}

// crash kills groups.
func (w *world) crash(groups ...int) {
	w.crashes++
	for _, k := range w.ranks {
		if !slices.Contains(groups, w.group[k.id]) || k.ep == nil {
			continue
		}
		k.ep, k.inbox, k.wait = nil, nil, 0
		if n := w.rng.IntN(len(k.tail) + 1); n > 0 { // some of it may have got to the disk
			for _, a := range k.tail[:n] {
				k.disk = append(k.disk, a.Frame)
			}
		}
		k.tail = nil
	}
	switch w.kind {
	case None:
		w.recoverNone()
	case Optimistic:
		w.recoverOptimistic()
	}
}

// restart brings a dead group back from its last checkpoints and its logs.
func (w *world) restart(g int) bool {
	done := false
	for _, k := range w.ranks {
		if w.group[k.id] == g && k.ep == nil {
			w.revive(k, nil)
			done = true
		}
	}
	return done
}

func (w *world) revive(k *rank, line []uint64) {
	c := k.checkpoints[len(k.checkpoints)-1]
	st, err := Decode(c.state)
	if err != nil {
		w.t.Fatal(err)
	}
	k.incarnation++
	k.mem, k.inbox = c.mem.clone(), slices.Clone(c.inbox)
	ep, acts, err := Restore(w.config(k.id), st, reading(k.disk), line)
	if err != nil {
		w.t.Fatalf("rank %d: %v", k.id, err)
	}
	k.ep, k.tail, k.wait = ep, nil, 0
	for p := range w.ranks {
		w.wires[k.id][p] = link{}
		w.wires[p][k.id] = link{}
		if q := w.ranks[p]; q.ep != nil && p != k.id {
			if err := q.ep.Admit(k.id, k.incarnation); err != nil {
				w.t.Fatal(err)
			}
			q.ep.PeerDown(k.id)
		}
	}
	w.act(k, acts)
}

func reading(frames []Frame) func() (Frame, error) {
	return func() (Frame, error) {
		if len(frames) == 0 {
			return Frame{}, io.EOF
		}
		f := frames[0]
		frames = frames[1:]
		return f, nil
	}
}

// recoverNone rolls back by checkpoints until nothing is orphaned or lost.
func (w *world) recoverNone() {
	n := len(w.ranks)
	at := make([]int, n) // index of the checkpoint; its length: the present state
	for r, k := range w.ranks {
		at[r] = len(k.checkpoints)
		if k.ep == nil {
			at[r]--
		}
	}
	vec := func(r int) Vector {
		if k := w.ranks[r]; at[r] < len(k.checkpoints) {
			return k.checkpoints[at[r]].vec
		}
		return w.ranks[r].ep.Vector()
	}
	for changed := true; changed; {
		changed = false
		for i := range n {
			for j := range n {
				sent, got := vec(i).Sent[j], vec(j).Received[i]
				back := -1
				switch kept := at[i] == len(w.ranks[i].checkpoints) && at[j] == len(w.ranks[j].checkpoints); {
				case got > sent:
					back = j
				case got < sent && !kept:
					back = i
				}
				if back >= 0 {
					at[back]--
					changed = true
				}
			}
		}
	}
	for r, k := range w.ranks {
		if at[r] < len(k.checkpoints) {
			k.checkpoints = k.checkpoints[:at[r]+1]
			k.ep = nil
		}
	}
	for _, k := range w.ranks {
		if k.ep == nil {
			w.revive(k, nil)
		}
	}
}

// flush makes all frames of a rank durable.
func (w *world) flush(k *rank) {
	for len(k.tail) > 0 {
		w.commit(k)
	}
}

// recoverOptimistic computes how many determinants each rank can keep, by
// rollback propagation, and puts the ranks into these states.
func (w *world) recoverOptimistic() {
	n := len(w.ranks)
	states := make([][]Vector, n) // that a rank can be put into, oldest first
	from := make([][]int, n)      // and the checkpoint each is rebuilt from
	for r, k := range w.ranks {
		for c := range k.checkpoints {
			states[r], from[r] = append(states[r], k.checkpoints[c].vec), append(from[r], c)
		}
		for c := range k.checkpoints { // those between two checkpoints as well
			st, err := Decode(k.checkpoints[c].state)
			if err != nil {
				w.t.Fatal(err)
			}
			logged, err := st.Logged(reading(k.disk))
			if err != nil {
				w.t.Fatal(err)
			}
			for _, v := range logged {
				states[r], from[r] = append(states[r], v), append(from[r], c)
			}
		}
		if k.ep != nil {
			states[r], from[r] = append(states[r], k.ep.Present()), append(from[r], -1)
		}
	}
	line := make([]uint64, n)
	pick := make([]int, n)
	choose := func(r int, ok func(Vector) bool) {
		best := -1
		for i, v := range states[r] {
			if ok(v) && (best < 0 || v.Matches > states[r][best].Matches || v.Matches == states[r][best].Matches && from[r][i] < 0) {
				best = i
			}
		}
		if best < 0 {
			w.t.Fatalf("rank %d cannot be put into any state", r)
		}
		pick[r], line[r] = best, states[r][best].Matches
	}
	for r := range n {
		choose(r, func(Vector) bool { return true })
	}
	for changed := true; changed; {
		changed = false
		for r := range n {
			consistent := func(v Vector) bool {
				for p := range n {
					if v.Depends[p] > line[p] {
						return false
					}
				}
				return true
			}
			if !consistent(states[r][pick[r]]) {
				choose(r, consistent)
				changed = true
			}
		}
	}
	for r, k := range w.ranks {
		if f := from[r][pick[r]]; f >= 0 {
			k.checkpoints = k.checkpoints[:f+1]
			if k.ep != nil { // rolled back, as what it has was not lost
				for _, a := range k.tail {
					k.disk = append(k.disk, a.Frame)
				}
			}
			k.ep = nil
		}
	}
	for _, k := range w.ranks {
		if k.ep == nil {
			w.revive(k, line)
		}
	}
	for _, k := range w.ranks {
		w.flush(k) // none of them goes on before the Cuts of all are durable
	}
}
