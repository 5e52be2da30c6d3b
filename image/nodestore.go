package image

import (
	"errors"
	"io/fs"
	"path/filepath"

	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// OpenNodeStore opens the store in the directory of a node, whatever has become of the file
// that makes it one: its jobs tell by themselves whether they are sound. It fails with
// durable.ErrNewerVersion if it is not for us.
func OpenNodeStore(fsys vfs.FS, dir string) (*Store, error) {
	if _, err := OpenStore(fsys, dir); errors.Is(err, durable.ErrNewerVersion) {
		return nil, err
	}
	return &Store{fs: fsys, dir: dir}, nil
}

// CreateNodeStore is CreateStore for the directory of a node. It makes the file again that
// makes the directory a store, if that was lost or damaged. A directory that holds something
// else is left alone.
func CreateNodeStore(fsys vfs.FS, dir string) (*Store, error) {
	s, err := CreateStore(fsys, dir)
	if err == nil {
		_, err = fsys.Stat(filepath.Join(dir, jobsName))
		if !errors.Is(err, fs.ErrNotExist) {
			return s, durable.Op("open store", dir, -1, err)
		}
	} else if !errors.Is(err, ErrNoStore) && !errors.As(err, new(*durable.DamageError)) || !wasStore(fsys, dir) {
		return nil, err
	}
	if err := createStore(fsys, dir); err != nil {
		return nil, durable.Op("create store in", dir, -1, err)
	}
	return &Store{fs: fsys, dir: dir}, nil
}

// wasStore reports whether a directory was a store before its file was damaged: it has jobs,
// or the file is empty, as a loss of power may leave it.
func wasStore(fsys vfs.FS, dir string) bool {
	if fi, err := fsys.Stat(filepath.Join(dir, jobsName)); err == nil && fi.IsDir() {
		return true
	}
	fi, err := fsys.Stat(filepath.Join(dir, formatName))
	return err == nil && fi.Size() == 0 && !fi.IsDir()
}
