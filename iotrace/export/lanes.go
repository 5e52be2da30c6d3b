package export

import "ckpt/iotrace"

// lanes puts events into lanes, so that in each of them any two either do not
// overlap or one holds the other, as the viewers want it.
type lanes struct {
	ranks [][][]int64 // of each rank, of each lane, the ends of what is open, the innermost last
}

func newLanes(ranks int) *lanes { return &lanes{make([][][]int64, ranks)} }

// place returns the lane of an event, the first in which it fits. Events come in
// order of start, the longer first.
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

// bandwidth is how many bytes were read and written over time.
type bandwidth struct {
	from, width int64 // ns
	read, write []float64
	// Of what takes longer than a sample, the bytes per ns are kept as changes
	// from one sample to the next.
	readStep, writeStep []float64
}

const samples = 1000

func newBandwidth(from, to int64) *bandwidth {
	width := max((to-from)/samples+1, 1000) // no finer than the unit of the format
	n := (to-from)/width + 1
	return &bandwidth{from: from, width: width, read: make([]float64, n), write: make([]float64, n),
		readStep: make([]float64, n+1), writeStep: make([]float64, n+1)}
}

// start is when a sample begins.
func (b *bandwidth) start(i int) int64 { return b.from + int64(i)*b.width }

// add spreads the bytes of an event evenly over the time it took.
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

// at returns a sample in MiB/s. Samples must be asked for in order, each once.
func (b *bandwidth) at(i int) (read, write float64) {
	b.readStep[i+1] += b.readStep[i]
	b.writeStep[i+1] += b.writeStep[i]
	perSecond := func(bytes, rate float64) float64 {
		return max((bytes/float64(b.width)+rate)*1e9/(1<<20), 0)
	}
	return perSecond(b.read[i], b.readStep[i]), perSecond(b.write[i], b.writeStep[i])
}
