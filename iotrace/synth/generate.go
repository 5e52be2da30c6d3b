package synth

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"time"

	"ckpt/iotrace"
)

// The model of time: a request takes latency + size / rate, plus or minus a fifth, and
// a pause precedes the next one. Noise is an occasional longer pause.
const (
	latency    = 50 * time.Microsecond
	rate       = 1e9 // bytes per second of a rank
	pause      = 20 * time.Microsecond
	noisePause = 5 * time.Millisecond
	silence    = time.Second // at least, between bursts
)

// Generate generates the trace that s describes. Ten million events take a few
// seconds, and no memory beyond the events.
func Generate(s Spec) (*iotrace.Trace, error) {
	s, err := s.prepared()
	if err != nil {
		return nil, err
	}
	tr := &iotrace.Trace{Job: "synthetic " + string(s.Pattern), Source: "synth"}
	q := make(queue, s.Ranks)
	for rank := range s.Ranks {
		tr.Ranks = append(tr.Ranks, iotrace.Rank{Rank: rank, Node: fmt.Sprintf("node%d", rank/16)})
		file := 0
		if !s.Shared {
			file = rank
		}
		if file == len(tr.Files) {
			name := "shared.dat"
			if !s.Shared {
				name = fmt.Sprintf("rank-%d.dat", rank)
			}
			tr.Files = append(tr.Files, name)
		}
		q[rank] = newSource(&s, rank, file)
	}
	tr.Events = make([]iotrace.Event, 0, s.Ranks*(s.Bursts*int(float64(s.Ops)*(1+s.Noise))+3)+64)
	heap.Init(&q)
	if s.Shared && !s.Read { // no rank opens a file that is not there
		q[0].ahead[0].Create = true
	}
	for len(q) > 0 {
		e, ok := q[0].pop()
		tr.Events = append(tr.Events, e)
		if ok {
			heap.Fix(&q, 0)
		} else {
			heap.Pop(&q)
		}
	}
	return tr, nil
}

// A source generates the events of one rank. It always holds the next one.
type source struct {
	spec       *Spec
	r          *rand.Rand
	walk       walker
	rank, file int32
	ahead      []iotrace.Event // generated events; only the first has its time
	burst, k   int
	now        int64
	began      int64 // of the burst
	end        int64 // of the file, so far
	closed     bool
}

func newSource(s *Spec, rank, file int) *source {
	r := rand.New(rand.NewPCG(s.Seed, uint64(rank)<<8|3))
	x := &source{spec: s, r: r, walk: s.walker(rank), rank: int32(rank), file: int32(file)}
	x.now = r.Int64N(int64(100 * time.Microsecond))
	x.began = x.now
	x.add(iotrace.Event{Op: iotrace.Open, Create: !s.Read && !s.Shared, Offset: iotrace.None})
	x.time(&x.ahead[0])
	return x
}

// pop returns the next event and whether more follow.
func (x *source) pop() (iotrace.Event, bool) {
	e := x.ahead[0]
	x.ahead = append(x.ahead[:0], x.ahead[1:]...)
	if len(x.ahead) == 0 && !x.closed {
		x.fill()
	}
	if len(x.ahead) == 0 {
		return e, false
	}
	x.time(&x.ahead[0])
	return e, true
}

// fill generates the next request and the noise before it, or closes the file.
func (x *source) fill() {
	s := x.spec
	if x.k == s.Ops {
		x.k = 0
		x.burst++
		if x.burst < s.Bursts {
			x.began = max(x.began+int64(s.Every), x.now+int64(silence))
			x.now = x.began
		}
	}
	if x.burst == s.Bursts {
		x.closed = true
		if !s.Read {
			x.add(iotrace.Event{Op: iotrace.Sync, Offset: iotrace.None})
		}
		x.add(iotrace.Event{Op: iotrace.Close, Offset: iotrace.None})
		return
	}
	e := x.request()
	if s.Noise > 0 && x.r.Float64() < s.Noise {
		switch x.r.IntN(5) {
		case 0: // a header is written again
			x.add(x.data(0, 512))
		case 1: // a request to another place
			x.add(x.data(x.r.Int64N(x.end+s.Size), s.Size))
		case 2: // some metadata
			x.add(x.data(512+8*x.r.Int64N(64), 8+8*x.r.Int64N(8)))
		case 3: // out of order
			if x.k < s.Ops {
				x.add(x.request())
			}
		case 4: // a delay
			x.now += x.r.Int64N(int64(noisePause))
		}
	}
	x.add(e)
}

// request returns the next request of the pattern.
func (x *source) request() iotrace.Event {
	x.k++
	off, size := x.walk.next(x.r)
	x.end = max(x.end, off+size)
	return x.data(off, size)
}

func (x *source) data(off, size int64) iotrace.Event {
	op := iotrace.Write
	if x.spec.Read {
		op = iotrace.Read
	}
	return iotrace.Event{Op: op, Offset: off, Bytes: size}
}

func (x *source) add(e iotrace.Event) {
	e.Rank, e.File, e.Peer = x.rank, x.file, iotrace.None
	x.ahead = append(x.ahead, e)
}

// time sets the times of the event.
func (x *source) time(e *iotrace.Event) {
	d := float64(latency) + float64(e.Bytes)/rate*float64(time.Second)
	d *= 0.8 + 0.4*x.r.Float64()
	e.Start = x.now
	e.End = e.Start + int64(d)
	x.now = e.End + x.r.Int64N(int64(pause))
}

// queue is a heap of sources, ordered by their next event.
type queue []*source

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	a, b := q[i], q[j]
	if a.ahead[0].Start != b.ahead[0].Start {
		return a.ahead[0].Start < b.ahead[0].Start
	}
	return a.rank < b.rank
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(*source)) }
func (q *queue) Pop() any {
	old := *q
	x := old[len(old)-1]
	*q = old[:len(old)-1]
	return x
}
