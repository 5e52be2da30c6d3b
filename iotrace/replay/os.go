package replay

import (
	"errors"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// osFS is the file system of the machine.
type osFS struct{}

var (
	_ fileSystem = osFS{}
	_ directFile = osFile{}
	_ forgetter  = osFile{}
)

func openOS(name string, flags int) (openFile, error) {
	f, err := os.OpenFile(name, os.O_RDWR|unix.O_CLOEXEC|flags, 0o600)
	if err != nil {
		return nil, err
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return osFile{f, raw.Control}, nil
}

func (osFS) Create(name string) (openFile, error) { return openOS(name, os.O_CREATE|os.O_EXCL) }
func (osFS) Open(name string) (openFile, error)   { return openOS(name, unix.O_NOFOLLOW) }

func (osFS) Stat(name string) error {
	_, err := os.Lstat(name)
	return err
}

func (osFS) Rename(old, name string) error { return os.Rename(old, name) }

func (osFS) Remove(name string) error {
	if err := unix.Unlink(name); err != nil {
		return &os.PathError{Op: "unlink", Path: name, Err: err}
	}
	return nil
}

func (osFS) Mkdir(name string) error     { return os.Mkdir(name, 0o700) }
func (osFS) RemoveDir(name string) error { return os.Remove(name) }

// osFile calls the system itself. Package os would split requests of more than a GiB
// and move one buffer at a time.
type osFile struct {
	f       *os.File
	control func(func(fd uintptr)) error // keeps the descriptor open during the call
}

func (f osFile) call(op func(fd int) error) error {
	var err error
	if cerr := f.control(func(fd uintptr) {
		for {
			if err = op(int(fd)); err != unix.EINTR {
				return
			}
		}
	}); cerr != nil {
		return cerr
	}
	return err
}

func (f osFile) ReadAt(into [][]byte, off int64) (n int64, err error) {
	err = f.call(func(fd int) error {
		k, err := 0, error(nil)
		if len(into) == 1 {
			k, err = unix.Pread(fd, into[0], off)
		} else {
			k, err = unix.Preadv(fd, into, off)
		}
		n = int64(max(k, 0))
		return err
	})
	return n, err
}

func (f osFile) WriteAt(from [][]byte, off int64) (n int64, err error) {
	err = f.call(func(fd int) error {
		k, err := 0, error(nil)
		if len(from) == 1 {
			k, err = unix.Pwrite(fd, from[0], off)
		} else {
			k, err = unix.Pwritev(fd, from, off)
		}
		n = int64(max(k, 0))
		return err
	})
	return n, err
}

func (f osFile) SeekTo(off int64) error {
	_, err := f.f.Seek(off, io.SeekStart)
	return err
}

func (f osFile) Truncate(size int64) error { return f.f.Truncate(size) }
func (f osFile) Sync() error               { return f.f.Sync() }
func (f osFile) Close() error              { return f.f.Close() }

func (f osFile) Forget() error {
	return f.call(func(fd int) error { return unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED) })
}

// Direct uses the descriptor, because the name may refer to another file by now.
func (f osFile) Direct() (direct openFile, err error) {
	err = f.call(func(fd int) error {
		direct, err = openOS("/proc/self/fd/"+strconv.Itoa(fd), unix.O_DIRECT)
		return err
	})
	if errors.Is(err, unix.EINVAL) {
		err = ErrDirect
	}
	return direct, err
}
