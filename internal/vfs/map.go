package vfs

import (
	"fmt"
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

type mapping []byte

func (f osFile) Map(size int64) (m Mapping, err error) {
	if have, err := f.Size(); err != nil || have < size {
		return nil, fmt.Errorf("map %s: file has %d of %d bytes: %w", f.Name(), have, size, unix.EINVAL)
	}
	err = f.control("mmap", func(fd int) error {
		b, err := unix.Mmap(fd, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		m = mapping(b)
		return err
	})
	return m, err
}

func (m mapping) Bytes() []byte { return m }

func (m mapping) Sync(off, n int64) error {
	page := int64(os.Getpagesize())
	from := off / page * page
	return os.NewSyscallError("msync", unix.Msync(m[from:off+n], unix.MS_SYNC))
}

func (m mapping) Close() error { return os.NewSyscallError("munmap", unix.Munmap(m)) }

// CopyMapped copies src to dst, as long as the shorter of them. One of them is mapped:
// a page that the disk cannot deliver or take is an error, not the end of the process.
func CopyMapped(dst, src []byte) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if fault, ok := recover().(interface{ Addr() uintptr }); ok {
			err = fmt.Errorf("page at address %#x: %w", fault.Addr(), unix.EIO)
		}
	}()
	copy(dst, src)
	return nil
}
