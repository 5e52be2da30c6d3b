package filecache_test

import (
	"errors"
	"iter"
	"math/bits"

	"ckpt/image/pfs"
)

// flags say how a file is opened.
type flags struct {
	create   bool // it does not exist yet
	readOnly bool
	remove   bool // when it is closed
}

// file is one that all processes have open.
type file interface {
	open(p *process)
	read(p *process, offset, bytes int64)
	write(p *process, offset, bytes int64)
	sync(p *process)
	close(p *process)
	closeBehind(p *process) // begins to close
	closed(p *process)      // waits until it is
}

// stripe is the default of OrangeFS.
const stripe = 64 << 10

// plain is a file that processes reach by MPI I/O, without a cache of their own.
type plain struct {
	cluster *cluster
	flags   flags
	stored  *pfs.File
}

func (c *cluster) plain(f flags) *plain {
	return &plain{cluster: c, flags: f, stored: c.onStorage()}
}

// onStorage makes a file over all servers.
func (c *cluster) onStorage() *pfs.File {
	return c.sim.File(pfs.FileSpec{StripeSize: stripe, StripeCount: c.machine.Storage.Targets.Count})
}

// open has one process ask for the file, and tell the others.
func (f *plain) open(p *process) { p.together(f.cluster.name(f.flags)) }

// name returns the operation of the server of names that opens a file.
func (c *cluster) name(f flags) func(done func()) {
	if f.create {
		return c.sim.Create
	}
	return c.sim.Lookup
}

func (f *plain) read(p *process, offset, bytes int64) {
	f.cluster.stored += bytes
	p.until(func(done func()) { p.client.Read(f.stored, offset, bytes, done) })
}

func (f *plain) write(p *process, offset, bytes int64) {
	f.cluster.stored += bytes
	p.until(func(done func()) { p.client.Write(f.stored, offset, bytes, done) })
}

// sync waits until the bytes of all are on the disks.
func (f *plain) sync(p *process) {
	p.drain()
	p.barrier()
}

// close waits for no disk: the servers have the bytes.
func (f *plain) close(p *process) { p.barrier() }

func (f *plain) closeBehind(p *process) { f.close(p) }
func (f *plain) closed(*process)        {}

// Levels say which requests a cache can repeat after a failure.
type Levels struct {
	Records  bool // the writer keeps a record of its request (level 1)
	Replicas int  // nodes that keep the requests of a manager (level 2)
	Versions bool // a sync makes another version of the file (level 3)
}

// header is what a message has beside its bytes: position, size and state.
const header = 64

// cache is a file in the memory of all nodes: each has a manager, and a fragment.
type cache struct {
	cluster  *cluster
	flags    flags
	levels   Levels
	size     int64
	fragment int64
	managers []*manager
	stored   *pfs.File
	behind   behind
}

// behind is a close that goes on behind the next pass.
type behind struct {
	begun, done bool
	then        func()
}

// manager has the fragment of its node. It handles one request after the other.
type manager struct {
	cache  *cache
	node   int
	client *pfs.Client
	queue  []request
	busy   bool
	since  float64 // when it began with the request that it handles
	worked float64
	most   int // requests that waited at the same time
}

// request is one of a process to a manager.
type request struct {
	from  int // its node
	bytes int64
	write bool
	done  func()
}

func (c *cluster) cache(size int64, f flags, levels Levels) *cache {
	n := int64(len(c.nodes))
	k := &cache{cluster: c, flags: f, levels: levels, size: size, fragment: max(1, (size+n-1)/n), stored: c.onStorage()}
	for i := range c.nodes {
		k.managers = append(k.managers, &manager{cache: k, node: i, client: c.sim.Client(i)})
	}
	return k
}

// open starts the managers, which load their fragments of a file that exists.
func (k *cache) open(p *process) {
	p.together(func(done func()) {
		k.cluster.name(k.flags)(func() {
			if k.flags.create {
				done()
				return
			}
			k.each((*manager).load, done)
		})
	})
}

// each has all managers do something, and calls done after the last.
func (k *cache) each(do func(m *manager, done func()), done func()) {
	left := len(k.managers)
	for _, m := range k.managers {
		do(m, func() {
			if left--; left == 0 {
				done()
			}
		})
	}
}

// length is how many bytes the fragment of a manager has.
func (m *manager) length() int64 {
	return max(0, min(m.cache.fragment, m.cache.size-int64(m.node)*m.cache.fragment))
}

// load reads the fragment from the storage in one request, into the memory.
func (m *manager) load(done func()) {
	k, bytes := m.cache, m.length()
	sim := k.cluster.sim
	if bytes == 0 {
		sim.At(sim.Now(), done)
		return
	}
	k.cluster.stored += bytes
	moved := k.cluster.move(m.node, sim.Now(), bytes) + k.cluster.machine.Memory.Persist
	m.client.Read(k.stored, int64(m.node)*k.fragment, bytes, func() { sim.At(moved, done) })
}

// store writes the fragment to the storage, and waits until it is on the disks.
func (m *manager) store(done func()) {
	k, bytes := m.cache, m.length()
	sim := k.cluster.sim
	if bytes == 0 {
		sim.At(sim.Now(), done)
		return
	}
	k.cluster.stored += bytes
	moved := k.cluster.move(m.node, sim.Now(), bytes)
	m.client.Write(k.stored, int64(m.node)*k.fragment, bytes, func() {
		m.client.Flush(func() {
			m.client.Drain(0, func() { sim.At(max(moved, sim.Now())+float64(k.cluster.machine.Storage.Sync), done) })
		})
	})
}

// save writes all fragments: over the file, or into a version that then gets its name.
func (k *cache) save(done func()) {
	sim, meta := k.cluster.sim, &k.cluster.machine.Storage.Metadata
	if !k.levels.Versions {
		k.each((*manager).store, done)
		return
	}
	sim.Create(func() {
		k.stored = k.cluster.onStorage()
		k.each((*manager).store, func() { sim.At(sim.Now()+float64(meta.Rename)+float64(meta.SyncDir), done) })
	})
}

func (k *cache) sync(p *process) { p.together(k.save) }

// close writes the fragments back, if anybody will want them.
func (k *cache) close(p *process) { p.together(k.end) }

func (k *cache) end(done func()) {
	if k.flags.readOnly || k.flags.remove {
		done()
		return
	}
	k.save(done)
}

func (k *cache) closeBehind(p *process) {
	p.together(func(done func()) {
		k.behind.begun = true
		k.end(func() {
			if k.behind.done = true; k.behind.then != nil {
				k.behind.then()
			}
		})
		done()
	})
}

func (k *cache) closed(p *process) {
	p.together(func(done func()) {
		if k.behind.begun && !k.behind.done {
			k.behind.then = done
			return
		}
		done()
	})
}

func (k *cache) read(p *process, offset, bytes int64) { k.ask(p, offset, bytes, false) }

// write has the writer keep a record of the request until it is done, if the cache is
// told to.
func (k *cache) write(p *process, offset, bytes int64) {
	if k.levels.Records {
		k.record(p, header+bytes)
	}
	k.ask(p, offset, bytes, true)
	if k.levels.Records {
		k.record(p, header)
	}
}

// record has a process make bytes durable in the memory of its own node.
func (k *cache) record(p *process, bytes int64) {
	c := k.cluster
	p.at(c.move(p.node, c.sim.Now(), bytes) + c.machine.Memory.Persist)
}

// ask sends requests to the managers that have the bytes, and waits for all answers.
func (k *cache) ask(p *process, offset, bytes int64, write bool) {
	p.until(func(done func()) {
		left := 1
		answered := func() {
			if left--; left == 0 {
				done()
			}
		}
		for end := offset + bytes; offset < end; {
			owner := min(offset/k.fragment, int64(len(k.managers)-1))
			n := min(end-offset, (owner+1)*k.fragment-offset)
			if n <= 0 {
				n = end - offset // past the end of the file
			}
			left++
			k.send(p.node, k.managers[owner], n, write, answered)
			offset += n
		}
		left--
	})
}

// send brings a request to a manager, and its answer back.
func (k *cache) send(from int, m *manager, bytes int64, write bool, done func()) {
	sent, answer := int64(header), header+bytes
	if write {
		sent, answer = answer, sent
	}
	k.cluster.send(from, m.node, sent, func() {
		m.take(request{from: from, bytes: bytes, write: write, done: func() {
			k.cluster.send(m.node, from, answer, done)
		}})
	})
}

// take puts a request into the queue.
func (m *manager) take(r request) {
	m.queue = append(m.queue, r)
	m.most = max(m.most, len(m.queue))
	if !m.busy {
		m.begin()
	}
}

// begin handles the first request of the queue.
func (m *manager) begin() {
	c := m.cache.cluster
	r := m.queue[0]
	m.queue = m.queue[1:]
	m.busy, m.since = true, c.sim.Now()
	at := m.since + c.machine.Manager.of(r.from == m.node)*c.nodes[m.node].share
	at = c.move(m.node, at, r.bytes)
	if r.write {
		at += c.machine.Memory.Persist
	}
	c.sim.At(at, func() {
		if r.write && m.cache.levels.Replicas > 0 {
			m.journal(r)
			return
		}
		m.end(r)
	})
}

// of returns the time for a request of the same or of another node.
func (m *Manager) of(local bool) float64 {
	if local {
		return m.Local
	}
	return m.Remote
}

// end answers a request, and goes on with the next.
func (m *manager) end(r request) {
	m.worked += m.cache.cluster.sim.Now() - m.since
	m.busy = false
	r.done()
	if len(m.queue) > 0 {
		m.begin()
	}
}

// journal sends a request to the next nodes, and ends it when it is durable on all.
func (m *manager) journal(r request) {
	c := m.cache.cluster
	copies := min(m.cache.levels.Replicas, len(c.nodes)-1)
	left := copies
	if left == 0 {
		m.end(r)
		return
	}
	at := c.sim.Now()
	for i := range copies {
		to := (m.node + 1 + i) % len(c.nodes)
		at += c.machine.Manager.Remote / 2 * c.nodes[m.node].share // the half that sends
		c.sim.At(at, func() {
			c.keep(m.node, to, header+r.bytes, func() {
				if left--; left == 0 {
					m.end(r)
				}
			})
		})
	}
}

// keep makes bytes of one node durable in the journal of another.
func (c *cluster) keep(from, to int, bytes int64, done func()) {
	c.send(from, to, bytes, func() {
		j := &c.nodes[to].journal
		at := j.do(c.sim.Now(), c.machine.Manager.Remote)
		at = c.move(to, at, bytes) + c.machine.Memory.Persist
		j.free = at
		c.sim.At(at, func() { c.send(to, from, header, done) })
	})
}

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
