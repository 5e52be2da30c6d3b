package recovery

import "slices"

// A Recorder makes a History out of what happens in a job, one event after the other.
type Recorder struct{ ranks []Rank }

// NewRecorder returns one of a job of so many ranks, each in its initial state,
// which is its checkpoint 0.
func NewRecorder(ranks int) *Recorder {
	r := &Recorder{ranks: make([]Rank, ranks)}
	for i := range r.ranks {
		r.ranks[i].Checkpoints = []State{{Sent: make([]uint64, ranks), Received: make([]uint64, ranks)}}
		now := r.ranks[i].Checkpoints[0].clone()
		r.ranks[i].Current = &now
	}
	return r
}

func (s *State) clone() State {
	c := *s
	c.Sent, c.Received = slices.Clone(s.Sent), slices.Clone(s.Received)
	return c
}

// Iterate ends an iteration of a rank.
func (r *Recorder) Iterate(rank int) { r.ranks[rank].Current.Iteration++ }

// Send has a rank send a message.
func (r *Recorder) Send(from, to int) { r.ranks[from].Current.Sent[to]++ }

// Receive has a rank receive the next message from another, and tells whether
// there was one.
func (r *Recorder) Receive(to, from int) bool {
	received := &r.ranks[to].Current.Received[from]
	if *received == r.ranks[from].Current.Sent[to] {
		return false
	}
	*received++
	return true
}

// Checkpoint has a rank store its state.
func (r *Recorder) Checkpoint(rank int) { r.store(rank, false) }

// Log has a rank make its log of receives stable, so that its state can be
// rebuilt from its last checkpoint.
func (r *Recorder) Log(rank int) { r.store(rank, true) }

func (r *Recorder) store(rank int, logged bool) {
	states := &r.ranks[rank].Checkpoints
	s := r.ranks[rank].Current.clone()
	s.Logged, s.Number = logged, (*states)[len(*states)-1].Number
	if !logged {
		s.Number++
	}
	*states = append(*states, s)
}

// History returns what has happened so far.
func (r *Recorder) History() *History {
	h := new(History)
	for i := range r.ranks {
		now := r.ranks[i].Current.clone()
		now.Number = r.ranks[i].Checkpoints[len(r.ranks[i].Checkpoints)-1].Number
		h.Ranks = append(h.Ranks, Rank{Checkpoints: slices.Clone(r.ranks[i].Checkpoints), Current: &now})
	}
	return h
}
