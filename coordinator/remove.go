package coordinator

import (
	"ckpt/coordinator/job"
	"ckpt/image"
)

// Removed says what went with a job.
type Removed struct {
	Job     string `json:"job"`
	Removed []int  `json:"removed"` // numbers of checkpoints
	Freed   int64  `json:"freed_bytes"`
	DryRun  bool   `json:"dry_run,omitempty"` // nothing was removed
}

// Remove removes a job with all its files, unless it runs.
func Remove(j *image.Job) (*Removed, error) {
	if err := j.Lock(); err != nil {
		return nil, err
	}
	defer j.Unlock()
	// Nobody may read a part of the logs as the whole if this is cut short.
	if spec, err := job.ReadSpec(j); err == nil && spec.Several() {
		if err := job.BeginAgain(j, spec); err != nil {
			return nil, err
		}
	}
	numbers, freed, err := j.Remove()
	return &Removed{Job: j.Name(), Removed: append([]int{}, numbers...), Freed: freed}, err
}

// PreviewRemove says what Remove would remove.
func PreviewRemove(j *image.Job) (*Removed, error) {
	if err := j.Lock(); err != nil {
		return nil, err
	}
	defer j.Unlock()
	numbers, err := j.Checkpoints()
	if err != nil {
		return nil, err
	}
	size, err := j.Size()
	return &Removed{Job: j.Name(), Removed: append([]int{}, numbers...), Freed: size, DryRun: true}, err
}
