package process

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

type way int

const (
	byClient way = iota // the client copies it to or from a window
	byKernel            // process_vm_readv and process_vm_writev
	ways
)

type choice struct {
	pace  [ways]float64 // seconds per byte; 0 if unknown
	warm  [ways]bool    // it was used once: the first time is longer than the others
	count int
}

const (
	// measuredBytes is the least piece of memory whose time says something of a way.
	measuredBytes = 64 << 10
	// triedBytes is the length of a piece that tries the way that is not the best known.
	triedBytes = 1 << 20
	// The slower way is tried again once in this many pieces, and more rarely the slower it is.
	triedAgain = 64
)

// choice returns the choice for a region, one for all small regions.
func (m *memory) choice(r *region) *choice {
	name := ""
	if !r.small() {
		name = r.name
	}
	c := m.choices[name]
	if c == nil {
		if m.choices == nil {
			m.choices = map[string]*choice{}
		}
		c = &choice{}
		m.choices[name] = c
	}
	return c
}

// next returns the way of the next piece, and its greatest length: the fastest known way, after
// each was tried.
func (c *choice) next(limit int64) (way, int64) {
	best := byClient
	for w := range ways {
		if c.pace[w] == 0 {
			return w, min(limit, triedBytes)
		}
		if c.pace[w] < c.pace[best] {
			best = w
		}
	}
	other := ways - 1 - best
	if c.count++; float64(c.count) > triedAgain*c.pace[other]/c.pace[best] {
		c.count = 0
		return other, min(limit, triedBytes)
	}
	return best, limit
}

func (c *choice) measured(w way, bytes int64, d time.Duration) {
	if bytes < measuredBytes {
		return
	}
	if !c.warm[w] {
		c.warm[w] = true
		return
	}
	pace := max(d.Seconds(), 1e-9) / float64(bytes)
	if c.pace[w] != 0 {
		pace = (pace + c.pace[w]) / 2
	}
	c.pace[w] = pace
}

// next returns the way of the next piece of a region, and its greatest length.
func (p *Process) next(c *choice, limit int64) (way, int64) {
	switch {
	case p.memory.refused:
		return byClient, limit
	case limit < measuredBytes:
		return byKernel, limit // an order and its answer take longer than the copy
	}
	return c.next(limit)
}

// move moves a piece of memory by a way, and notes how long it takes. Where the kernel refuses
// to, the client moves it, now and from now on.
func (p *Process) move(c *choice, w way, bytes int64, by func(way) error) error {
	start := time.Now()
	err := by(w)
	if w == byKernel && p.refusedRead(err) {
		return by(byClient)
	}
	if err == nil {
		c.measured(w, bytes, time.Since(start))
	}
	return err
}

// refusedRead reports whether the kernel has refused to let the agent read the memory of the
// process, and remembers it.
func (p *Process) refusedRead(err error) bool {
	if !errGone(err) {
		return false
	}
	p.memory.refused = true
	p.note("process_vm_readv", fmt.Errorf("%w (kernel.yama.ptrace_scope, a container or a filter forbids it)", err))
	return true
}

// maxVectors is the number of ranges of one call (IOV_MAX).
const maxVectors = 1024

// direct moves memory without the client. The offsets of the ranges are those in mem.
func (p *Process) direct(kind uint32, r *region, mem []byte, ranges []copyRange) error {
	if err := p.checkWaiting(); err != nil {
		return err
	}
	for len(ranges) > 0 {
		n := min(len(ranges), maxVectors)
		if err := p.vectors(kind, mem, ranges[:n]); err != nil {
			return fmt.Errorf("region %q: %w", r.name, err)
		}
		ranges = ranges[n:]
	}
	return nil
}

func (p *Process) vectors(kind uint32, mem []byte, ranges []copyRange) error {
	local := make([]unix.Iovec, len(ranges))
	remote := make([]unix.RemoteIovec, len(ranges))
	total := 0
	for i, r := range ranges {
		local[i].Base = &mem[r.offset : r.offset+r.bytes][0]
		local[i].SetLen(int(r.bytes))
		remote[i] = unix.RemoteIovec{Base: uintptr(r.address), Len: int(r.bytes)}
		total += int(r.bytes)
	}
	call := unix.ProcessVMReadv
	if kind == kindIn {
		call = unix.ProcessVMWritev
	}
	n, err := call(p.hello.PID, local, remote, 0)
	if err == unix.EPERM && !p.memory.asked {
		p.memory.asked = true
		if err := p.askToTrace(); err != nil {
			return err
		}
		n, err = call(p.hello.PID, local, remote, 0)
	}
	if err == nil && n != total {
		err = unix.EFAULT // the call stops at memory that is not mapped
	}
	return err
}

// askToTrace has the process name this agent as its tracer, for Yama.
func (p *Process) askToTrace() error {
	if err := p.instruct(message{kind: kindTracer, a: int64(unix.Getpid())}, nil); err != nil {
		return err
	}
	_, err := p.order(message{kind: kindOut}, kindCopied) // which copies nothing: its answer comes after
	return err
}
