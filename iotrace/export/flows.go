package export

import "ckpt/iotrace"

// flows finds barriers that belong together: the n-th of each rank within a
// checkpoint.
type flows struct {
	passed map[rankCheckpoint]int32 // how many barriers the rank has begun
	groups map[barrier]*group
}

type rankCheckpoint struct{ rank, checkpoint int32 }

type barrier struct{ checkpoint, n int32 }

// A group is one barrier with all its ranks.
type group struct {
	last int // event of the last rank
	open []waiter
}

// A waiter is a slice that an arrow may point to.
type waiter struct {
	pid, tid int
	end      int64
}

func newFlows() *flows {
	return &flows{passed: make(map[rankCheckpoint]int32), groups: make(map[barrier]*group)}
}

func (f *flows) of(e *iotrace.Event) barrier {
	k := rankCheckpoint{e.Rank, e.Checkpoint}
	n := f.passed[k]
	f.passed[k] = n + 1
	return barrier{e.Checkpoint, n}
}

// count sees each event in the first pass, in the order of take.
func (f *flows) count(i int, e *iotrace.Event) {
	if e.Op != iotrace.Barrier {
		return
	}
	b := f.of(e)
	if f.groups[b] == nil {
		f.groups[b] = &group{}
	}
	f.groups[b].last = i
}

// take sees each event in the second pass. For the last event of a barrier it returns
// the events that waited for it: the targets of its arrows.
func (f *flows) take(i int, e *iotrace.Event, pid, tid int) []waiter {
	if e.Op != iotrace.Barrier {
		return nil
	}
	b := f.of(e)
	g := f.groups[b]
	if g.last != i {
		g.open = append(g.open, waiter{pid, tid, e.End})
		return nil
	}
	delete(f.groups, b)
	waiting := g.open[:0]
	for _, m := range g.open {
		if m.end > e.Start {
			waiting = append(waiting, m)
		}
	}
	return waiting
}
