// Package recovery finds recovery lines: the checkpoints to which the ranks of a job roll back
// after a failure, when the ranks checkpoint without coordination. It is pure: a [History] goes
// in, a [Line] comes out.
//
// # Use
//
// Every rank counts the messages that it has sent to and received from each peer and stores the
// two vectors with each of its checkpoints. That is all a History needs; after a failure the
// survivors report the vectors of the state they are in.
//
//	h := &recovery.History{Ranks: []recovery.Rank{{Checkpoints: …, Current: …}, …}}
//	line, err := recovery.Find(h, failed, recovery.Options{InTransit: recovery.Forbidden})
//	for _, p := range line.Places { … }           // the state that each rank resumes from
//	garbage, err := recovery.Collect(h, options)  // states that no later recovery needs
//	dead, err := recovery.Useless(h)              // checkpoints that are of no use
//	err = recovery.Text(os.Stdout, line, garbage, "rank")
//	err = diagram.Draw(w, "svg", diagram.Figure{History: h, Line: line, Garbage: garbage})
//
// The vectors of the survivors must describe one moment: no rank may have received what another
// one reports not to have sent. Ranks that have stopped before they report, or channels whose
// counters are read at the receivers first, ensure this. Find refuses a History that violates it.
//
// # Model
//
// Channels are directed and FIFO, one per ordered pair of ranks, and their messages are numbered
// from 1 in the order of sending: the counters of a state say exactly which messages it has sent
// and received. A message counts as received when it is part of the rank's state, whether the
// program has asked for it or it waits in the inbox that is saved with the state.
//
// Between state ci of rank i and state cj of rank j there is
//
//   - an orphan, if cj.Received[i] > ci.Sent[j]: cj depends on a message that,
//     after the rollback, has never been sent. No line may have one.
//   - a message in transit, if ci.Sent[j] > cj.Received[i]: it was sent and has
//     not arrived. With Options.InTransit Allowed the caller has it in a log
//     and replays it. With Forbidden it would be lost, and no line may have one either, with one exception: between two
//     ranks that both keep their current state the channel lives on and
//     delivers it.
//
// Ranks that checkpoint and fail together are one Rank of a History whose Members says so. Their
// counters stay apart, channel by channel.
//
// A state need not be a checkpoint. A rank can rebuild a later state from a checkpoint by
// replaying its log of receives, up to the last stable one: give that state Logged. Recovery from
// optimistic logs uses such states (Strom and Yemini 1985; Johnson and Zwaenepoel 1990).
//
// # Promises
//
//   - The line is the maximal consistent one: no consistent set of states lets
//     any rank keep more. There is exactly one, since the consistent lines are
//     closed under taking the later state of each rank. The tests compare with
//     all combinations.
//   - Find takes O(ranks · states of all ranks) steps by rollback propagation
//     (Bhargava and Lian 1988; Elnozahy, Alvisi, Wang and Johnson, A Survey of
//     Rollback-Recovery Protocols in Message-Passing Systems, ACM Computing
//     Surveys 34(3), 2002, section 3.1).
//   - No recovery needs a state that Collect lists, whichever ranks fail next and
//     whatever they do before (Wang, Chung, Lin and Fuchs,
//     Checkpoint Space Reclamation for Uncoordinated Checkpointing in
//     Message-Passing Systems, IEEE TPDS 6(5), 1995).
//   - A checkpoint that Useless lists lies on a zigzag cycle and belongs to no
//     consistent set of checkpoints (Netzer and Xu, Necessary and Sufficient Conditions for
//     Consistent Global Snapshots, IEEE TPDS 6(2), 1995).
//   - The same History gives the same result, steps and causes included.
package recovery

import (
	"errors"
	"fmt"
)

// A State is one that a rank can go back to, or is in.
type State struct {
	// Number is the checkpoint's, 0 for the beginning of the job. A Logged state has the number
	// of the checkpoint that it is rebuilt from.
	Number    int
	Iteration int // iterations completed
	// Sent and Received count the messages exchanged with each peer since the job began, up to
	// this state; see History.Members for the order. Entries that are missing at the end are 0.
	Sent, Received []uint64
	// Logged says that the state is no checkpoint but is rebuilt from the last one before it by
	// replaying the log.
	Logged bool
}

func at(counters []uint64, k int) uint64 {
	if k < len(counters) {
		return counters[k]
	}
	return 0
}

// A Rank is the past of one rank.
type Rank struct {
	// Checkpoints are the states that the rank can go back to, oldest first. The first one is its
	// initial state, or the oldest that garbage collection has left.
	Checkpoints []State
	// Current is the state the rank is in, or was in when it failed. It is not stored: only a
	// rank that has not failed can keep it. A failed rank needs it only to tell how much is lost.
	Current *State
}

// A History is the past of a job.
type History struct {
	Ranks []Rank
	// Members, unless nil, makes groups of Ranks, which take checkpoints and fail together, and
	// says which ranks of the job are in each. Of n ranks in all, entry m·n+r of a counter is
	// then that of the m-th member and rank r. (A sum over a group would let a message in transit
	// in one channel make up for an orphan in another.)
	Members [][]int
}

func (h *History) size() int {
	if h.Members == nil {
		return len(h.Ranks)
	}
	n := 0
	for _, m := range h.Members {
		n += len(m)
	}
	return n
}

// Sent returns how many messages i has sent to j in state s, and Received how many it has
// received from j.
func (h *History) Sent(i int, s *State, j int) uint64     { return h.sum(i, s.Sent, j) }
func (h *History) Received(i int, s *State, j int) uint64 { return h.sum(i, s.Received, j) }

func (h *History) sum(i int, counters []uint64, j int) (sum uint64) {
	h.Channels(i, j, func(out, _ int) { sum += at(counters, out) })
	return sum
}

// Channels names all channels from i to j by the places of their counters, of i and of j.
func (h *History) Channels(i, j int, channel func(out, in int)) {
	if h.Members == nil {
		channel(j, i)
		return
	}
	n := h.size()
	for a, src := range h.Members[i] {
		for b, dst := range h.Members[j] {
			channel(a*n+dst, b*n+src)
		}
	}
}

// differ returns how many messages state to of j has received from i that state from of i has not
// sent, and how many it has not received that are sent.
func (h *History) differ(i int, from *State, j int, to *State) (orphans, lost uint64) {
	h.Channels(i, j, func(out, in int) {
		if sent, received := at(from.Sent, out), at(to.Received, in); received > sent {
			orphans += received - sent
		} else {
			lost += sent - received
		}
	})
	return orphans, lost
}

// ErrNoLine says that not even the oldest states of all ranks are consistent. It cannot happen
// while the initial states are there, nor after a garbage collection as Collect says.
var ErrNoLine = errors.New("no consistent set of checkpoints")

// An Error says what is wrong with a History.
type Error struct {
	Rank   int
	State  int // index in Checkpoints; their number means the current state, -1 no state
	Reason string
}

func (e *Error) Error() string {
	if e.State < 0 {
		return fmt.Sprintf("history of rank %d: %s", e.Rank, e.Reason)
	}
	return fmt.Sprintf("history of rank %d, state %d: %s", e.Rank, e.State, e.Reason)
}

// check returns what is wrong with the history in itself: counters that fall, checkpoints in
// disorder. The current states of the ranks in ignore are not looked at.
func (h *History) check(ignore []bool) error {
	for r := range h.Ranks {
		states := h.Ranks[r].Checkpoints
		if len(states) == 0 {
			return &Error{r, -1, "no checkpoint, not even the initial state"}
		}
		if states[0].Logged {
			return &Error{r, 0, "no checkpoint before it to rebuild it from"}
		}
		for k := range states {
			if err := h.checkState(r, k, &states[k]); err != nil {
				return err
			}
		}
		if cur := h.Ranks[r].Current; cur != nil && !ignore[r] {
			if err := h.checkState(r, len(states), cur); err != nil {
				return err
			}
		}
	}
	return nil
}

func (h *History) checkState(r, k int, s *State) error {
	n, members := h.size(), 1
	if h.Members != nil {
		members = len(h.Members[r])
	}
	if counters := max(len(s.Sent), len(s.Received)); counters > n*members {
		return &Error{r, k, fmt.Sprintf("counters of %d peers in a job of %d ranks", counters, n)}
	}
	if k == 0 {
		return nil
	}
	states := h.Ranks[r].Checkpoints
	prev := &states[k-1]
	switch {
	case k < len(states) && s.Number < prev.Number, k < len(states) && !s.Logged && s.Number == prev.Number:
		return &Error{r, k, fmt.Sprintf("checkpoint %d comes after checkpoint %d", s.Number, prev.Number)}
	case k < len(states) && s.Logged && s.Number != prev.Number:
		return &Error{r, k, fmt.Sprintf("rebuilt from checkpoint %d and follows checkpoint %d", s.Number, prev.Number)}
	case s.Iteration < prev.Iteration:
		return &Error{r, k, fmt.Sprintf("iteration %d comes after iteration %d", s.Iteration, prev.Iteration)}
	}
	for c := range max(len(s.Sent), len(s.Received), len(prev.Sent), len(prev.Received)) {
		if now, before := at(s.Sent, c), at(prev.Sent, c); now < before {
			return &Error{r, k, fmt.Sprintf("%d messages sent to rank %d, %d in the state before", now, c%n, before)}
		}
		if now, before := at(s.Received, c), at(prev.Received, c); now < before {
			return &Error{r, k, fmt.Sprintf("%d messages received from rank %d, %d in the state before", now, c%n, before)}
		}
	}
	return nil
}

// checkMoment checks that the current states of the ranks that know theirs belong to one moment.
func (h *History) checkMoment(ignore []bool) error {
	for i := range h.Ranks {
		now := h.Ranks[i].Current
		if now == nil || ignore[i] {
			continue
		}
		for j := range h.Ranks {
			if i == j {
				continue
			}
			s, k := h.latest(j, ignore[j])
			if orphans, _ := h.differ(i, now, j, s); orphans > 0 {
				sent := h.Sent(i, now, j)
				return &Error{j, k, fmt.Sprintf("%d messages received from rank %d, which has sent %d", sent+orphans, i, sent)}
			}
		}
	}
	return nil
}

// latest returns the last known state of a rank and its index.
func (h *History) latest(r int, stored bool) (*State, int) {
	states := h.Ranks[r].Checkpoints
	if now := h.Ranks[r].Current; now != nil && !stored {
		return now, len(states)
	}
	return &states[len(states)-1], len(states) - 1
}

// base returns the index of the checkpoint that state k of a rank is, or is rebuilt from.
func (r *Rank) base(k int) int {
	for k < len(r.Checkpoints) && r.Checkpoints[k].Logged {
		k--
	}
	return k
}

type Checkpoint struct{ Rank, Index int }

// Useless returns the checkpoints that lie on a zigzag cycle, by rank and index: no consistent
// set of checkpoints holds them, now or ever, however many more are taken (Netzer and Xu 1995). A
// zigzag path leads from checkpoint a to checkpoint b if there are messages m1…mk such that m1 is
// sent after a by its rank; each further one is sent by the rank that receives the one before, in
// the same or a later interval between checkpoints, be it before or after that receipt; and mk is
// received before b by its rank. A checkpoint on a path to itself is useless. By their theorem
// that is so if and only if it belongs to no consistent set; and it belongs to one if and only if
// going back to it, with all others as late as they like, does not force its own rank back behind
// it. Messages in transit do not matter here. A log of messages makes no checkpoint useful that
// has an orphan.
func Useless(h *History) ([]Checkpoint, error) {
	nobody := make([]bool, len(h.Ranks))
	if err := h.check(nobody); err != nil {
		return nil, err
	}
	if err := h.checkMoment(nobody); err != nil {
		return nil, err
	}
	var list []Checkpoint
	b := newRollback(h, Allowed)
	for r := range h.Ranks {
		for k := range h.Ranks[r].Checkpoints {
			b.reset()
			if stuck, ok := b.run([]Step{back(h, r, k)}); !ok {
				return nil, fmt.Errorf("rank %d cannot go back far enough: %w", stuck, ErrNoLine)
			}
			if b.at[r] < k {
				list = append(list, Checkpoint{r, k})
			}
		}
	}
	return list, nil
}
