package objectfs

import (
	"io"
	"io/fs"
	"strings"

	"ckpt/internal/vfs"
)

// joined is a bucket and, for all names outside it, the file system of the machine: a job with a
// store in a bucket has its nodes' directories on the machine.
type joined struct {
	*FS
	vfs.OS
}

var _ interface {
	vfs.FS
	vfs.Fencer
} = joined{}

// Trust implements vfs.Fencer.
func (j joined) Trust(dir string) error {
	if f, here := j.of(dir).(*FS); here {
		return f.Trust(dir)
	}
	return nil
}

// of returns the file system that has a name.
func (j joined) of(name string) vfs.FS {
	if rest, ok := strings.CutPrefix(name, j.root); ok && (rest == "" || rest[0] == '/') {
		return j.FS
	}
	return j.OS
}

func (j joined) Create(name string) (vfs.File, error)       { return j.of(name).Create(name) }
func (j joined) Open(name string) (vfs.File, error)         { return j.of(name).Open(name) }
func (j joined) OpenWrite(name string) (vfs.File, error)    { return j.of(name).OpenWrite(name) }
func (j joined) CreateDirect(name string) (vfs.File, error) { return j.of(name).CreateDirect(name) }
func (j joined) OpenDirect(name string) (vfs.File, error)   { return j.of(name).OpenDirect(name) }
func (j joined) OpenWriteDirect(name string) (vfs.File, error) {
	return j.of(name).OpenWriteDirect(name)
}
func (j joined) Rename(from, to string) error               { return j.of(from).Rename(from, to) }
func (j joined) Remove(name string) error                   { return j.of(name).Remove(name) }
func (j joined) Mkdir(name string) error                    { return j.of(name).Mkdir(name) }
func (j joined) ReadDir(name string) ([]fs.DirEntry, error) { return j.of(name).ReadDir(name) }
func (j joined) Stat(name string) (fs.FileInfo, error)      { return j.of(name).Stat(name) }
func (j joined) SyncDir(name string) error                  { return j.of(name).SyncDir(name) }
func (j joined) Lock(name string) (io.Closer, error)        { return j.of(name).Lock(name) }
func (j joined) Locked(name string) (bool, error)           { return j.of(name).Locked(name) }
func (j joined) Free(name string) (int64, error)            { return j.of(name).Free(name) }
