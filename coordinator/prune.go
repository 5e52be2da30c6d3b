package coordinator

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"ckpt/image"
	"ckpt/internal/vfs"
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
	spec, err := specOf(job)
	// Whoever cannot be restarted can be pruned.
	several := err == nil && spec.Origin == "" && len(spec.groups(spec.Mapping)) > 1
	if several && keep > 0 {
		return nil, &UsageError{"the ranks of job " + job.Name() + " take checkpoints apart from each other: those that no recovery needs are removed at once",
			"ckpt prune JOB --keep 0 gives the job up: it can only begin again then"}
	}
	client, err := Contact(ctx, job.Dir())
	if err == nil {
		defer client.Close()
		if several {
			return nil, &UsageError{"job " + job.Name() + " is running, and its recovery needs the checkpoints that are there",
				fmt.Sprintf("ckpt stop %[1]s, then ckpt prune %[1]s --keep 0 gives the job up", job.Name())}
		}
		return client.Prune(keep)
	}
	if !errors.Is(err, ErrNotRunning) {
		return nil, err
	}
	if err := job.Lock(); err != nil {
		return nil, err
	}
	defer job.Unlock()
	pruned, err := prune(job, keep)
	if err == nil && several {
		err = beginAgain(vfs.OS{}, job, spec)
	}
	return pruned, err
}

// beginAgain gives up the message logs of a job that has no checkpoints any more:
// without these they lead nowhere.
func beginAgain(fsys vfs.FS, job *image.Job, spec *Spec) error {
	line, err := readLine(job, len(spec.groups(spec.Mapping)))
	if err != nil && !unrestorable(err) { // it is given up as well
		return err
	}
	line.Base, line.Taken = make([]int, len(spec.groups(spec.Mapping))), nil
	for g := range line.Base {
		line.Base[g] = -1
	}
	// First the note: a part of the logs must not be taken for all.
	if err := writeLine(job, line); err != nil {
		return err
	}
	return removeLogs(fsys, job)
}

// removeLogs removes the message logs of all ranks that have ever been in the job,
// durably.
func removeLogs(fsys vfs.FS, job *image.Job) error {
	ranks, err := listed(fsys, logsDir(job))
	if err != nil {
		return err
	}
	for _, rank := range ranks {
		if err := removeAll(fsys, filepath.Join(logsDir(job), rank.Name())); err != nil {
			return err
		}
	}
	if len(ranks) == 0 {
		return nil
	}
	return fsys.SyncDir(logsDir(job))
}

// listed lists a directory that may not be there.
func listed(fsys vfs.FS, dir string) ([]fs.DirEntry, error) {
	files, err := fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return files, err
}

// removeAll removes a directory and its files, if it is there. The newest go first,
// each durably: what is left of a log if that is cut short is one that ends earlier.
func removeAll(fsys vfs.FS, dir string) error {
	files, err := listed(fsys, dir)
	if err != nil {
		return err
	}
	for _, f := range slices.Backward(files) {
		if err := fsys.Remove(filepath.Join(dir, f.Name())); err != nil {
			return err
		}
		if err := fsys.SyncDir(dir); err != nil {
			return err
		}
	}
	return removeIfThere(fsys, dir)
}

func removeIfThere(fsys vfs.FS, name string) error {
	if err := fsys.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// forsake removes what an earlier job of this name, without a checkpoint, has left
// of logs, output and notes: none of it may be taken for the new job's, which locks
// it. If that is cut short, the earlier job is as it was, or begins again.
func forsake(fsys vfs.FS, job *image.Job) error {
	if spec, err := specOf(job); err == nil && len(spec.groups(spec.Mapping)) > 1 {
		if err := beginAgain(fsys, job, spec); err != nil {
			return err
		}
	}
	if err := removeLogs(fsys, job); err != nil { // also those that nobody can restart
		return err
	}
	if err := removeAll(fsys, filepath.Dir(TracePath(job, 0))); err != nil {
		return err
	}
	for _, name := range []string{outputName, historyName, resultName, lineName} {
		if err := removeIfThere(fsys, filepath.Join(job.Dir(), name)); err != nil {
			return err
		}
	}
	return fsys.SyncDir(job.Dir())
}

func prune(job *image.Job, keep int, also ...int) (*Pruned, error) {
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
	damaged, err := job.Damaged(keep)
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
	if d.several() {
		answers <- reply{Error: "the ranks of job " + d.job.Name() + " take checkpoints apart from each other, and its recovery needs those that are there"}
		return
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
