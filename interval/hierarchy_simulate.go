package interval

import (
	"context"
	"math"
	"math/rand/v2"
	"sort"
	"time"
)

// LevelSimulation replays runs of a job whose checkpoints go to several levels of
// storage, as [Simulation] does for one. Which level a failure needs is drawn for each
// failure alone, by the shares of the levels.
type LevelSimulation struct {
	Hierarchy Hierarchy
	Work      time.Duration // of a run, without checkpoints and failures
	Pattern   Pattern
	Shape     float64 // of the Weibull distribution, 0.2 to 10
	Runs      int     // 2 to 10 million
	Seed      uint64
	Steady    bool // as in Simulation
}

// Run replays the runs, on all processors. The estimate depends on the arguments only.
func (s *LevelSimulation) Run(ctx context.Context) (*Estimate, error) {
	if err := checkRuns(s.Shape, s.Runs); err != nil {
		return nil, err
	}
	expected, err := s.Hierarchy.Expected(s.Work, s.Pattern)
	if err != nil {
		return nil, err
	}
	if err := checkEvents(expected, s.Hierarchy.MTBF, s.Runs); err != nil {
		return nil, err
	}
	sum, err := repeat(ctx, s.replay(), s.Runs, s.Seed)
	if err != nil {
		return nil, err
	}
	return sum.estimate(s.Work, expected, s.Runs)
}

// levelReplay is a simulation in seconds.
type levelReplay struct {
	*shape
	weibull
	w, whole float64 // interval, and the time of a pattern without failures
	patterns float64 // whole ones of the run
	rest     int     // intervals after them that end with a checkpoint
	tail     float64 // work after these
}

func (s *LevelSimulation) replay() *levelReplay {
	r := &levelReplay{shape: s.Hierarchy.rates().shape(s.Pattern.Every), w: s.Pattern.Interval.Seconds()}
	r.weibull = newWeibull(r.mtbf, s.Shape, s.Steady)
	full := math.Max(0, math.Ceil(s.Work.Seconds()/r.w-1e-9)-1)
	r.whole = r.period(r.w)
	r.patterns = math.Floor(full / float64(r.all))
	r.rest = int(full - r.patterns*float64(r.all))
	r.tail = s.Work.Seconds() - full*r.w
	return r
}

// place is how far a run has come.
type place struct {
	pattern float64 // whole patterns done
	j       int     // intervals of this one that are done
	safe    bool    // its first checkpoint is drained
}

// run replays one run.
func (r *levelReplay) run(rng *rand.Rand) (total float64, failures int) {
	quiet := r.first(rng) // time to the next failure
	at := place{safe: true}
	for {
		if at.j == 0 && at.pattern < r.patterns {
			if ahead := min(r.patterns-at.pattern, math.Floor(quiet/r.whole)); ahead > 0 {
				at = place{pattern: at.pattern + ahead}
				total += ahead * r.whole
				quiet -= ahead * r.whole
			}
		}
		end := r.whole
		if at.pattern == r.patterns {
			end = r.until(r.rest) + r.tail
		}
		start := r.until(at.j)
		if quiet >= end-start {
			total += end - start
			quiet -= end - start
			if at.pattern == r.patterns {
				return total, failures
			}
			at = place{pattern: at.pattern + 1}
			continue
		}
		reached := start + quiet
		total += quiet
		at.safe = at.safe || reached >= r.drain
		at.j = r.done(at.j, reached)
		var level int
		var lost float64
		if level, lost, quiet = r.recover(rng, &failures); failures > maxFailures {
			return total, failures
		}
		total += lost
		at = r.back(at, level)
	}
}

// until is when the first j intervals of a pattern are done.
func (r *levelReplay) until(j int) float64 { return r.elapsed(r.w, j) }

// done is how many intervals of a pattern are done at a time, from j on.
func (r *levelReplay) done(j int, t float64) int {
	return j + sort.Search(r.all-1-j, func(i int) bool { return r.until(j+i+1) > t })
}

// recover restarts a job until that succeeds, after a failure. It returns the level that
// the restart needed, what it took, and the time to the next failure.
func (r *levelReplay) recover(rng *rand.Rand, failures *int) (level int, lost, quiet float64) {
	for quiet = -1; quiet < 0; {
		if *failures++; *failures > maxFailures {
			return level, lost, 0
		}
		level = max(level, r.needs(rng))
		next := r.draw(rng)
		lost += r.down + min(next, r.restart[level])
		quiet = next - r.restart[level]
	}
	return level, lost, quiet
}

// needs draws the level that a failure needs.
func (r *levelReplay) needs(rng *rand.Rand) int {
	last := len(r.share) - 1
	if last == 0 {
		return 0
	}
	x := rng.Float64()
	for l, share := range r.share[:last] {
		if x -= share; x < 0 {
			return l
		}
	}
	return last
}

// back is the place from which a job goes on after a restart from a level.
func (r *levelReplay) back(at place, level int) place {
	if level < len(r.share)-1 {
		at.j -= at.j % r.span[level]
		return at
	}
	if !at.safe {
		at.pattern--
	}
	return place{pattern: at.pattern, safe: true}
}
