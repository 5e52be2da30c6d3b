package export

import (
	"bufio"
	"cmp"
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"time"

	"ckpt/iotrace"
)

// Process numbers: one for events of the job as a whole, then the ranks. Perfetto
// reserves 0 for the idle process.
const (
	jobPID    = 1
	firstRank = 2
)

// grid is 1/8 µs in ns. Viewers add start and duration: speedscope as doubles in µs,
// Perfetto as whole ns, old ones of it cut off. Multiples of 1/8 µs are exact in both.
// A sum that is too large by a rounding makes slices overlap that only touch: Perfetto
// drops such a slice, and speedscope draws it to the end of the trace.
const grid = 125

// onGrid returns an event with times since the first event, rounded down to the grid.
// That keeps their order: slices that touch or contain each other do so afterwards.
func (c *chrome) onGrid(e *iotrace.Event) iotrace.Event {
	g := *e
	g.Start, g.End = (e.Start-c.zero)/grid*grid, (e.End-c.zero)/grid*grid
	return g
}

// WriteChrome writes a valid trace in the Trace Event format.
func WriteChrome(w io.Writer, t *iotrace.Trace) error {
	c := newChrome(w, t)
	c.head()
	c.events()
	c.w.WriteString("\n]}\n")
	return c.w.Flush()
}

// chrome passes over a trace twice: first to count the lanes of the ranks, then to write.
type chrome struct {
	w     *bufio.Writer
	t     *iotrace.Trace
	zero  int64 // subtracted from all times
	files []string
	pids  []int // the process of each rank, by slot
	tids  []int // the thread of each rank's first lane, by slot
	lanes []int // of each slot
	rate  *bandwidth
	comma bool
	b     []byte
	err   error
}

// slot is the index of a rank's process, or the last one for events without a rank.
func (c *chrome) slot(rank int32) int {
	if rank == iotrace.None {
		return len(c.t.Ranks)
	}
	return int(rank)
}

func newChrome(w io.Writer, t *iotrace.Trace) *chrome {
	c := &chrome{w: bufio.NewWriterSize(w, 1<<16), t: t}
	for _, name := range t.Files {
		c.files = append(c.files, string(appendJSON(nil, name)))
	}
	if len(t.Events) > 0 {
		c.zero = t.Events[0].Start
	}
	end := c.zero
	for i := range t.Events {
		end = max(end, t.Events[i].End)
	}
	c.rate = newBandwidth(c.zero, end)
	posix := posixFiles(t)
	l := newLanes(len(t.Ranks) + 1)
	inOrder(t.Events, func(i int) {
		e := &t.Events[i]
		onGrid := c.onGrid(e)
		l.place(c.slot(e.Rank), &onGrid)
		if e.Module == iotrace.POSIX || !posix[e.File] {
			c.rate.add(e)
		}
	})
	next := 1
	c.pids, c.tids, c.lanes = make([]int, len(l.ranks)), make([]int, len(l.ranks)), make([]int, len(l.ranks))
	for i, s := range inRankOrder(t.Ranks) {
		c.pids[s], c.tids[s], c.lanes[s] = firstRank+i, next, len(l.ranks[s])
		next += len(l.ranks[s])
	}
	return c
}

// inRankOrder returns the slots as viewers list them: ranks by number, then processes
// that are no ranks, like launchers, then the events without a rank. A trace has its
// ranks in the order in which they came.
func inRankOrder(ranks []iotrace.Rank) []int {
	slots := make([]int, len(ranks)+1)
	for i := range slots {
		slots[i] = i
	}
	slices.SortStableFunc(slots[:len(ranks)], func(a, b int) int {
		return cmp.Compare(uint(ranks[a].Rank), uint(ranks[b].Rank)) // None is the largest
	})
	return slots
}

// posixFiles are the files with POSIX reads or writes. MPI-IO requests to these files
// became POSIX requests: bytes count once, as in package analyze.
func posixFiles(t *iotrace.Trace) map[int32]bool {
	m := make(map[int32]bool)
	for i := range t.Events {
		if e := &t.Events[i]; e.Op.Data() && e.Module == iotrace.POSIX && e.File != iotrace.None {
			m[e.File] = true
		}
	}
	return m
}

// inOrder calls f for each event in order of start. Of events that start together the
// longest comes first, so that it can contain the others.
func inOrder(events []iotrace.Event, f func(i int)) {
	var same []int
	for i := 0; i < len(events); {
		same = same[:0]
		for k := i; k < len(events) && events[k].Start == events[i].Start; k++ {
			same = append(same, k)
		}
		if len(same) > 1 {
			slices.SortStableFunc(same, func(a, b int) int { return cmp.Compare(events[b].End, events[a].End) })
		}
		for _, k := range same {
			f(k)
		}
		i += len(same)
	}
}

// head writes the metadata, which comes before the events.
func (c *chrome) head() {
	b := append(c.b[:0], `{"displayTimeUnit":"ms","otherData":{"job":`...)
	b = append(appendJSON(b, c.t.Job), `,"source":`...)
	b = appendJSON(b, c.t.Source)
	if !c.t.Origin.IsZero() {
		b = append(c.t.Origin.Add(time.Duration(c.zero)).UTC().AppendFormat(append(b, `,"start":"`...), time.RFC3339Nano), '"')
	}
	for i, w := range c.t.Warnings {
		b = append(append(b, `,"warning `...), strconv.Itoa(i+1)...)
		b = appendJSON(append(b, `":`...), w.Text)
	}
	c.w.Write(append(b, `},"traceEvents":[`...))
	c.b = b
	c.name("process_name", jobPID, 0, "job "+c.t.Job)
	c.number("process_sort_index", jobPID, 0)
	for i, s := range inRankOrder(c.t.Ranks) {
		pid, lanes := c.pids[s], c.lanes[s]
		if s == len(c.t.Ranks) && lanes == 0 {
			break
		}
		name := "no rank"
		if s < len(c.t.Ranks) {
			r := c.t.Ranks[s]
			switch name = "rank " + strconv.Itoa(r.Rank); {
			case r.Rank < 0 && r.Node != "": // like the coordinator of ckpt
				name = r.Node
			case r.Node != "":
				name += " on " + r.Node
			}
		}
		c.name("process_name", pid, 0, name)
		c.number("process_sort_index", pid, 1+i)
		for l := range lanes {
			lane := "I/O"
			if l > 0 {
				lane += " " + strconv.Itoa(l+1)
			}
			c.name("thread_name", pid, c.tids[s]+l, lane)
		}
	}
}

// begin begins an object of the list.
func (c *chrome) begin(name, ph string, pid, tid int) []byte {
	b := c.b[:0]
	if c.comma {
		b = append(b, ',')
	}
	c.comma = true
	b = append(append(append(b, "\n{\"name\":\""...), name...), `","ph":"`...)
	b = append(append(b, ph...), '"')
	b = member(b, "pid", int64(pid))
	if tid > 0 {
		b = member(b, "tid", int64(tid))
	}
	return b
}

func (c *chrome) end(b []byte) {
	if _, err := c.w.Write(append(b, '}')); err != nil {
		c.err = err
	}
	c.b = b
}

func (c *chrome) name(what string, pid, tid int, name string) {
	b := c.begin(what, "M", pid, tid)
	b = appendJSON(append(b, `,"args":{"name":`...), name)
	c.end(append(b, '}'))
}

func (c *chrome) number(what string, pid, n int) {
	b := c.begin(what, "M", pid, 0)
	b = strconv.AppendInt(append(b, `,"args":{"sort_index":`...), int64(n), 10)
	c.end(append(b, '}'))
}

// events writes slices and counters in order of time.
func (c *chrome) events() {
	l := newLanes(len(c.t.Ranks) + 1)
	sample := 0
	inOrder(c.t.Events, func(i int) {
		if c.err != nil {
			return
		}
		for sample < len(c.rate.read) && c.rate.start(sample) <= c.t.Events[i].Start {
			c.counter(sample)
			sample++
		}
		e := c.onGrid(&c.t.Events[i])
		s := c.slot(e.Rank)
		pid, tid := c.pids[s], c.tids[s]+l.place(s, &e)
		c.slice(&e, pid, tid)
	})
	for ; sample < len(c.rate.read) && c.err == nil; sample++ {
		c.counter(sample)
	}
}

func (c *chrome) slice(e *iotrace.Event, pid, tid int) {
	name, cat := e.Op.String(), "metadata"
	switch {
	case e.Op.Data():
		cat = "data"
	case e.Op.Step():
		cat = "step"
	}
	if e.Module != iotrace.POSIX {
		name = e.Module.String() + " " + name
	}
	b := c.begin(name, "X", pid, tid)
	b = append(append(append(b, `,"cat":"`...), cat...), '"')
	b = c.time(b, "ts", e.Start)
	b = c.time(b, "dur", e.End-e.Start)
	b = append(b, `,"args":{"bytes":`...)
	b = strconv.AppendInt(b, e.Bytes, 10)
	if e.File != iotrace.None {
		b = append(append(b, `,"file":`...), c.files[e.File]...)
	}
	if e.Offset != iotrace.None {
		b = member(b, "offset", e.Offset)
	}
	if e.Zone != 0 {
		b = append(append(append(b, `,"zone":"`...), e.Zone.String()...), '"')
	}
	if e.Create {
		b = append(b, `,"create":true`...)
	}
	if e.Peer != iotrace.None {
		b = member(b, "peer", int64(c.t.Ranks[e.Peer].Rank))
	}
	if e.Checkpoint != 0 {
		b = member(b, "checkpoint", int64(e.Checkpoint))
	}
	if e.Round != 0 {
		b = member(b, "round", int64(e.Round))
	}
	c.end(append(b, '}'))
}

func (c *chrome) counter(i int) {
	b := c.begin("MiB/s", "C", jobPID, 0)
	b = c.time(b, "ts", c.rate.start(i)-c.zero)
	read, write := c.rate.at(i)
	b = strconv.AppendFloat(append(b, `,"args":{"read":`...), read, 'f', 3, 64)
	b = strconv.AppendFloat(append(b, `,"write":`...), write, 'f', 3, 64)
	c.end(append(b, '}'))
}

// time appends ns as microseconds, exactly.
func (c *chrome) time(b []byte, name string, ns int64) []byte {
	b = member(b, name, ns/1000)
	if frac := ns % 1000; frac != 0 {
		b = append(b, '.', byte('0'+frac/100), byte('0'+frac/10%10), byte('0'+frac%10))
	}
	return b
}

func member(b []byte, name string, n int64) []byte {
	b = append(append(append(b, `,"`...), name...), `":`...)
	return strconv.AppendInt(b, n, 10)
}

func appendJSON(b []byte, s string) []byte { return appendValue(b, escaped(s)) }

func appendValue(b []byte, v any) []byte {
	q, err := json.Marshal(v)
	if err != nil {
		return append(b, "null"...) // strings, and structs of them and numbers, always can be
	}
	return append(b, q...)
}

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
