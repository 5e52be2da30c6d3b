package vfs

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Beneath is a directory of the machine that no name leads out of: it takes names that begin
// with the directory, and follows no symbolic link below it, whoever makes one and
// when. It serves others, whose names are not to be trusted. The directory is made when it
// is not there: it may be lost, and unusable for a while, and each call finds the present one.
type Beneath struct {
	NoDirect
	dir string
}

var _ FS = (*Beneath)(nil)

// NewBeneath returns one of a directory. The way to it may have links.
func NewBeneath(dir string) *Beneath { return &Beneath{dir: filepath.Clean(dir)} }

// root calls do with the directory.
func (b *Beneath) root(do func(dir int) error) error {
	const flags = unix.O_PATH | unix.O_DIRECTORY
	open := func() (fd int, err error) {
		err = again(func() error {
			fd, err = unix.Open(b.dir, flags|unix.O_CLOEXEC, 0)
			return err
		})
		return fd, err
	}
	fd, err := open()
	if err == unix.ENOENT && os.MkdirAll(b.dir, 0o700) == nil {
		if err = (OS{}).SyncDir(filepath.Dir(b.dir)); err == nil {
			fd, err = open()
		}
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return do(fd)
}

// parts takes a name apart. The last part is "." for the directory itself.
func (b *Beneath) parts(name string) (dirs []string, last string, err error) {
	rest, err := filepath.Rel(b.dir, name)
	if err != nil || !filepath.IsLocal(rest) {
		return nil, "", syscall.EPERM
	}
	parts := strings.Split(rest, "/")
	return parts[:len(parts)-1], parts[len(parts)-1], nil
}

// at calls do with the directory of a name and its last part.
func (b *Beneath) at(op, name string, do func(dir int, last string) error) error {
	dirs, last, err := b.parts(name)
	if err == nil {
		err = b.root(func(root int) error {
			return b.within(root, dirs, func(dir int) error { return do(dir, last) })
		})
	}
	if err != nil {
		return &fs.PathError{Op: op, Path: name, Err: err}
	}
	return nil
}

// within calls do with a directory some levels below another, each opened by itself.
func (b *Beneath) within(dir int, names []string, do func(int) error) error {
	if len(names) == 0 {
		return do(dir)
	}
	next, err := openAt(dir, names[0], unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(next)
	return b.within(next, names[1:], do)
}

// openAt opens a file that is no link.
func openAt(dir int, name string, flags int) (fd int, err error) {
	err = again(func() error {
		fd, err = unix.Openat(dir, name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, ownFile)
		return err
	})
	return fd, err
}

func again(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

// open opens a file as package os does.
func (b *Beneath) open(op, name string, flags int) (f *os.File, err error) {
	err = b.at(op, name, func(dir int, last string) error {
		fd, err := openAt(dir, last, flags)
		if err == nil {
			f = os.NewFile(uintptr(fd), name)
			share(f, flags&os.O_CREATE != 0 && sharedAt(dir))
		}
		return err
	})
	return f, err
}

// regular opens a regular file only. Without O_NONBLOCK,
// opening a FIFO would wait for somebody at its other end.
func (b *Beneath) regular(op, name string, flags int) (File, error) {
	f, err := b.open(op, name, flags|unix.O_NONBLOCK)
	if err != nil {
		return nil, err
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = &fs.PathError{Op: op, Path: name, Err: syscall.EINVAL}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return osFile{f}, nil
}

// Create implements FS.
func (b *Beneath) Create(name string) (File, error) { return b.regular("create", name, createFlags) }

// Open implements FS.
func (b *Beneath) Open(name string) (File, error) { return b.regular("open", name, os.O_RDONLY) }

// OpenWrite implements FS.
func (b *Beneath) OpenWrite(name string) (File, error) { return b.regular("open", name, os.O_RDWR) }

// Rename implements FS.
func (b *Beneath) Rename(oldName, newName string) error {
	return b.at("rename", oldName, func(from int, old string) error {
		dirs, last, err := b.parts(newName)
		if err != nil {
			return err
		}
		return b.root(func(root int) error {
			return b.within(root, dirs, func(to int) error { return unix.Renameat(from, old, to, last) })
		})
	})
}

// Remove implements FS.
func (b *Beneath) Remove(name string) error {
	return b.at("remove", name, func(dir int, last string) error {
		err := unix.Unlinkat(dir, last, 0)
		if err == unix.EISDIR {
			err = unix.Unlinkat(dir, last, unix.AT_REMOVEDIR)
		}
		return err
	})
}

// Mkdir implements FS.
func (b *Beneath) Mkdir(name string) error {
	return b.at("mkdir", name, func(dir int, last string) error {
		if last == "." {
			return unix.EEXIST
		}
		err := unix.Mkdirat(dir, last, ownDir)
		if err == nil && sharedAt(dir) {
			_ = unix.Fchmodat(dir, last, sharedDir, 0)
		}
		return err
	})
}

// sharedAt reports whether a group shares an open directory.
func sharedAt(dir int) bool {
	var st unix.Stat_t
	return unix.Fstat(dir, &st) == nil && isShared(st.Mode)
}

// ReadDir implements FS.
func (b *Beneath) ReadDir(name string) ([]fs.DirEntry, error) {
	d, err := b.open("open", name, unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	list, err := d.ReadDir(-1)
	for i, e := range list {
		list[i] = entryBeneath{e, b, filepath.Join(name, e.Name())}
	}
	slices.SortFunc(list, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return list, err
}

// entryBeneath is an entry of a directory, of which package os would look again at the name.
type entryBeneath struct {
	fs.DirEntry
	b    *Beneath
	path string
}

func (e entryBeneath) Info() (fs.FileInfo, error) { return e.b.Stat(e.path) }

// Stat implements FS. It tells of a link that it is one.
func (b *Beneath) Stat(name string) (fs.FileInfo, error) {
	f, err := b.open("stat", name, unix.O_PATH)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Stat()
}

// SyncDir implements FS.
func (b *Beneath) SyncDir(name string) error {
	d, err := b.open("open", name, unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	return syncDir(d)
}

// Lock implements FS with flock(2).
func (b *Beneath) Lock(name string) (io.Closer, error) {
	f, err := b.open("lock", name, os.O_CREATE|os.O_RDWR|unix.O_NONBLOCK)
	if err != nil {
		return nil, err
	}
	return lock(f, name, b.Stat)
}

// Free implements FS with fstatfs(2).
func (b *Beneath) Free(name string) (int64, error) {
	f, err := b.open("statfs", name, unix.O_PATH)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
		return 0, &fs.PathError{Op: "statfs", Path: name, Err: err}
	}
	return freeOf(&st, os.Geteuid() == 0), nil
}

// Locked implements FS.
func (b *Beneath) Locked(name string) (bool, error) { return TryLocked(b, name) }
