package replay

import (
	"errors"
	"sync"
	"syscall"
)

// spares are handles that nobody uses any more and the trace does not close: those of
// Darshan, which knows of no opens and closes, and of programs that leave it to the
// system. In the traced job each process had as many as one may have; here all have
// one number together. So they are closed when there are too many, and no earlier: on
// some file systems that takes long, and the trace says nothing of it.
type spares struct {
	mu   sync.Mutex
	list []*handle
}

// over says that nobody will use a handle any more.
func (r *running) over(h *handle) {
	if h.closes {
		return
	}
	r.spare.mu.Lock()
	r.spare.list = append(r.spare.list, h)
	r.spare.mu.Unlock()
}

// opened opens a file, and closes spare ones if there are too many.
func (r *running) opened(open func() (openFile, error)) (openFile, error) {
	for {
		f, err := open()
		if !errors.Is(err, syscall.EMFILE) {
			return f, err
		}
		closed, cerr := r.closeSpare()
		if cerr != nil {
			return nil, cerr
		}
		if !closed {
			return open() // another rank may just have closed some
		}
	}
}

// closeSpare closes all that are spare, and reports whether there were any.
func (r *running) closeSpare() (closed bool, err error) {
	r.spare.mu.Lock()
	defer r.spare.mu.Unlock()
	for _, h := range r.spare.list {
		err = errors.Join(err, h.close())
		closed = true
	}
	r.spare.list = nil
	return closed, err
}
