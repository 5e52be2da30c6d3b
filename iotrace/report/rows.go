package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"gonum.org/v1/plot"

	"ckpt/iotrace"
)

// rows gives each rank a place in a picture, in the order of their numbers. Where
// there are more ranks than places, neighbours share one. Processes that are no ranks
// share the last place.
type rows struct {
	numbers []int // of the ranks, ascending
	place   []int // of each of Trace.Ranks
	group   int   // ranks in a place; the last place may have fewer
}

// noRank names the place of processes that are no ranks.
const noRank = "no rank"

func newRows(tr *iotrace.Trace, most int) *rows {
	var ranks []int
	for i, r := range tr.Ranks {
		if r.Rank >= 0 {
			ranks = append(ranks, i)
		}
	}
	slices.SortStableFunc(ranks, func(a, b int) int { return cmp.Compare(tr.Ranks[a].Rank, tr.Ranks[b].Rank) })
	w := &rows{place: make([]int, len(tr.Ranks)), group: 1}
	for len(ranks) > w.group*most {
		w.group *= 2 // ranks come in powers of two
	}
	for i := range w.place {
		w.place[i] = (len(ranks) + w.group - 1) / w.group
	}
	for i, at := range ranks {
		w.numbers = append(w.numbers, tr.Ranks[at].Rank)
		w.place[at] = i / w.group
	}
	return w
}

// count returns the number of places of ranks. The place behind them is of processes
// that are no ranks.
func (w *rows) count() int { return (len(w.numbers) + w.group - 1) / w.group }

// of returns the place of an event's rank.
func (w *rows) of(rank int32) int {
	if uint(rank) < uint(len(w.place)) {
		return w.place[rank]
	}
	return w.count()
}

// size returns the number of ranks in a place.
func (w *rows) size(place int) int {
	if place == w.count() {
		return 1
	}
	return min(w.group, len(w.numbers)-place*w.group)
}

// shared describes places of several ranks for a label: " (8 in a row)".
func (w *rows) shared(place string) string {
	if w.group == 1 {
		return ""
	}
	return fmt.Sprintf(" (%d in a %s)", w.group, place)
}

// ticks marks places at their middle with the number of their first rank, about most of
// them.
func (w *rows) ticks(most int, others bool) plot.ConstantTicks {
	var out plot.ConstantTicks
	n := w.count()
	step := 1
	for (n+step-1)/step > most {
		step *= 2
	}
	for i := 0; i < n; i += step {
		out = append(out, plot.Tick{Value: float64(i) + 0.5, Label: strconv.Itoa(w.numbers[i*w.group])})
	}
	if others {
		out = append(out, plot.Tick{Value: float64(n) + 0.5, Label: noRank})
	}
	return out
}
