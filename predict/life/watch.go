package life

import "math/rand/v2"

// A Moment is what the time of a life has gone to until then.
type Moment struct {
	At      float64
	By      [causes]float64
	Failure bool // one has struck
}

// One is one of the lives that Simulate has from a seed. Watch, if not nil, hears of its moments:
// failures, the ends of restarts, and its end.
func One(j Job, m Machine, seed uint64, n int, watch func(Moment)) (*Life, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	if err := j.check(); err != nil {
		return nil, err
	}
	l, err := j.live(&m, m.source(j.Nodes, failuresOf(seed, n)), outagesOf(seed, n), watch)
	if err == nil && watch != nil {
		watch(Moment{At: l.End, By: l.By})
	}
	return l, err
}

// failuresOf and outagesOf draw those of a life.
func failuresOf(seed uint64, n int) *rand.Rand { return rand.New(rand.NewPCG(seed, uint64(n))) }
func outagesOf(seed uint64, n int) *rand.Rand  { return rand.New(rand.NewPCG(seed, ^uint64(n))) }

// report tells a watcher of a moment.
func (r *run) report(failure bool) {
	if r.watch != nil {
		r.watch(Moment{r.now, r.life.By, failure})
	}
}

// report tells a watcher what the others' time has gone to, before a failure takes effect.
func (c *crowd) report(now float64) {
	if c.watch == nil {
		return
	}
	late := c.others
	pos := c.position(&late, now)
	c.watch(Moment{now, c.spent(pos, &late), true})
}
