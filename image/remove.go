package image

import (
	"path/filepath"

	"ckpt/internal/durable"
)

// Remove removes the job with all files in its directory, and returns the numbers of its
// checkpoints and the bytes set free. It needs the lock, which it gives back.
//
// The checkpoints go first, each durably, then the other files, then the description. A
// removal that is cut short leaves a job with fewer checkpoints, each of them whole;
// another Remove ends it.
func (j *Job) Remove() (checkpoints []int, freed int64, err error) {
	size, err := j.Size()
	if err != nil {
		return nil, 0, err
	}
	if checkpoints, freed, err = j.Prune(0); err != nil {
		return checkpoints, freed, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	w := &walker{job: j}
	w.visit(j.dir, func(name string) error {
		if base := filepath.Base(name); filepath.Dir(name) == j.dir && (base == specName || base == lockName) {
			return nil
		}
		return j.fs.Remove(name)
	})
	last := []string{filepath.Join(j.dir, specName), filepath.Join(j.dir, lockName), j.dir}
	if w.err == nil {
		w.err = j.fs.SyncDir(j.dir)
	}
	for _, name := range last {
		if w.err == nil {
			w.err = durable.Remove(j.fs, name)
		}
	}
	if w.err == nil {
		w.err = j.fs.SyncDir(filepath.Dir(j.dir))
	}
	if w.err != nil {
		return checkpoints, freed + w.bytes, durable.Op("remove", j.dir, -1, w.err)
	}
	return checkpoints, size, j.letGo()
}

// Size returns the bytes of all files in the directory of the job.
func (j *Job) Size() (int64, error) {
	w := &walker{job: j}
	w.visit(j.dir, func(string) error { return nil })
	return w.bytes, durable.Op("list", j.dir, -1, w.err)
}

// A walker visits the files of a job and adds their bytes up.
type walker struct {
	job   *Job
	bytes int64
	err   error // the first
}

// visit calls do with the files and directories in dir, what is in a directory before
// the directory itself. It does not follow links.
func (w *walker) visit(dir string, do func(name string) error) {
	if w.err != nil {
		return
	}
	entries, err := w.job.fs.ReadDir(dir)
	if err != nil {
		w.err = err
		return
	}
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		if e.IsDir() {
			w.visit(name, do)
		} else if fi, err := e.Info(); err == nil {
			w.bytes += onDisk(fi)
		}
		if w.err == nil {
			w.err = do(name)
		}
	}
}
