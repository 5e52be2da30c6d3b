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

// opened opens a file, and closes spare ones if there are too many. Nothing becomes
// spare meanwhile: what other ranks open while it does so is what they need.
func (r *running) opened(open func() (openFile, error)) (openFile, error) {
	f, err := open()
	if !errors.Is(err, syscall.EMFILE) {
		return f, err
	}
	r.spare.mu.Lock()
	defer r.spare.mu.Unlock()
	var failed error
	for _, h := range r.spare.list {
		failed = errors.Join(failed, h.close())
	}
	if r.spare.list = nil; failed != nil {
		return nil, failed
	}
	return open()
}
