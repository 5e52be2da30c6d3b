package protocol

import "time"

// A pace tells how much a checkpoint that is written behind slows the computation
// down. It knows how long iterations take while none is written. If the iterations of a
// stretch of computing took longer, the checkpoint written behind is at fault, at most
// for as long as it was written.
type pace struct {
	from, freeFrom int           // iterations at which the stretch, and its undisturbed part, began
	took           time.Duration // by the stretch
	behind         time.Duration // of took, while a checkpoint was written
	free           time.Duration // of took, since then
	freeTime       float64       // of the undisturbed parts of all stretches, in ns; the newest count most
	freeIterations float64
}

// fade is the weight of the stretches before, so that the pace follows the load of the
// machine.
const fade = 0.8

// begin begins a stretch at an iteration.
func (p *pace) begin(iteration int) {
	p.from, p.freeFrom = iteration, iteration
	p.took, p.behind, p.free = 0, 0, 0
}

// compute adds computing time to the stretch, as yet undisturbed.
func (p *pace) compute(d time.Duration) {
	p.took += d
	p.free += d
}

// disturbed says that the stretch has been disturbed for so long, until now, when every
// rank was known to be in an iteration.
func (p *pace) disturbed(d time.Duration, iteration int) {
	p.behind += d
	p.free, p.freeFrom = 0, max(p.from, iteration)
}

// end ends a stretch at an iteration, begins the next, and returns for how long
// checkpoints held the first up.
func (p *pace) end(iteration int) time.Duration {
	if n := iteration - p.freeFrom; n > 0 && p.free > 0 {
		p.freeTime = fade*p.freeTime + float64(p.free)
		p.freeIterations = fade*p.freeIterations + float64(n)
	}
	late := time.Duration(0)
	if p.freeIterations > 0 {
		alone := float64(iteration-p.from) * p.freeTime / p.freeIterations
		late = min(p.behind, max(0, p.took-time.Duration(alone)))
	}
	p.begin(iteration)
	return late
}
