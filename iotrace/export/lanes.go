package export

import "ckpt/iotrace"

// lanes distributes events over lanes. Two events in a lane do not overlap, unless one
// contains the other: the viewers require it.
type lanes struct {
	ranks [][][]int64 // by rank and lane, the ends of open events, the innermost last
}

func newLanes(ranks int) *lanes { return &lanes{make([][][]int64, ranks)} }

// place returns the first lane that an event fits into. Events come in order of start,
// longer ones first.
func (l *lanes) place(rank int, e *iotrace.Event) int {
	for i := range l.ranks[rank] {
		open := l.ranks[rank][i]
		for len(open) > 0 && open[len(open)-1] <= e.Start {
			open = open[:len(open)-1]
		}
		fits := len(open) == 0 || open[len(open)-1] >= e.End
		if fits {
			open = append(open, e.End)
		}
		l.ranks[rank][i] = open
		if fits {
			return i
		}
	}
	l.ranks[rank] = append(l.ranks[rank], []int64{e.End})
	return len(l.ranks[rank]) - 1
}

// bandwidth counts the bytes read and written over time.
type bandwidth struct {
	from, width int64 // ns
	read, write []float64
	// Events longer than a sample are kept as changes of the bytes per ns from sample
	// to sample.
	readStep, writeStep []float64
}

const samples = 1000

func newBandwidth(from, to int64) *bandwidth {
	width := max(((to-from)/samples/grid+1)*grid, 1000) // no finer than the unit of the format
	n := (to-from)/width + 1
	return &bandwidth{from: from, width: width, read: make([]float64, n), write: make([]float64, n),
		readStep: make([]float64, n+1), writeStep: make([]float64, n+1)}
}

func (b *bandwidth) start(i int) int64 { return b.from + int64(i)*b.width }

// add spreads the bytes of an event evenly over its time.
func (b *bandwidth) add(e *iotrace.Event) {
	sum, step := b.read, b.readStep
	switch e.Op {
	case iotrace.Read:
	case iotrace.Write:
		sum, step = b.write, b.writeStep
	default:
		return
	}
	first, last := (e.Start-b.from)/b.width, (e.End-b.from)/b.width
	if first == last {
		sum[first] += float64(e.Bytes)
		return
	}
	rate := float64(e.Bytes) / float64(e.End-e.Start)
	sum[first] += rate * float64(b.start(int(first)+1)-e.Start)
	sum[last] += rate * float64(e.End-b.start(int(last)))
	step[first+1] += rate
	step[last] -= rate
}

// at returns a sample in MiB/s. Ask for each sample once, in order.
func (b *bandwidth) at(i int) (read, write float64) {
	b.readStep[i+1] += b.readStep[i]
	b.writeStep[i+1] += b.writeStep[i]
	perSecond := func(bytes, rate float64) float64 {
		return max((bytes/float64(b.width)+rate)*1e9/(1<<20), 0)
	}
	return perSecond(b.read[i], b.readStep[i]), perSecond(b.write[i], b.writeStep[i])
}
