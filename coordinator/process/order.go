package process

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// order sends an order that the client answers, and waits for the answer. The caller
// holds p.orders.
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
	// One call makes all pages; each would be a fault otherwise. Where the kernel cannot,
	// they are made one by one.
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

// dropWindow ends a window on both sides.
func (p *Process) dropWindow(w *window) {
	_ = p.instruct(message{kind: kindUnmap, value: w.id}, nil)
	w.close()
}

// copyAll has the client copy ranges between its memory and a window. All ranges lie in
// one region, which the client checks to be mapped. The caller holds p.orders.
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
