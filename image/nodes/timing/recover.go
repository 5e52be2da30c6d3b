package timing

import (
	"context"
	"fmt"

	"ckpt/image/nodes"
)

// Recover returns how long a job needs to read its last checkpoint after it has lost
// so many nodes with their memory: each rank from its own node or, where that is
// lost, what protects it. Without a tier all ranks read from the storage, and so they
// do if the scheme cannot bring the files back.
func (w Tier) Recover(ctx context.Context, s Setup, lost int) (float64, error) {
	c, err := s.begin()
	if err != nil {
		return 0, err
	}
	t, err := w.begin(c, s.PerNode)
	if err != nil {
		return 0, err
	}
	if lost < 0 || lost > s.Nodes {
		return 0, fmt.Errorf("timing: %d lost nodes: the job has %d", lost, s.Nodes)
	}
	end := 0.0
	err = c.run(ctx, s.PerNode, func(p *process) {
		switch {
		case w.Store || lost > w.Scheme.Strength():
			t.fetch(p)
		case p.node < lost:
			t.rebuild(p, lost)
		default:
			t.readBack(p)
		}
		p.barrier()
		end = c.sim.Now()
	})
	return end, err
}

// readBack reads the file of a rank from its node.
func (t *tier) readBack(p *process) {
	for at := int64(0); at < t.Bytes; at += t.piece() {
		p.at(t.cluster.move(p.node, t.cluster.sim.Now(), min(t.Bytes-at, t.piece())))
	}
}

// fetch reads the file of a rank from the storage.
func (t *tier) fetch(p *process) {
	p.until(t.cluster.sim.Lookup)
	stored := t.cluster.onStorage()
	for at := int64(0); at < t.Bytes; at += 4 << 20 {
		p.until(func(done func()) { p.client.Read(stored, at, min(t.Bytes-at, 4<<20), done) })
	}
}

// rebuild makes the file of a rank on its new node, and reads it: from the first partner
// that is left, or from the members of its set that are.
func (t *tier) rebuild(p *process, lost int) {
	c := t.cluster
	s := &stream{process: p}
	for at := int64(0); at < t.Bytes; at += t.piece() {
		n := min(t.Bytes-at, t.piece())
		s.wait(window - 1)
		t.gather(p, t.sources(p.rank, lost), n, s.begin())
	}
	s.wait(0)
	p.at(c.sim.Now() + c.machine.Memory.Persist)
	t.readBack(p)
}

// sources returns the nodes from which a piece of a lost file comes.
func (t *tier) sources(rank, lost int) []int {
	for _, node := range t.Scheme.Partners(t.topo, rank) {
		if node >= lost {
			return []int{node}
		}
	}
	set, _, ok := nodes.SetOf(t.sets, rank)
	if !ok {
		return nil
	}
	var nodes []int
	for _, node := range set.Nodes {
		if node >= lost && len(nodes) < len(set.Nodes)-set.Parity {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// gather reads a piece on each of some nodes, and writes what results on that of the
// rank.
func (t *tier) gather(p *process, from []int, bytes int64, done func()) {
	c, left := t.cluster, len(from)
	for _, node := range from {
		c.sim.At(c.move(node, c.sim.Now(), bytes), func() {
			t.send(node, p.node, bytes, func() {
				if left--; left > 0 {
					return
				}
				at := c.sim.Now()
				if set, _, ok := nodes.SetOf(t.sets, p.rank); ok {
					at = t.coder(p.node, set.ID).do(at, float64(len(from))*float64(bytes)/t.rate(set))
				}
				c.sim.At(at, func() { c.sim.At(c.move(p.node, c.sim.Now(), bytes), done) })
			})
		})
	}
}
