package peer

import (
	"io"
	"io/fs"
	"sync"

	"ckpt/internal/vfs"
)

// A Way is the file system of a node that one process after the other serves: those of an
// incarnation end, and the next may be on another host.
type Way struct {
	mu  sync.Mutex
	to  vfs.FS
	why error
}

var _ vfs.FS = (*Way)(nil)

// NewWay returns a way that leads nowhere yet; why says so to those who go it.
func NewWay(why error) *Way { return &Way{why: why} }

// Lead has the way lead to a file system; nil is nowhere.
func (w *Way) Lead(to vfs.FS) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.to = to
}

// follow calls do with the file system at the end of the way.
func (w *Way) follow(op, name string, do func(vfs.FS) error) error {
	w.mu.Lock()
	to := w.to
	w.mu.Unlock()
	if to == nil {
		return &fs.PathError{Op: op, Path: name, Err: w.why}
	}
	return do(to)
}

// Create implements vfs.FS.
func (w *Way) Create(name string) (f vfs.File, err error) {
	err = w.follow("create", name, func(to vfs.FS) error { f, err = to.Create(name); return err })
	return f, err
}

// Open implements vfs.FS.
func (w *Way) Open(name string) (f vfs.File, err error) {
	err = w.follow("open", name, func(to vfs.FS) error { f, err = to.Open(name); return err })
	return f, err
}

// OpenWrite implements vfs.FS.
func (w *Way) OpenWrite(name string) (f vfs.File, err error) {
	err = w.follow("open", name, func(to vfs.FS) error { f, err = to.OpenWrite(name); return err })
	return f, err
}

// Rename implements vfs.FS.
func (w *Way) Rename(oldName, newName string) error {
	return w.follow("rename", oldName, func(to vfs.FS) error { return to.Rename(oldName, newName) })
}

// Remove implements vfs.FS.
func (w *Way) Remove(name string) error {
	return w.follow("remove", name, func(to vfs.FS) error { return to.Remove(name) })
}

// Mkdir implements vfs.FS.
func (w *Way) Mkdir(name string) error {
	return w.follow("mkdir", name, func(to vfs.FS) error { return to.Mkdir(name) })
}

// ReadDir implements vfs.FS.
func (w *Way) ReadDir(name string) (list []fs.DirEntry, err error) {
	err = w.follow("list", name, func(to vfs.FS) error { list, err = to.ReadDir(name); return err })
	return list, err
}

// Stat implements vfs.FS.
func (w *Way) Stat(name string) (fi fs.FileInfo, err error) {
	err = w.follow("stat", name, func(to vfs.FS) error { fi, err = to.Stat(name); return err })
	return fi, err
}

// SyncDir implements vfs.FS.
func (w *Way) SyncDir(name string) error {
	return w.follow("sync", name, func(to vfs.FS) error { return to.SyncDir(name) })
}

// Lock implements vfs.FS.
func (w *Way) Lock(name string) (l io.Closer, err error) {
	err = w.follow("lock", name, func(to vfs.FS) error { l, err = to.Lock(name); return err })
	return l, err
}

// Free implements vfs.FS.
func (w *Way) Free(name string) (n int64, err error) {
	err = w.follow("statfs", name, func(to vfs.FS) error { n, err = to.Free(name); return err })
	return n, err
}
