package filecache

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"

	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// Files is the file system of the store, with some files in the cache: code that writes
// files through a vfs.FS writes through the cache without knowing of it. A cached file
// is there for all processes from its first opening to its last closing.
//
// Sync is collective, as MPI_File_sync is: it returns when all processes that have the
// file open have called it, or closed the file, and the store has the bytes. Names and
// sizes of files are those of the store.
type Files struct {
	cache  *Cache
	opt    Options
	cached func(name string) bool

	mu   sync.Mutex
	open map[string]*sharedFile
}

// NewFiles returns the file system for the processes of opt. Files that cached says so
// of are cached, by their names in the store; they grow to opt.Size bytes at most, and
// have no versions. Levels.Volatile suits files whose bytes count only from Sync on.
func NewFiles(c *Cache, opt Options, cached func(name string) bool) *Files {
	opt.Flags, opt.Growing, opt.Levels.Versions = Create, true, false
	return &Files{cache: c, opt: opt, cached: cached, open: make(map[string]*sharedFile)}
}

// Of returns the file system as a process uses it.
func (f *Files) Of(process int) vfs.FS { return &processFS{f.cache.Store.FS, f, process} }

type processFS struct {
	vfs.FS
	files   *Files
	process int
}

// A sharedFile is a cached file with the handles that processes have on it.
type sharedFile struct {
	mu      sync.Mutex
	file    *File            // nil until it is open
	gone    bool             // the last handle was closed
	handles map[*handle]bool // and whether they wait in Sync
	synced  *syncResult
}

type syncResult struct {
	done chan struct{}
	err  error
}

// name returns the name of a file that is to be cached.
func (f *Files) name(path string) (string, bool) {
	name, err := filepath.Rel(f.cache.Store.Dir, path)
	return name, err == nil && !strings.HasPrefix(name, "..") && f.cached(name)
}

// Create implements vfs.FS. The store has the file at once, empty.
func (p *processFS) Create(path string) (vfs.File, error) {
	name, ok := p.files.name(path)
	if !ok {
		return p.FS.Create(path)
	}
	if err := create(p.FS, path); err != nil {
		return nil, err
	}
	return p.files.handle(name, path, p.process, true)
}

// OpenWrite implements vfs.FS.
func (p *processFS) OpenWrite(path string) (vfs.File, error) {
	name, ok := p.files.name(path)
	if !ok {
		return p.FS.OpenWrite(path)
	}
	if _, err := p.FS.Stat(path); err != nil {
		return nil, durable.Op("open", path, -1, err)
	}
	return p.files.handle(name, path, p.process, true)
}

// Open implements vfs.FS: a file that is open in the cache is read there.
func (p *processFS) Open(path string) (vfs.File, error) {
	if name, ok := p.files.name(path); ok {
		if h, err := p.files.handle(name, path, p.process, false); h != nil || err != nil {
			return h, err
		}
	}
	return p.FS.Open(path)
}

// handle opens a file for a process. Without must, a file that is not in the cache is
// none.
func (f *Files) handle(name, path string, process int, must bool) (vfs.File, error) {
	for {
		f.mu.Lock()
		s := f.open[name]
		if s == nil && must {
			s = &sharedFile{handles: make(map[*handle]bool)}
			f.open[name] = s
		}
		f.mu.Unlock()
		if s == nil {
			return nil, nil
		}
		h := &handle{files: f, shared: s, name: name, path: path, write: must}
		ok, err := s.enter(h, process)
		if err != nil {
			return nil, err
		}
		if ok {
			return h, nil
		}
	}
}

// enter adds a handle, and opens the file for the first one. It returns false if the
// last one was closed meanwhile.
func (s *sharedFile) enter(h *handle, process int) (ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gone {
		return false, nil
	}
	if s.file == nil {
		if s.file, err = h.files.cache.Open(context.Background(), h.name, h.files.opt); err != nil {
			h.files.forget(s, h.name)
			return false, err
		}
	}
	h.process = s.file.Process(process)
	s.handles[h] = false
	return true, nil
}

// forget takes a file out of the list. Its lock is held.
func (f *Files) forget(s *sharedFile, name string) {
	s.gone = true
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.open, name)
}

// A handle is a cached file that a process has open.
type handle struct {
	files   *Files
	shared  *sharedFile
	process *Process
	name    string
	path    string
	write   bool
}

func (h *handle) ReadAt(b []byte, off int64) (int, error) { return h.process.ReadAt(b, off) }

func (h *handle) WriteAt(b []byte, off int64) (int, error) {
	if !h.write {
		return 0, durable.Op("write", h.path, off, ErrReadOnly)
	}
	return h.process.WriteAt(b, off)
}

func (h *handle) Size() (int64, error) { return h.process.Size(), nil }

// Sync implements vfs.File.
func (h *handle) Sync() error {
	s := h.shared
	s.mu.Lock()
	if _, ok := s.handles[h]; !ok {
		s.mu.Unlock()
		return durable.Op("sync", h.path, -1, fs.ErrClosed)
	}
	s.handles[h] = true
	if s.synced == nil {
		s.synced = &syncResult{done: make(chan struct{})}
	}
	result := s.synced
	s.syncIfAll()
	s.mu.Unlock()
	<-result.done
	return durable.Op("sync", h.path, -1, result.err)
}

// syncIfAll syncs when all that have the file open wait for that.
func (s *sharedFile) syncIfAll() {
	if s.synced == nil {
		return
	}
	for h, waits := range s.handles {
		if h.write && !waits {
			return
		}
	}
	if s.file.dirty.Load() {
		s.synced.err = s.file.Sync(context.Background())
	}
	close(s.synced.done)
	s.synced = nil
	for h := range s.handles {
		s.handles[h] = false
	}
}

// Close implements vfs.File. The last one stores the file, if it has to be, and frees
// the node directories.
func (h *handle) Close() error {
	s := h.shared
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.handles[h]; !ok {
		return durable.Op("close", h.path, -1, fs.ErrClosed)
	}
	delete(s.handles, h)
	s.syncIfAll()
	if len(s.handles) > 0 {
		return nil
	}
	// The name is free when the file is closed: the next process opens it again.
	defer h.files.forget(s, h.name)
	if err := s.file.Close(context.Background()); err != nil {
		// Nobody can close it any more. The node directories keep what there is.
		return durable.Op("close", h.path, -1, errors.Join(err, s.file.Abandon()))
	}
	return nil
}

// Discard empties the node directories of a file that nobody uses: its bytes that the
// store does not have are gone.
func (c *Cache) Discard(name string) error {
	var rec Recovery
	sessions, err := c.sessions(name, &rec)
	if err == nil {
		err = c.finish(name, sessions, newestOf(sessions))
	}
	if err != nil {
		return fmt.Errorf("discard %s: %w", name, err)
	}
	return nil
}
