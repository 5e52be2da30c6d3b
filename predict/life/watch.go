package life

import (
	"context"
	"math/rand/v2"
)

// A Moment is what the time of a life has gone to until then.
type Moment struct {
	At      float64
	By      [causes]float64
	Failure bool // one has struck
}

// Watch has the first of the lives that Simulate would have from a seed, and returns its moments:
// failures, the ends of restarts, and its end.
func Watch(ctx context.Context, j Job, m Machine, seed uint64) ([]Moment, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	if err := j.check(); err != nil {
		return nil, err
	}
	list := []Moment{{}}
	src := &tape{of: m.source(j.Nodes, rand.New(rand.NewPCG(seed, 0))), nodes: j.Nodes}
	l, err := j.live(&m, &player{tape: src}, rand.New(rand.NewPCG(seed, ^uint64(0))), func(at Moment) { list = append(list, at) })
	if err != nil {
		return nil, err
	}
	return append(list, Moment{At: l.End, By: l.By}), ctx.Err()
}

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
