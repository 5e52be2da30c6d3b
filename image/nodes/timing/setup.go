package timing

import (
	"context"
	"errors"
	"fmt"
)

// Setup is how a workload reaches its file.
type Setup struct {
	Machine *Machine
	Nodes   int  // default: all of the machine
	PerNode int  // processes; default: as many as cores, but one
	Cached  bool // else plain MPI I/O
	Levels  Levels
}

// Result is how a workload fared.
type Result struct {
	Seconds  float64 // of the whole
	Open     float64 // of these
	Work     float64
	Close    float64
	Syncs    int
	Sync     float64 // of Work
	Requests int64
	Bytes    int64   // of the requests
	Stored   int64   // bytes that came from the storage or went there
	Rate     float64 // bytes per second of the whole
	Manager  float64 // share of Work in which the busiest manager worked
	Queue    int     // requests that waited at one manager
}

// Check says what the machine does not have.
func (s *Setup) Check() error {
	switch {
	case s.Machine == nil:
		return errors.New("timing: no machine")
	case s.Nodes < 1 || s.Nodes > s.Machine.Nodes:
		return fmt.Errorf("timing: %d nodes: %s has 1 to %d", s.Nodes, s.Machine.Name, s.Machine.Nodes)
	case s.PerNode < 1 || s.PerNode > 4*s.Machine.Cores:
		return fmt.Errorf("timing: %d ranks on each node: must be 1 to %d on %s", s.PerNode, 4*s.Machine.Cores, s.Machine.Name)
	case s.Levels.Replicas < 0 || s.Levels.Replicas >= s.Nodes && s.Levels.Replicas > 0:
		return fmt.Errorf("timing: journals on %d other nodes: must be 0 to %d", s.Levels.Replicas, s.Nodes-1)
	}
	return nil
}

// begin fills in the defaults and makes the cluster. A manager is one more thread of
// its node.
func (s *Setup) begin() (*cluster, error) {
	if s.Machine != nil && s.Nodes == 0 {
		s.Nodes = s.Machine.Nodes
	}
	if s.Machine != nil && s.PerNode == 0 {
		s.PerNode = s.Machine.Cores - 1
	}
	if err := s.Check(); err != nil {
		return nil, err
	}
	threads := s.PerNode
	if s.Cached {
		threads++
	}
	return newCluster(s.Machine, s.Nodes, threads), nil
}

// file returns the file of the workload.
func (s *Setup) file(c *cluster, size int64, f flags) file {
	if s.Cached {
		return c.cache(size, f, s.Levels)
	}
	return c.plain(f)
}

// watch runs the workload of a file: open, work and close. It measures the first
// process, which meets all others in each.
func (s *Setup) watch(ctx context.Context, c *cluster, f file, work func(p *process, r *Result)) (*Result, error) {
	r := new(Result)
	err := c.run(ctx, s.PerNode, func(p *process) {
		times := [4]float64{c.sim.Now()}
		for i, do := range []func(){func() { f.open(p) }, func() { work(p, r); p.barrier() }, func() { f.close(p) }} {
			do()
			times[i+1] = c.sim.Now()
		}
		r.Open, r.Work, r.Close, r.Seconds = times[1]-times[0], times[2]-times[1], times[3]-times[2], times[3]
	})
	if err != nil {
		return nil, err
	}
	r.Rate, r.Stored = float64(r.Bytes)/r.Seconds, c.stored
	if k, ok := f.(*cache); ok {
		for _, m := range k.managers {
			r.Manager = max(r.Manager, m.worked/r.Work)
			r.Queue = max(r.Queue, m.most)
		}
	}
	return r, nil
}

// read counts a request, and makes it.
func (r *Result) read(p *process, f file, offset, bytes int64) {
	r.Requests++
	r.Bytes += bytes
	f.read(p, offset, bytes)
}

func (r *Result) write(p *process, f file, offset, bytes int64) {
	r.Requests++
	r.Bytes += bytes
	f.write(p, offset, bytes)
}

// sync has all processes sync a file.
func (r *Result) sync(p *process, f file) {
	since := p.cluster.sim.Now()
	f.sync(p)
	if p.rank == 0 {
		r.Syncs++
		r.Sync += p.cluster.sim.Now() - since
	}
}
