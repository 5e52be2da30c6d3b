package container

import (
	"sync"

	"ckpt/internal/vfs"
)

// A reservation takes free space ahead of the writes, a little at a time: how much
// will be needed is not known, and space that one rank takes in vain another lacks.
type reservation struct {
	mu    sync.Mutex
	f     vfs.Preallocator // nil if the file has no such ability
	full  bool             // no more is to be had
	taken int64
	limit int64 // of the length of the file
}

// Space is reserved from reserveFrom bytes on, a quarter of what has been written, at
// least reserveStep and at most reserveMost: every time, the writes under way are
// waited for.
const (
	reserveFrom = 16 << 20
	reserveStep = 4 << 20
	reserveMost = 64 << 20
)

// reach reserves space before the file is written up to end.
func (r *reservation) reach(end int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.f == nil || r.full || end <= r.taken || end < reserveFrom {
		return
	}
	size := min(end+min(max(end/4, reserveStep), reserveMost), r.limit)
	if size <= r.taken {
		return
	}
	// Only a hint: where it fails, the writes will tell.
	if r.f.Preallocate(size) != nil {
		r.full = true
		return
	}
	r.taken = size
}

// release gives back the space beyond the length of the file.
func (r *reservation) release(length int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.f == nil || r.taken <= length && !r.full {
		return nil
	}
	return r.f.Truncate(length)
}
