package life

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"ckpt/image/nodes"
)

// A run is a life in progress. Positions are seconds of running since the beginning: work, and
// what logs slow it down by.
type run struct {
	*Job
	m        *Machine
	src      source
	upcoming failure
	life     Life

	now, pos, frontier, whole float64
	at                        []float64    // position of the newest checkpoint of each level
	lost                      map[int]bool // nodes, since the newest checkpoint or until it was restored
	restored                  float64      // when what nodes keep of lost ones is whole again
	spares                    spares
	outages                   outages
	beside                    *neighbours
	moving                    bool // bytes into the last level, while the job waits
	watch                     func(Moment)
	stopAt                    float64 // end of the allocation, less the checkpoint before

	tier *tier // nil without a drain
}

// A tier is what the nodes keep, as far as a job knows it.
type tier struct {
	ledger   *nodes.Ledger
	next     int
	position map[int]float64 // of versions
	has      bool            // the nodes have a version since the last restart from the store
	draining int             // 0: no version
	left     float64         // seconds of the drain, at full speed of the store
}

func newRun(j *Job, m *Machine, src source, rng *rand.Rand) *run {
	r := &run{outages: m.outages(rng), stopAt: math.Inf(1), Job: j, m: m, src: src, whole: j.Work / (1 - j.Slowdown), at: make([]float64, len(j.Levels)), lost: map[int]bool{}, spares: newSpares(m)}
	r.beside = j.Beside.neighbours(rng)
	if j.Walltime > 0 {
		r.stopAt = j.Walltime - j.stopTime()
	}
	r.upcoming = r.src.next()
	if j.Levels[len(j.Levels)-1].Drain > 0 {
		r.tier = r.newTier()
	}
	return r
}

func (r *run) newTier() *tier {
	drain := nodes.Drain{Mode: nodes.DrainEvery, Every: max(1, r.Levels[1].Every)}
	return &tier{ledger: nodes.NewLedger(nodes.Setting{Protect: protection(r.Levels[0].Strength), Drain: drain}), next: 1, position: map[int]float64{}}
}

// protection is a scheme that survives the loss of so many nodes.
func protection(strength int) nodes.Scheme {
	if strength == 0 {
		return nodes.Scheme{}
	}
	s, err := nodes.Parse(fmt.Sprintf("partner:%d", strength))
	if err != nil {
		panic(err) // of a strength that check has seen
	}
	return s
}

// run lives.
func (r *run) run() (*Life, error) {
	full := max(0, math.Ceil(r.whole/r.Interval-1e-9)-1) // checkpoints: a last one protects nothing
	for {
		i := math.Floor(r.pos/r.Interval + 1e-9)
		target := (i + 1) * r.Interval
		if i >= full {
			target = r.whole
		}
		ok := r.compute(target)
		if ok && i >= full {
			r.life.End = r.now
			return &r.life, nil
		}
		if !ok || !r.checkpoint(int(i)+1) {
			r.report(true)
			if r.restart(); r.stuck() {
				return nil, &StuckError{Failures: r.life.Failures, Done: r.frontier / r.whole}
			}
			r.report(false)
		}
	}
}

// compute runs up to a position, and reports whether no failure came before.
func (r *run) compute(target float64) bool {
	for r.pos < target {
		if r.now >= r.stopAt && !r.requeue() {
			return false
		}
		speed, end := 1.0, target
		again := r.pos < r.frontier
		if again {
			speed, end = max(1, r.Replay), min(target, r.frontier)
		}
		left, until := r.nodesLeft()
		speed *= left
		full := speed
		if r.drains() {
			speed *= 1 - r.Levels[1].Slow
		}
		need := (end - r.pos) / speed
		step := min(need, r.stopAt-r.now, until-r.now)
		if r.drains() {
			step = min(step, r.untilDrained())
		}
		struck := r.upcoming.at < r.now+step
		if struck {
			step = max(0, r.upcoming.at-r.now)
		}
		if step == need {
			r.pos = end
		} else {
			r.pos += step * speed
		}
		if again {
			r.pass(step, Rework)
		} else {
			slowed := step * (1 - speed/full)
			r.life.By[Work] += (step - slowed) * left * (1 - r.Slowdown)
			r.life.By[Logs] += (step - slowed) * left * r.Slowdown
			r.life.By[Fewer] += (step - slowed) * (1 - left)
			r.life.By[Drain] += slowed
			r.let(step)
			r.frontier = max(r.frontier, r.pos)
		}
		if struck {
			return false
		}
	}
	return true
}

// pass lets time pass that goes to a cause, and let to what was counted already.
func (r *run) pass(seconds float64, cause Cause) {
	r.life.By[cause] += seconds
	r.let(seconds)
}

func (r *run) let(seconds float64) {
	from, moves := r.now, r.moves()
	r.now += seconds
	defer r.beside.pass(seconds, moves)
	if r.drains() {
		r.outages.after(from)
		away := max(0, min(r.now, r.outages.end)-max(from, r.outages.start))
		if r.tier.left -= (seconds - away) * r.beside.speed(); r.tier.left <= 1e-9*r.Levels[1].Drain {
			r.drained()
		}
	}
}

// untilDrained is how long the drain takes yet, which waits while the store is away, or goes on as
// fast as now.
func (r *run) untilDrained() float64 {
	r.outages.after(r.now)
	left := r.tier.left / r.beside.speed()
	if r.now+left > r.outages.start {
		left += r.outages.end - max(r.now, r.outages.start)
	}
	return min(left, r.beside.until(true))
}

// moves reports whether bytes of the job go to the storage that all share, or come from there.
func (r *run) moves() bool { return r.moving || r.drains() }

// nodesLeft is the share of the nodes that the job computes on, and until when.
func (r *run) nodesLeft() (share, until float64) {
	if !r.Shrink {
		return 1, math.Inf(1)
	}
	out, until := r.spares.missing(r.now)
	return 1 - float64(out)/float64(r.Nodes), until
}

func (r *run) drains() bool { return r.tier != nil && r.tier.draining != 0 }

// spend lets time pass unless a failure comes first, and reports whether none did.
func (r *run) spend(seconds float64, cause Cause) bool {
	for seconds > 0 {
		step := seconds
		if r.drains() {
			step = min(step, r.untilDrained())
		}
		if r.upcoming.at < r.now+step {
			r.pass(max(0, r.upcoming.at-r.now), cause)
			return false
		}
		r.pass(step, cause)
		seconds -= step
	}
	return true
}

// checkpoint takes the checkpoint of some number since the beginning, and reports whether it is
// there.
func (r *run) checkpoint(number int) bool {
	cause := Checkpoints
	if r.pos < r.frontier {
		cause = Rework
	}
	cost := r.Growth * r.Interval
	if r.tier != nil {
		return r.onNodes(cost+r.Levels[0].Cost, cause)
	}
	last, span := 0, 1
	for l := range r.Levels {
		if span *= max(1, r.Levels[l].Every); number%span != 0 {
			break
		}
		cost += r.Levels[l].Cost
		last = l
	}
	if number%max(1, r.Levels[0].Every) != 0 {
		return true
	}
	in := r.spend
	if last == len(r.Levels)-1 {
		in = r.move
	}
	if !in(cost, cause) {
		return false
	}
	r.taken()
	for l := range last + 1 {
		r.at[l] = r.pos
	}
	return true
}

// onNodes takes a checkpoint that goes to the nodes, if the ledger has room for it, and behind the
// job to the store, if it is due there.
func (r *run) onNodes(cost float64, cause Cause) bool {
	t := r.tier
	for !t.ledger.Begin(t.next, 0) {
		r.reclaim()
		if t.ledger.Begin(t.next, 0) {
			break
		}
		r.drain()
		wait := max(1e-3, t.left)
		if !r.drains() {
			wait = max(1e-3, t.ledger.Retry().Sub(r.clock()).Seconds())
		}
		if !r.spend(wait, Room) {
			return false
		}
	}
	if !r.spend(cost, cause) {
		t.ledger.Aborted(t.next)
		return false
	}
	t.ledger.Commit(t.next)
	t.position[t.next] = r.pos
	t.next++
	t.has, r.at[0] = true, r.pos
	r.taken()
	r.drain()
	return true
}

// taken counts a checkpoint, which nodes that were lost before have no part of.
func (r *run) taken() {
	r.life.Checkpoints++
	clear(r.lost)
}

// clock is the time of the ledger.
func (r *run) clock() time.Time { return time.Unix(0, int64(min(r.now, 9e9)*1e9)) }

// drain begins the next drain, if one is due, and reclaims.
func (r *run) drain() {
	t := r.tier
	r.reclaim()
	if t.draining != 0 {
		return
	}
	if n, ok := t.ledger.NextDrain(r.clock()); ok {
		t.draining, t.left = n, r.Levels[1].Drain
	}
}

// drained ends a drain.
func (r *run) drained() {
	t := r.tier
	t.ledger.Drained(t.draining)
	r.at[1] = max(r.at[1], t.position[t.draining])
	t.draining, t.left = 0, 0
	r.life.Drained++
	r.drain()
}

func (r *run) reclaim() {
	for _, n := range r.tier.ledger.Reclaimable() {
		r.tier.ledger.Reclaimed(n)
		delete(r.tier.position, n)
	}
}
