package job

import (
	"encoding/json"
	"fmt"
	"slices"

	"ckpt/dataset"
	"ckpt/image"
)

// A CostRun is what the journal of a job tells of the costs of its checkpoints and restarts.
// Times are in seconds.
type CostRun struct {
	// Pauses are how long the ranks stood still, for each group of ranks that takes
	// checkpoints, oldest first. The full first checkpoint of a job that stores what has
	// changed is left out, if others follow.
	Pauses   [][]float64
	Latency  []float64 // of all checkpoints
	Restarts []dataset.JobRestart
}

// MeasureCosts reads what the journal of a job tells, whoever took its checkpoints and whatever
// they hold.
func MeasureCosts(j *image.Job) (*CostRun, *Resolved, error) {
	spec, err := ReadSpec(j)
	if err != nil {
		return nil, nil, err
	}
	r := &CostRun{}
	groups := map[int]int{} // by the first rank
	err = ReadJournal(j, 0, func(line []byte) {
		var ev CheckpointEvent
		if json.Unmarshal(line, &ev) != nil || ev.Type != "checkpoint" {
			return
		}
		first := 0
		if len(ev.Of) > 0 {
			first = slices.Min(ev.Of)
		}
		at, ok := groups[first]
		if !ok {
			at, groups[first] = len(r.Pauses), len(r.Pauses)
			r.Pauses = append(r.Pauses, nil)
		}
		latency, pause := ev.Costs(spec.Async)
		r.Pauses[at], r.Latency = append(r.Pauses[at], pause), append(r.Latency, latency)
	})
	if len(r.Latency) == 0 {
		return nil, nil, fmt.Errorf("job %s: its journal tells of no checkpoint: %w", j.Name(), image.ErrCheckpointNotFound)
	}
	if err != nil {
		return nil, nil, err
	}
	for i, list := range r.Pauses {
		if spec.Incremental && len(list) > 1 {
			r.Pauses[i] = list[1:]
		}
	}
	_, r.Restarts = readCosts(j, spec)
	return r, spec, nil
}
