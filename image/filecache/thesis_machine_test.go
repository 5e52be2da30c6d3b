// The tests of thesis_*_test.go predict how long the cache of Malinowski's thesis takes, and
// plain MPI I/O beside it, on the machines of the thesis: virtual time, no bytes. One
// description of a machine serves all workloads. docs/TIERS.md says what it assumes, and
// compares results with the thesis.
package filecache_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"ckpt/image/pfs"
)

// Machine describes a cluster whose nodes have persistent memory. Times are in seconds,
// rates in bytes per second.
type Machine struct {
	Name   string
	Nodes  int
	Cores  int // of a node; one of them has the operating system
	Memory Memory
	// Network carries the messages between nodes. The storage has a network of its own.
	Network Network
	Manager Manager
	Storage *pfs.System
	Step    float64 // of a computation, as one step of a Collatz sequence
	Pixel   float64 // of a filter that looks at the eight pixels around each
}

// Memory is the persistent memory of a node.
type Memory struct {
	Access      float64 // until a line of it comes
	Persist     float64 // until what is written is durable
	Bandwidth   float64 // of the memory that is slowed down
	Divisor     float64 // by which it is
	Line        int64   // bytes that come together
	Outstanding int     // lines that one core waits for at the same time
}

// latency is how long one core waits for some bytes in a row.
func (m *Memory) latency(bytes int64) float64 {
	lines := (bytes + m.Line - 1) / m.Line
	return m.Access * max(1, float64(lines)/float64(m.Outstanding))
}

// Network is what a node sends and receives through.
type Network struct {
	Rate    float64 // each way
	Latency float64 // of a message
	Local   float64 // of a message within a node
	Copy    float64 // rate of a message within a node
}

// Manager is the thread of a node that has a part of a file. Its times are what a core works,
// without moving the bytes.
type Manager struct {
	Local  float64 // of a request of its own node
	Remote float64 // of one of another node
}

// machines are the two of the thesis, by the names of their storages. "printed" is out of
// the thesis (tables 6.1 to 6.3), "assumed" is ours.
var machines = map[string]Machine{
	"lap06": {
		Nodes: 6, Cores: 16, // printed
		// Printed, but for the lines: the thesis does not say what one access is.
		Memory: Memory{600e-9, 2000e-9, 37e9, 4, 64, 16},
		// 40 Gb/s are printed, of which 8 of 10 bits are data; MPI over TCP is assumed.
		Network: Network{Rate: 4e9, Latency: 20e-6, Local: 1e-6, Copy: 4e9},
		Manager: Manager{Local: 8e-6, Remote: 20e-6}, // assumed: MPI with threads, polling
		Step:    5e-9,                                // assumed: a mispredicted branch
		Pixel:   2e-6,                                // derived: closing files behind the next pass gains 10 %
	},
	"k2": {
		Nodes: 96, Cores: 8, // printed
		Memory:  Memory{100e-9, 0, 6e9, 1, 64, 8},                              // assumed
		Network: Network{Rate: 1.18e9, Latency: 25e-6, Local: 1e-6, Copy: 2e9}, // the rate is printed
		Manager: Manager{Local: 8e-6, Remote: 20e-6},
		Step:    5e-9,
		Pixel:   2e-6,
	},
}

// mustLoad returns a machine with its storage.
func mustLoad(t testing.TB, name string) *Machine {
	t.Helper()
	m := machines[name]
	var err error
	if m.Storage, err = pfs.Load(name); err != nil {
		t.Fatal(err)
	}
	m.Name = name
	return &m
}

// cluster is a machine at work in virtual time.
type cluster struct {
	machine   *Machine
	sim       *pfs.Sim
	nodes     []node
	processes []*process
	arrived   int // processes that wait in a collective operation
	release   []func()
	left      int   // processes that have not ended
	stored    int64 // bytes that requests to the storage had
}

// node is one of a cluster.
type node struct {
	in, out line
	memory  line    // its bandwidth, which all cores share
	journal line    // the thread that keeps requests of other managers
	share   float64 // how much longer everything takes since threads share cores; at least 1
}

// line does one thing after the other, in the order in which they come.
type line struct{ free, busy float64 }

// do returns when something is done that comes at a time.
func (l *line) do(at, seconds float64) float64 {
	l.free = max(l.free, at) + seconds
	l.busy += seconds
	return l.free
}

// newCluster makes a cluster whose nodes have so many threads each.
func newCluster(m *Machine, nodes, threads int) *cluster {
	c := &cluster{machine: m, sim: pfs.NewSim(m.Storage, pfs.Options{}), nodes: make([]node, nodes)}
	for i := range c.nodes {
		c.nodes[i].share = max(1, float64(threads)/float64(m.Cores-1))
	}
	return c
}

// send calls done when a message has come from one node to another.
func (c *cluster) send(from, to int, bytes int64, done func()) {
	n, now := &c.machine.Network, c.sim.Now()
	if from == to {
		c.sim.At(now+n.Local+float64(bytes)/n.Copy, done)
		return
	}
	seconds := float64(bytes) / n.Rate
	// Its first bytes come before its last ones have left.
	left := c.nodes[from].out.do(now, seconds)
	c.sim.At(left-seconds+n.Latency, func() {
		c.sim.At(c.nodes[to].in.do(c.sim.Now(), seconds), done)
	})
}

// move returns when a core that begins at a time has read or written bytes of the
// memory of a node: it waits for their lines, and shares the bandwidth with other cores.
func (c *cluster) move(node int, at float64, bytes int64) float64 {
	m := &c.machine.Memory
	return c.nodes[node].memory.do(at+m.latency(bytes), float64(bytes)*m.Divisor/m.Bandwidth)
}

// run has all processes run a program, until each has ended.
func (c *cluster) run(ctx context.Context, perNode int, program func(p *process)) error {
	for rank := range len(c.nodes) * perNode {
		p := &process{cluster: c, rank: rank, node: rank / perNode}
		p.client = c.sim.Client(p.node)
		p.begin(program)
		c.processes = append(c.processes, p)
	}
	c.left = len(c.processes)
	defer func() {
		for _, p := range c.processes {
			p.stop()
		}
	}()
	for _, p := range c.processes {
		c.sim.At(0, p.resume)
	}
	if err := c.sim.Run(ctx); err != nil {
		return err
	}
	if c.left > 0 {
		return fmt.Errorf("%d of %d processes wait for ever", c.left, len(c.processes))
	}
	return nil
}

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
		return errors.New("no machine")
	case s.Nodes < 1 || s.Nodes > s.Machine.Nodes:
		return fmt.Errorf("%d nodes: %s has 1 to %d", s.Nodes, s.Machine.Name, s.Machine.Nodes)
	case s.PerNode < 1 || s.PerNode > 4*s.Machine.Cores:
		return fmt.Errorf("%d ranks on each node: must be 1 to %d on %s", s.PerNode, 4*s.Machine.Cores, s.Machine.Name)
	case s.Levels.Replicas < 0 || s.Levels.Replicas >= s.Nodes && s.Levels.Replicas > 0:
		return fmt.Errorf("journals on %d other nodes: must be 0 to %d", s.Levels.Replicas, s.Nodes-1)
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
