package coordinator

import (
	"context"
	"slices"

	"ckpt/coordinator/job"
	"ckpt/image"
)

// Removed says what went with a job.
type Removed struct {
	Job     string `json:"job"`
	Removed []int  `json:"removed"` // numbers of checkpoints
	Freed   int64  `json:"freed_bytes"`
	// Left are the nodes that may still have files of the job, and Wrong says why.
	Left   []int   `json:"left_on_nodes,omitempty"`
	Wrong  []error `json:"-"`
	DryRun bool    `json:"dry_run,omitempty"` // nothing was removed
}

// Remove removes a job with all its files, also those on nodes, unless it runs. The nodes
// come first: what is left there would be of no job, and nothing would say where it is.
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
	r := &Removed{Job: j.Name()}
	r.fromNodes(j, false)
	numbers, freed, err := j.Remove()
	r.Removed, r.Freed = merged(r.Removed, numbers), r.Freed+freed
	return r, err
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
	r := &Removed{Job: j.Name(), DryRun: true}
	r.fromNodes(j, true)
	size, err := j.Size()
	r.Removed, r.Freed = merged(r.Removed, numbers), r.Freed+size
	return r, err
}

// fromNodes removes the job from its nodes, as far as they can be reached. A job whose
// description cannot be read can still be removed from the store.
func (r *Removed) fromNodes(j *image.Job, dryRun bool) {
	levels, err := job.ReadLevels(context.Background(), j)
	if err != nil {
		r.Wrong = append(r.Wrong, err)
	}
	if levels == nil {
		return
	}
	for _, v := range levels.Versions {
		r.Removed = append(r.Removed, v.Number)
	}
	freed, left, err := levels.Remove(dryRun)
	r.Freed, r.Left = freed, left
	if err != nil {
		r.Wrong = append(r.Wrong, err)
	}
}

// merged returns the numbers that are in a or b, in order, each once.
func merged(a, b []int) []int {
	all := slices.Concat([]int{}, a, b)
	slices.Sort(all)
	return slices.Compact(all)
}
