package image

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Sweep removes what no committed checkpoint refers to: the remains of
// checkpoints that were not committed, and files whose last checkpoint was
// pruned. It returns their paths relative to the directory of the job. It needs
// the lock.
//
// Only numbered directories and names that end in .tmp are looked at; all else
// in the directory of the job belongs to the caller. When a manifest or index
// cannot be read, Sweep cannot know what its checkpoint refers to, and keeps
// everything up to that checkpoint.
func (j *Job) Sweep() (removed []string, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	removed, _, err = j.sweep()
	return removed, err
}

// Prune removes all but the newest keep sound checkpoints, and the files that
// only they used. It returns their numbers and the bytes set free. It needs the
// lock, and no checkpoint may be under way.
//
// Sound is a checkpoint whose manifest can be read and whose files have the
// right length, header, index and trailer; the payload is Verify's to check. A
// damaged checkpoint does not count as kept, or the last one that can be
// restored might go; newer than the oldest kept one, it stays. So do those in
// also, if keep is not 0.
func (j *Job) Prune(keep int, also ...int) (removed []int, freed int64, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.locked("prune"); err != nil {
		return nil, 0, err
	}
	if keep < 0 {
		return nil, 0, opError("prune", j.dir, -1, fmt.Errorf("cannot keep %d checkpoints", keep))
	}
	if len(j.open) > 0 {
		return nil, 0, opError("prune", j.dir, -1, errors.New("a checkpoint is being written"))
	}
	all, err := j.Checkpoints()
	if err != nil {
		return nil, 0, err
	}
	// The manifests go first, oldest first, each durably: when a file goes, no
	// manifest that names it can come back.
	for _, n := range all[:j.prunable(all, keep)] {
		if keep > 0 && slices.Contains(also, n) {
			continue
		}
		if err := j.uncommit(n); err != nil {
			return removed, 0, opError("prune", j.numberDir(n), -1, err)
		}
		removed = append(removed, n)
	}
	_, freed, err = j.sweep()
	return removed, freed, err
}

// prunable returns how many of the oldest of all may go.
func (j *Job) prunable(all []int, keep int) int {
	if keep == 0 {
		return len(all)
	}
	for i, n := range slices.Backward(all) {
		if j.sound(n) != nil {
			continue
		}
		if keep--; keep == 0 {
			return i
		}
	}
	return 0
}

// Damaged lists the checkpoints that Prune does not count.
func (j *Job) Damaged() ([]int, error) {
	all, err := j.Checkpoints()
	return slices.DeleteFunc(all, func(n int) bool { return j.sound(n) == nil }), err
}

// sound returns what is wrong with checkpoint n, if that shows without reading
// its payload.
func (j *Job) sound(n int) error {
	m, err := j.Manifest(n)
	if err != nil {
		return err
	}
	for _, f := range m.Files {
		if err := j.checkFile(m, f); err != nil {
			return err
		}
	}
	return nil
}

func (j *Job) sweep() (removed []string, freed int64, err error) {
	if err := j.locked("sweep"); err != nil {
		return nil, 0, err
	}
	if len(j.open) > 0 {
		return nil, 0, opError("sweep", j.dir, -1, errors.New("a checkpoint is being written"))
	}
	used, floor, err := j.used()
	if err != nil {
		return nil, 0, err
	}
	if err := j.settle(); err != nil {
		return nil, 0, err
	}
	var errs []error
	rm := func(rel string) {
		name := filepath.Join(j.dir, rel)
		fi, err := j.fs.Stat(name)
		if err == nil {
			err = j.fs.Remove(name)
		}
		if err != nil {
			errs = append(errs, opError("sweep", name, -1, err))
			return
		}
		removed = append(removed, rel)
		if !fi.IsDir() {
			freed += onDisk(fi)
		}
	}
	entries, err := j.fs.ReadDir(j.dir)
	if err != nil {
		return nil, 0, opError("sweep", j.dir, -1, err)
	}
	for _, e := range entries {
		n, ok := parseNumber(e.Name())
		switch {
		case !e.IsDir() && strings.HasSuffix(e.Name(), tmpSuffix):
			rm(e.Name())
		case !ok || !e.IsDir() || n <= floor:
		default:
			files, err := j.fs.ReadDir(j.numberDir(n))
			if err != nil {
				errs = append(errs, opError("sweep", j.numberDir(n), -1, err))
				continue
			}
			kept := 0
			for _, f := range files {
				if rel := path.Join(e.Name(), f.Name()); used[rel] {
					kept++
				} else {
					rm(rel)
				}
			}
			if kept == 0 {
				rm(e.Name())
			}
		}
	}
	if len(removed) > 0 {
		errs = append(errs, opError("sync", j.dir, -1, j.fs.SyncDir(j.dir)))
	}
	slices.Sort(removed)
	return removed, freed, errors.Join(errs...)
}

// settle makes it durable that checkpoints without a manifest have none. Who
// removed a manifest may have died before, and were it to come back after a
// loss of power, it would name files that we are about to remove.
func (j *Job) settle() error {
	all, err := j.numbers()
	if err != nil {
		return err
	}
	committed, err := j.Checkpoints()
	if err != nil {
		return err
	}
	for _, n := range all {
		if _, ok := slices.BinarySearch(committed, n); ok {
			continue
		}
		if err := j.fs.SyncDir(j.numberDir(n)); err != nil {
			return opError("sync", j.numberDir(n), -1, err)
		}
	}
	return nil
}

// used lists the files that the committed checkpoints need. It cannot tell for
// directories up to floor.
func (j *Job) used() (files map[string]bool, floor int, err error) {
	all, err := j.Checkpoints()
	if err != nil {
		return nil, 0, err
	}
	files, floor = make(map[string]bool), -1
	for _, n := range all {
		files[path.Join(formatNumber(n), manifestName)] = true
		m, err := j.Manifest(n)
		if err != nil {
			floor = n
			continue
		}
		for _, f := range m.Files {
			if files[f.Path] {
				continue // an earlier manifest has it, and its references too
			}
			files[f.Path] = true
			refs, err := j.references(m, f)
			if err != nil {
				floor = n
			}
			for _, ref := range refs {
				files[ref.path] = true
			}
		}
	}
	return files, floor, nil
}

func (j *Job) references(m *Manifest, f File) ([]fileRec, error) {
	c, err := j.openFile(m, f)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.index.files, nil
}
