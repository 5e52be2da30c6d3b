package timing

import (
	"errors"
	"iter"
	"math/bits"

	"ckpt/image/pfs"
)

// process is one of the job. Its program runs as a coroutine, which stands still while
// virtual time passes.
type process struct {
	cluster *cluster
	rank    int
	node    int
	client  *pfs.Client
	next    func() (struct{}, bool)
	stop    func()
	yield   func(struct{}) bool
}

// errStopped ends the program of a process when the run is cancelled.
var errStopped = errors.New("stopped")

// begin makes the coroutine of a process.
func (p *process) begin(program func(p *process)) {
	p.next, p.stop = iter.Pull(func(yield func(struct{}) bool) {
		defer func() {
			if r := recover(); r != nil && r != errStopped { //nolint:errorlint // the same value
				panic(r)
			}
		}()
		p.yield = yield
		program(p)
		p.cluster.left--
	})
}

func (p *process) resume() { p.next() }

// until lets the process wait until done is called. An event calls it, after begin has
// returned.
func (p *process) until(begin func(done func())) {
	begin(p.resume)
	if !p.yield(struct{}{}) {
		panic(errStopped)
	}
}

// at lets the process wait until a time.
func (p *process) at(when float64) { p.until(func(done func()) { p.cluster.sim.At(when, done) }) }

// drain lets the process wait until its bytes are on the disks, and synced.
func (p *process) drain() {
	p.until(func(done func()) { p.client.Drain(float64(p.cluster.machine.Storage.Sync), done) })
}

// compute has the process compute. Cores that more threads share are slower.
func (p *process) compute(seconds float64) {
	p.at(p.cluster.sim.Now() + seconds*p.cluster.nodes[p.node].share)
}

// together waits until all processes are here, does something once, and goes on with
// all of them after messages in a tree.
func (p *process) together(do func(done func())) {
	c := p.cluster
	p.until(func(done func()) {
		c.release = append(c.release, done)
		if c.arrived++; c.arrived < len(c.processes) {
			return
		}
		waiting := c.release
		c.arrived, c.release = 0, nil
		do(func() {
			at := c.sim.Now() + c.tree()
			for _, resume := range waiting {
				c.sim.At(at, resume)
			}
		})
	})
}

// tree is how long messages take from one process to all, and back.
func (c *cluster) tree() float64 {
	n := &c.machine.Network
	perNode := len(c.processes) / len(c.nodes)
	return 2 * (float64(bits.Len(uint(len(c.nodes)-1)))*n.Latency + float64(bits.Len(uint(perNode-1)))*n.Local)
}

// barrier waits until all processes are here.
func (p *process) barrier() { p.together(func(done func()) { done() }) }
