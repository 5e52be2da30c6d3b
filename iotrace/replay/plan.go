package replay

import (
	"context"
	"math"
	"sync"

	"ckpt/iotrace"
)

// A plan has the operations of a replay.
//
// It takes about 100 bytes for each, the events included: 64 million operations have
// to fit into memory. So an event is there once, and each list is made in its length.
//
// Operations wait only for operations with a smaller index. In that order
// nothing would ever wait, so there is no deadlock.
type plan struct {
	ranks   []iotrace.Rank
	names   []string // in the directory, of the files of the trace
	files   []plannedFile
	last    []int32         // the file that has each name at the end, or iotrace.None
	events  []iotrace.Event // of the plan's own; File is an index into files, as is Peer of a renaming
	planned []planned       // beside each event
	byRank  [][]int32       // indices into events
	byFile  [][]int32       // likewise
	handles []int32         // the file of each
	first   int64           // start of the trace

	meetings []meetingPlan
	refused  int64 // barriers that contradict the times

	replaced map[int32]int32   // how many ops on the file that a renaming replaces must finish first
	before   map[int32][]int32 // handles that an operation opens before it ends their file
	turns    map[int32][]turn  // of operations among those that need the name of a file

	parts         []part // of each checkpoint and rank
	largest, most int64  // largest request, and most operations at a time
}

// An op is one operation.
type op struct {
	*iotrace.Event
	*planned
}

// op returns the operation of an index.
func (p *plan) op(i int32) op { return op{&p.events[i], &p.planned[i]} }

// planned is what a plan adds to an event, and its times in the replay.
type planned struct {
	name    int32 // in plan.names, as the trace says it; iotrace.None without a file
	to      int32 // of a renaming, likewise
	handle  int32 // in plan.handles; iotrace.None if not needed
	opens   bool  // the trace has no open; the replay opens the handle first
	empties bool  // an open that empties the file, which has bytes
	place   int32 // in the file's gate
	need    int32 // how many ops in that gate must finish first
	part    int32
	// meeting is the barrier, or iotrace.None if it is ignored.
	meeting    int32
	begin, end int64 // ns since the replay began
}

// A plannedFile is a file of the trace, or the next file under its name after it was
// renamed or removed.
type plannedFile struct {
	name string
	// prepared files exist before the replay, with noise in fill.
	prepared bool
	fill     []extent
	gate     *gate // nil if only one rank uses it
}

// A part is the work of a rank for one checkpoint.
type part struct {
	first int32 // op
	last  int32 // last op; the part cannot end without it
	end   int64
	ops   int32 // number of ops
	place int32 // position in the order of ends
	need  int32 // how many parts in that order must end first
}

// newPlan plans a trace that choose, scale and relayout have prepared. The events
// become the plan's.
func newPlan(ctx context.Context, t *iotrace.Trace) (*plan, error) {
	if len(t.Events) > maxEvents {
		return nil, optionError("the trace has %d operations; more than %d are not replayed", len(t.Events), maxEvents)
	}
	p := &plan{ranks: t.Ranks, events: t.Events, planned: make([]planned, len(t.Events)), first: t.Events[0].Start}
	for i := range p.events {
		p.planned[i] = planned{name: iotrace.None, to: iotrace.None, handle: iotrace.None, part: iotrace.None, meeting: iotrace.None}
		if e := &p.events[i]; e.Op.Data() {
			p.largest = max(p.largest, e.Bytes)
		}
	}
	p.byRank = lists(len(p.ranks), p.events, func(e *iotrace.Event) int32 { return e.Rank })
	if err := p.name(t.Files); err != nil {
		return nil, err
	}
	p.byFile = lists(len(p.files), p.events, func(e *iotrace.Event) int32 { return e.File })
	for _, step := range []func(){p.order, p.take, p.meet, p.divide, p.fill} {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		step()
	}
	return p, p.limit()
}

// lists returns the indices of the events of each of n keys. All lists share the
// memory of one.
func lists(n int, events []iotrace.Event, key func(*iotrace.Event) int32) [][]int32 {
	counts := make([]int, n)
	all := 0
	for i := range events {
		if k := key(&events[i]); k != iotrace.None {
			counts[k]++
			all++
		}
	}
	memory, out := make([]int32, all), make([][]int32, n)
	for k, c := range counts {
		out[k], memory = memory[:0:c], memory[c:]
	}
	for i := range events {
		if k := key(&events[i]); k != iotrace.None {
			out[k] = append(out[k], int32(i))
		}
	}
	return out
}

// maxAtOnce bounds concurrent operations: each is a thread, and the runtime of Go has
// at most 10000.
const maxAtOnce = 8192

// limit computes how many operations may be under way at the same time.
func (p *plan) limit() error {
	var sum int64
	for _, ops := range p.byRank {
		var most int64
		var ends []int64 // of operations under way
		for _, i := range ops {
			o := p.op(i)
			keep := ends[:0]
			for _, end := range ends {
				if end > o.Start {
					keep = append(keep, end)
				}
			}
			ends = append(keep, o.End)
			most = max(most, int64(len(ends)))
			if most > maxAtOnce {
				break
			}
		}
		sum += most
	}
	p.most = sum
	if sum > maxAtOnce {
		return optionError("%d ranks with %d operations at a time: more than %d are not replayed", len(p.ranks), sum, maxAtOnce)
	}
	return nil
}

// meet finds the barriers.
func (p *plan) meet() {
	type barrier struct {
		parties []int32 // ops of its ranks
		last    int32   // the last of them
		end     int64   // when the first rank left
		after   int32   // first op of a rank that waits for its end
	}
	var barriers []barrier
	for _, ops := range p.byRank {
		n := 0
		for k, i := range ops {
			if p.events[i].Op != iotrace.Barrier {
				continue
			}
			if n == len(barriers) {
				barriers = append(barriers, barrier{end: math.MaxInt64, after: math.MaxInt32})
			}
			b := &barriers[n]
			n++
			b.parties = append(b.parties, i)
			b.last = max(b.last, i)
			b.end = min(b.end, p.events[i].End)
			for _, next := range ops[k+1:] {
				if p.events[next].Start >= p.events[i].End {
					b.after = min(b.after, next)
					break
				}
			}
		}
	}
	for _, b := range barriers {
		if b.end < p.events[b.last].Start || b.after < b.last {
			p.refused++ // a rank continued before all had arrived
			continue
		}
		for _, i := range b.parties {
			p.planned[i].meeting = int32(len(p.meetings))
		}
		p.meetings = append(p.meetings, meetingPlan{len(b.parties), b.last})
	}
}

// A meetingPlan is a barrier with the number of its ranks and the last op.
type meetingPlan struct {
	parties int
	last    int32
}

// divide finds the parts of the ranks and the order between them.
func (p *plan) divide() {
	for _, ops := range p.byRank {
		for k, i := range ops {
			o := p.op(i)
			if k == 0 || o.Checkpoint != p.events[ops[k-1]].Checkpoint {
				p.parts = append(p.parts, part{first: i, end: math.MinInt64})
			}
			o.part = int32(len(p.parts) - 1)
			x := &p.parts[o.part]
			x.last = max(x.last, i)
			if o.meeting != iotrace.None {
				x.last = max(x.last, p.meetings[o.meeting].last) // it ends no earlier
			}
			x.end = max(x.end, o.End)
			x.ops++
		}
	}
	ends := make([]moment, len(p.parts))
	for i, x := range p.parts {
		ends[i] = moment{x.end, x.last, int32(i)}
	}
	sortMoments(ends)
	for place, m := range ends {
		p.parts[m.what].place = int32(place)
	}
	for i := range p.parts {
		x := &p.parts[i]
		x.need = before(ends, p.events[x.first].Start, x.first)
	}
}

// A gate blocks a caller until the first n items of a list are done. Items may finish
// in any order.
type gate struct {
	mu      sync.Mutex
	done    []bool
	first   int32 // first unfinished item
	waiting []waiter
}

type waiter struct {
	need int32
	open chan struct{}
}

func newGate(n int) *gate { return &gate{done: make([]bool, n)} }

// finish marks item i as done.
func (g *gate) finish(i int32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.done[i] = true
	if i != g.first {
		return
	}
	for int(g.first) < len(g.done) && g.done[g.first] {
		g.first++
	}
	keep := g.waiting[:0]
	for _, w := range g.waiting {
		if w.need <= g.first {
			close(w.open)
		} else {
			keep = append(keep, w)
		}
	}
	g.waiting = keep
}

// wait blocks until the first need items are done.
func (g *gate) wait(ctx context.Context, need int32) error {
	g.mu.Lock()
	if need <= g.first {
		g.mu.Unlock()
		return nil
	}
	w := waiter{need, make(chan struct{})}
	g.waiting = append(g.waiting, w)
	g.mu.Unlock()
	return await(ctx, w.open)
}

func await(ctx context.Context, c <-chan struct{}) error {
	select {
	case <-c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A meeting is a barrier: all arrive before any leaves.
type meeting struct {
	mu      sync.Mutex
	missing int
	all     chan struct{}
}

func newMeeting(parties int) *meeting {
	return &meeting{missing: parties, all: make(chan struct{})}
}

func (m *meeting) join(ctx context.Context) error {
	m.mu.Lock()
	if m.missing--; m.missing == 0 {
		close(m.all)
	}
	m.mu.Unlock()
	return await(ctx, m.all)
}
