package vfs

import (
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// owned is the file system of the machine for root, who gives what it makes to somebody.
type owned struct {
	OS
	uid, gid int
}

var _ FS = owned{}

// ForOwner returns a file system in which root makes files for the owner of a directory, who
// can use them afterwards. It is fsys itself for another user, if root owns the directory, if
// it is not there, and if fsys is not of this machine.
func ForOwner(fsys FS, dir string) FS {
	if o, is := fsys.(owned); is {
		fsys = o.OS
	}
	if _, is := fsys.(OS); !is || os.Geteuid() != 0 {
		return fsys
	}
	fi, err := os.Stat(dir)
	if err != nil {
		return fsys
	}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok && st.Uid != 0 {
		return owned{uid: int(st.Uid), gid: int(st.Gid)}
	}
	return fsys
}

// give gives an open file away. Where root may not do that, as on many network file systems,
// the file stays with whom it has.
func (o owned) give(f *os.File) { _ = f.Chown(o.uid, o.gid) }

func (o owned) made(f File, err error) (File, error) {
	if file, ok := f.(osFile); ok && err == nil {
		o.give(file.File)
	}
	return f, err
}

// Create implements FS.
func (o owned) Create(name string) (File, error) { return o.made(o.OS.Create(name)) }

// CreateDirect implements FS.
func (o owned) CreateDirect(name string) (File, error) { return o.made(o.OS.CreateDirect(name)) }

// Mkdir implements FS. The owner of the parent may put a link in the place of the directory.
func (o owned) Mkdir(name string) error {
	if err := o.OS.Mkdir(name); err != nil {
		return err
	}
	if d, err := os.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err == nil {
		o.give(d)
		d.Close()
	}
	return nil
}

// Lock implements FS.
func (o owned) Lock(name string) (io.Closer, error) {
	l, err := o.OS.Lock(name)
	if held, ok := l.(Held); ok && err == nil {
		f := held.File
		if fi, err := f.Stat(); err == nil {
			if st, ok := fi.Sys().(*syscall.Stat_t); ok && st.Uid == 0 && st.Nlink == 1 {
				o.give(f)
			}
		}
	}
	return l, err
}
