package coordinator

import (
	"slices"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/protocol"
)

// guessedRate is how many bytes are stored per second, before anything is known.
const guessedRate = 256 << 20

// guessedPause is what the first checkpoint of a program may cost: how much it protects
// is not known before.
const guessedPause = time.Second

// expectedCost is for how long checkpoints will stop the application, before this run
// has measured any: as long as those of the runs before, or as predicted, or at a
// guess.
func (d *driver) expectedCost(resumed bool, data int64) protocol.Cost {
	if resumed {
		if cost := d.formerCost(); cost > 0 {
			return protocol.Cost{First: cost, Next: cost}
		}
	}
	if p := d.spec.Prediction; p != nil && p.First.Pause > 0 {
		first, next, high := p.Costs()
		return protocol.Cost{First: seconds(first), FirstHigh: seconds(high), Next: seconds(next)}
	}
	if d.spec.Program != nil {
		return protocol.Cost{First: guessedPause, FirstHigh: guessedPause}
	}
	guess := seconds(float64(data+d.library.bytes) / guessedRate)
	return protocol.Cost{First: guess, FirstHigh: guess}
}

// formerCost is the median of the newest checkpoints of the job, 0 if there are none.
func (d *driver) formerCost() time.Duration {
	const newest = 5
	summaries, _ := d.job.Summaries(newest) // those that can be read
	events := job.ReadEvents(d.job, newest)
	var list []float64
	for _, s := range summaries {
		_, pause := events.Describe(s).Costs(d.spec.Async)
		list = append(list, pause)
	}
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return seconds(list[(len(list)-1)/2])
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
