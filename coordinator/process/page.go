package process

import (
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"ckpt/zones"
)

// The page that process and agent share. Each word lies in a cache line of its own.
const (
	pageMagic     = 0x6567617074706b63 // "ckptpage"
	offsetPassed  = 64
	offsetLimit   = 128
	offsetStep    = 192
	offsetPending = 256
)

// A page is the shared page, mapped.
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

// Passed returns the number of boundaries that the process has reached, counted from the
// boundary it resumed from, and the program's step at the last one. After [Process.SetLimit]
// has returned, a process that Passed does not show beyond the limit will not pass it.
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

// fences reports whether the client orders its own reads and writes of the page. One in
// Python cannot.
func (p *Process) fences() bool { return p.hello.Language == "c" || p.hello.Language == "fortran" }

// isWaiting reports whether the process waits for an answer: it passes no boundary then.
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

const membarrierGlobal = 1 // MEMBARRIER_CMD_GLOBAL

// barrier returns after each thread of the machine has passed a memory barrier, so that a
// client that cannot fence has either seen the limit or shows the boundary that it passed.
func (p *Process) barrier() {
	_, _, errno := unix.Syscall(unix.SYS_MEMBARRIER, membarrierGlobal, 0, 0)
	if errno != 0 {
		p.note("membarrier", errno)
		time.Sleep(100 * time.Microsecond) // store buffers drain in far less
	}
}
