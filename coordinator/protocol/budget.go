package protocol

import (
	"slices"
	"time"
)

// A Cost is what checkpoints are expected to cost before any was measured: how long the
// application will stand still. The first one of a run stores all of the memory, later ones may
// store less.
type Cost struct {
	First, FirstHigh time.Duration // High: it will hardly be more; 0: not known
	Next             time.Duration // of each that follows; 0: not known
}

// A budget is the account of checkpoint time against computing time.
//
// A checkpoint is due as soon as the account can pay for it, with a reserve. Those before it tell
// what it will cost; a single slow one of them changes little. The account is charged with its
// real cost, which is saved before the next one.
type budget struct {
	share float64 // of the computing time; 0: nothing is paid for
	cost  Cost
	async bool // the cost of a checkpoint is known when the ranks stop for the next one

	since time.Duration // start of the current stretch of computing
	spent time.Duration // by checkpoints
	ran   time.Duration // computing before since
	tries int           // checkpoints, aborted ones included

	first     time.Duration   // what the first one cost
	following []time.Duration // what the newest ones after it cost, oldest first
	taken     int             // that were measured
	open      bool            // the cost of the newest one is not known yet

	told time.Duration // the interval that was announced last
	pace pace
}

const (
	recentCosts = 5   // that the next one is estimated from
	reserve     = 1.5 // by which a checkpoint may exceed those before it
	material    = 1.5 // change of an interval, which is announced
)

// recent are the costs of the newest checkpoints, in order, from which the next is estimated. The
// first one, which stores more, is left out as soon as two others are known.
func (b *budget) recent() []time.Duration {
	list := slices.Clone(b.following)
	if len(list) < 2 && b.taken > 0 {
		list = slices.Insert(list, 0, b.first)
	}
	if b.open {
		list = list[:len(list)-1]
	}
	slices.Sort(list)
	return list
}

// expected estimates the cost of the next checkpoint: by the median of the recent ones, or by the
// prediction.
func (b *budget) expected() time.Duration {
	list := b.recent()
	switch {
	case len(list) == 0:
		return max(b.cost.First, b.first)
	case len(list) == 1 && b.cost.Next > 0 && b.cost.First > 0:
		// The first one tells how far off the prediction is here.
		return time.Duration(float64(b.cost.Next) * float64(b.first) / float64(b.cost.First))
	}
	return list[(len(list)-1)/2]
}

// highest is what the next checkpoint will hardly exceed. The slowest of the recent ones does not
// count: otherwise the others would wait for a second one like it.
func (b *budget) highest() time.Duration {
	list := b.recent()
	if b.taken == 0 && b.cost.FirstHigh > 0 {
		return b.cost.FirstHigh
	}
	if len(list) < 2 {
		return scale(b.expected(), reserve)
	}
	return scale(list[len(list)-2], reserve)
}

// interval is the time to compute between two checkpoints of the expected cost. Until one was
// measured it looks beyond the first.
func (b *budget) interval() time.Duration {
	if len(b.recent()) == 0 && b.cost.Next > 0 {
		return scale(b.cost.Next, 1/b.share)
	}
	return scale(b.expected(), 1/b.share)
}

// due returns when the next checkpoint fits the budget. Savings are spent gradually: two
// checkpoints close to each other protect hardly more than one.
func (b *budget) due() time.Duration {
	at := b.since + max(0, scale(b.spent+b.highest(), 1/b.share)-b.ran)
	if b.tries > 0 {
		at = max(at, b.since+b.interval()/2)
	}
	return at
}

func (b *budget) used() float64 {
	if b.ran <= 0 {
		return 0
	}
	return float64(b.spent) / float64(b.ran)
}

// charge books a checkpoint, or an aborted attempt, for which the job stood still between two
// times. The wait for other jobs is spent, and says nothing of the cost of the next one.
func (b *budget) charge(from, now, held time.Duration, taken bool) {
	cost := max(0, now-from)
	b.spent += cost
	b.compute(from)
	b.since = now
	b.tries++
	if taken {
		b.measure(max(0, cost-held))
	}
}

func (b *budget) compute(end time.Duration) {
	d := max(0, end-b.since)
	b.ran += d
	b.pace.compute(d)
	b.since = max(b.since, end)
}

// slowed ends a stretch of computing at time end, when the ranks stand at an iteration, 0 if it
// is not known. It books what the checkpoint written behind has held up as a part of its cost.
func (b *budget) slowed(iteration int, end time.Duration) {
	b.compute(end)
	if iteration == 0 {
		return
	}
	late := b.pace.end(iteration)
	b.open = false
	b.spent += late
	b.ran -= late
	if n := len(b.following); n > 0 {
		b.following[n-1] += late
	} else if b.taken > 0 {
		b.first += late
	}
}

func (b *budget) measure(cost time.Duration) {
	b.open = b.async
	if b.taken++; b.taken == 1 {
		b.first = cost
		return
	}
	b.following = append(b.following, cost)
	if len(b.following) > recentCosts {
		b.following = slices.Delete(b.following, 0, 1)
	}
}

// changed reports whether the interval is to be announced: it is not what was announced last, or
// the next checkpoint has to wait for much longer.
func (b *budget) changed(wait time.Duration) bool {
	interval := b.interval()
	return interval > scale(b.told, material) || scale(interval, material) < b.told || wait > 2*max(interval, b.told)
}

// scale multiplies a duration, up to 73 years.
func scale(d time.Duration, by float64) time.Duration {
	return time.Duration(min(float64(d)*by, 1<<61))
}

func (c *Coordinator) announce() {
	b := &c.budget
	if b.share <= 0 {
		return
	}
	wait := max(0, b.due()-c.now)
	if !b.changed(wait) {
		return
	}
	b.told = b.interval()
	c.report(Notice{Kind: IntervalChanged, Rank: -1, Plan: &Plan{Interval: b.told, Cost: scale(b.told, b.share), Wait: wait,
		Measured: b.taken, Used: b.used()}})
}

// A pace tells how much a checkpoint that is written behind slows the computation down. It knows
// how long iterations take while none is written. If the iterations of a stretch of computing
// took longer, the checkpoint written behind is at fault, at most for as long as it was written.
type pace struct {
	from, freeFrom int           // iterations at which the stretch, and its undisturbed part, began
	took           time.Duration // by the stretch
	behind         time.Duration // of took, while a checkpoint was written
	free           time.Duration // of took, since then
	freeTime       float64       // of the undisturbed parts of all stretches, in ns; the newest count most
	freeIterations float64
}

// fade is the weight of the stretches before, so that the pace follows the load of the machine.
const fade = 0.8

func (p *pace) begin(iteration int) {
	p.from, p.freeFrom = iteration, iteration
	p.took, p.behind, p.free = 0, 0, 0
}

func (p *pace) compute(d time.Duration) {
	p.took += d
	p.free += d
}

// disturbed says that the stretch has been disturbed for so long, until now, when every rank was
// known to be in an iteration.
func (p *pace) disturbed(d time.Duration, iteration int) {
	p.behind += d
	p.free, p.freeFrom = 0, max(p.from, iteration)
}

// end ends a stretch at an iteration, begins the next, and returns for how long checkpoints held
// the first up.
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
