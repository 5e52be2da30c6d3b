package coordinator

import (
	"context"
	"errors"
	"slices"

	"ckpt/image"
)

// Pruned says what was removed.
type Pruned struct {
	Job     string `json:"job"`
	Removed []int  `json:"removed"` // numbers of checkpoints
	Freed   int64  `json:"freed_bytes"`
	Kept    []int  `json:"kept"`
	Damaged []int  `json:"damaged"` // among the kept, not counted
}

// Prune removes all but the newest keep checkpoints of a job and the files that
// only they need. If the job is running, its coordinator does it.
func Prune(ctx context.Context, job *image.Job, keep int) (*Pruned, error) {
	client, err := Contact(ctx, job.Dir())
	if err == nil {
		defer client.Close()
		return client.Prune(keep)
	}
	if !errors.Is(err, ErrNotRunning) {
		return nil, err
	}
	if err := job.Lock(); err != nil {
		return nil, err
	}
	defer job.Unlock()
	return prune(job, keep)
}

func prune(job *image.Job, keep int, also ...int) (*Pruned, error) {
	if n, err := job.Latest(); err == nil && n > 0 {
		if m, err := job.Manifest(n); err == nil && m.Groups > 1 && keep > 0 {
			return nil, &UsageError{"the ranks of job " + job.Name() + " take checkpoints apart from each other: those that no recovery needs are removed at once",
				"ckpt prune JOB --keep 0 removes all"}
		}
	}
	removed, freed, err := job.Prune(keep, also...)
	if err != nil {
		return nil, err
	}
	for _, n := range removed {
		dropTrace(job, n)
	}
	kept, err := job.Checkpoints()
	if err != nil {
		return nil, err
	}
	damaged, err := job.Damaged()
	return &Pruned{Job: job.Name(), Removed: append([]int{}, removed...), Freed: freed,
		Kept: append([]int{}, kept...), Damaged: append([]int{}, damaged...)}, err
}

// prune does so for a running job. It waits for the checkpoint under way, which
// may refer to files of an earlier one. While ranks read a checkpoint, none is
// taken away from them.
func (d *driver) prune(keep int, answers chan<- reply) {
	var keepAlso []int
	for _, g := range d.groups {
		if g.checked != g.gen || !g.started {
			answers <- reply{Error: "the job is just starting; try again in a moment"}
			return
		}
	}
	d.prunes = append(d.prunes, func() {
		// Newer checkpoints may be of a future that this run has left aside.
		for _, g := range d.groups {
			keepAlso = append(keepAlso, g.line.newest())
		}
		p, err := prune(d.job, keep, keepAlso...)
		r := reply{Pruned: p}
		if err != nil {
			detail := reportError(err)
			r = reply{Error: err.Error(), Detail: &detail}
		}
		answers <- r
	})
	d.startPrunes()
}

// writing reports whether any group has a checkpoint under way.
func (d *driver) writing() bool {
	return slices.ContainsFunc(d.groups, func(g *group) bool { return g.tx != nil || g.committing })
}

// startPrunes does what has waited, in the loop: what a checkpoint is to refer
// to must not go between its beginning and its commit.
func (d *driver) startPrunes() {
	if d.writing() {
		return
	}
	for _, p := range d.prunes {
		p()
	}
	d.prunes = nil
}
