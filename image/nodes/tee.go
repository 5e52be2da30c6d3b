package nodes

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// A Sink takes what is written to a file. Any number of writes may be under way at a
// time; each byte is written once. WriteAt does not keep p.
type Sink interface {
	WriteAt(p []byte, off int64) (int, error)
	// Finish says that the file is complete and size bytes long. It returns when
	// what the sink keeps is durable, with its name.
	Finish(size int64) error
	// Abort ends the sink, and every call of it that waits, and removes what it
	// keeps, unless others have part in it and know it as durable.
	Abort()
}

// Teed is a file system that gives a copy of one file to sinks.
type Teed struct {
	vfs.FS
	path  string
	sinks []Sink

	proven atomic.Bool // a write has worked: local ones and sinks go side by side
	mu     sync.Mutex
	taken  map[int64]repeat // writes that the sinks took, and that failed here
	open   int              // handles
	failed error            // the first error of a sink
	ending bool             // the sinks finish
	ended  chan struct{}    // closed when they have
	once   sync.Once        // of abort
}

// A repeat is a write that is to be repeated.
type repeat struct {
	n   int
	sum uint32
}

var _ vfs.FS = (*Teed)(nil)

// Tee returns fsys in which everything that is written to path goes to the sinks as
// well, while it is written. An error of a sink is one of the write. The file is
// written once from its beginning: each byte once, and again only after an error, with
// the same bytes. Its Sync says that it is complete, and lets the sinks finish; when it
// is closed without one, or removed, they are aborted. A caller whose write failed calls
// Abort, for the file may not even have been created.
func Tee(fsys vfs.FS, path string, sinks ...Sink) *Teed {
	return &Teed{FS: fsys, path: path, sinks: sinks, taken: make(map[int64]repeat), ended: make(chan struct{})}
}

// Wait waits until the sinks have finished, and returns the error of the first that
// failed. When ctx is done, they are aborted.
func (t *Teed) Wait(ctx context.Context) error {
	select {
	case <-t.ended:
	case <-ctx.Done():
		t.Abort()
		return durable.Op("protect", t.path, -1, context.Cause(ctx))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.failed
}

// Abort aborts the sinks; Wait returns an error from then on.
func (t *Teed) Abort() { t.abort(errors.New("aborted")) }

func (t *Teed) abort(err error) {
	t.mu.Lock()
	if t.failed == nil {
		t.failed = durable.Op("protect", t.path, -1, err)
	}
	finishing := t.ending
	t.ending = true
	t.mu.Unlock()
	t.once.Do(func() {
		for _, s := range t.sinks {
			s.Abort()
		}
	})
	if !finishing {
		close(t.ended)
	}
}

// fail notes the error of a sink.
func (t *Teed) fail(err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	err = durable.Op("protect", t.path, -1, err)
	if t.failed == nil {
		t.failed = err
	}
	return err
}

// finish lets the sinks finish, and does not wait for them.
func (t *Teed) finish(size int64) {
	t.mu.Lock()
	if t.ending {
		t.mu.Unlock()
		return
	}
	if len(t.taken) > 0 || t.failed != nil {
		t.mu.Unlock()
		t.abort(errors.New("the file lacks bytes that could not be written"))
		return
	}
	t.ending = true
	t.mu.Unlock()
	go func() {
		defer close(t.ended)
		_ = t.each(func(s Sink) error { return s.Finish(size) })
	}()
}

// each calls all sinks side by side, and returns the error of one.
func (t *Teed) each(call func(Sink) error) error {
	errs := make([]error, len(t.sinks))
	run := func(i int) {
		if err := call(t.sinks[i]); err != nil {
			errs[i] = t.fail(err)
		}
	}
	var wg sync.WaitGroup
	for i := range t.sinks[min(1, len(t.sinks)):] {
		wg.Go(func() { run(i + 1) })
	}
	if len(t.sinks) > 0 {
		run(0)
	}
	wg.Wait()
	return errors.Join(errs...)
}

// send gives bytes to the sinks.
func (t *Teed) send(p []byte, off int64) error {
	return t.each(func(s Sink) error {
		n, err := s.WriteAt(p, off)
		if err == nil && n < len(p) {
			err = fmt.Errorf("a sink took %d of %d bytes", n, len(p))
		}
		return err
	})
}

// sent reports whether the sinks took these bytes before a write of them failed.
func (t *Teed) sent(p []byte, off int64) (bool, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	was, ok := t.taken[off]
	if !ok {
		return false, nil
	}
	if was.n != len(p) || was.sum != durable.Sum(p) {
		return true, fmt.Errorf("write %s at offset %d: other bytes than those that could not be written before", t.path, off)
	}
	delete(t.taken, off)
	return true, nil
}

// write writes to the file and to the sinks.
func (t *Teed) write(f vfs.File, p []byte, off int64) (int, error) {
	before, err := t.sent(p, off)
	if err != nil {
		return 0, err
	}
	if before || !t.proven.Load() {
		n, err := f.WriteAt(p, off)
		if before && (err != nil || n < len(p)) {
			t.note(p, off)
		}
		if err == nil && n == len(p) && !before {
			t.proven.Store(true)
			err = t.send(p, off)
		}
		return n, err
	}
	var n int
	var local error
	var wg sync.WaitGroup
	wg.Go(func() { n, local = f.WriteAt(p, off) })
	err = t.send(p, off)
	wg.Wait()
	if local != nil || n < len(p) {
		t.note(p, off)
		return n, local
	}
	return n, err
}

// note remembers bytes that the sinks have and the file has not.
func (t *Teed) note(p []byte, off int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taken[off] = repeat{len(p), durable.Sum(p)}
}

// Remove implements vfs.FS.
func (t *Teed) Remove(name string) error {
	if name == t.path {
		t.abort(errors.New("file was removed"))
	}
	return t.FS.Remove(name)
}

// Create implements vfs.FS.
func (t *Teed) Create(name string) (vfs.File, error) { return t.handle(name, vfs.FS.Create) }

// OpenWrite implements vfs.FS.
func (t *Teed) OpenWrite(name string) (vfs.File, error) { return t.handle(name, vfs.FS.OpenWrite) }

// CreateDirect implements vfs.FS.
func (t *Teed) CreateDirect(name string) (vfs.File, error) {
	return t.handle(name, vfs.FS.CreateDirect)
}

func (t *Teed) OpenWriteDirect(name string) (vfs.File, error) {
	return t.handle(name, vfs.FS.OpenWriteDirect)
}

func (t *Teed) handle(name string, open vfs.Opener) (vfs.File, error) {
	f, err := open(t.FS, name)
	if err != nil || name != t.path {
		return f, err
	}
	t.mu.Lock()
	t.open++
	t.mu.Unlock()
	return &teedFile{Plain: vfs.Only(f), t: t}, nil
}

// teedFile is a handle of the file. It hides what other ways of writing there are.
type teedFile struct {
	vfs.Plain
	t *Teed
}

func (f *teedFile) Preallocate(size int64) error { return f.File.Preallocate(size) }
func (f *teedFile) Truncate(size int64) error    { return f.File.Truncate(size) }
func (f *teedFile) Flush(off, n int64) error     { return f.File.Flush(off, n) }

func (f *teedFile) WriteAt(p []byte, off int64) (int, error) { return f.t.write(f.File, p, off) }

// Sync lets the sinks finish while the file is made durable.
func (f *teedFile) Sync() error {
	size, err := f.File.Size()
	if err == nil {
		f.t.finish(size)
		err = f.File.Sync()
	}
	if err != nil {
		f.t.abort(err)
	}
	return err
}

// Close aborts the sinks if it closes the last handle, and there was no Sync.
func (f *teedFile) Close() error {
	err := f.File.Close()
	f.t.mu.Lock()
	f.t.open--
	over := f.t.open == 0 && !f.t.ending
	f.t.mu.Unlock()
	if over {
		f.t.abort(errors.New("file was closed before it was complete"))
	}
	return err
}
