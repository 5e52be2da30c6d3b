package mix

import (
	"fmt"
	"math/rand/v2"

	"ckpt/image/pfs"
)

// process is one of an application.
type process struct {
	app    *running
	client *pfs.Client
	file   *pfs.File
	next   int64   // operation, if they are in order
	step   int64   // to the operation after it
	end    int64   // bytes of the file
	order  []int64 // operations that are left, if their order is random
	again  func()  // act, or act later
}

// begin has the processes of an application begin, on nodes of their own.
func (a *running) begin(sim *pfs.Sim, rng *rand.Rand, o Options, node int) {
	spec := pfs.FileSpec{StripeSize: 1 << 20, StripeCount: 1, Name: a.Name, Node: node}
	shared := sim.File(spec)
	var order []int64
	if a.Random {
		order = shuffled(rng, (a.Bytes+a.Grain-1)/a.Grain)
	}
	for rank := range a.Processes {
		p := &process{app: a, file: shared, next: int64(rank), step: int64(a.Processes), end: a.Bytes}
		p.client = sim.Process(node+rank, pfs.Process{App: a.Name, User: a.User, Rank: rank, Burst: a.Bytes})
		switch {
		case a.Own:
			p.own(sim, spec, rank)
			if a.Random {
				p.order = shuffled(rng, (p.end+a.Grain-1)/a.Grain)
			}
		case a.Random:
			p.order = deal(order, rank, a.Processes)
		}
		start := a.Start
		if a.Processes > 1 {
			start += rng.Float64() * o.Spread
		}
		p.again = p.act
		if o.Think > 0 {
			p.again = func() { sim.At(sim.Now()+rng.Float64()*o.Think, p.act) }
		}
		sim.At(start, p.act)
	}
}

// own gives a process a file of its own, with its share of the bytes.
func (p *process) own(sim *pfs.Sim, spec pfs.FileSpec, rank int) {
	a := p.app
	spec.Name, spec.Node, spec.First = fmt.Sprintf("%s.%d", a.Name, rank), spec.Node+rank, rank
	p.file = sim.File(spec)
	p.next, p.step = 0, 1
	n := int64(a.Processes)
	p.end = a.Bytes*int64(rank+1)/n - a.Bytes*int64(rank)/n
}

func shuffled(rng *rand.Rand, n int64) []int64 {
	order := make([]int64, n)
	for i := range order {
		order[i] = int64(i)
	}
	rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	return order
}

// deal returns every n-th operation, from that of a rank.
func deal(order []int64, rank, n int) []int64 {
	var mine []int64
	for i := rank; i < len(order); i += n {
		mine = append(mine, order[i])
	}
	return mine
}

// act begins the next operation, or ends the process.
func (p *process) act() {
	a := p.app
	at := p.next * a.Grain
	if a.Random {
		at = p.end
		if len(p.order) > 0 {
			at, p.order = p.order[0]*a.Grain, p.order[1:]
		}
	}
	if at >= p.end {
		p.client.Drain(0, p.done)
		return
	}
	p.next += p.step
	a.operations++
	n := min(a.Grain, p.end-at)
	if a.Write {
		p.client.Write(p.file, at, n, p.again)
	} else {
		p.client.Read(p.file, at, n, p.again)
	}
}

func (p *process) done() {
	a := p.app
	a.end = max(a.end, p.client.Now())
}
