package vfs

import (
	"errors"
	"io"
	"io/fs"
	"math/bits"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// OS is the file system of the machine.
type OS struct{}

var (
	_ FS   = OS{}
	_ File = osFile{}
)

const createFlags = os.O_CREATE | os.O_EXCL | os.O_RDWR

func open(name string, flags int) (File, error) {
	f, err := os.OpenFile(name, flags|unix.O_CLOEXEC, ownFile)
	if err != nil {
		return nil, err
	}
	share(f, flags&os.O_CREATE != 0 && inShared(name))
	return osFile{f}, nil
}

// Create implements FS.
func (OS) Create(name string) (File, error) { return open(name, createFlags) }

// CreateDirect implements FS with O_DIRECT.
func (OS) CreateDirect(name string) (File, error) {
	f, err := open(name, createFlags|unix.O_DIRECT)
	if err != nil && errors.Is(err, syscall.EINVAL) {
		// The kernel makes the file before it finds that it cannot be opened
		// in this way; it is ours, for O_EXCL would have failed first.
		os.Remove(name)
	}
	return f, err
}

// Open implements FS.
func (OS) Open(name string) (File, error) { return openRegular(name, os.O_RDONLY) }

// OpenWrite implements FS. It does not follow a link.
func (OS) OpenWrite(name string) (File, error) {
	return openRegular(name, os.O_RDWR|unix.O_NOFOLLOW)
}

// OpenWriteDirect implements FS with O_DIRECT.
func (OS) OpenWriteDirect(name string) (File, error) {
	return openRegular(name, os.O_RDWR|unix.O_DIRECT)
}

func openRegular(name string, flags int) (File, error) {
	// Opening a FIFO would wait for somebody at its other end.
	if fi, err := os.Stat(name); err == nil && !fi.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: errors.New("not a regular file")}
	}
	return open(name, flags)
}

// OpenDirect implements FS with O_DIRECT.
func (OS) OpenDirect(name string) (File, error) { return open(name, os.O_RDONLY|unix.O_DIRECT) }

// Rename implements FS.
func (OS) Rename(oldName, newName string) error { return os.Rename(oldName, newName) }

// Remove implements FS.
func (OS) Remove(name string) error { return os.Remove(name) }

// Mkdir implements FS.
func (OS) Mkdir(name string) error {
	err := os.Mkdir(name, ownDir)
	if err == nil && inShared(name) {
		_ = unix.Chmod(name, sharedDir)
	}
	return err
}

// ReadDir implements FS.
func (OS) ReadDir(name string) ([]fs.DirEntry, error) { return os.ReadDir(name) }

// Stat implements FS.
func (OS) Stat(name string) (fs.FileInfo, error) { return os.Stat(name) }

// SyncDir implements FS.
func (OS) SyncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	return syncDir(d)
}

// syncDir syncs a directory and closes it.
func syncDir(d *os.File) error {
	err := d.Sync()
	// Some network file systems refuse to fsync a directory and make its
	// entries durable by themselves.
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil
	}
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	return err
}

// Free implements FS with statfs(2).
func (OS) Free(name string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(name, &st); err != nil {
		return 0, &fs.PathError{Op: "statfs", Path: name, Err: err}
	}
	return freeOf(&st, os.Geteuid() == 0), nil
}

// freeOf returns the bytes that may still be written: Unbounded if the file system has no
// size, as ramfs. Root may also use what is kept from others.
func freeOf(st *unix.Statfs_t, root bool) int64 {
	if st.Blocks == 0 {
		return Unbounded
	}
	blocks := st.Bavail
	if root {
		blocks = st.Bfree
	}
	high, low := bits.Mul64(blocks, uint64(st.Bsize))
	if high > 0 || low > Unbounded {
		return Unbounded
	}
	return int64(low)
}

type osFile struct{ *os.File }

func (f osFile) Size() (int64, error) {
	fi, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return fi.Size(), nil
}

func (f osFile) Preallocate(size int64) error {
	return f.control("fallocate", func(fd int) error { return unix.Fallocate(fd, 0, 0, size) })
}

func (f osFile) Flush(off, n int64) error {
	return f.control("sync_file_range", func(fd int) error {
		return unix.SyncFileRange(fd, off, n, unix.SYNC_FILE_RANGE_WRITE)
	})
}

// ReadV calls the system itself: package os splits requests of more than a GiB and
// moves one buffer at a time.
func (f osFile) ReadV(into [][]byte, off int64) (n int64, err error) {
	err = f.control("read", func(fd int) error {
		k, err := unix.Preadv(fd, into, off)
		n = int64(max(k, 0))
		return err
	})
	return n, err
}

func (f osFile) WriteV(from [][]byte, off int64) (n int64, err error) {
	err = f.control("write", func(fd int) error {
		k, err := unix.Pwritev(fd, from, off)
		n = int64(max(k, 0))
		return err
	})
	return n, err
}

func (f osFile) Forget() error {
	return f.control("fadvise", func(fd int) error { return unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED) })
}

// ReopenDirect uses the descriptor, because the name may refer to another file.
func (f osFile) ReopenDirect() (direct File, err error) {
	cerr := f.control("open", func(fd int) error {
		direct, err = open("/proc/self/fd/"+strconv.Itoa(fd), os.O_RDWR|unix.O_DIRECT)
		return nil
	})
	return direct, errors.Join(err, cerr)
}

// control runs a system call on the descriptor and repeats it when a signal
// interrupts it.
func (f osFile) control(op string, call func(fd int) error) error {
	conn, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var errno error
	err = conn.Control(func(fd uintptr) {
		for {
			if errno = call(int(fd)); errno != unix.EINTR {
				return
			}
		}
	})
	if err == nil && errno != nil {
		err = &fs.PathError{Op: op, Path: f.Name(), Err: errno}
	}
	return err
}

// The modes of what is made in a directory. A group shares a directory that is setgid and
// writable for the group: what is made there belongs to that group, and its members may use
// it, whatever the umask. Others stay out.
const (
	ownFile    = 0o600
	ownDir     = 0o700
	sharedFile = 0o660
	sharedDir  = 0o770 | unix.S_ISGID
)

func isShared(mode uint32) bool { return mode&unix.S_ISGID != 0 && mode&0o020 != 0 }

// Shared reports whether a group shares a directory.
func Shared(dir fs.FileInfo) bool {
	return dir.IsDir() && dir.Mode()&fs.ModeSetgid != 0 && dir.Mode()&0o020 != 0
}

// inShared reports whether a name lies in a directory that a group shares.
func inShared(name string) bool {
	dir, err := os.Stat(filepath.Dir(name))
	return err == nil && Shared(dir)
}

// share lets the group of its directory use a file. Of a file of somebody else, or on a file
// system without modes, there is nothing to change.
func share(f *os.File, shared bool) {
	if shared {
		_ = f.Chmod(sharedFile)
	}
}

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
