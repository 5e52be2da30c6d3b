package pfs

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strconv"
)

// FileSpec says how a file is striped.
type FileSpec struct {
	StripeSize  int64
	StripeCount int    // at most the number of targets is used
	First       int    // target of the first stripe
	Node        int    // whose targets, if they are local
	Name        string // for a scheduler; default: its number
	Targets     []int  // that it may lie on, in this order; nil: any, dealt by the file system
}

// File is a file in a Sim.
type File struct {
	name    string
	stripe  int64
	targets []*target
	locks   []lock // by column; nil without locks
}

// File makes a file. It exists at once: creating it is not simulated here.
func (sim *Sim) File(spec FileSpec) *File {
	all := sim.targetsOf(spec.Node)
	if spec.Targets != nil {
		chosen := make([]*target, len(spec.Targets))
		for i, number := range spec.Targets {
			chosen[i] = all[number]
		}
		all = chosen
	}
	f := &File{name: spec.Name, stripe: spec.StripeSize, targets: make([]*target, min(max(1, spec.StripeCount), len(all)))}
	for i := range f.targets {
		f.targets[i] = all[(spec.First+i)%len(all)]
	}
	if spec.Targets == nil && sim.sys.Targets.Uneven() && !sim.sys.Targets.Local {
		copy(f.targets, sim.drawn(spec.First, all))
	}
	if sim.opt.Scheduler != nil && f.name == "" {
		sim.files++
		f.name = strconv.Itoa(sim.files)
	}
	if sim.sys.Locks.Kind == ExtentToEnd {
		f.locks = make([]lock, len(f.targets))
		for i := range f.locks {
			f.locks[i].sim = sim
		}
	}
	return f
}

// drawn orders the targets for a file by chance: the one with twice the free space is twice as
// likely to come next.
func (sim *Sim) drawn(file int, all []*target) []*target {
	keys := make(map[*target]float64, len(all))
	rng := rand.New(rand.NewPCG(sim.opt.Seed, uint64(file)))
	for i, t := range all {
		keys[t] = rng.ExpFloat64() / float64(sim.sys.Targets.Free[i])
	}
	order := slices.Clone(all)
	slices.SortFunc(order, func(a, b *target) int { return cmp.Compare(keys[a], keys[b]) })
	return order
}

// Create calls done when the server of names has made a file.
func (sim *Sim) Create(done func()) { sim.name(sim.sys.Metadata.Creates, done) }

// Lookup calls done when the server of names has found a file.
func (sim *Sim) Lookup(done func()) { sim.name(sim.sys.Metadata.Opens, done) }

func (sim *Sim) name(perSecond float64, done func()) {
	sim.At(sim.metadata(sim.now, perSecond)+float64(sim.sys.Metadata.Latency), done)
}

// Client is a process that writes and reads.
type Client struct {
	sim       *Sim
	host      *host
	stream    resource
	slots     slots // connections, if the storage has any
	ways      []way
	pieces    []piece // of the operation that is being made
	busy      int     // lanes with bytes that have not been answered
	drained   float64 // when all that has been answered is on its target
	lockWaits int64
	flushed   func() // called when nothing is under way

	// With a scheduler, which decides when that is:
	process    *Process
	undrained  int // writes that are not on their target
	drainWaits []drainWait
}

// way is how a process gets at a file.
type way struct {
	file  *File
	read  bool
	lanes []*lane // in the order of their first use
	table []*lane // by column, when they are many
}

// fewLanes are found without a table. An aggregator of many uses one or two of the
// columns of a file, which may be thousands.
const fewLanes = 8

// find returns the lane to a column, or nil.
func (w *way) find(column int) *lane {
	if w.table != nil {
		return w.table[column]
	}
	for _, l := range w.lanes {
		if l.column == column {
			return l
		}
	}
	return nil
}

func (w *way) add(l *lane) {
	w.lanes = append(w.lanes, l)
	switch {
	case w.table != nil:
		w.table[l.column] = l
	case len(w.lanes) > fewLanes:
		w.table = make([]*lane, len(w.file.targets))
		for _, l := range w.lanes {
			w.table[l.column] = l
		}
	}
}

// Process says for whom a client makes its requests. A scheduler looks at it.
type Process struct {
	App, User string
	Rank      int
	Burst     int64 // bytes of the application, if they are known
}

// Client makes a process on a node.
func (sim *Sim) Client(node int) *Client { return sim.Process(node, Process{}) }

// Process makes a process of an application on a node.
func (sim *Sim) Process(node int, p Process) *Client {
	return sim.clientAt(sim.hostOf(node), p)
}

func (sim *Sim) clientAt(h *host, p Process) *Client {
	c := &Client{sim: sim, host: h, stream: resource{rate: float64(sim.sys.Host.Stream)}, slots: slots{limit: sim.sys.Connections.Count}}
	if sim.opt.Scheduler != nil {
		c.process = &p
	}
	return c
}

// extent is a stretch of a file.
type extent struct{ offset, bytes int64 }

// piece is a run of one column of a file.
type piece struct {
	column int
	run    run
}

// op is an operation: it is done when every piece is.
type op struct {
	client  *Client
	left    int     // pieces to arrive
	waiting int     // pieces without their lock
	start   float64 // when it began
	locked  float64 // when the last piece had its lock
	soonest float64 // when it may end: copying takes time
	bytes   int64
	done    finisher
}

// finisher is told that an operation is done. The operation is used again then.
type finisher interface{ finished(o *op) }

// after is a finisher made of a function.
type after func()

func (a after) finished(*op) { a() }

// Write writes a stretch of a file, and calls done when the process may go on: when
// the bytes have been answered, but for as many as it may leave dirty.
func (c *Client) Write(f *File, offset, bytes int64, done func()) {
	c.begin(f, []extent{{offset, bytes}}, false, after(done))
}

// Read reads a stretch of a file.
func (c *Client) Read(f *File, offset, bytes int64, done func()) {
	c.begin(f, []extent{{offset, bytes}}, true, after(done))
}

// Flush calls done when everything that the client has written is at the servers.
func (c *Client) Flush(done func()) {
	c.flushed = done
	for i := range c.ways {
		for _, l := range c.ways[i].lanes {
			l.send() // a part that is not full
		}
	}
	c.idle()
}

// idle ends a flush if nothing is under way.
func (c *Client) idle() {
	if c.flushed == nil || c.busy > 0 {
		return
	}
	done := c.flushed
	c.flushed = nil
	c.sim.schedule(c.sim.now, call(done), 0)
}

// Drain calls done some seconds after everything that has been answered is on its
// target.
func (c *Client) Drain(more float64, done func()) {
	if c.undrained > 0 {
		c.drainWaits = append(c.drainWaits, drainWait{more, done})
		return
	}
	c.sim.At(c.Drained()+more, done)
}

// Now returns the virtual time of the client.
func (c *Client) Now() float64 { return c.sim.now }

// Drained returns when everything that has been answered is on its target. With a
// scheduler and servers that write behind, call Drain.
func (c *Client) Drained() float64 { return max(c.sim.now, c.drained) }

// begin begins an operation on some extents of a file.
func (c *Client) begin(f *File, extents []extent, read bool, done finisher) {
	sim := c.sim
	o := sim.ops.take()
	*o = op{client: c, start: sim.now, locked: sim.now, soonest: sim.now, done: done}
	c.pieces = c.pieces[:0]
	for _, e := range extents {
		o.bytes += e.bytes
		c.cut(f, e)
	}
	if sim.sys.dirty() > 0 && sim.sys.Host.Copy > 0 && !read {
		o.soonest += float64(o.bytes) / float64(sim.sys.Host.Copy)
	}
	// One more, so that it is not done before all have begun.
	o.left, o.waiting = len(c.pieces)+1, len(c.pieces)
	pieces := c.pieces
	for i := range pieces {
		l := c.lane(f, pieces[i].column, read)
		if l.lock != nil && !read {
			l.lock.ask(l, pieces[i].run, o)
		} else {
			o.granted()
			l.push(pieces[i].run, o)
		}
	}
	o.arrived()
}

// cut cuts an extent into pieces: what lies side by side in an object is one.
func (c *Client) cut(f *File, e extent) {
	columns := int64(len(f.targets))
	for e.bytes > 0 {
		stripe := e.offset / f.stripe
		within := e.offset % f.stripe
		n := min(e.bytes, f.stripe-within)
		p := piece{int(stripe % columns), run{stripe/columns*f.stripe + within, n}}
		if columns == 1 {
			n = e.bytes
			p.run = run{e.offset, n}
		}
		c.add(p)
		e.offset += n
		e.bytes -= n
	}
}

// add joins a piece to the one before it in its column.
func (c *Client) add(p piece) {
	for i := len(c.pieces) - 1; i >= 0; i-- {
		if q := &c.pieces[i]; q.column == p.column {
			if q.run.offset+q.run.bytes == p.run.offset {
				q.run.bytes += p.run.bytes
				return
			}
			break
		}
	}
	c.pieces = append(c.pieces, p)
}

// lane returns the way to a column of a file.
func (c *Client) lane(f *File, column int, read bool) *lane {
	var to *way
	for i := range c.ways {
		if w := &c.ways[i]; w.file == f && w.read == read {
			to = w
		}
	}
	if to == nil {
		c.ways = append(c.ways, way{file: f, read: read})
		to = &c.ways[len(c.ways)-1]
	}
	l := to.find(column)
	if l == nil {
		l = &lane{client: c, file: f, column: column, target: f.targets[column], read: read}
		if f.locks != nil {
			l.lock = &f.locks[column]
		}
		to.add(l)
	}
	return l
}

// granted is told that a piece has its lock.
func (o *op) granted() {
	if o.waiting--; o.waiting == 0 {
		o.locked = o.client.sim.now
	}
}

// arrived is told that a piece is done.
func (o *op) arrived() {
	if o.left--; o.left == 0 {
		o.client.sim.schedule(o.soonest, o, 0)
	}
}

func (o *op) act(int32) {
	o.done.finished(o)
	o.client.sim.ops.give(o)
}

// lock protects one file on one target. It reaches from where it was asked for
// to the end of the file, so that one process has it at a time.
type lock struct {
	sim    *Sim
	holder *lane
	start  int64 // of what is locked
	before int64 // bytes that the holder had pushed when it got the lock
	queue  []claim
	moving bool // on its way to the next process
}

// claim is a run that waits for the lock.
type claim struct {
	lane *lane
	run  run
	op   *op
}

// ask pushes a run as soon as its lane has the lock.
func (k *lock) ask(l *lane, r run, o *op) {
	if k.holder == l && r.offset >= k.start && len(k.queue) == 0 && !k.moving {
		o.granted()
		l.push(r, o)
		return
	}
	if n := len(k.queue); k.holder != nil && k.holder != l || n > 0 && k.queue[n-1].lane != l {
		o.client.lockWaits++
	}
	k.queue = append(k.queue, claim{l, r, o})
	k.recall()
}

// recall takes the lock from its holder as soon as the bytes written under it are
// at the server. The call back, each process that waits, and dropping the pages that the holder has
// cached take time.
func (k *lock) recall() {
	if k.moving || len(k.queue) == 0 {
		return
	}
	wait := float64(k.sim.sys.Locks.Grant)
	if h := k.holder; h != nil && h != k.queue[0].lane {
		if h.pushed != h.answered {
			return // idle calls again
		}
		locks := &k.sim.sys.Locks
		wait += float64(locks.Callback) + float64(len(k.queue))*float64(locks.PerWaiter)
		if locks.Drop > 0 {
			wait += float64(h.pushed-k.before) / float64(locks.Drop)
		}
	}
	k.moving = true
	k.sim.schedule(k.sim.now+wait, k, 0)
}

// act grants the lock to the first that waits.
func (k *lock) act(int32) {
	c := k.queue[0]
	k.queue = k.queue[1:]
	if len(k.queue) == 0 {
		k.queue = nil
	}
	if k.holder != c.lane {
		k.holder, k.before = c.lane, c.lane.pushed
	}
	k.moving, k.start = false, c.run.offset
	c.op.granted()
	c.lane.push(c.run, c.op)
	k.recall()
}

// idle is told that all bytes of a lane are at the server.
func (k *lock) idle(l *lane) {
	if l == k.holder {
		k.recall()
	}
}
