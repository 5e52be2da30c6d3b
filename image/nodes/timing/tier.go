package timing

import (
	"context"
	"fmt"

	"ckpt/image/nodes"
)

// Tier takes checkpoints: each rank writes a file in one go, to the memory of its node or
// to the storage.
type Tier struct {
	Bytes       int64 // of the file of a rank
	Checkpoints int
	Interval    float64      // of computation before each
	Store       bool         // there is no tier: files go to the storage
	Scheme      nodes.Scheme // of the tier
	DrainEvery  int          // every so many checkpoints go to the storage; zero: none
	DrainRate   float64      // bytes per second of the job; zero: no limit
}

// TierResult is how checkpoints fared.
type TierResult struct {
	Seconds    float64 // of the whole, without drains after the last checkpoint
	Pause      float64 // of a checkpoint on average, while the job stands still
	Wait       float64 // of these: until a slot is free
	Drain      float64 // from the commit on the tier until it is stored, on average
	Rate       float64 // bytes of all files per second of a pause, without waits
	Redundancy int64   // bytes of a checkpoint on other nodes
	Sent       int64   // bytes of a checkpoint between nodes
}

// window is how many pieces of a file are under way at the same time.
const window = 8

// tier is a Tier at work.
type tier struct {
	Tier
	cluster *cluster
	topo    nodes.Topology
	sets    []nodes.Set
	coders  map[[2]int]*line // of a node, for the sets of ranks at a position
	limit   line             // of drains
	stored  []version
	result  *TierResult
}

// version is a checkpoint of the tier on its way to the storage.
type version struct {
	there  int // files of ranks that are
	since  float64
	waiter func() // waits for its slot
}

// Run returns how long checkpoints take.
func (w Tier) Run(ctx context.Context, s Setup) (*TierResult, error) {
	c, err := s.begin()
	if err != nil {
		return nil, err
	}
	t, err := w.begin(c, s.PerNode)
	if err != nil {
		return nil, err
	}
	if err := c.run(ctx, s.PerNode, t.rank); err != nil {
		return nil, err
	}
	r, n := t.result, float64(w.Checkpoints)
	r.Pause, r.Wait = r.Pause/n, r.Wait/n
	r.Redundancy, r.Sent = r.Redundancy/int64(w.Checkpoints), r.Sent/int64(w.Checkpoints)
	r.Rate = float64(w.Bytes) * float64(len(c.processes)) / (r.Pause - r.Wait)
	if drained := t.drained(); drained > 0 {
		r.Drain /= float64(drained)
	}
	return r, nil
}

// begin checks the tier, and finds which nodes protect which ranks.
func (w Tier) begin(c *cluster, perNode int) (*tier, error) {
	if w.Bytes < 1 || w.Checkpoints < 1 || !(w.Interval >= 0) || w.DrainEvery < 0 || !(w.DrainRate >= 0) {
		return nil, fmt.Errorf("timing: %d checkpoints of %d bytes, every %g s: must be positive", w.Checkpoints, w.Bytes, w.Interval)
	}
	t := &tier{Tier: w, cluster: c, coders: make(map[[2]int]*line), stored: make([]version, w.Checkpoints), result: new(TierResult)}
	for rank := range len(c.nodes) * perNode {
		t.topo.NodeOf = append(t.topo.NodeOf, rank/perNode)
	}
	if err := w.Scheme.Fits(t.topo); err != nil {
		return nil, fmt.Errorf("timing: %w", err)
	}
	t.sets = w.Scheme.Sets(t.topo)
	return t, nil
}

// drains says whether a checkpoint goes to the storage behind the job.
func (t *tier) drains(number int) bool {
	return !t.Store && t.DrainEvery > 0 && (number+1)%t.DrainEvery == 0
}

func (t *tier) drained() (n int) {
	for number := range t.Checkpoints {
		if t.drains(number) {
			n++
		}
	}
	return n
}

// rank is the program of a rank.
func (t *tier) rank(p *process) {
	sim := t.cluster.sim
	for number := range t.Checkpoints {
		p.compute(t.Interval)
		p.barrier()
		began := sim.Now()
		t.slot(p, number)
		ready := sim.Now()
		if t.Store {
			t.direct(p)
		} else {
			t.local(p)
		}
		p.together(t.commit)
		if p.rank == 0 {
			t.result.Pause += sim.Now() - began
			t.result.Wait += ready - began
			t.result.Seconds = sim.Now()
			t.stored[number].since = sim.Now()
		}
		if t.drains(number) {
			t.cluster.spawn(p.node, func(d *process) { t.drain(d, number) })
		}
	}
}

// slot waits until one of the two slots of the nodes is free: the last but one
// checkpoint is stored.
func (t *tier) slot(p *process, number int) {
	p.together(func(done func()) {
		if old := number - 2; old >= 0 && t.drains(old) && t.stored[old].there < len(t.cluster.processes) {
			t.stored[old].waiter = done
			return
		}
		done()
	})
}

// commit has every node make the manifest durable.
func (t *tier) commit(done func()) {
	c := t.cluster
	if t.Store {
		meta := &c.machine.Storage.Metadata
		c.sim.Create(func() {
			c.sim.At(c.sim.Now()+float64(c.machine.Storage.Sync)+float64(meta.Rename)+float64(meta.SyncDir), done)
		})
		return
	}
	at := c.sim.Now() + c.tree()
	last := at
	for node := range c.nodes {
		last = max(last, c.move(node, at, 256*int64(len(c.processes)))+c.machine.Memory.Persist)
	}
	c.sim.At(last, done)
}

// direct writes the file of a rank to the storage.
func (t *tier) direct(p *process) {
	p.until(t.cluster.sim.Create)
	t.store(p, func(int64) {})
	p.drain()
}

// store writes a file to the storage in pieces, after something is done with each.
func (t *tier) store(p *process, each func(bytes int64)) {
	stored := t.cluster.onStorage()
	for at := int64(0); at < t.Bytes; {
		n := min(t.Bytes-at, 4<<20)
		each(n)
		p.until(func(done func()) { p.client.Write(stored, at, n, done) })
		at += n
	}
	p.until(p.client.Flush)
}

// drain copies the file of a rank into the storage.
func (t *tier) drain(p *process, number int) {
	c := t.cluster
	p.until(c.sim.Create)
	t.store(p, func(bytes int64) {
		at := c.sim.Now()
		if t.DrainRate > 0 {
			at = t.limit.do(at, float64(bytes)/t.DrainRate)
		}
		p.at(c.move(p.node, at, bytes))
	})
	p.drain()
	v := &t.stored[number]
	if v.there++; v.there < len(c.processes) {
		return
	}
	meta := &c.machine.Storage.Metadata
	p.until(c.sim.Create)
	p.at(c.sim.Now() + float64(meta.Rename) + float64(meta.SyncDir))
	t.result.Drain += c.sim.Now() - v.since
	if v.waiter != nil {
		v.waiter()
	}
}
