package image

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"ckpt/image/container"
	"ckpt/zones"
)

// errGone is what happens when the process with the memory is gone.
var errGone = errors.New("the process is gone")

// elsewhere is the memory of a process as its agent sees it: address space that must
// not be touched but between Fetch and Release, or before it is handed over.
type elsewhere struct {
	own   []zones.Region // of the process
	seen  []zones.Region // the same, as the agent sees them
	soft  bool           // what was released can be read
	fails int            // call of Fetch, or of Loaded, that fails; 0 none

	mu         sync.Mutex
	held       [][]bool // by region and page
	now, most  int64    // bytes held
	moved      int64    // bytes fetched, or handed over
	resident   int64    // the most bytes of address space with memory, at calls of loaded
	calls      int
	complaints []error
}

func newElsewhere(t testing.TB, own []zones.Region, access int) *elsewhere {
	t.Helper()
	e := &elsewhere{own: own, seen: slices.Clone(own)}
	for i, r := range own {
		e.held = append(e.held, make([]bool, len(r.Mem)/zones.PageSize))
		if len(r.Mem) == 0 {
			continue
		}
		mem, err := unix.Mmap(-1, 0, len(r.Mem), access, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
		if err != nil {
			t.Fatal(err)
		}
		e.seen[i].Mem = mem
		t.Cleanup(func() { _ = unix.Munmap(mem) })
	}
	return e
}

// find returns the region and the offset in it of a part of memory.
func (e *elsewhere) find(mem []byte) (region, offset int, err error) {
	at := uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
	for i, r := range e.seen {
		first := uintptr(unsafe.Pointer(unsafe.SliceData(r.Mem)))
		if at >= first && at+uintptr(len(mem)) <= first+uintptr(len(r.Mem)) && len(mem) > 0 {
			offset := int(at - first)
			if offset%zones.PageSize != 0 || len(mem)%zones.PageSize != 0 {
				return 0, 0, fmt.Errorf("%d bytes at %d of %s are no whole pages", len(mem), offset, r.Name)
			}
			return i, offset, nil
		}
	}
	return 0, 0, fmt.Errorf("%d bytes are of no region", len(mem))
}

// mark notes that the pages of a part are held, or are not any more.
func (e *elsewhere) mark(mem []byte, held bool) (region, offset int) {
	region, offset, err := e.find(mem)
	if err != nil {
		e.complaints = append(e.complaints, err)
		return -1, 0
	}
	for p := offset / zones.PageSize; p < (offset+len(mem))/zones.PageSize; p++ {
		if e.held[region][p] == held {
			e.complaints = append(e.complaints, fmt.Errorf("page %d of %s: held is %v already", p, e.own[region].Name, held))
		}
		e.held[region][p] = held
	}
	if held {
		e.now += int64(len(mem))
		e.most = max(e.most, e.now)
		e.moved += int64(len(mem))
	} else {
		e.now -= int64(len(mem))
	}
	return region, offset
}

func (e *elsewhere) fetch(mem []byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	region, offset := e.mark(mem, true)
	if e.calls++; e.calls == e.fails {
		return errGone
	}
	if err := unix.Mprotect(mem, unix.PROT_READ|unix.PROT_WRITE); err != nil {
		return err
	}
	if region >= 0 {
		copy(mem, e.own[region].Mem[offset:])
	}
	return nil
}

func (e *elsewhere) release(mem []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mark(mem, false)
	if e.soft {
		return
	}
	err := unix.Madvise(mem, unix.MADV_DONTNEED)
	e.complaints = append(e.complaints, err, unix.Mprotect(mem, unix.PROT_NONE))
}

// loaded copies a part into the process, and takes it away.
func (e *elsewhere) loaded(mem []byte) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.calls++; e.calls == e.fails {
		return errGone
	}
	if region, offset := e.mark(mem, true); region >= 0 {
		copy(e.own[region].Mem[offset:], mem)
	}
	e.resident = max(e.resident, e.inMemory())
	return errors.Join(unix.Madvise(mem, unix.MADV_DONTNEED), unix.Mprotect(mem, unix.PROT_NONE))
}

// inMemory returns how many bytes of the address space have memory.
func (e *elsewhere) inMemory() (n int64) {
	for _, r := range e.seen {
		if len(r.Mem) == 0 {
			continue
		}
		pages := make([]byte, len(r.Mem)/zones.PageSize)
		_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&r.Mem[0])), uintptr(len(r.Mem)), uintptr(unsafe.Pointer(&pages[0])))
		if errno != 0 {
			e.complaints = append(e.complaints, errno)
		}
		for _, p := range pages {
			n += int64(p&1) * zones.PageSize
		}
	}
	return n
}

// options makes a write fetch the memory.
func (e *elsewhere) options(opt *container.WriteOptions) {
	opt.Fetch, opt.Release = e.fetch, e.release
}

// check checks that each byte was released once, and that no more than most were held
// at a time.
func (e *elsewhere) check(most int64) error {
	if err := errors.Join(e.complaints...); err != nil {
		return err
	}
	if e.now != 0 || e.most > most {
		return fmt.Errorf("%d bytes were not released; %d were held at a time, want %d at most", e.now, e.most, most)
	}
	return nil
}

// bytesOf returns the memory of regions.
func bytesOf(regions []zones.Region) (n int64) {
	for _, r := range regions {
		n += int64(len(r.Mem))
	}
	return n
}
