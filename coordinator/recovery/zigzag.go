package recovery

import "fmt"

// A Checkpoint names one state of one rank.
type Checkpoint struct{ Rank, Index int }

// Useless returns the checkpoints that lie on a zigzag cycle, by rank and
// index: no consistent set of checkpoints holds them, now or ever, however many
// more are taken, so that storing them was in vain (Netzer and Xu 1995).
//
// A zigzag path leads from checkpoint a to checkpoint b if there are messages
// m1…mk such that m1 is sent after a by its rank; each further one is sent by
// the rank that receives the one before, in the same or a later interval
// between checkpoints, be it before or after that receipt; and mk is received
// before b by its rank. A checkpoint on a path to itself is useless. By their
// theorem that is so if and only if it belongs to no consistent set; and it
// belongs to one if and only if going back to it, with all others as late as
// they like, does not force its own rank back behind it.
//
// Messages in transit do not matter here. A log of messages makes no checkpoint
// useful that has an orphan.
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
