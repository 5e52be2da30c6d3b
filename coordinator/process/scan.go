package process

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"ckpt/zones"
)

// The calls of userfaultfd and of the page map that find written pages, as in the
// headers linux/userfaultfd.h and linux/fs.h.
const (
	uffdioAPI        = 0xc018aa3f
	uffdioRegister   = 0xc020aa00
	uffdioUnregister = 0x8010aa01
	pagemapScan      = 0xc0606610

	uffdVersion        = 0xaa
	uffdWPAsync        = 1 << 15
	uffdWPUnpopulated  = 1 << 13
	uffdRegisterModeWP = 1 << 1

	scanWPMatching   = 1 << 0
	scanCheckWPAsync = 1 << 1

	pageWritten = 1 << 1
	pagePresent = 1 << 3
	pageSwapped = 1 << 4
)

type uffdAPI struct{ api, features, ioctls uint64 }

type uffdRange struct{ start, len uint64 }

type uffdRegister struct {
	uffdRange
	mode, ioctls uint64
}

type scanArg struct {
	size, flags, start, end, walkEnd, vec, vecLen, maxPages uint64
	inverted, mask, anyOf, returned                         uint64
}

type pageRegion struct{ start, end, categories uint64 }

func ioctl(f *os.File, request uintptr, arg unsafe.Pointer) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var errno unix.Errno
	err = raw.Control(func(fd uintptr) {
		_, _, errno = unix.Syscall(unix.SYS_IOCTL, fd, request, uintptr(arg))
	})
	if err != nil {
		return err
	}
	if errno != 0 {
		return errno
	}
	return nil
}

// A scanner finds the pages that a process writes. Its two files were opened by the
// process: they act on its memory, whoever uses them.
type scanner struct {
	fault, pagemap *os.File
	found          []pageRegion
}

// newScanner asks for write protection that the kernel lifts by itself at the first write.
func newScanner(fault, pagemap *os.File) (*scanner, error) {
	api := uffdAPI{api: uffdVersion, features: uffdWPAsync | uffdWPUnpopulated}
	if err := ioctl(fault, uffdioAPI, unsafe.Pointer(&api)); err != nil {
		return nil, err
	}
	return &scanner{fault: fault, pagemap: pagemap, found: make([]pageRegion, 2048)}, nil
}

func (s *scanner) close() {
	s.fault.Close()
	s.pagemap.Close()
}

// register prepares whole pages to be scanned.
func (s *scanner) register(start, end uint64) error {
	arg := uffdRegister{uffdRange: uffdRange{start, end - start}, mode: uffdRegisterModeWP}
	return ioctl(s.fault, uffdioRegister, unsafe.Pointer(&arg))
}

// unregister ends that. Memory that is gone is fine.
func (s *scanner) unregister(start, end uint64) {
	arg := uffdRange{start, end - start}
	_ = ioctl(s.fault, uffdioUnregister, unsafe.Pointer(&arg))
}

// written adds the pages that were written since the last call to a bitset, and protects
// them again in the same step. EPERM says that other memory is mapped there by now.
func (s *scanner) written(start, end uint64, to bitset) error {
	// Pages that the process has handed back to the kernel count as written. Linux 6.18
	// says so; where a whole page table is gone, its first versions may not.
	gone := scanArg{inverted: pagePresent | pageSwapped, mask: pagePresent | pageSwapped, returned: pagePresent}
	if err := s.scan(gone, start, end, to); err != nil {
		return err
	}
	return s.scan(scanArg{mask: pageWritten, returned: pageWritten}, start, end, to)
}

func (s *scanner) scan(arg scanArg, start, end uint64, to bitset) error {
	arg.size, arg.flags = uint64(unsafe.Sizeof(arg)), scanWPMatching|scanCheckWPAsync
	arg.end = end
	arg.vec, arg.vecLen = uint64(uintptr(unsafe.Pointer(unsafe.SliceData(s.found)))), uint64(len(s.found))
	for at := start; at < end; at = arg.walkEnd {
		arg.start, arg.walkEnd = at, 0
		n, err := s.step(&arg)
		if err != nil {
			return err
		}
		for _, r := range s.found[:n] {
			to.setRange(int((r.start-start)/zones.PageSize), int((r.end-start)/zones.PageSize))
		}
		if arg.walkEnd <= at {
			return unix.EIO // the kernel made no progress
		}
	}
	return nil
}

// step makes one call, which returns the number of ranges found.
func (s *scanner) step(arg *scanArg) (n int, err error) {
	raw, err := s.pagemap.SyscallConn()
	if err != nil {
		return 0, err
	}
	var errno unix.Errno
	e := raw.Control(func(fd uintptr) {
		for {
			r, _, en := unix.Syscall(unix.SYS_IOCTL, fd, pagemapScan, uintptr(unsafe.Pointer(arg)))
			if n, errno = int(r), en; errno != unix.EINTR {
				return
			}
		}
	})
	if e != nil {
		return 0, e
	}
	if errno != 0 {
		return 0, errno
	}
	return n, nil
}
