package timing

import "ckpt/image/nodes"

// stream is what a process has under way.
type stream struct {
	process *process
	flying  int
	most    int // under way until it goes on
	resume  func()
}

// begin counts one thing more, and returns what its end calls.
func (s *stream) begin() (done func()) {
	s.flying++
	return func() {
		s.flying--
		if s.resume != nil && s.flying <= s.most {
			resume := s.resume
			s.resume = nil
			resume()
		}
	}
}

// wait waits until no more than some are under way.
func (s *stream) wait(most int) {
	if s.flying > most {
		s.most = most
		s.process.until(func(done func()) { s.resume = done })
	}
}

// piece is how much of a file travels together: a unit of the code, or more of a large
// file.
func (t *tier) piece() int64 { return max(nodes.UnitBytes, t.Bytes/1024) }

// local writes the file of a rank to its node, and what protects it to others, in one
// pass. Each piece is under way to all of them at the same time.
func (t *tier) local(p *process) {
	c := t.cluster
	s := &stream{process: p}
	partners := t.Scheme.Partners(t.topo, p.rank)
	set, member, coded := nodes.SetOf(t.sets, p.rank)
	count := 0
	for at := int64(0); at < t.Bytes; count++ {
		n := min(t.Bytes-at, t.piece())
		s.wait(window*(1+len(partners)+set.Parity) - 1)
		for _, node := range partners {
			t.copy(p, node, n, s.begin())
		}
		for j := range set.Parity {
			if coded {
				other := (member + 1 + (count*set.Parity+j)%(len(set.Nodes)-1)) % len(set.Nodes)
				t.encode(p, set, other, n, s.begin())
			}
		}
		p.at(c.move(p.node, c.sim.Now(), n))
		at += n
	}
	s.wait(0)
	p.at(c.sim.Now() + c.machine.Memory.Persist)
}

// send counts what leaves a node.
func (t *tier) send(from, to int, bytes int64, done func()) {
	t.result.Sent += bytes
	t.cluster.send(from, to, bytes, done)
}

// copy makes bytes of a rank durable on another node.
func (t *tier) copy(p *process, node int, bytes int64, done func()) {
	c := t.cluster
	t.result.Redundancy += bytes
	t.send(p.node, node, bytes, func() {
		c.sim.At(c.move(node, c.sim.Now(), bytes)+c.machine.Memory.Persist, func() { c.send(node, p.node, header, done) })
	})
}

// encode has the node of a member add bytes to its parity, of which it writes as much as
// falls to them.
func (t *tier) encode(p *process, set nodes.Set, member int, bytes int64, done func()) {
	c, node := t.cluster, set.Nodes[member]
	data := int64(len(set.Nodes) - set.Parity)
	share := (bytes + data - 1) / data
	t.result.Redundancy += share
	t.send(p.node, node, bytes, func() {
		at := t.coder(node, set.ID).do(c.sim.Now(), float64(bytes)/t.rate(set))
		c.sim.At(at, func() {
			c.sim.At(c.move(node, c.sim.Now(), share)+c.machine.Memory.Persist, func() { c.send(node, p.node, header, done) })
		})
	})
}

// rate is how fast a core adds bytes to a parity of a set.
func (t *tier) rate(set nodes.Set) float64 {
	if set.Parity == 1 {
		return t.cluster.machine.Coding.Xor
	}
	return t.cluster.machine.Coding.RS
}

// coder returns the core of a node that has the parity of a set.
func (t *tier) coder(node, set int) *line {
	key := [2]int{node, set}
	if t.coders[key] == nil {
		t.coders[key] = new(line)
	}
	return t.coders[key]
}
