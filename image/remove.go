package image

import (
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"
	"time"

	"ckpt/internal/durable"
)

// Remove removes the job with all files in its directory, and returns its checkpoints and the
// bytes set free. It needs the lock, which it gives back.
//
// The checkpoints go first, each durably, then the other files, then the description. If it is
// cut short, the job has fewer checkpoints, each whole; another Remove ends it.
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
	if w.err == nil {
		w.err = j.fs.SyncDir(j.dir)
	}
	if w.err == nil {
		w.err = durable.Remove(j.fs, j.SpecPath())
	}
	if w.err == nil {
		w.err = j.leave()
	}
	if w.err == nil {
		w.err = j.fs.SyncDir(filepath.Dir(j.dir))
	}
	if w.err != nil {
		return checkpoints, freed + w.bytes, durable.Op("remove", j.dir, -1, w.err)
	}
	return checkpoints, size, nil
}

// lingering is how long a file system may take to forget a file that was closed.
const lingering = time.Second

// leave gives the lock back and removes it with the directory. The lock is renamed first:
// whoever takes the old name makes a new job. It is removed once closed: NFS and FUSE keep an
// open file under a hidden name.
func (j *Job) leave() error {
	lock := filepath.Join(j.dir, lockName)
	old := lock + durable.TempSuffix
	if err := j.fs.Rename(lock, old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := j.letGo(); err != nil {
		return err
	}
	if err := durable.Remove(j.fs, old); err != nil {
		return err
	}
	const pause = 10 * time.Millisecond
	for range lingering / pause {
		if err := durable.Remove(j.fs, j.dir); !errors.Is(err, syscall.ENOTEMPTY) {
			return err
		}
		if _, err := j.fs.Stat(lock); err == nil {
			return nil // somebody makes another job here
		}
		time.Sleep(pause)
	}
	return nil // the next job of this name takes the directory
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

// visit calls do with the files and directories in dir, contents first. It follows no links.
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
