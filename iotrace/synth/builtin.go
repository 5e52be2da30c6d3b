package synth

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"ckpt/iotrace"
)

// Params control a built-in trace. Zero values have defaults.
type Params struct {
	Ranks int    // default 4
	Class string // size of the problem, A to D; default B
	// Aggregators and Buffer are for MiniGhost: the number of ranks that write for the
	// others, default 2, and the size of their requests in bytes, default 16 MiB.
	Aggregators int
	Buffer      int64
	// Layers are for deep learning: the bytes of the arrays of another network, named
	// Network. If Sharded, each rank writes its share of each of them into a file of its
	// own.
	Layers  []int64
	Network string
	Sharded bool
	Seed    uint64 // for times, and for sizes that the thesis does not give
}

var builtins = map[string]func(Params) *iotrace.Trace{
	"dmtcp":        dmtcp,
	"minighost":    miniGhost,
	"deeplearning": deepLearning,
}

// Builtins returns the names of the built-in traces.
func Builtins() []string { return []string{"deeplearning", "dmtcp", "minighost"} }

// Builtin generates a built-in trace.
func Builtin(name string, p Params) (*iotrace.Trace, error) {
	if p.Ranks == 0 {
		p.Ranks = 4
	}
	if p.Class == "" {
		p.Class = "B"
	}
	if p.Aggregators == 0 {
		p.Aggregators = min(2, p.Ranks)
	}
	if p.Buffer == 0 {
		p.Buffer = 16 << 20
	}
	p.Class = strings.ToUpper(p.Class)
	build := builtins[strings.ToLower(name)]
	switch {
	case build == nil:
		return nil, fmt.Errorf("synth: unknown built-in trace %q (want %s)", name, strings.Join(Builtins(), ", "))
	case p.Ranks < 1 || p.Ranks > 1<<16:
		return nil, fmt.Errorf("synth: ranks %d: not from 1 to %d", p.Ranks, 1<<16)
	case !slices.Contains([]string{"A", "B", "C", "D"}, p.Class):
		return nil, fmt.Errorf("synth: class %q: not A, B, C or D", p.Class)
	case p.Aggregators < 1 || p.Aggregators > p.Ranks:
		return nil, fmt.Errorf("synth: aggregators %d: not from 1 to the number of ranks, %d", p.Aggregators, p.Ranks)
	case slices.ContainsFunc(p.Layers, func(bytes int64) bool { return bytes < 1 || bytes > 1<<50 }):
		return nil, fmt.Errorf("synth: layers of %v bytes: not from 1 byte to 1 PiB", p.Layers)
	case p.Buffer < 64<<10:
		return nil, fmt.Errorf("synth: buffer %d: less than 64 KiB", p.Buffer)
	}
	return build(p), nil
}

// A script writes the trace of a job rank by rank. finish sorts the events.
type script struct {
	trace *iotrace.Trace
	clock []int64 // of each rank, ns
	r     *rand.Rand
}

func newScript(job string, p Params) *script {
	s := &script{trace: &iotrace.Trace{Job: job, Source: "synth"}, clock: make([]int64, p.Ranks), r: rand.New(rand.NewPCG(p.Seed, 7))}
	for rank := range p.Ranks {
		s.trace.Ranks = append(s.trace.Ranks, iotrace.Rank{Rank: rank, Node: fmt.Sprintf("node%d", rank/16)})
		s.clock[rank] = s.r.Int64N(int64(time.Millisecond))
	}
	return s
}

func (s *script) file(name string) int32 {
	s.trace.Files = append(s.trace.Files, name)
	return int32(len(s.trace.Files) - 1)
}

// do appends an operation that takes about the given time.
func (s *script) do(rank int, op iotrace.Op, file int32, off, size int64, took time.Duration) {
	e := iotrace.Event{Op: op, Rank: int32(rank), File: file, Peer: iotrace.None, Checkpoint: 1, Offset: off, Bytes: size}
	e.Start = s.clock[rank]
	e.End = e.Start + int64(float64(took)*(0.9+0.2*s.r.Float64()))
	s.clock[rank] = e.End + 2000
	s.trace.Events = append(s.trace.Events, e)
}

// makes lets the first open of all so far make the file: no rank opens one that is not there.
func (s *script) makes() {
	var first *iotrace.Event
	for i := range s.trace.Events {
		if e := &s.trace.Events[i]; e.Op == iotrace.Open && (first == nil || e.Start < first.Start) {
			first = e
		}
	}
	first.Create = true
}

// meet makes all ranks wait for the last one, and then for d.
func (s *script) meet(d time.Duration) {
	last := slices.Max(s.clock)
	for i := range s.clock {
		s.clock[i] = last + int64(d)
	}
}

func (s *script) finish() *iotrace.Trace {
	slices.SortStableFunc(s.trace.Events, func(a, b iotrace.Event) int {
		switch {
		case a.Start < b.Start:
			return -1
		case a.Start > b.Start:
			return 1
		}
		return 0
	})
	return s.trace
}
