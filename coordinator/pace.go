package coordinator

import (
	"time"

	"ckpt/coordinator/job"
)

// A pace is where and when the ranks last began to compute.
type pace struct {
	iteration int
	at        time.Duration
	known     bool
}

// paceFrom measures the pace anew, since the ranks of a group compute.
func (d *driver) paceFrom(g *group) {
	d.pace = pace{iteration: g.restored.iter, at: d.now(), known: true}
	if d.spec.Several() {
		d.pace.iteration = d.machine.Iteration()
	}
}

// rate is how many iterations the job does per second, checkpoints included, 0 if that
// is not known.
func (d *driver) rate() float64 {
	done, took := d.machine.Iteration()-d.pace.iteration, (d.now() - d.pace.at).Seconds()
	if !d.pace.known || done <= 0 || took <= 0 {
		return 0
	}
	return float64(done) / took
}

// underWay returns the number of a checkpoint that is being written, 0 if there is none.
func (d *driver) underWay() int {
	for _, g := range d.groups {
		if n := g.level.facts().underWay; n > 0 {
			return n
		}
	}
	return 0
}

// beginning says where and when the run began.
func (d *driver) beginning() job.Beginning {
	b := job.NewBeginning()
	b.Started = d.since.UTC().Truncate(time.Millisecond)
	return b
}
