package pfs

import (
	"context"
	"math"
	"math/rand/v2"

	"ckpt/image/plan"
)

// Sim is a system at work in virtual time. Its clients write and read ranges of
// files:
//
//	sim := NewSim(system, Options{})
//	f := sim.File(FileSpec{StripeSize: 1 << 20, StripeCount: 4})
//	c := sim.Client(0) // a process on node 0
//	c.Write(f, 0, 8<<20, func() { fmt.Println(sim.Now()) })
//	err := sim.Run(ctx)
//
// Functions are called in virtual time and may start further operations. A Sim is
// for one goroutine.
type Sim struct {
	sys    *System
	opt    Options
	now    float64
	seq    uint64
	events queue
	count  int64 // of events so far

	hosts   map[int]*host
	routers []resource
	servers []server
	targets []*target // by number; local ones by host
	local   map[int][]*target
	meta    resource
	files   int // so far

	chunkBytes int64 // that travel together
	fineBytes  int64 // and would if there were fewer
	chunks     pool[chunk]
	ops        pool[op]
	transfers  pool[transfer]
}

// pool keeps things that are not used for the next use.
type pool[T any] struct{ spare []*T }

func (p *pool[T]) take() *T {
	n := len(p.spare) - 1
	if n < 0 {
		return new(T)
	}
	x := p.spare[n]
	p.spare = p.spare[:n]
	return x
}

func (p *pool[T]) give(x *T) { p.spare = append(p.spare, x) }

// host is a node.
type host struct {
	number     int
	in, out    resource
	processors processors
	router     *resource
	slots      slots
}

// slots are the requests that a host may have in flight. A lane that finds none free waits for
// the first that is answered.
type slots struct {
	limit, taken int
	waiting      []*lane
	since        float64 // when the first of them began to wait
	busy         float64 // seconds in which lanes waited
}

// take takes slots for some requests. Requests that travel together may be more than there are.
func (s *slots) take(n int, l *lane, now float64) bool {
	if s.limit == 0 || s.taken == 0 || s.taken+n <= s.limit {
		s.taken += n
		return true
	}
	if l.waitsForSlot {
		return false
	}
	if len(s.waiting) == 0 {
		s.since = now
	}
	s.waiting, l.waitsForSlot = append(s.waiting, l), true
	return false
}

// give frees slots, and has the lanes send that waited longest.
func (s *slots) give(n int, now float64) {
	s.taken -= n
	if len(s.waiting) == 0 {
		return
	}
	since := s.since
	for range len(s.waiting) { // each waits again for what it does not get
		if s.taken >= s.limit {
			break
		}
		l := s.waiting[0]
		s.waiting, l.waitsForSlot = s.waiting[1:], false
		l.send()
	}
	if s.since = since; len(s.waiting) == 0 {
		s.busy += now - since
	}
}

// server is the host of some targets.
type server struct {
	link      resource
	cache     resource // copying into it
	processor resource // answering requests
}

// target is a disk, or an array of them.
type target struct {
	disk   resource // rates differ by direction: bytes are counted as time
	write  float64
	read   float64
	name   int
	server *server
	space  int64 // of the cache of the server
	kept   int64 // bytes in the cache
	drains []drain
	first  int // of drains that is not done
	last   *File
	end    int64 // of the last request in the object of that file
	active int   // lanes with bytes under way
	unit   *unit // nil without a scheduler
}

// drain is when bytes of a cache are on the target.
type drain struct {
	at    float64
	bytes int64
}

// NewSim makes a system where nothing happens yet.
func NewSim(s *System, o Options) *Sim {
	o.Scheduler = s.scheduler(o.Scheduler)
	sim := &Sim{sys: s, opt: o, hosts: make(map[int]*host), local: make(map[int][]*target)}
	free := 1 - o.Background
	sim.routers = make([]resource, s.Routers.Count)
	for i := range sim.routers {
		sim.routers[i].rate = float64(s.Routers.Rate) * free
	}
	if !s.Targets.Local {
		sim.targets = sim.newTargets(0)
	}
	// Half of what may be under way: while one half is answered the other moves.
	sim.fineBytes = int64(s.RPC) * int64(max(1, s.InFlight/2))
	if o.Scheduler != nil || s.Objects() {
		sim.fineBytes = int64(s.RPC) // each request has its place in the order, or its connection
	}
	sim.chunkBytes = sim.fineBytes
	return sim
}

// manyChunks is from where on requests travel in larger chunks. A run makes three
// or four events of each.
const manyChunks = 4 << 20

// coarsen makes chunks so large that there are not too many.
func (sim *Sim) coarsen(bytes, most int64) {
	for bytes/sim.chunkBytes > most {
		sim.chunkBytes *= 2
	}
}

// latency is how long the answers to a chunk are under way. Where a write waits for
// its answer, a larger chunk stands for several writes.
func (sim *Sim) latency(bytes int64) float64 {
	answers := int64(1)
	if sim.sys.dirty() == 0 {
		answers = max(1, bytes/plan.WriteBytes)
	}
	return float64(sim.sys.Host.Latency) * (float64(answers) - 0.5)
}

// newTargets makes the targets, and their servers, of the system or of one node.
func (sim *Sim) newTargets(node int) []*target {
	s := sim.sys
	servers := make([]server, s.Servers.Count)
	for i := range servers {
		servers[i].link.rate = float64(s.Servers.Rate)
		servers[i].cache.rate = float64(s.Servers.CacheRate)
	}
	each := (s.Targets.Count + s.Servers.Count - 1) / s.Servers.Count
	targets := make([]*target, s.Targets.Count)
	free := 1 - sim.opt.Background
	for i := range targets {
		t := &target{
			name: node*s.Targets.Count + i, server: &servers[i%len(servers)], space: int64(s.Servers.Cache) / int64(each),
			write: float64(s.Targets.Rate) * free, read: float64(s.Targets.ReadRate) * free,
		}
		if slow := s.Targets.Stragglers.Share; slow > 0 && rand.New(rand.NewPCG(sim.opt.Seed, uint64(t.name))).Float64() < slow {
			t.write *= s.Targets.Stragglers.Factor
			t.read *= s.Targets.Stragglers.Factor
		}
		if sim.opt.Scheduler != nil {
			t.unit = sim.newUnit(t)
		}
		targets[i] = t
	}
	sim.servers = append(sim.servers, servers...)
	return targets
}

// targetsOf returns the targets that a node writes to.
func (sim *Sim) targetsOf(node int) []*target {
	if !sim.sys.Targets.Local {
		return sim.targets
	}
	node = sim.hostOf(node).number
	if sim.local[node] == nil {
		sim.local[node] = sim.newTargets(node)
	}
	return sim.local[node]
}

// hostOf returns the host of a node.
func (sim *Sim) hostOf(node int) *host {
	if sim.sys.Host.OneHost {
		node = 0
	}
	h := sim.hosts[node]
	if h == nil {
		network := float64(sim.sys.Host.Network)
		h = &host{number: node, in: resource{rate: network}, out: resource{rate: network}, slots: slots{limit: sim.sys.Host.InFlight}}
		h.processors.free = make([]float64, sim.sys.Host.Processors)
		if n := len(sim.routers); n > 0 {
			h.router = &sim.routers[node%n]
		}
		sim.hosts[node] = h
	}
	return h
}

// Now returns the virtual time in seconds.
func (sim *Sim) Now() float64 { return sim.now }

// At has a function called at a time.
func (sim *Sim) At(at float64, do func()) { sim.schedule(at, call(do), 0) }

func (sim *Sim) schedule(at float64, who actor, what int32) {
	sim.seq++
	sim.events.push(event{at: max(at, sim.now), seq: sim.seq, who: who, what: what})
}

// Run goes on until nothing is left to happen.
func (sim *Sim) Run(ctx context.Context) error {
	for len(sim.events.heap) > 0 {
		if sim.count%1024 == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		sim.count++
		e := sim.events.pop()
		sim.now = e.at
		e.who.act(e.what)
	}
	return nil
}

// cost is how long the target takes for a request, given what came before.
func (sim *Sim) cost(t *target, f *File, offset, bytes int64, read bool) float64 {
	s, rate := &sim.sys.Targets, t.write
	if read {
		rate = t.read
	}
	seconds := float64(bytes) / (rate * s.factor(t.active))
	seconds += sim.requests(bytes) * float64(s.PerRequest)
	switch gap := offset - t.end; {
	case t.last == f && gap == 0:
	case t.last == f && gap > 0 && read && !s.AlwaysSeek:
		// A disk reads on over the gap into its buffer; a write has missed its place.
		seconds += min(float64(s.Seek), float64(gap)/rate)
	case t.unit != nil:
		seconds += float64(s.Seek)
	default:
		// A larger chunk stands for several, between which others would come.
		seconds += float64(s.Seek) * float64(max(1, bytes/sim.fineBytes))
	}
	t.last, t.end = f, offset+bytes
	return seconds
}

// requests returns how many requests make so many bytes.
func (sim *Sim) requests(bytes int64) float64 {
	return float64((bytes + int64(sim.sys.RPC) - 1) / int64(sim.sys.RPC))
}

// accept has the processor of the server take requests, if that takes it any time.
func (s *server) accept(f flow, requests, each float64) flow {
	if each == 0 {
		return f
	}
	return s.processor.work(f, requests*each, each)
}

// factor returns the rate of a target for so many writers.
func (t *Targets) factor(writers int) float64 {
	table := t.Sharing
	if len(table) == 0 || writers < 1 {
		return 1
	}
	from := Sharing{Writers: 1, Factor: 1}
	for _, to := range table {
		if writers <= to.Writers {
			if to.Writers == from.Writers {
				return to.Factor
			}
			part := math.Log(float64(writers)/float64(from.Writers)) / math.Log(float64(to.Writers)/float64(from.Writers))
			return from.Factor * math.Pow(to.Factor/from.Factor, part)
		}
		from = to
	}
	return from.Factor
}

// admit waits for free space in the cache of the server, and returns when the
// bytes that come at a time are in it.
func (t *target) admit(at float64, bytes int64) float64 {
	for t.first < len(t.drains) && (t.kept > 0 && t.kept+bytes > t.space || t.drains[t.first].at <= at) {
		d := t.drains[t.first]
		t.first++
		t.kept -= d.bytes
		at = max(at, d.at)
	}
	if t.first > 1024 && t.first > len(t.drains)/2 {
		t.drains = append(t.drains[:0], t.drains[t.first:]...)
		t.first = 0
	}
	t.kept += bytes
	return at
}
