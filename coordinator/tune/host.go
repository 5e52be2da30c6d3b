package tune

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"slices"
	"sync"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/mpi"
	"ckpt/dataset"
	"ckpt/image/plan"
	"ckpt/internal/wording"
	"ckpt/zones"

	"golang.org/x/sync/errgroup"
)

// A Host is what a host does without its storage.
type Host struct {
	Processors int
	Copy       float64 // memory to memory, one processor
	CopyAll    float64 // all processors together
	Pull       float64 // one connection of the loopback network
	PullAll    float64 // four connections together
	PullDelay  float64 // of a small pull
}

const (
	hostRounds = 5
	pulls      = 4 // connections at a time
)

// MeasureHost measures the host with some data, in medians of some rounds.
func MeasureHost(ctx context.Context, data []byte) (Host, error) {
	h, now := Host{Processors: runtime.GOMAXPROCS(0)}, time.Now
	var one, all, pull, pullAll, delay []float64
	for range hostRounds {
		if err := ctx.Err(); err != nil {
			return h, err
		}
		one = append(one, copies(now, data, 1))
		all = append(all, copies(now, data, h.Processors))
		for _, m := range []struct {
			n, bytes int
			out      *[]float64
		}{{1, 16 << 20, &pull}, {pulls, 8 << 20, &pullAll}, {1, 1, &delay}} {
			seconds, err := pullOver(now, data[:min(len(data), m.bytes)], m.n)
			if err != nil {
				return h, err
			}
			*m.out = append(*m.out, seconds)
		}
	}
	size := func(n int) float64 { return float64(min(len(data), n)) }
	medianOf := func(v []float64) float64 {
		slices.Sort(v)
		return v[len(v)/2] // of an odd number
	}
	h.Copy, h.CopyAll = medianOf(one), medianOf(all)
	h.Pull, h.PullAll = size(16<<20)/medianOf(pull), pulls*size(8<<20)/medianOf(pullAll)
	h.PullDelay = medianOf(delay)
	return h, nil
}

// copies returns the rate at which so many goroutines copy memory together.
func copies(now func() time.Time, data []byte, n int) float64 {
	to := make([][]byte, n)
	for i := range to {
		to[i] = make([]byte, len(data)/n)
		copy(to[i], data) // touches the pages
	}
	begin := now()
	var wg sync.WaitGroup
	for i := range to {
		wg.Go(func() { copy(to[i], data[i*len(to[i]):]) })
	}
	wg.Wait()
	return float64(n*len(to[0])) / max(now().Sub(begin).Seconds(), 1e-9)
}

// pullOver returns the time until the data have come n times, over as many connections
// of the loopback network at once.
func pullOver(now func() time.Time, data []byte, n int) (seconds float64, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	var serve errgroup.Group
	serve.Go(func() error {
		for range n {
			c, err := l.Accept()
			if err != nil {
				return err
			}
			serve.Go(func() error { return answer(c, data) })
		}
		return nil
	})
	var conns []net.Conn
	into := make([]byte, n*len(data))
	copy(into, data) // touches the pages
	for range n {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			return 0, err
		}
		defer c.Close()
		conns = append(conns, c)
	}
	begin := now()
	var g errgroup.Group
	for i, c := range conns {
		g.Go(func() error { return ask(c, into[i*len(data):(i+1)*len(data)]) })
	}
	err = g.Wait()
	seconds = max(now().Sub(begin).Seconds(), 1e-9)
	return seconds, errors.Join(err, serve.Wait())
}

// answer sends the data when it is asked to.
func answer(c net.Conn, data []byte) error {
	defer c.Close()
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		return err
	}
	_, err := c.Write(data)
	return err
}

func ask(c net.Conn, into []byte) error {
	if _, err := c.Write([]byte{1}); err != nil {
		return err
	}
	_, err := io.ReadFull(c, into)
	return err
}

// PlannedMemory is what the ranks of a job hand over for a full checkpoint: the regions that
// app.New allocates, and with the first rank of a node the header of its segment. The library
// zone is stored beside.
type PlannedMemory struct {
	Sources []plan.Source
	Regions []string // names, by the keys of the pieces
	Zones   zones.Sizes
}

// PlanMemory evaluates a workload without allocating. Implementation is the layout of the shared
// segment, mpich or openmpi.
func PlanMemory(inst *dataset.Instance, mapping job.Mapping, implementation string) (*PlannedMemory, error) {
	layout, err := mpi.ParseImplementation(implementation)
	if err != nil {
		return nil, &job.UsageError{Text: fmt.Sprintf("mpi %q is unknown", implementation), Fix: wording.Sprintf("{mpi} takes mpich or openmpi")}
	}
	const most = 1 << 60
	if inst.DataBytes() > most/int64(inst.NP) {
		return nil, &job.UsageError{Text: fmt.Sprintf("%v holds more than %d EiB, which no plan can count", inst, most>>60), Fix: "choose a smaller class"}
	}
	m := &PlannedMemory{Zones: zones.Sizes{Data: inst.TotalBytes()}}
	last := len(inst.Arrays)
	for _, a := range inst.Arrays {
		m.Regions = append(m.Regions, a.Name)
	}
	m.Regions = append(m.Regions, "runtime", "segment")
	program := inst.Workload.IsProgram() // which has a segment of its library, not of ckpt
	first := dataPieces(inst, 0)
	for node, ranks := range mapping {
		segment := mpi.SegmentBytes(layout, ranks)
		if segment == 0 {
			return nil, &job.UsageError{Text: fmt.Sprintf("node %d has %d ranks: too many for a shared segment", node, ranks),
				Fix: wording.Sprintf("spread them over more nodes with {nodes} or {map}")}
		}
		if !program {
			m.Zones.Shared += segment
		}
		for i := range ranks {
			s := plan.Source{Rank: len(m.Sources), Node: node, Pieces: first}
			if inst.Uneven() {
				s.Pieces = dataPieces(inst, s.Rank)
			}
			if i == 0 && !program {
				// It is drained: all but its header is zero, see mpi.Segment.Drained.
				s.Pieces = append(slices.Clip(s.Pieces), pieceOf(last+1, mpi.HeaderBytes))
			}
			m.Sources = append(m.Sources, s)
		}
	}
	return m, nil
}

// save leaves only the arrays that have to be saved.
func (m *PlannedMemory) save(arrays []dataset.Array) {
	for i := range m.Sources {
		s := &m.Sources[i]
		s.Pieces = slices.DeleteFunc(slices.Clone(s.Pieces), func(p plan.Piece) bool {
			return p.Key >= len(arrays) || !arrays[p.Key].Save || arrays[p.Key].Replicated && s.Rank > 0
		})
	}
}

func pieceOf(key int, bytes int64) plan.Piece {
	return plan.Piece{Key: key, Bytes: zones.PageRound(bytes), Align: true}
}

// dataPieces returns the pieces of the data zone of a rank.
func dataPieces(inst *dataset.Instance, rank int) []plan.Piece {
	var data []plan.Piece
	for i, a := range inst.Arrays {
		if a = a.Of(rank); a.Count > 0 {
			data = append(data, pieceOf(i, a.Bytes()))
		}
	}
	if inst.Runtime == 0 {
		return slices.Clip(data)
	}
	return slices.Clip(append(data, pieceOf(len(inst.Arrays), inst.Runtime)))
}
