package metrics

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"ckpt/coordinator/wire"
	"ckpt/image"
	"ckpt/internal/vfs"
)

// A File keeps the metrics of one job while it runs, as the textfile collector of node_exporter
// reads them. It is replaced as a whole: a reader sees the old metrics or the new ones.
type File struct {
	FS      vfs.FS // of the store
	Path    string
	Store   string        // the directory
	Every   time.Duration // between two writes
	Replace func(path string, text []byte) error
	Warn    func(error) // takes the first write that failed, and the first after one that did not

	tally Tally
	bad   bool
}

// destination is the file that a path leads to, through links. It refuses all that is no file.
func destination(path string) (string, error) {
	fi, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return path, nil
	case err != nil:
		return "", err
	case fi.Mode().Type() == fs.ModeSymlink:
		if _, err := os.Stat(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err // links that lead to each other
		}
		to, err := os.Readlink(path)
		if err != nil {
			return "", err
		}
		if !filepath.IsAbs(to) {
			to = filepath.Dir(path) + "/" + to // a link to .. is followed before
		}
		return destination(to)
	case !fi.Mode().IsRegular():
		return "", fmt.Errorf("%s is no regular file", path)
	}
	return path, nil
}

// Check reports why no file can be there.
func (f *File) Check() error {
	path, err := destination(f.Path)
	if err != nil {
		return err
	}
	probe, err := os.CreateTemp(filepath.Dir(path), ".ckpt-metrics-*")
	if err != nil {
		return err
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// Replace writes a file as a whole, for all users: a collector runs as another one. It replaces the
// file that a link leads to, and nothing that is no file.
func Replace(path string, text []byte) error {
	path, err := destination(path)
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".ckpt-metrics-*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(text)
	if err == nil {
		err = tmp.Chmod(0o644)
	}
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(tmp.Name()) // the error says more
	}
	return err
}

// Keep writes the metrics of a job again and again until ctx ends, and then once more.
func (f *File) Keep(ctx context.Context, job string) {
	tick := time.NewTicker(f.Every)
	defer tick.Stop()
	for {
		f.write(ctx, job)
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), f.Every)
			defer cancel()
			f.write(last, job)
			return
		case <-tick.C:
		}
	}
}

// write writes what the job is now. Nothing depends on it: a failure costs these metrics only.
func (f *File) write(ctx context.Context, job string) {
	text, err := f.text(ctx, job)
	if err == nil {
		err = f.Replace(f.Path, text)
	}
	if err != nil && !f.bad && ctx.Err() == nil {
		f.Warn(err)
	}
	f.bad = err != nil
}

func (f *File) text(ctx context.Context, job string) ([]byte, error) {
	store, err := image.OpenStore(f.FS, f.Store)
	if err != nil {
		return nil, err
	}
	j, err := store.Job(job)
	if err != nil {
		return nil, err
	}
	status, err := wire.Inspect(ctx, store, job)
	if err != nil {
		return nil, err
	}
	f.tally.Update(j, status.Created)
	e := Exposition{}
	if free, err := f.FS.Free(f.Store); err == nil {
		e.Add("store_free_bytes", float64(free), "store", StoreName(f.Store), "job", job) // files of several jobs lie in one directory
	}
	e.AddJob(StoreName(f.Store), j, status, &f.tally)
	var b bytes.Buffer
	e.Write(&b)
	return b.Bytes(), nil
}
