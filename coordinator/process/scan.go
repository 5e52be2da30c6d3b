package process

import (
	"bufio"
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"ckpt/zones"
	"ckpt/zones/source"
)

// The calls of userfaultfd and of the page map that find written pages, as in the headers
// linux/userfaultfd.h and linux/fs.h.
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

// A scanner finds the pages that a process writes. Its two files were opened by the process: they
// act on its memory, whoever uses them.
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

// written adds the pages that were written since the last call to a bitset, and protects them
// again in the same step. EPERM says that other memory is mapped there by now.
func (s *scanner) written(start, end uint64, to bitset) error {
	// Pages that the process has handed back to the kernel count as written. Linux 6.18 says so;
	// where a whole page table is gone, its first versions may not.
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

// devices are files through which hardware or other processes write to memory that they pinned or
// mapped before, so that the page tables of the process do not show it.
var devices = []string{
	"/dev/infiniband/", "/dev/hfi1", "/dev/cxi", "/dev/kgni", "/dev/xpmem", "/dev/knem", "/dev/vfio/",
	"/dev/nvidia", "/dev/kfd", "/dev/dri/", "/dev/gdrdrv", "anon_inode:[io_uring]",
}

func bypass(pid int) (device string, err error) {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		target, err := os.Readlink(dir + "/" + e.Name())
		if err != nil {
			continue // closed meanwhile
		}
		for _, d := range devices {
			if strings.HasPrefix(target, d) {
				return target, nil
			}
		}
	}
	return "", nil
}

// areas returns the memory of the process as of the capture that began last.
func (p *Process) areas() ([]zones.Area, error) {
	if p.memory.areas == nil {
		list, err := readAreas(p.hello.PID)
		if err != nil {
			return nil, err
		}
		p.memory.areas = list
	}
	return p.memory.areas, nil
}

// checkMapped refuses a region that the process does not have, before a copy of it takes memory,
// or its pages count as not written.
func (p *Process) checkMapped(r region) error {
	list, err := p.areas()
	if err != nil {
		p.refuseTracking("/proc/PID/maps", err)
		return nil // the client looks again before it copies
	}
	if r.size > 0 && !mapped(list, r.address, r.address+uint64(r.size), func(a *zones.Area) bool { return a.Prot&zones.Read != 0 }) {
		return fmt.Errorf("region %q, %d bytes at %#x: the process cannot read it: %w", r.name, r.size, r.address, unix.EFAULT)
	}
	return nil
}

func readAreas(pid int) ([]zones.Area, error) {
	name := fmt.Sprintf("/proc/%d/maps", pid)
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	p, err := source.ReadText(name, bufio.NewReaderSize(f, 64<<10))
	if err != nil {
		return nil, err
	}
	return p.Areas, nil
}

// private reports whether only the process itself writes to all pages of [start, end): memory
// without a file, that is not shared and not its stack.
func private(list []zones.Area, start, end uint64) bool {
	return mapped(list, start, end, func(a *zones.Area) bool {
		return !a.Shared && a.Inode == 0 && a.Prot&zones.Write != 0 && a.Name != "[stack]"
	})
}

// mapped reports whether areas as wanted cover [start, end).
func mapped(list []zones.Area, start, end uint64, wanted func(*zones.Area) bool) bool {
	first, _ := slices.BinarySearchFunc(list, start+1, func(a zones.Area, at uint64) int { return cmp.Compare(a.End, at) })
	for i := first; i < len(list); i++ {
		a := &list[i]
		if a.Start > start || !wanted(a) {
			return false
		}
		if start = a.End; start >= end {
			return true
		}
	}
	return false
}
