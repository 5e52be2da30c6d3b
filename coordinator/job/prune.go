package job

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"ckpt/image"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// Pruned says what was removed.
type Pruned struct {
	Job     string `json:"job"`
	Removed []int  `json:"removed"` // numbers of checkpoints
	Freed   int64  `json:"freed_bytes"`
	// FromNodes are the checkpoints that the nodes had, removed from them.
	FromNodes []int `json:"removed_from_nodes,omitempty"`
	Kept      []int `json:"kept"`
	Damaged   []int `json:"damaged"` // among the kept, not counted
	// Retained says which of Kept stay for an hour or a day.
	Retained []image.Reason `json:"retained_list,omitempty"`
	DryRun   bool           `json:"dry_run,omitempty"` // nothing was removed
}

func (p *Pruned) Empty() bool { return len(p.Removed)+len(p.FromNodes) == 0 && p.Freed == 0 }

// BeginAgain removes the message logs of a job without checkpoints, so that it restarts from
// scratch.
func BeginAgain(job *image.Job, spec *Resolved) error {
	line, err := ReadBaseline(job, len(spec.Groups))
	if err != nil && !Unrestorable(err) { // a damaged one is replaced
		return err
	}
	if spec.launched != nil {
		spec, line.Recut = spec.launched, nil // its beginning has gone
	}
	line.Base, line.Taken = make([]int, len(spec.Groups)), nil
	for g := range line.Base {
		line.Base[g] = -1
	}
	// The baseline comes first, so that a part of the logs never passes for the whole.
	if err := WriteBaseline(job, line); err != nil {
		return err
	}
	return RemoveLogs(job)
}

// RemoveLogs removes the message logs of all ranks that have ever been in the job, durably.
func RemoveLogs(job *image.Job) error {
	ranks, err := listed(job.FS(), LogsDir(job))
	if err != nil {
		return err
	}
	for _, rank := range ranks {
		if err := removeAll(job.FS(), filepath.Join(LogsDir(job), rank.Name())); err != nil {
			return err
		}
	}
	if len(ranks) == 0 {
		return nil
	}
	return job.FS().SyncDir(LogsDir(job))
}

func listed(fsys vfs.FS, dir string) ([]fs.DirEntry, error) {
	files, err := fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return files, err
}

// removeAll removes a directory and its files, if it is there. The newest go first, each durably:
// a log that is removed in part is a log that ends earlier.
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

// Forsake removes what an earlier job of this name has left of logs, output and notes, without a
// checkpoint. The caller holds the lock. If it is cut short, the earlier job is as it was, or
// restarts from scratch.
func Forsake(job *image.Job) error {
	if err := CheckNodes(job); err != nil {
		return err
	}
	if spec, err := ReadSpec(job); err == nil && spec.Several() {
		if err := BeginAgain(job, spec); err != nil {
			return err
		}
	}
	if err := RemoveLogs(job); err != nil { // also of ranks that cannot restart
		return err
	}
	if err := removeAll(job.FS(), filepath.Dir(TracePath(job, 0))); err != nil {
		return err
	}
	for _, name := range []string{outputName, JournalName, resultName, baselineName, inputName} {
		if err := removeIfThere(job.FS(), filepath.Join(job.Dir(), name)); err != nil {
			return err
		}
	}
	return job.FS().SyncDir(job.Dir())
}

// Thin removes from a run's checkpoints, which are in of, all but the newest keep sound ones and
// those that stay for an hour or a day, and those that are held.
func Thin(job *image.Job, keep int, of []int, r image.Retention, held ...int) ([]int, error) {
	retained, err := job.Retained(r, of)
	if err != nil {
		return nil, err
	}
	removed, _, err := job.Thin(keep, of, append(image.Numbers(retained), held...)...)
	for _, n := range removed {
		DropTrace(job, n)
	}
	return removed, err
}

// PreviewPrune says what Prune would remove, and removes nothing.
func PreviewPrune(job *image.Job, keep int, also ...int) (*Pruned, error) {
	remove, frees, err := job.PrunePreview(keep, also...)
	if err != nil {
		return nil, err
	}
	return pruned(job, keep, remove, frees, true)
}

// Prune removes all but the newest keep sound checkpoints and those in also.
func Prune(job *image.Job, keep int, also ...int) (*Pruned, error) {
	removed, freed, err := job.Prune(keep, also...)
	if err != nil {
		return nil, err
	}
	for _, n := range removed {
		DropTrace(job, n)
	}
	return pruned(job, keep, removed, freed, false)
}

func pruned(job *image.Job, keep int, removed []int, freed int64, dryRun bool) (*Pruned, error) {
	kept, err := job.Checkpoints()
	if err != nil {
		return nil, err
	}
	kept = slices.DeleteFunc(kept, func(n int) bool { return slices.Contains(removed, n) })
	damaged, err := job.Damaged(keep)
	return &Pruned{Job: job.Name(), Freed: freed, DryRun: dryRun, Removed: append([]int{}, removed...),
		Kept: append([]int{}, kept...), Damaged: append([]int{}, damaged...)}, err
}

// VerifyLogs reads what a restart reads beside checkpoints: message logs and what says which of
// them are needed, lines of output, the result of the last run, and of a program its standard
// input and what its engine keeps. It returns the bytes of the logs, and what is damaged.
func VerifyLogs(job *image.Job) (bytes int64, damage []*durable.DamageError, err error) {
	spec, err := ReadSpec(job)
	if err != nil {
		return 0, nil, err
	}
	beside, err := verifyBeside(job, spec)
	if err != nil || spec.Origin != "" || spec.Program != nil {
		return 0, beside, err
	}
	bytes, damage, err = verifyAllLogs(job, spec)
	return bytes, append(beside, damage...), err
}

func verifyBeside(job *image.Job, spec *Resolved) (damage []*durable.DamageError, err error) {
	for _, read := range []func() error{
		func() error { _, err := readEnding(job); return err },
		func() error { _, _, err := OpenOutput(job, spec.NP); return err },
		func() error { _, err := ReadInput(job); return err },
		func() error { return ReadState(job, new(json.RawMessage)) },
	} {
		err := read()
		for i := 1; i < attempts && errors.As(err, new(*durable.DamageError)); i++ {
			err = read() // a job that runs may be writing this moment
		}
		if d := new(durable.DamageError); errors.As(err, &d) {
			damage = append(damage, d)
		} else if err != nil {
			return damage, err
		}
	}
	return damage, nil
}

func verifyAllLogs(job *image.Job, spec *Resolved) (bytes int64, damage []*durable.DamageError, err error) {
	if !spec.Several() || !spec.Log.Logs() {
		return 0, nil, nil
	}
	for i := 1; ; i++ {
		before, _ := ReadBaseline(job, len(spec.Groups)) // what is wrong with it, verifyLogs says
		bytes, damage, err = verifyLogs(job, spec)
		// A running job cuts its logs and gives checkpoints up meanwhile, after it has said so.
		after, _ := ReadBaseline(job, len(spec.Groups))
		if err != nil || len(damage) == 0 || i == attempts || before.same(&after) {
			return bytes, damage, err
		}
	}
}

func verifyLogs(job *image.Job, spec *Resolved) (bytes int64, damage []*durable.DamageError, err error) {
	note := func(file string, err error) {
		d := new(durable.DamageError)
		if !errors.As(err, &d) {
			d = &durable.DamageError{File: file, Reason: err.Error()}
		}
		damage = append(damage, d)
	}
	noted, err := ReadBaseline(job, len(spec.Groups))
	if err != nil {
		note(filepath.Join(job.Dir(), baselineName), err)
	}
	levels, err := LevelsOf(context.Background(), job, spec)
	if err != nil {
		return 0, nil, err
	}
	stored, err := readLevels(levels, job, spec, &noted)
	if err != nil {
		return 0, nil, err
	}
	known := len(stored.Passed)
	stored.Miss(&noted)
	for _, err := range stored.Passed[known:] { // the others are reported with their checkpoints
		note(job.Dir(), err)
	}
	for g, ranks := range spec.Groups {
		for _, rank := range ranks {
			dir := LogDir(job, rank)
			files, err := job.FS().ReadDir(dir)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return 0, nil, err
			}
			for _, f := range files {
				if info, err := f.Info(); err == nil {
					bytes += info.Size()
				}
			}
			if noted.FromScratch() {
				continue // they are empty, or will be before anybody reads them
			}
			if err := checkLog(levels, job, spec, rank, stored.Found[g]); err != nil {
				note(dir, err)
			}
		}
	}
	return bytes, damage, nil
}
