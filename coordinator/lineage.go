package coordinator

import (
	"slices"
)

// maxAge bounds the number of earlier checkpoints that one depends on.
const maxAge = 15

// A lineage is the checkpoints that the memory of the ranks descends from.
type lineage struct {
	numbers []int // ascending; of those before the run, the ones there were
}

// restored says that the ranks begin with checkpoint n, 0 the beginning.
func (l *lineage) restored(n int) {
	l.numbers = slices.DeleteFunc(l.numbers, func(k int) bool { return k > n })
}

func (l *lineage) committed(n int) { l.numbers = append(l.numbers, n) }

// newest returns the last one, 0 if there is none.
func (l *lineage) newest() int {
	if len(l.numbers) == 0 {
		return 0
	}
	return l.numbers[len(l.numbers)-1]
}

// oldest returns the oldest that the next may depend on.
func (l *lineage) oldest() int {
	if len(l.numbers) <= maxAge {
		return 0
	}
	return l.numbers[len(l.numbers)-maxAge]
}
