package process

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// sharedFile returns a file without a name, of the given size, that two processes can
// map. Nobody can shrink it where the kernel has sealed files: a mapping of it never
// gets SIGBUS.
func (p *Process) sharedFile(name string, size int64) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		p.note("memfd_create", err)
		return unlinkedFile(name, size)
	}
	f := os.NewFile(uintptr(fd), name)
	if err := f.Truncate(size); err != nil {
		f.Close()
		return nil, fmt.Errorf("shared memory of %d bytes: %w", size, err)
	}
	_, _ = unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL)
	return f, nil
}

// unlinkedFile is sharedFile where memfd_create is refused. It prefers memory to a disk.
func unlinkedFile(name string, size int64) (*os.File, error) {
	var first error
	for _, dir := range []string{"/dev/shm", os.TempDir()} {
		fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
		if err == nil {
			if err = unix.Ftruncate(fd, size); err == nil {
				return os.NewFile(uintptr(fd), name), nil
			}
			unix.Close(fd)
		}
		if first == nil {
			first = err
		}
	}
	return nil, fmt.Errorf("shared memory of %d bytes: %w", size, first)
}

// mapShared maps a file that sharedFile made.
func mapShared(f *os.File, size int64) ([]byte, error) {
	mem, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes: %w", size, err)
	}
	return mem, nil
}
