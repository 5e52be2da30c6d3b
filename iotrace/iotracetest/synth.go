package iotracetest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"ckpt/iotrace"
)

// A Pattern describes how offsets follow each other.
type Pattern string

// The patterns, with the names of package analyze.
const (
	Contiguous      Pattern = "contiguous"       // each request begins where the one before ended
	Sequential      Pattern = "sequential"       // forward, with holes of up to half a request
	StridedSimple   Pattern = "strided-simple"   // constant distance between starts
	StridedNested   Pattern = "strided-nested"   // groups of strided requests, a larger stride apart
	StridedVariable Pattern = "strided-variable" // forward, with varying holes of one to eight requests
	Random          Pattern = "random"           // anywhere
	Mixed           Pattern = "mixed"            // several kinds of patterns in turn
)

// Patterns returns all patterns.
func Patterns() []Pattern {
	return []Pattern{Contiguous, Sequential, StridedSimple, StridedNested, StridedVariable, Random, Mixed}
}

// A Spec describes a trace. Zero values have defaults.
type Spec struct {
	Pattern  Pattern       // default Contiguous
	Shared   bool          // one file for all ranks, not one per rank
	Read     bool          // read instead of write
	Variable bool          // requests of a quarter of Size to Size
	Ranks    int           // default 4
	Ops      int           // data operations of a rank in each burst, without noise; default 100
	Size     int64         // of a request, bytes; default 64 KiB
	Bursts   int           // default 1
	Every    time.Duration // between the starts of bursts; default and minimum is a second of silence
	Noise    float64       // probability of a stray operation before each one, up to 0.5
	Seed     uint64
}

func (s Spec) prepared() Spec {
	if s.Pattern == "" {
		s.Pattern = Contiguous
	}
	if s.Ranks == 0 {
		s.Ranks = 4
	}
	if s.Ops == 0 {
		s.Ops = 100
	}
	if s.Size == 0 {
		s.Size = 64 << 10
	}
	if s.Bursts == 0 {
		s.Bursts = 1
	}
	return s
}

// The model of time: a request takes latency + size / rate, plus or minus a fifth, and
// a pause precedes the next one. Noise is an occasional longer pause.
const (
	latency    = 50 * time.Microsecond
	rate       = 1e9 // bytes per second of a rank
	pause      = 20 * time.Microsecond
	noisePause = 5 * time.Millisecond
	silence    = time.Second // at least, between bursts
)

// Generate generates the trace that s describes.
func Generate(s Spec) *iotrace.Trace {
	s = s.prepared()
	tr := &iotrace.Trace{Job: "synthetic " + string(s.Pattern), Source: "synth"}
	for rank := range s.Ranks {
		tr.Ranks = append(tr.Ranks, iotrace.Rank{Rank: rank, Node: fmt.Sprintf("node%d", rank/16)})
		file := rank
		switch {
		case !s.Shared:
			tr.Files = append(tr.Files, fmt.Sprintf("rank-%d.dat", rank))
		case rank == 0:
			tr.Files = []string{"shared.dat"}
			fallthrough
		default:
			file = 0
		}
		x := newSource(&s, rank, file)
		if s.Shared && !s.Read && rank == 0 { // no rank opens a file that is not there
			x.ahead[0].Create = true
		}
		for more := true; more; {
			var e iotrace.Event
			e, more = x.pop()
			tr.Events = append(tr.Events, e)
		}
	}
	slices.SortStableFunc(tr.Events, inTime)
	return tr
}

// inTime orders events by their start, then by rank.
func inTime(a, b iotrace.Event) int {
	return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.Rank, b.Rank))
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
