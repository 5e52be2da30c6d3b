package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"ckpt/coordinator/job"
	"ckpt/coordinator/wire"
	"ckpt/image"
)

// Prune removes all but the newest keep checkpoints of a job and the files that
// only they need. If the job is running, its coordinator does it.
func Prune(ctx context.Context, j *image.Job, keep int) (*job.Pruned, error) {
	spec, err := job.ReadSpec(j)
	// Jobs that cannot be restarted can still be pruned.
	several := err == nil && spec.Several()
	if several && keep > 0 {
		return nil, &job.UsageError{Text: "the ranks of job " + j.Name() + " take checkpoints apart from each other: those that no recovery needs are removed at once",
			Fix: "{prune JOB} {keep} 0 gives the job up: it can only begin again then"}
	}
	client, err := wire.Contact(ctx, j)
	if err == nil {
		defer client.Close()
		if several {
			return nil, &job.UsageError{Text: "job " + j.Name() + " is running, and its recovery needs the checkpoints that are there",
				Fix: fmt.Sprintf("{stop %[1]s}, then {prune %[1]s} {keep} 0 gives the job up", j.Name())}
		}
		return client.Prune(keep)
	}
	if !errors.Is(err, wire.ErrNotRunning) {
		return nil, err
	}
	if err := j.Lock(); err != nil {
		return nil, err
	}
	defer j.Unlock()
	pruned, err := job.Prune(j, keep)
	if err == nil && several {
		err = job.BeginAgain(j, spec)
	}
	return pruned, err
}

// prune does so for a running job. It waits for the checkpoint under way, which
// may refer to files of an earlier one. While ranks read a checkpoint, none is
// taken away from them.
func (d *driver) prune(keep int, answers chan<- wire.Reply) {
	var keepAlso []int
	for _, g := range d.groups {
		if g.checked != g.incarnation || !g.started {
			answers <- wire.Reply{Error: "the job is just starting; try again in a moment"}
			return
		}
	}
	if d.spec.Several() {
		answers <- wire.Reply{Error: "the ranks of job " + d.job.Name() + " take checkpoints apart from each other, and its recovery needs those that are there"}
		return
	}
	d.prunes = append(d.prunes, func() {
		// Newer checkpoints may be of a future that this run has left aside.
		for _, g := range d.groups {
			keepAlso = append(keepAlso, g.lineage.newest())
		}
		p, err := job.Prune(d.job, keep, keepAlso...)
		r := wire.Reply{Pruned: p}
		if err != nil {
			detail := wire.ReportError(err)
			r = wire.Reply{Error: err.Error(), Detail: &detail}
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
