package supervisor

import (
	"math/rand/v2"
	"slices"
	"time"

	"ckpt/coordinator/protocol"
	"ckpt/coordinator/protocol/channel"
)

// newWorld makes a job from a seed.
func newWorld(seed uint64, m *mutant) *world {
	rng := rand.New(rand.NewPCG(seed, 2))
	w := &world{seed: seed, rng: rng, mutant: m, procs: map[string]*proc{}, storing: map[int]int{},
		limits:  protocol.Limits{Silence: time.Second, Phase: 3 * time.Second, Restarts: 100},
		disk:    disk{checkpoints: map[int]*stored{}, writing: map[int][]*image{}},
		checker: newChecker()}
	w.ranks, w.iterations = 2+rng.IntN(5), 2+rng.IntN(14)
	w.log = []channel.Kind{channel.Receiver, channel.Sender, channel.Optimistic, channel.None}[seed%4]
	w.async = rng.IntN(3) == 0
	anySource := rng.IntN(4)
	if w.log == channel.Optimistic {
		anySource = max(1, anySource) // without, nothing is ever lost with it
	}
	w.program = newProgram(rng, w.ranks, w.iterations, anySource)
	w.until = time.Duration(rng.IntN(2500)) * time.Millisecond
	w.lazy = []time.Duration{20, 200, 1000}[rng.IntN(3)] * time.Millisecond
	w.diskFails, w.chatty = rng.IntN(3) == 0, rng.IntN(3) == 0
	w.layout()
	w.cfg = Config{Groups: w.groupRanks(), Log: w.log, Iterations: w.iterations, Limits: w.limits, AutoRestart: true, Async: w.async,
		Seed: seed, Stagger: Stagger(rng.IntN(3)), Keep: 1 + rng.IntN(2)}
	if w.async {
		w.cfg.InFlight = int(seed/4) % 4
	}
	if rng.IntN(2) == 0 {
		w.cfg.Jitter = rng.Float64()
	}
	if rng.IntN(3) == 0 {
		w.cfg.Storing = 1 + rng.IntN(2)
	}
	switch rng.IntN(4) {
	case 0, 1:
		w.cfg.Schedule.Every = 1 + rng.IntN(5)
	case 2:
		w.cfg.Schedule.Interval = 20*time.Millisecond + w.upTo(300*time.Millisecond)
	}
	w.disk.base = make([]int, len(w.groups))
	w.disk.printed = make([]uint64, w.ranks)
	w.disk.logs = make([]simLog, w.ranks)
	w.trace = make([][]uint64, w.ranks)
	return w
}

// layout divides the ranks into groups: mostly one each, or of two and three,
// rarely all in one.
func (w *world) layout() {
	size := 1
	if w.log != channel.Optimistic {
		size = []int{1, 1, 1, 2, 2, 3, w.ranks}[w.rng.IntN(7)]
	}
	order := w.rng.Perm(w.ranks)
	if w.rng.IntN(2) == 0 {
		slices.Sort(order)
	}
	w.at = make([]place, w.ranks)
	for ranks := range slices.Chunk(order, size) {
		slices.Sort(ranks)
		g := &simGroup{id: len(w.groups), ranks: ranks}
		for i, r := range ranks {
			w.at[r] = place{g.id, i}
		}
		w.groups = append(w.groups, g)
	}
}

func (w *world) groupRanks() [][]int {
	var list [][]int
	for _, g := range w.groups {
		list = append(list, g.ranks)
	}
	return list
}

// begin has a coordinator begin with what is in the store.
func (w *world) begin() {
	cfg := w.cfg
	d := &w.disk
	cfg.Base, cfg.Printed = slices.Clone(d.base), slices.Clone(d.printed)
	if w.mutant.noPrinted {
		cfg.Printed = nil
	}
	cfg.Incarnation, cfg.Next = d.incarnation+1, d.used+1
	w.storing, w.outcome, w.tick, w.requests = map[int]int{}, nil, 0, map[int]protocol.Request{}
	clear(w.losses) // a number that was never committed is free again
	for _, g := range w.groups {
		g.excuse, g.live = true, false
		for _, n := range d.numbers(g.id) {
			c := d.checkpoints[n]
			if c.damaged && (len(w.groups) == 1 || w.rng.IntN(2) == 0) {
				continue // its manifest cannot be read
			}
			cfg.Known = append(cfg.Known, Stored{Group: g.id, Number: n, Iter: c.iter, Vectors: c.vectors()})
			cfg.From = n
		}
	}
	if len(w.groups) > 1 {
		cfg.From = 0
	}
	if w.log == channel.Optimistic {
		cfg.Logged = make([]map[int][]channel.Vector, w.ranks)
		for r := range cfg.Logged {
			numbers := []int{0}
			for _, k := range cfg.Known {
				if k.Group == w.at[r].group {
					numbers = append(numbers, k.Number)
				}
			}
			cfg.Logged[r] = w.logged(r, numbers)
		}
	}
	sup, err := New(cfg)
	if err != nil {
		w.noLine(err)
		return
	}
	w.sup = sup
	w.perform(w.sup.Begin(w.now))
}

// noLine is what a user is left with when a damaged checkpoint was the last one
// that would have done: the job from its beginning.
func (w *world) noLine(err error) {
	if !w.damage {
		w.failf("%v", err)
	}
	d := &w.disk
	clear(d.checkpoints)
	clear(d.base)
	for r := range d.logs {
		d.logs[r] = simLog{}
	}
	for r := range w.trace {
		w.trace[r] = nil
	}
	w.seen.anew++
	w.begin()
}

// logged returns the states in the log of a rank behind each of the checkpoints.
func (w *world) logged(rank int, numbers []int) map[int][]channel.Vector {
	states := map[int][]channel.Vector{}
	for _, n := range numbers {
		if c := w.disk.checkpoints[n]; c != nil && c.damaged || n == 0 && w.disk.base[w.at[rank].group] > 0 {
			continue
		}
		im := w.image(rank, n)
		if im == nil {
			w.failf("checkpoint %d of rank %d is gone", n, rank)
		}
		list, err := im.state.Logged(w.disk.logs[rank].reader())
		if err != nil {
			w.failf("log of rank %d: %v", rank, err)
		}
		states[n] = list
	}
	return states
}
