package sealedfs

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// FS is a file system that seals the files below a directory. Files elsewhere, and those that
// plain names, are as they are.
type FS struct {
	vfs.Buffered
	root string
	key  *Key
	// plain says which files below the root are not sealed, by their path in it.
	plain func(path string) bool
	// each calls do again and again until stop is called; nil: files of lines are written when
	// they are synced or closed.
	each func(period time.Duration, do func()) (stop func())
}

var _ vfs.FS = (*FS)(nil)

// New returns the file system over another one that seals what is below root.
func New(under vfs.FS, root string, key *Key, plain func(path string) bool) *FS {
	return &FS{Buffered: vfs.Through(under), root: filepath.Clean(root), key: key, plain: plain, each: vfs.Every}
}

// Under returns the file system beneath.
func (f *FS) Under() vfs.FS { return f.FS }

// Root returns the directory whose files are sealed.
func (f *FS) Root() string { return f.root }

// Over returns the same over another file system.
func (f *FS) Over(under vfs.FS) *FS {
	again := *f
	again.Buffered = vfs.Through(under)
	return &again
}

// Leased returns f with what only some file systems have beneath: leases.
func (f *FS) Leased() vfs.FS {
	if fencer, ok := f.FS.(vfs.Fencer); ok {
		return leased{f, fencer}
	}
	return f
}

type leased struct {
	*FS
	vfs.Fencer
}

// Of returns the sealing part of a file system; nil if it has none.
func Of(fsys vfs.FS) *FS {
	switch f := fsys.(type) {
	case *FS:
		return f
	case leased:
		return f.FS
	}
	return nil
}

// path returns the path of a name below the root; ok is false for a file that is not sealed.
func (f *FS) path(name string) (path string, ok bool) {
	rest, below := strings.CutPrefix(filepath.Clean(name), f.root+"/")
	if !below || f.plain(rest) {
		return "", false
	}
	return rest, true
}

// bound returns the path to which a file is bound: the one that it has once it is complete.
func (f *FS) bound(name string) string {
	path, _ := f.path(name)
	return strings.TrimSuffix(path, durable.TempSuffix)
}

// Create implements vfs.FS.
func (f *FS) Create(name string) (vfs.File, error) {
	under, err := f.FS.Create(name)
	if _, sealed := f.path(name); err != nil || !sealed {
		return under, err
	}
	if filepath.Ext(name) == vfs.LinesSuffix {
		return f.lines(under, name)
	}
	return f.writing(under, name), nil
}

// Open implements vfs.FS.
func (f *FS) Open(name string) (vfs.File, error) {
	under, err := f.FS.Open(name)
	if _, sealed := f.path(name); err != nil || !sealed {
		return under, err
	}
	s, err := f.openSealed(under, name)
	if err != nil {
		return nil, errors.Join(err, under.Close())
	}
	return &reading{sealedFile: s}, nil
}

// OpenWrite implements vfs.FS. The file is written anew as a whole.
func (f *FS) OpenWrite(name string) (vfs.File, error) {
	if _, sealed := f.path(name); !sealed {
		return f.FS.OpenWrite(name)
	}
	b, err := f.read(name)
	if err != nil {
		return nil, err
	}
	return f.changing(name, b), nil
}

// read reads a file that is to be changed.
func (f *FS) read(name string) ([]byte, error) {
	r, err := f.Open(name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	size, err := r.Size()
	if err == nil && size > vfs.MostReplaced {
		err = failed("open", name, tooLong(size))
	}
	if err != nil {
		return nil, err
	}
	b := make([]byte, size)
	return b, durable.ReadAt(r, name, b, 0)
}

// Rename implements vfs.FS. A file is bound to its name: under another one it is sealed anew, in
// more than one step.
func (f *FS) Rename(oldName, newName string) error {
	from, sealed := f.path(oldName)
	to, too := f.path(newName)
	if !sealed && !too || sealed && too && strings.TrimSuffix(from, durable.TempSuffix) == strings.TrimSuffix(to, durable.TempSuffix) {
		return f.FS.Rename(oldName, newName)
	}
	if fi, err := f.FS.Stat(oldName); err != nil || fi.IsDir() || !sealed || !too {
		if err == nil {
			err = failed("rename", oldName, errors.ErrUnsupported)
		}
		return err
	}
	b, err := f.read(oldName)
	if err == nil {
		err = f.replace(newName, b, true)
	}
	if err == nil {
		err = f.FS.Remove(oldName)
	}
	return err
}

// Stat implements vfs.FS. It tells the length of the plain text.
func (f *FS) Stat(name string) (fs.FileInfo, error) {
	fi, err := f.FS.Stat(name)
	if _, sealed := f.path(name); err != nil || !sealed || fi.IsDir() {
		return fi, err
	}
	return infoOf(fi), nil
}

// ReadDir implements vfs.FS.
func (f *FS) ReadDir(name string) ([]fs.DirEntry, error) {
	list, err := f.FS.ReadDir(name)
	for i, e := range list {
		if _, sealed := f.path(filepath.Join(name, e.Name())); sealed && !e.IsDir() {
			list[i] = entry{e}
		}
	}
	return list, err
}

// info has the length of the plain text.
type info struct {
	fs.FileInfo
	size int64
}

func (i info) Size() int64 { return i.size }

// infoOf returns what is known of a sealed file. One that is not complete has no plain text.
func infoOf(fi fs.FileInfo) fs.FileInfo {
	if !fi.Mode().IsRegular() {
		return fi
	}
	size, _ := plainSize(fi.Size())
	return info{fi, size}
}

type entry struct{ fs.DirEntry }

func (e entry) Info() (fs.FileInfo, error) {
	fi, err := e.DirEntry.Info()
	if err != nil {
		return nil, err
	}
	return infoOf(fi), nil
}
