package iotracetest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"ckpt/iotrace"
)

// Params control a trace of the thesis. Zero values have defaults.
type Params struct {
	Ranks int    // default 4
	Class string // size of the problem, A to D; default B
	// Aggregators and Buffer are for MiniGhost: the number of ranks that write for the
	// others, default 2, and the size of their requests in bytes, default 16 MiB.
	Aggregators int
	Buffer      int64
	Seed        uint64 // for times, and for sizes that the thesis does not give
}

var builtins = map[string]func(Params) *iotrace.Trace{
	"dmtcp":        dmtcp,
	"minighost":    miniGhost,
	"deeplearning": deepLearning,
}

// Builtins returns the names of the built-in traces.
func Builtins() []string { return []string{"deeplearning", "dmtcp", "minighost"} }

// Builtin generates one of the three traces of the thesis.
func Builtin(name string, p Params) *iotrace.Trace {
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
	return builtins[name](p)
}

// A played writes the trace of a job rank by rank. finish sorts the events.
type played struct {
	trace *iotrace.Trace
	clock []int64 // of each rank, ns
	r     *rand.Rand
}

func newPlayed(job string, p Params) *played {
	s := &played{trace: &iotrace.Trace{Job: job, Source: "synth"}, clock: make([]int64, p.Ranks), r: rand.New(rand.NewPCG(p.Seed, 7))}
	for rank := range p.Ranks {
		s.trace.Ranks = append(s.trace.Ranks, iotrace.Rank{Rank: rank, Node: fmt.Sprintf("node%d", rank/16)})
		s.clock[rank] = s.r.Int64N(int64(time.Millisecond))
	}
	return s
}

func (s *played) file(name string) int32 {
	s.trace.Files = append(s.trace.Files, name)
	return int32(len(s.trace.Files) - 1)
}

// do appends an operation that takes about the given time.
func (s *played) do(rank int, op iotrace.Op, file int32, off, size int64, took time.Duration) {
	e := iotrace.Event{Op: op, Rank: int32(rank), File: file, Peer: iotrace.None, Checkpoint: 1, Offset: off, Bytes: size}
	e.Start = s.clock[rank]
	e.End = e.Start + int64(float64(took)*(0.9+0.2*s.r.Float64()))
	s.clock[rank] = e.End + 2000
	s.trace.Events = append(s.trace.Events, e)
}

// makes lets the first open of all so far make the file: no rank opens one that is not there.
func (s *played) makes() {
	var first *iotrace.Event
	for i := range s.trace.Events {
		if e := &s.trace.Events[i]; e.Op == iotrace.Open && (first == nil || e.Start < first.Start) {
			first = e
		}
	}
	first.Create = true
}

// meet makes all ranks wait for the last one, and then for d.
func (s *played) meet(d time.Duration) {
	last := slices.Max(s.clock)
	for i := range s.clock {
		s.clock[i] = last + int64(d)
	}
}

func (s *played) finish() *iotrace.Trace {
	slices.SortStableFunc(s.trace.Events, func(a, b iotrace.Event) int { return cmp.Compare(a.Start, b.Start) })
	return s.trace
}

// From León: the 44 writes of the first burst have 4, 8, 6, 12, 20, 24, 32 and 79
// bytes, then 3582, then 4096 (text on Figures 3.14-3.16), and 8192 bytes in all
// (Table 2.6, Figure 5.14). The text does not say how often each small size occurs.
// The counts here make 42 writes and 514 bytes, which 3582 and 4096 complete.
var dmtcpHeader = []struct{ size, count int64 }{
	{79, 2}, {4, 23}, {8, 4}, {6, 2}, {12, 4}, {20, 3}, {24, 2}, {32, 2}, {3582, 1}, {4096, 1},
}

// The second burst begins as in Figure 3.17: the second write of 4096 bytes that
// Figure 3.14 mentions, then the writes of the figure. Zero stands for the data
// segment, 109.43 MiB in BT.B.4.
var dmtcpStart = []int64{4096, 102400, 4096, 4096, 4096, 4096, 4096, 0, 4096, 1343488, 4096}

const (
	page = 4096
	// dmtcpData is the data segment of BT.B.4 (Figure 3.17).
	dmtcpData = 114749440
	// dmtcpWrites is the number of writes in the second burst (Figure 5.14, cluster).
	dmtcpWrites = 163
	// dmtcpLibraries is the size of library areas and stacks: the rest of the 155.12
	// MiB in the second burst of BT.B.4, without the data, the shared segment and the
	// writes of Figure 3.17.
	dmtcpLibraries = 463 * page
)

// dmtcp is a coordinated checkpoint of NAS BT under DMTCP: one image per rank, written
// from the beginning to the end in two bursts. All ranks do the same.
//
// From the thesis: the sizes, counts and offsets above; for four ranks of class
// B 163 writes and 155.12 MiB in the second burst; the time of a write, 1.46e-7 s
// for a byte (Equation 5.1). Filled in: the second between the bursts; which
// library areas there are (the seed chooses); other classes and numbers of ranks,
// by the volume of the grid (N = 64, 102, 162, 408 points a side, NPB), and the
// shared segment of MPICH, 25.47 + 4·p + p²/16 MiB, with up to 64 ranks on a node
// (Equation 3.11 is its regression).
func dmtcp(p Params) *iotrace.Trace {
	s := newPlayed(fmt.Sprintf("bt.%s.%d under DMTCP", p.Class, p.Ranks), p)
	n := map[string]float64{"A": 64, "B": 102, "C": 162, "D": 408}[p.Class]
	pages := func(bytes float64) int64 { return max(1, int64(bytes/page+0.5)) * page }
	data := pages(dmtcpData * (n / 102) * (n / 102) * (n / 102) * 4 / float64(p.Ranks))
	pn := float64(min(p.Ranks, 64))
	shared := pages((25.47 + 4*pn + pn*pn/16) * (1 << 20))
	second := dmtcpSecond(rand.New(rand.NewPCG(p.Seed, 11)), data, shared)

	const perByte = 1.46041308e-07 // s, Equation 5.1
	took := func(size int64) time.Duration {
		return 20*time.Microsecond + time.Duration(float64(size)*perByte*float64(time.Second))
	}
	files := make([]int32, p.Ranks)
	offs := make([]int64, p.Ranks)
	write := func(rank int, size int64) {
		s.do(rank, iotrace.Write, files[rank], offs[rank], size, took(size))
		offs[rank] += size
	}
	for rank := range p.Ranks {
		files[rank] = s.file(fmt.Sprintf("ckpt_bt.%s.%d_rank%d.dmtcp", p.Class, p.Ranks, rank))
		s.do(rank, iotrace.Open, files[rank], iotrace.None, 0, 100*time.Microsecond)
		s.trace.Events[len(s.trace.Events)-1].Create = true
		for _, h := range dmtcpHeader {
			for range h.count {
				write(rank, h.size)
			}
		}
	}
	s.meet(time.Second)
	for rank := range p.Ranks {
		for _, size := range second {
			write(rank, size)
		}
		s.do(rank, iotrace.Close, files[rank], iotrace.None, 0, 20*time.Microsecond)
	}
	return s.finish()
}

// dmtcpSecond returns the sizes of the second burst. Most are one page.
func dmtcpSecond(r *rand.Rand, data, shared int64) []int64 {
	var out []int64
	for _, size := range dmtcpStart {
		if size == 0 {
			size = data
		}
		out = append(out, size)
	}
	// The library areas have 1 to 60 pages, one in seven more than one.
	left := int64(dmtcpLibraries)
	at := len(out)
	for len(out) < dmtcpWrites-1 {
		size := int64(page)
		after := int64(dmtcpWrites-2-len(out)) * page // for the other writes
		switch {
		case after == 0:
			size = left
		case r.IntN(7) == 0 && left > after:
			size += min(r.Int64N(60)*page, (left-size-after)/page*page)
		}
		out = append(out, size)
		left -= size
	}
	// The shared segment lies between the libraries and the stack.
	at += 2 * (len(out) - at) / 3
	out = append(out[:at], append([]int64{shared}, out[at:]...)...)
	return out
}

const (
	ghostVars   = 5  // variables of MiniGhost: a file has 5·nx·ny·nz doubles for each rank
	ghostHeader = 64 // bytes of one piece of the header; a rank writes four
	ghostPieces = 4
)

// miniGhost is MiniGhost's own checkpoint with MPI-IO. All ranks write pieces of the
// header in turn. Then the aggregators write the variables, with one collective write
// each, in which every aggregator writes its share in requests of the size of the
// collective buffer. Then they read one variable.
//
// From the thesis: one shared file; metadata of all ranks, strided; then large
// regular writes of the aggregators only (Figures 4.8-4.10); 152.59 MiB for four
// ranks with 100³ points each (class B; A has 50³, C 200³, D 400³), a header of 3
// to 5 kB for 16 ranks; a fifth of the bytes written is read (Table 4.8). That a
// variable is one collective write, and the header four pieces of each rank,
// follows from the 1289, 1294 and 1304 writes of Table 4.8 with a buffer of 4 MiB
// and 1, 2, 4 aggregators: 5·a·⌈V/(a·4 MiB)⌉ + 4·16, V = 976.56 MiB. Filled in:
// the size of a piece, 64 bytes, and all times.
func miniGhost(p Params) *iotrace.Trace {
	s := newPlayed(fmt.Sprintf("minighost.%s.%d", p.Class, p.Ranks), p)
	side := map[string]int64{"A": 50, "B": 100, "C": 200, "D": 400}[p.Class]
	volume := 8 * side * side * side * int64(p.Ranks) // bytes of a variable
	header := int64(ghostHeader * ghostPieces * p.Ranks)
	file := s.file("minighost.ckpt")
	took := func(size int64) time.Duration {
		return 200*time.Microsecond + time.Duration(float64(size)/20e6*float64(time.Second))
	}
	for rank := range p.Ranks {
		s.do(rank, iotrace.Open, file, iotrace.None, 0, 300*time.Microsecond)
		for k := range ghostPieces {
			s.do(rank, iotrace.Write, file, int64((k*p.Ranks+rank)*ghostHeader), ghostHeader, took(ghostHeader))
		}
	}
	s.makes()
	s.meet(500 * time.Millisecond)
	collective := func(op iotrace.Op, variable int) {
		begin := header + int64(variable)*volume
		for a := range int64(p.Aggregators) {
			rank := int(a) * p.Ranks / p.Aggregators
			from, to := begin+a*volume/int64(p.Aggregators), begin+(a+1)*volume/int64(p.Aggregators)
			for off := from; off < to; off += p.Buffer {
				n := min(p.Buffer, to-off)
				s.do(rank, op, file, off, n, took(n))
			}
		}
		s.meet(time.Millisecond)
	}
	for v := range ghostVars {
		collective(iotrace.Write, v)
	}
	for a := range p.Aggregators {
		s.do(a*p.Ranks/p.Aggregators, iotrace.Sync, file, iotrace.None, 0, 50*time.Millisecond)
	}
	s.meet(500 * time.Millisecond)
	collective(iotrace.Read, 0)
	for rank := range p.Ranks {
		s.do(rank, iotrace.Close, file, iotrace.None, 0, 50*time.Microsecond)
	}
	return s.finish()
}

// The layers of the model: bytes of each weight and bias, as floats of 4 bytes, for an
// image recogniser with two convolutions and two dense layers (the MNIST example of
// Keras). Adam keeps two moments of each.
var deepLayers = []int64{288 * 4, 32 * 4, 18432 * 4, 64 * 4, 204800 * 4, 128 * 4, 1280 * 4, 10 * 4}

const (
	deepEpochs = 3
	hdfSuper   = 96  // superblock of HDF5, version 0
	hdfHeader  = 272 // object header of a dataset
	hdfHeap    = 544 // node of a group and its heap
)

// deepLearning is the training of a network with a checkpoint after each epoch, which
// only rank 0 writes.
//
// From the thesis (Section 4.3, which has no numbers): MNIST with TensorFlow and
// Keras; one file per epoch, by rank 0; irregular strided requests with backward
// seeks. Filled in from the HDF5 format that Keras writes: every dataset has a header
// in front of its data, which is completed after the data; then the node of its group
// is written again; the superblock comes last. Class A is the network itself; B, C and
// D have 4, 16 and 64 times the weights.
func deepLearning(p Params) *iotrace.Trace {
	s := newPlayed(fmt.Sprintf("mnist.%s.%d", p.Class, p.Ranks), p)
	for epoch := range deepEpochs {
		if epoch > 0 {
			s.meet(20 * time.Second) // of training
		}
		s.hdf(0, fmt.Sprintf("weights-epoch%d.h5", epoch+1), scaledLayers(p.Class))
	}
	return s.finish()
}

// scaledLayers are the layers of a class: the weights grow, the biases do not.
func scaledLayers(class string) []int64 {
	layers := slices.Clone(deepLayers)
	for i := 0; i < len(layers); i += 2 {
		layers[i] *= map[string]int64{"A": 1, "B": 4, "C": 16, "D": 64}[class]
	}
	return layers
}

// hdf has a rank write the weights and their two moments into a file.
func (s *played) hdf(rank int, name string, layers []int64) {
	took := func(size int64) time.Duration {
		return 30*time.Microsecond + time.Duration(float64(size)/200e6*float64(time.Second))
	}
	file := s.file(name)
	write := func(off, size int64) { s.do(rank, iotrace.Write, file, off, size, took(size)) }
	s.do(rank, iotrace.Open, file, iotrace.None, 0, 200*time.Microsecond)
	s.trace.Events[len(s.trace.Events)-1].Create = true
	write(0, hdfSuper)
	at := int64(hdfSuper)
	for group := range 3 { // weights, and the two moments
		node := at
		at += hdfHeap
		for layer, bytes := range layers {
			header := at
			at += hdfHeader
			// HDF5 reserves space for attributes, a different amount for each dataset.
			at += 64 * int64(3+(5*layer+7*group)%11)
			write(at, bytes)
			at += bytes
			write(header, hdfHeader)
			if layer%3 == 2 {
				write(node, hdfHeap)
			}
		}
	}
	write(0, hdfSuper)
	s.do(rank, iotrace.Close, file, iotrace.None, 0, 50*time.Microsecond)
}
