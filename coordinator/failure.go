package coordinator

import (
	"math/rand/v2"
	"time"

	"ckpt/coordinator/launch"
)

// injector carries the failures of a run out. It belongs to the driver's loop.
type injector struct {
	d       *driver
	pending []launch.Failure // those at iterations that have yet to strike
	timers  []*time.Timer
	lost    []int // nodes that are to lose their directories
}

func newInjector(d *driver, failures []launch.Failure) *injector {
	in := &injector{d: d}
	for _, f := range failures {
		switch {
		case f.MTBF > 0:
			in.killAgain(f, rand.New(rand.NewPCG(f.Seed, 0)))
		case f.Iter > 0:
			in.pending = append(in.pending, f)
		default:
			in.later(f.After, func() { in.strike(f) })
		}
	}
	return in
}

// killAgain kills a random rank or node after an exponential time, for ever. The more nodes, the
// sooner one of them fails.
func (in *injector) killAgain(f launch.Failure, rng *rand.Rand) {
	m, mean := in.d.spec.Mapping, float64(f.MTBF)
	if f.OfNode {
		mean /= float64(len(m))
	}
	wait := time.Duration(rng.ExpFloat64() * mean)
	var victims []int
	if f.OfNode {
		victims = launch.Failure{Rank: -1, Node: rng.IntN(len(m))}.Victims(m)
	} else {
		victims = append(victims, rng.IntN(in.d.spec.NP))
	}
	in.later(wait, func() {
		in.kill(victims)
		in.killAgain(f, rng)
	})
}

func (in *injector) later(wait time.Duration, do func()) {
	in.timers = append(in.timers, time.AfterFunc(wait, func() { in.d.Post(do) }))
}

// iterations returns where a rank has to stop and ask to be killed.
func (in *injector) iterations(rank int) []int {
	var iters []int
	for _, f := range in.pending {
		for _, v := range f.Victims(in.d.spec.Mapping) {
			if v == rank {
				iters = append(iters, f.Iter)
			}
		}
	}
	return iters
}

// reached strikes when a rank has reached such an iteration.
func (in *injector) reached(rank, iter int) {
	for i, f := range in.pending {
		for _, v := range f.Victims(in.d.spec.Mapping) {
			if v == rank && f.Iter == iter {
				in.pending = append(in.pending[:i:i], in.pending[i+1:]...)
				in.strike(f)
				return
			}
		}
	}
}

// strike kills the victims of a failure. The directory that their node is to lose goes
// when no rank runs any more that could write it again.
func (in *injector) strike(f launch.Failure) {
	ranks := f.Victims(in.d.spec.Mapping)
	if f.LoseLocal && len(ranks) > 0 {
		in.lost = append(in.lost, in.d.spec.Nodes[ranks[0]])
	}
	in.kill(ranks)
}

func (in *injector) kill(ranks []int) {
	for _, r := range ranks {
		in.d.kill(r)
	}
}

// loseNodes returns, once, the nodes that are to lose their directories.
func (d *driver) loseNodes() []int {
	if d.inject == nil {
		return nil
	}
	lost := d.inject.lost
	d.inject.lost = nil
	return lost
}

func (in *injector) stop() {
	for _, t := range in.timers {
		t.Stop()
	}
}
