package slowfs

import (
	"sync"
	"sync/atomic"
	"time"

	"ckpt/internal/vfs"
)

// readAhead is what a read through the page cache fetches at least, as Linux does.
const readAhead = 128 << 10

// A file is on the slow disk.
type file struct {
	vfs.File
	disk   *disk
	id     uint64
	direct bool
	// The range [from, to) was the last to be fetched into the page cache.
	mu       sync.Mutex
	from, to int64
	// dirty says that something was written since the last Sync.
	dirty atomic.Bool
}

// fetch waits for the bytes of a read that came at a time. Small reads beside each other,
// as of an index, come from the page cache after the first.
func (f *file) fetch(came time.Duration, off, n int64) {
	if f.direct || n <= 0 {
		f.disk.use(came, f.id, off, n, false)
		return
	}
	f.mu.Lock()
	from, to := f.from, f.to
	f.mu.Unlock()
	if from <= off && off < to {
		n -= min(n, to-off)
		off = to
	}
	if n == 0 {
		return
	}
	ahead := max(n, readAhead)
	if size, err := f.Size(); err == nil {
		ahead = max(n, min(ahead, size-off))
	}
	f.disk.use(came, f.id, off, ahead, false)
	f.mu.Lock()
	f.from, f.to = off, off+ahead
	f.mu.Unlock()
}

// ReadAt implements io.ReaderAt.
func (f *file) ReadAt(b []byte, off int64) (int, error) {
	came := f.disk.arrival()
	n, err := f.File.ReadAt(b, off)
	f.fetch(came, off, int64(n))
	return n, err
}

// WriteAt implements io.WriterAt.
func (f *file) WriteAt(b []byte, off int64) (int, error) {
	came := f.disk.arrival()
	n, err := f.File.WriteAt(b, off)
	f.dirty.Store(true)
	f.disk.use(came, f.id, off, int64(n), true)
	return n, err
}

// Sync implements vfs.File. After writes it moves the arm to where the file system keeps
// the length of the file.
func (f *file) Sync() error {
	came := f.disk.arrival()
	err := f.File.Sync()
	if f.dirty.Swap(false) {
		f.disk.move(came)
	}
	return err
}

// ReadV implements vfs.File.
func (f *file) ReadV(into [][]byte, off int64) (int64, error) {
	came := f.disk.arrival()
	n, err := f.File.ReadV(into, off)
	f.fetch(came, off, n)
	return n, err
}

// WriteV implements vfs.File.
func (f *file) WriteV(from [][]byte, off int64) (int64, error) {
	came := f.disk.arrival()
	n, err := f.File.WriteV(from, off)
	f.dirty.Store(true)
	f.disk.use(came, f.id, off, n, true)
	return n, err
}

// ReopenDirect implements vfs.File.
func (f *file) ReopenDirect() (vfs.File, error) {
	in, err := f.File.ReopenDirect()
	if err != nil {
		return nil, err
	}
	return &file{File: in, disk: f.disk, id: f.id, direct: true}, nil
}

// Map implements vfs.File.
func (f *file) Map(size int64) (vfs.Mapping, error) {
	in, err := f.File.Map(size)
	if err != nil {
		return nil, err
	}
	return &mapping{in, f.disk, f.id}, nil
}

// A mapping moves bytes when it is synced.
type mapping struct {
	vfs.Mapping
	disk *disk
	id   uint64
}

func (m *mapping) Sync(off, n int64) error {
	came := m.disk.arrival()
	err := m.Mapping.Sync(off, n)
	m.disk.use(came, m.id, off, n, true)
	return err
}
