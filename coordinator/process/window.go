package process

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"ckpt/zones"
)

// order sends an order that the client answers, and waits for the answer. The caller holds
// p.orders.
func (p *Process) order(m message, want uint32) (reply, error) {
	if err := p.instruct(m, nil); err != nil {
		return reply{}, err
	}
	select {
	case r := <-p.answers:
		if r.kind != want {
			closeAll(r.files)
			return reply{}, fmt.Errorf("answer of kind %d to an order of kind %d", r.kind, m.kind)
		}
		return r, nil
	case <-p.closed:
		return reply{}, ErrEnded
	}
}

// instruct sends an order. The client reads it only while a call of the program waits.
func (p *Process) instruct(m message, file *os.File) error {
	if err := p.checkWaiting(); err != nil {
		return err
	}
	return p.link.send(m, file)
}

func (p *Process) checkWaiting() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.waiting {
		return errors.New("the process does not wait in a call")
	}
	return nil
}

// A window is memory that process and agent share.
type window struct {
	id  uint32
	mem []byte
}

// newWindow makes a window and has the client map it. The caller holds p.orders.
func (p *Process) newWindow(size int64) (*window, error) {
	w, file, err := p.newSharedWindow(size)
	if err == nil {
		file.Close() // the mappings stay
	}
	return w, err
}

// newSharedWindow is newWindow that returns the file, too.
func (p *Process) newSharedWindow(size int64) (*window, *os.File, error) {
	file, err := p.sharedFile("ckpt-window", size)
	if err != nil {
		return nil, nil, err
	}
	mem, err := mapShared(file, size)
	if err != nil {
		file.Close()
		return nil, nil, err
	}
	// One call makes all pages; each would be a fault otherwise. Where the kernel cannot, they
	// are made one by one.
	_ = unix.Madvise(mem, unix.MADV_POPULATE_WRITE)
	p.memory.lastID++
	w := &window{id: p.memory.lastID, mem: mem}
	if err := p.instruct(message{kind: kindMap, value: w.id, a: size}, file); err != nil {
		w.close()
		file.Close()
		return nil, nil, err
	}
	return w, file, nil
}

func (w *window) close() { _ = unix.Munmap(w.mem) }

func (p *Process) dropWindow(w *window) {
	_ = p.instruct(message{kind: kindUnmap, value: w.id}, nil)
	w.close()
}

// copyAll has the client copy ranges between its memory and a window. All ranges lie in one
// region, which the client checks to be mapped. The caller holds p.orders.
func (p *Process) copyAll(kind uint32, w *window, of *region, ranges []copyRange) error {
	for len(ranges) > 0 {
		n := min(len(ranges), maxRanges)
		m := message{kind: kind, value: w.id, a: int64(n), b: int64(of.address), c: of.size, payload: encodeRanges(ranges[:n])}
		r, err := p.order(m, kindCopied)
		if err == nil && r.errno != 0 {
			err = fmt.Errorf("the process cannot copy it: %w", r.errno)
		}
		if err != nil {
			return fmt.Errorf("region %q: %w", of.name, err)
		}
		ranges = ranges[n:]
	}
	return nil
}

// sharedFile returns a file without a name, of the given size, that two processes can map. Where
// the kernel seals files it cannot shrink, so that a mapping of it never gets SIGBUS.
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

func mapShared(f *os.File, size int64) ([]byte, error) {
	mem, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes: %w", size, err)
	}
	return mem, nil
}

// The page that process and agent share. Each word lies in a cache line of its own.
const (
	pageMagic     = 0x6567617074706b63 // "ckptpage"
	offsetPassed  = 64
	offsetLimit   = 128
	offsetStep    = 192
	offsetPending = 256
	offsetEpochs  = 320
	offsetForks   = 512 // a word for each child that copies, of maxForks at a time
	maxForks      = 16
)

type page struct {
	file *os.File
	mem  []byte
}

func (p *Process) newPage() (*page, error) {
	f, err := p.sharedFile("ckpt-page", zones.PageSize)
	if err != nil {
		return nil, err
	}
	mem, err := mapShared(f, zones.PageSize)
	if err != nil {
		f.Close()
		return nil, err
	}
	made := &page{file: f, mem: mem}
	made.word(0).Store(pageMagic)
	return made, nil
}

func (p *page) close() {
	p.file.Close()
	_ = unix.Munmap(p.mem)
}

func (p *page) word(offset int) *atomic.Int64 {
	return (*atomic.Int64)(unsafe.Pointer(&p.mem[offset]))
}

// Passed returns the number of boundaries that the process has reached, counted from the boundary
// it resumed from, and the program's step at the last one. After [Process.SetLimit] has returned,
// a process that Passed does not show beyond the limit will not pass it.
func (p *Process) Passed() (count, step int64) {
	return p.page.word(offsetPassed).Load(), p.page.word(offsetStep).Load()
}

// SetPassed makes the process count its boundaries from n. The process must be waiting.
func (p *Process) SetPassed(n int64) { p.page.word(offsetPassed).Store(n) }

// SetLimit makes boundary n the first that calls the agent.
func (p *Process) SetLimit(n int64) {
	old := p.page.word(offsetLimit).Swap(n)
	if n < old && !p.fences() && !p.isWaiting() {
		p.barrier()
	}
}

// fences reports whether the client orders its own reads and writes of the page. One in Python
// cannot.
func (p *Process) fences() bool { return p.hello.Language == "c" || p.hello.Language == "fortran" }

func (p *Process) isWaiting() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waiting
}

// SetPending makes the next boundary call the agent, whatever the limit.
func (p *Process) SetPending(pending bool) {
	n := int64(0)
	if pending {
		n = 1
	}
	p.page.word(offsetPending).Store(n)
}

// SetEpochs makes each end of an epoch a boundary that asks for a checkpoint.
func (p *Process) SetEpochs() { p.page.word(offsetEpochs).Store(1) }

const membarrierGlobal = 1 // MEMBARRIER_CMD_GLOBAL

// barrier returns after each thread of the machine has passed a memory barrier, so that a client
// that cannot fence has either seen the limit or shows the boundary that it passed.
func (p *Process) barrier() {
	_, _, errno := unix.Syscall(unix.SYS_MEMBARRIER, membarrierGlobal, 0, 0)
	if errno != 0 {
		p.note("membarrier", errno)
		time.Sleep(100 * time.Microsecond) // store buffers drain in far less
	}
}
