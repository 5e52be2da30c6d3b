package dmtcp

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"ckpt/image"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// disk holds the files that DMTCP writes, whatever holds the store.
var disk = vfs.OS{}

// The names in the directory of the engine.
const (
	engineName = "dmtcp" // in the directory of a job
	// liveName is where DMTCP writes. It also reads there: a restarted program looks for
	// files that it shares at the place where they were written.
	liveName  = "live"
	logName   = "coordinator.log"
	setPrefix = "set-"
	// tempEnd is the end of the name of an image that DMTCP has not finished.
	tempEnd = ".temp"
)

// A directory is where a job under DMTCP keeps what is no checkpoint of the store: images
// that wait to be stored, those that a restart reads, and files of DMTCP's coordinator.
type directory struct{ root string }

// openDirectory makes the directory of a job, private to the user.
func openDirectory(j *image.Job) (*directory, error) {
	d := &directory{filepath.Join(j.Dir(), engineName)}
	if err := disk.Mkdir(d.root); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, durable.Op("create", d.root, -1, err)
	}
	return d, nil
}

func (d *directory) path(name string) string { return filepath.Join(d.root, name) }

// renew makes an empty directory.
func (d *directory) renew(name string) error {
	if err := d.discard(name); err != nil {
		return err
	}
	return durable.Op("create", d.path(name), -1, disk.Mkdir(d.path(name)))
}

// discard removes a directory with all that is in it.
func (d *directory) discard(name string) error {
	return durable.Op("remove", d.path(name), -1, os.RemoveAll(d.path(name)))
}

// keepOnly removes all sets but some.
func (d *directory) keepOnly(sets []string) error {
	entries, err := disk.ReadDir(d.root)
	if err != nil {
		return durable.Op("list", d.root, -1, err)
	}
	kept := strings.Join(sets, "/") + "/"
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), setPrefix) && !strings.Contains(kept, e.Name()+"/") {
			if err := d.discard(e.Name()); err != nil {
				return err
			}
		}
	}
	return nil
}

// remove removes a file that may not be there.
func (d *directory) remove(path string) error { return durable.Remove(disk, path) }

// removeAll removes files that may not be there.
func (d *directory) removeAll(paths []string) error {
	for _, path := range paths {
		if err := d.remove(path); err != nil {
			return err
		}
	}
	return nil
}

// read returns a small file, "" if it cannot be read.
func (d *directory) read(path string) string {
	b, err := durable.ReadFile(disk, path, 1<<20)
	if err != nil {
		return ""
	}
	return string(b)
}

// create makes a file for the output of another process.
func (d *directory) create(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
}

// unfinished returns the name of an image that DMTCP has not finished, or "".
func (d *directory) unfinished(name string) (string, error) {
	entries, err := disk.ReadDir(d.path(name))
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), tempEnd) {
			return e.Name(), nil
		}
	}
	return "", nil
}

// settle moves all that DMTCP has written into a directory of its own, durably.
func (d *directory) settle(set string) error {
	if err := d.renew(set); err != nil {
		return err
	}
	if err := syncTree(d.path(liveName)); err != nil {
		return err
	}
	entries, err := disk.ReadDir(d.path(liveName))
	if err != nil {
		return durable.Op("list", d.path(liveName), -1, err)
	}
	for _, e := range entries {
		if err := disk.Rename(filepath.Join(d.path(liveName), e.Name()), filepath.Join(d.path(set), e.Name())); err != nil {
			return durable.Op("rename", e.Name(), -1, err)
		}
	}
	for _, dir := range []string{d.path(set), d.root} {
		if err := disk.SyncDir(dir); err != nil {
			return durable.Op("sync", dir, -1, err)
		}
	}
	return nil
}

// reuse makes a set what DMTCP reads.
func (d *directory) reuse(set string) error {
	if err := d.discard(liveName); err != nil {
		return err
	}
	return durable.Op("rename", d.path(set), -1, disk.Rename(d.path(set), d.path(liveName)))
}

// syncTree makes all files of a directory durable.
func syncTree(root string) error {
	return filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.Type()&fs.ModeSymlink != 0 {
			return err
		}
		if e.IsDir() {
			return durable.Op("sync", path, -1, disk.SyncDir(path))
		}
		f, err := disk.Open(path)
		if err != nil {
			return durable.Op("open", path, -1, err)
		}
		return durable.Op("sync", path, -1, errors.Join(f.Sync(), f.Close()))
	})
}

// written measures what lies in a directory: it grows while DMTCP writes.
func (d *directory) written(name string) (bytes int64) {
	_ = filepath.WalkDir(d.path(name), func(_ string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			if info, err := e.Info(); err == nil {
				bytes += info.Size()
			}
		}
		return nil // files come and go meanwhile
	})
	return bytes
}

// images lists the images in a directory.
func (d *directory) images(name string) ([]string, error) {
	entries, err := disk.ReadDir(d.path(name))
	if err != nil {
		return nil, err
	}
	var list []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".dmtcp") {
			list = append(list, filepath.Join(d.path(name), e.Name()))
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("no image is in %s", d.path(name))
	}
	return list, nil
}

// free returns how many bytes may still be written.
func (d *directory) free() (int64, error) { return disk.Free(d.root) }

func removeTree(path string) error { return durable.Op("remove", path, -1, os.RemoveAll(path)) }
