package life

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"ckpt/interval"
)

// A Machine is what fails.
type Machine struct {
	// NodeMTBF is the mean time between failures of a node, Shape that of the Weibull
	// distribution of the times between them, 0 meaning 1: exponential. Nodes have been in use for
	// long, and one that fails begins a new time.
	NodeMTBF, Shape float64
	// Log, if not nil, has the failures instead: from a random time on, and from its beginning
	// again when it has ended, after a gap if it ends with a failure. LogShare is the share of the
	// nodes of its machine that the job has. LogFrom, if not nil, is the time of the log, after its
	// beginning, at which each life begins.
	Log      *interval.FailureLog
	LogShare float64
	LogFrom  *float64
	// Domains, if not 0, are parts of the job's nodes that fail as a whole, each every DomainMTBF,
	// and lose their nodes. Copies and parity of a node lie in another domain.
	Domains    int
	DomainMTBF float64

	// StoreMTBF, if not 0, is the mean time until the storage that all share is away, for
	// StoreRepair: checkpoints and restarts wait for it.
	StoreMTBF, StoreRepair float64

	// Lost is the share of the failures that lose their node with its directory; the others kill
	// processes.
	Lost float64
	// Detect is the time from a failure until the job is ended. Of lost nodes Spares are replaced
	// at once, a negative number meaning all; each comes back after Repair.
	Detect, Repair float64
	Spares         int
}

func (m *Machine) check() error {
	for _, x := range []struct {
		name       string
		is, lo, hi float64
	}{{"share of lost nodes", m.Lost, 0, 1}, {"time of detection", m.Detect, 0, maxTime}, {"time of repair", m.Repair, 0, maxTime}, {"MTBF of the storage", m.StoreMTBF, 0, maxTime}, {"time of repair of the storage", m.StoreRepair, 0, maxTime}} {
		if !(x.is >= x.lo && x.is <= x.hi) {
			return &RangeError{x.name, x.is, x.lo, x.hi}
		}
	}
	switch {
	case m.Domains < 0 || m.Domains > maxNodes:
		return &RangeError{"number of domains", float64(m.Domains), 0, maxNodes}
	case m.Domains > 0 && !(m.DomainMTBF > 0 && m.DomainMTBF <= 1e6*maxTime):
		return &RangeError{"MTBF of a domain", m.DomainMTBF, 0, 1e6 * maxTime}
	case m.Log != nil && !(m.LogShare > 0 && m.LogShare <= 1):
		return &RangeError{"share of the nodes of the log", m.LogShare, 0, 1}
	case m.Log != nil && !(m.Log.To > m.Log.From && len(m.Log.Failures) > 0):
		return fmt.Errorf("the log of failures covers no time")
	case m.Log != nil && m.LogFrom != nil && !(*m.LogFrom >= 0 && *m.LogFrom < m.Log.To-m.Log.From):
		return &RangeError{"begin in the log of failures", *m.LogFrom, 0, m.Log.To - m.Log.From}
	case m.Log == nil && !(m.NodeMTBF > 0 && m.NodeMTBF <= 1e6*maxTime):
		return &RangeError{"MTBF of a node", m.NodeMTBF, 0, 1e6 * maxTime}
	case m.Log == nil && m.Shape != 0 && !(m.Shape >= 0.2 && m.Shape <= 10):
		return &RangeError{"shape of failures", m.Shape, 0.2, 10}
	}
	return nil
}

// A failure strikes a node, or several that follow each other. One that comes together with the one
// before, as a log has it, is not counted.
type failure struct {
	at          float64
	node, count int
	lost        bool
	severity    float64 // uniform in [0, 1): levels with a larger share survive it; or which process dies
	together    bool
}

// A source has failures in the order of their times.
type source interface{ next() failure }

// A tape keeps the failures of a life for other jobs, which meet the same.
type tape struct {
	of    source
	kept  []failure
	nodes int
}

// A player plays a tape from its beginning.
type player struct {
	*tape
	at int
}

func (p *player) next() failure {
	if p.at == len(p.kept) {
		p.kept = append(p.kept, p.of.next())
	}
	p.at++
	return p.kept[p.at-1]
}

// source begins the failures of a life on so many nodes.
func (m *Machine) source(nodes int, rng *rand.Rand) source {
	if m.Domains == 0 {
		return m.ofNodes(nodes, rng)
	}
	d := &domains{nodes: nodes, count: min(m.Domains, nodes), rng: rand.New(rand.NewPCG(rng.Uint64(), 1)), mtbf: m.DomainMTBF, of: m.ofNodes(nodes, rng)}
	d.upcoming, d.mine = d.of.next(), d.draw(0)
	return d
}

// place is what a node loses its directory with: its domain, or itself.
func (m *Machine) place(node, nodes int) int {
	if m.Domains == 0 {
		return node
	}
	return Domain(node, nodes, m.Domains)
}

// Domain is the domain of a node, of so many that divide the nodes in their order.
func Domain(node, nodes, domains int) int {
	return int(int64(node) * int64(min(domains, nodes)) / int64(nodes))
}

// domains fail beside their nodes.
type domains struct {
	of             source
	upcoming, mine failure
	nodes, count   int
	mtbf           float64
	rng            *rand.Rand
}

func (d *domains) draw(now float64) failure {
	k := int64(d.rng.IntN(d.count))
	first := (k*int64(d.nodes) + int64(d.count) - 1) / int64(d.count)
	end := ((k+1)*int64(d.nodes) + int64(d.count) - 1) / int64(d.count)
	return failure{at: now + d.rng.ExpFloat64()*d.mtbf/float64(d.count), node: int(first), count: int(end - first), lost: true, severity: d.rng.Float64()}
}

func (d *domains) next() (f failure) {
	if d.mine.at < d.upcoming.at {
		f, d.mine = d.mine, d.draw(d.mine.at)
		return f
	}
	f, d.upcoming = d.upcoming, d.of.next()
	return f
}

func (m *Machine) ofNodes(nodes int, rng *rand.Rand) source {
	switch {
	case m.Log != nil:
		return m.fromLog(rng)
	case m.Shape == 0 || m.Shape == 1:
		return &exponential{m: m, nodes: nodes, rng: rng}
	}
	return m.byNode(nodes, rng)
}

// of draws what a failure does.
func (m *Machine) of(at float64, node int, rng *rand.Rand) failure {
	return failure{at: at, node: node, count: 1, lost: rng.Float64() < m.Lost, severity: rng.Float64()}
}

// exponential failures have no memory: those of all nodes are one stream.
type exponential struct {
	m     *Machine
	nodes int
	rng   *rand.Rand
	now   float64
}

func (e *exponential) next() failure {
	e.now += e.rng.ExpFloat64() * e.m.NodeMTBF / float64(e.nodes)
	return e.m.of(e.now, e.rng.IntN(e.nodes), e.rng)
}

// byNode has a time for each node, in a heap.
type byNode struct {
	m     *Machine
	rng   *rand.Rand
	scale float64
	heap  []nodeTime
}

type nodeTime struct {
	at   float64
	node int
}

func (m *Machine) byNode(nodes int, rng *rand.Rand) *byNode {
	b := &byNode{m: m, rng: rng, scale: m.NodeMTBF / math.Gamma(1+1/m.Shape), heap: make([]nodeTime, nodes)}
	// The residual life of a node in use for long: its density is the probability to live that long
	// over the mean, so that (x/scale)^shape has the gamma distribution of 1/shape.
	residual := distuv.Gamma{Alpha: 1 / m.Shape, Beta: 1, Src: rng}
	for i := range b.heap {
		b.heap[i] = nodeTime{b.scale * math.Pow(residual.Rand(), 1/m.Shape), i}
	}
	for i := nodes/2 - 1; i >= 0; i-- {
		b.sink(i)
	}
	return b
}

func (b *byNode) next() failure {
	first := b.heap[0]
	b.heap[0].at += b.scale * math.Pow(b.rng.ExpFloat64(), 1/b.m.Shape)
	b.sink(0)
	return b.m.of(first.at, first.node, b.rng)
}

func (b *byNode) sink(i int) {
	for {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(b.heap); c++ {
			if b.heap[c].at < b.heap[least].at {
				least = c
			}
		}
		if least == i {
			return
		}
		b.heap[i], b.heap[least] = b.heap[least], b.heap[i]
		i = least
	}
}

// logged are the failures of a log on the nodes that the job has.
type logged struct {
	m      *Machine
	rng    *rand.Rand
	offset float64 // what is subtracted from the times of the log
	at     int     // the next failure
	nodes  map[string]int
	named  bool // each failure has a node
	before float64
}

func (m *Machine) fromLog(rng *rand.Rand) *logged {
	part := rng.Float64() * m.Log.Period()
	if m.LogFrom != nil {
		part = *m.LogFrom
	}
	start := m.Log.From + part
	at, _ := slices.BinarySearchFunc(m.Log.Failures, start, func(f interval.Failure, t float64) int { return cmp.Compare(f.Start, t) })
	return &logged{m: m, rng: rng, offset: start, at: at, nodes: make(map[string]int), before: math.Inf(-1),
		named: !slices.ContainsFunc(m.Log.Failures, func(f interval.Failure) bool { return f.Node == "" })}
}

func (l *logged) next() failure {
	for missed := 0; ; missed++ {
		if missed > len(l.m.Log.Failures) && l.named {
			return failure{at: math.Inf(1)} // no node of the job fails in this log
		}
		if l.at == len(l.m.Log.Failures) {
			l.at = 0
			l.offset -= l.m.Log.Period()
		}
		f := &l.m.Log.Failures[l.at]
		l.at++
		// Whether a node is the job's is drawn when it first fails; a failure without a node
		// strikes the job with the probability of its share.
		node, known := l.nodes[f.Node]
		if !known || f.Node == "" {
			if node = -1; l.rng.Float64() < l.m.LogShare {
				node = len(l.nodes)
			}
			l.nodes[f.Node] = node
		}
		if node >= 0 {
			of := l.m.of(f.Start-l.offset, node, l.rng)
			if of.together = of.at-l.before <= interval.Together; !of.together {
				l.before = of.at
			}
			return of
		}
	}
}
