package levels

import (
	"context"
	"errors"
	"slices"

	"ckpt/coordinator/dmtcp"
	"ckpt/coordinator/job"
	"ckpt/coordinator/wire"
	"ckpt/image"
	"ckpt/internal/wording"
)

// PruneOptions say what Prune is to keep.
type PruneOptions struct {
	Keep   int  // so many sound checkpoints, the newest
	Force  bool // remove all of a running job, if Keep is 0
	DryRun bool // change nothing, only say what would be removed
}

// Prune removes all but the newest checkpoints of a job and the files that only they
// need. If the job is running, its coordinator does it.
func Prune(ctx context.Context, j *image.Job, opt PruneOptions) (*job.Pruned, error) {
	keep := opt.Keep
	spec, err := job.ReadSpec(j)
	// Jobs that cannot be restarted can still be pruned.
	several := err == nil && spec.Several()
	if several && keep > 0 {
		return nil, &job.UsageError{Text: "the ranks of job " + j.Name() + " take checkpoints apart from each other: those that no recovery needs are removed at once",
			Fix: wording.Sprintf("{prune JOB} {keep} 0 gives the job up: it can only begin again then")}
	}
	client, err := wire.Contact(ctx, j)
	if err == nil {
		defer client.Close()
		if several {
			return nil, &job.UsageError{Text: "job " + j.Name() + " is running, and its recovery needs the checkpoints that are there",
				Fix: wording.Sprintf("{stop %[1]s}, then {prune %[1]s} {keep} 0 gives the job up", j.Name())}
		}
		if keep == 0 && !opt.Force {
			return nil, &job.UsageError{Text: "job " + j.Name() + " is running: without a checkpoint a failure costs all of its work",
				Fix: wording.Sprintf("{prune %s} {keep} 1 keeps the newest; {force} removes all", j.Name())}
		}
		if opt.DryRun {
			return client.PreviewPrune(keep)
		}
		return client.Prune(keep)
	}
	if !errors.Is(err, wire.ErrNotRunning) {
		return nil, err
	}
	err = j.Lock()
	if err == nil {
		defer j.Unlock()
	}
	if opt.DryRun { // also of a store that can only be read
		pruned, err := job.PreviewPrune(j, keep)
		if err != nil {
			return nil, err
		}
		return pruned, pruneNodes(ctx, j, pruned, opt)
	}
	if err != nil {
		return nil, err
	}
	pruned, err := job.Prune(j, keep)
	if err == nil && several {
		err = job.BeginAgain(j, spec)
	}
	if err != nil {
		return pruned, err
	}
	return pruned, pruneNodes(ctx, j, pruned, opt)
}

// pruneNodes removes from the nodes of a job what a prune does not keep. A running job
// does that by itself: it has two versions on its nodes at most.
func pruneNodes(ctx context.Context, j *image.Job, p *job.Pruned, opt PruneOptions) error {
	levels, unread := job.ReadLevels(ctx, j)
	if levels == nil {
		return unread
	}
	sound := slices.DeleteFunc(slices.Clone(p.Kept), func(n int) bool { return slices.Contains(p.Damaged, n) })
	removed, freed, err := levels.Prune(opt.Keep, sound, opt.DryRun)
	p.FromNodes, p.Freed = removed, p.Freed+freed
	for _, k := range levels.Unseen() {
		p.Kept = append(p.Kept, k.Number)
	}
	for _, v := range levels.Versions {
		if !slices.Contains(removed, v.Number) && !slices.Contains(p.Kept, v.Number) {
			p.Kept = append(p.Kept, v.Number)
		}
	}
	slices.Sort(p.Kept)
	return errors.Join(unread, err)
}

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
	// Were this cut short, a part of the logs would pass for the whole.
	if spec, err := job.ReadSpec(j); err == nil && spec.Several() {
		if err := job.BeginAgain(j, spec); err != nil {
			return nil, err
		}
	}
	r := &Removed{Job: j.Name()}
	r.fromNodes(j, false)
	if err := dmtcp.Remove(j); err != nil {
		return nil, err
	}
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
