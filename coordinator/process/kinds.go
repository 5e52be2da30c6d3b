package process

import (
	"bufio"
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"ckpt/zones"
	"ckpt/zones/proc"
)

// devices are files through which hardware or other processes write to memory that they
// pinned or mapped before, so that the page tables of the process do not show it.
var devices = []string{
	"/dev/infiniband/", "/dev/hfi1", "/dev/cxi", "/dev/kgni", "/dev/xpmem", "/dev/knem", "/dev/vfio/",
	"/dev/nvidia", "/dev/kfd", "/dev/dri/", "/dev/gdrdrv", "anon_inode:[io_uring]",
}

// bypass returns the first open file of a process that writes past its page tables.
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

// checkMapped refuses a region that the process does not have, before a copy of it
// takes memory, or its pages count as not written.
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
	p, err := proc.ReadText(name, bufio.NewReaderSize(f, 64<<10))
	if err != nil {
		return nil, err
	}
	return p.Areas, nil
}

// private reports whether only the process itself writes to all pages of [start, end):
// memory without a file, that is not shared and not its stack.
func private(list []zones.Area, start, end uint64) bool {
	return mapped(list, start, end, func(a *zones.Area) bool {
		return !a.Shared && a.Inode == 0 && a.Prot&zones.Write != 0 && a.Name != "[stack]"
	})
}

// mapped reports whether areas that are as wanted cover [start, end).
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
