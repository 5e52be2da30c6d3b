package replay

import (
	"errors"
	"sync"
	"syscall"
)

// spares are handles that no rank uses any more and that the trace does not close.
// They come from Darshan, which records no opens and closes, and from programs that
// leave closing to the system. In the traced job each process had its own limit of
// open files; here all ranks share one. So spare handles are closed when there are too
// many, and not earlier: on some file systems closing takes long, and the trace says
// nothing about it.
type spares struct {
	mu   sync.Mutex
	list []*handle
}

// over adds a handle that nobody will use any more.
func (r *running) over(h *handle) {
	if h.closes {
		return
	}
	r.spare.mu.Lock()
	r.spare.list = append(r.spare.list, h)
	r.spare.mu.Unlock()
}

// opened opens a file, and closes spare handles if there are too many. No handle
// becomes spare meanwhile, because other ranks need those that they open.
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
