package timing

import (
	"context"
	"fmt"

	"ckpt/image/pfs"
)

// cluster is a machine at work in virtual time.
type cluster struct {
	machine   *Machine
	sim       *pfs.Sim
	nodes     []node
	processes []*process
	arrived   int // processes that wait in a collective operation
	release   []func()
	left      int // processes that have not ended
	helpers   []*process
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

// spawn runs a program beside those of the job, on a node.
func (c *cluster) spawn(node int, program func(p *process)) {
	p := &process{cluster: c, node: node, client: c.sim.Client(node)}
	c.helpers = append(c.helpers, p)
	c.left++
	p.begin(program)
	c.sim.At(c.sim.Now(), p.resume)
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
		for _, p := range append(c.processes, c.helpers...) {
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
		return fmt.Errorf("timing: %d of %d processes wait for ever", c.left, len(c.processes))
	}
	return nil
}
