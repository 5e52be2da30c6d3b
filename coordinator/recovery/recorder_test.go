package recovery

import "slices"

// A Recorder makes a History out of what happens in a job, one event after the
// other. Every event takes one unit of time on the axis of a drawing.
type Recorder struct {
	ranks    []Rank
	messages []Message
	onTheWay [][]int // by sender and receiver: messages that have not arrived, by index
	clock    float64
}

// NewRecorder returns one of a job of so many ranks, each in its initial state,
// which is its checkpoint 0.
func NewRecorder(ranks int) *Recorder {
	r := &Recorder{ranks: make([]Rank, ranks), onTheWay: make([][]int, ranks*ranks)}
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

func (r *Recorder) tick() float64 {
	r.clock++
	return r.clock
}

// Iterate ends an iteration of a rank.
func (r *Recorder) Iterate(rank int) {
	r.tick()
	r.ranks[rank].Current.Iteration++
}

// Send has a rank send a message.
func (r *Recorder) Send(from, to int) {
	now := r.ranks[from].Current
	now.Sent[to]++
	channel := &r.onTheWay[from*len(r.ranks)+to]
	*channel = append(*channel, len(r.messages))
	r.messages = append(r.messages, Message{From: from, To: to, Seq: now.Sent[to], SentAt: r.tick()})
}

// Receive has a rank receive the next message from another, and tells whether
// there was one.
func (r *Recorder) Receive(to, from int) bool {
	channel := &r.onTheWay[from*len(r.ranks)+to]
	if len(*channel) == 0 {
		return false
	}
	m := &r.messages[(*channel)[0]]
	*channel = (*channel)[1:]
	m.Received, m.ReceivedAt = true, r.tick()
	r.ranks[to].Current.Received[from]++
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
	s.At, s.Logged, s.Number = r.tick(), logged, (*states)[len(*states)-1].Number
	if !logged {
		s.Number++
	}
	*states = append(*states, s)
}

// History returns what has happened so far.
func (r *Recorder) History() *History {
	h := &History{Messages: slices.Clone(r.messages)}
	for i := range r.ranks {
		now := r.ranks[i].Current.clone()
		now.At, now.Number = r.clock+1, r.ranks[i].Checkpoints[len(r.ranks[i].Checkpoints)-1].Number
		h.Ranks = append(h.Ranks, Rank{Checkpoints: slices.Clone(r.ranks[i].Checkpoints), Current: &now})
	}
	return h
}
