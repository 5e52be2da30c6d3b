package replay

import (
	"context"
	"errors"
	"io/fs"
	"sync"
	"sync/atomic"

	"ckpt/iotrace"
)

// A liveFile is a planned file in the directory.
type liveFile struct {
	mu            sync.Mutex
	made          bool // it is there under its name
	ever, renamed bool // so it was once; it was renamed
	times         int  // that it was renamed or removed
}

const renamedSuffix = "~renamed"

// create makes the file, which nobody has made.
func (f *liveFile) create(r *running, i int32) (openFile, error) {
	file, err := r.opened(func() (openFile, error) { return r.o.fs.Create(r.path(i)) })
	if err != nil {
		return nil, &Error{Op: "create", Path: r.path(i), Offset: iotrace.None, Rank: iotrace.None, Err: err}
	}
	f.made, f.ever = true, true
	return file, nil
}

// open opens the file, or makes it if it is not there; created says which. Begin is
// called before each attempt.
func (f *liveFile) open(r *running, i int32, begin func()) (file openFile, created bool, err error) {
	for {
		begin()
		f.mu.Lock()
		if !f.made {
			defer f.mu.Unlock()
			file, err = f.create(r, i)
			return file, true, err
		}
		times := f.times
		f.mu.Unlock()
		// Not under the lock: ranks open a file at the same time.
		file, err = r.opened(func() (openFile, error) { return r.o.fs.Open(r.path(i)) })
		if !errors.Is(err, fs.ErrNotExist) || !f.gone(times) {
			return file, false, err
		}
	}
}

// stat looks at the file. One that is not there is made for it.
func (f *liveFile) stat(r *running, i int32, begin func()) error {
	for {
		f.mu.Lock()
		err := f.there(r, i)
		times := f.times
		f.mu.Unlock()
		if err != nil {
			return err
		}
		begin()
		err = r.o.fs.Stat(r.path(i))
		if !errors.Is(err, fs.ErrNotExist) || !f.gone(times) {
			return err
		}
	}
}

// there makes the file if it is not there.
func (f *liveFile) there(r *running, i int32) error {
	if f.made {
		return nil
	}
	file, err := f.create(r, i)
	if err != nil {
		return err
	}
	return file.Close()
}

// gone reports whether the file has been renamed or removed more than so many times.
func (f *liveFile) gone(times int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.times > times
}

// away renames or removes the file. One that is not there any more, because another
// rank was faster, is made for it.
func (f *liveFile) away(r *running, i int32, how iotrace.Op, begin func()) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.there(r, i)
	if err != nil {
		return err
	}
	begin()
	if how == iotrace.Rename {
		err = r.o.fs.Rename(r.path(i), r.path(i)+renamedSuffix)
		f.renamed = f.renamed || err == nil
	} else {
		err = r.o.fs.Remove(r.path(i))
	}
	if err == nil {
		f.made = false
		f.times++
	}
	return err
}

// A handle is an open file. It is closed when those that use it have done so.
type handle struct {
	ready  chan struct{} // closed when it is open
	users  atomic.Int32
	idle   chan struct{} // closed when users is 0
	closes bool          // the trace closes it; else the end of the replay does
	openFile
	direct openFile // around the page cache, or nil
}

// done says that one of the users is done, and reports whether it was the last.
func (h *handle) done() bool {
	if h.users.Add(-1) > 0 {
		return false
	}
	close(h.idle)
	return true
}

// close closes the handle, once.
func (h *handle) close() error {
	var err error
	if h.direct != nil {
		err = h.direct.Close()
	}
	if h.openFile != nil {
		err = errors.Join(err, h.openFile.Close())
	}
	h.openFile, h.direct = nil, nil
	return err
}

// perform does one operation, takes its time and records it.
func (r *running) perform(ctx context.Context, i int32) (err error) {
	o := &r.p.ops[i]
	if o.opens {
		if _, err := r.openHandle(o, func() {}); err != nil {
			return r.failed(o, "open", err)
		}
		if err := r.offer(o); err != nil {
			return err
		}
		r.opens.Add(1)
	}
	begin := func() { r.begin(o) }
	created := false
	switch o.Op {
	case iotrace.Barrier:
		begin()
		if o.meeting != iotrace.None {
			if err := r.meeting[o.meeting].join(ctx); err != nil {
				return err
			}
		}
	case iotrace.Open:
		created, err = r.openHandle(o, begin)
	case iotrace.Stat:
		err = r.files[o.file].stat(r, o.file, begin)
	case iotrace.Rename, iotrace.Unlink:
		err = r.files[o.file].away(r, o.file, o.Op, begin)
	default:
		h := &r.handles[o.handle]
		if err := await(ctx, h.ready); err != nil {
			return err
		}
		if o.Op == iotrace.Close {
			if h.users.Load() > 0 {
				if err := await(ctx, h.idle); err != nil {
					return err
				}
			}
			begin()
			err = h.close()
			break
		}
		err = r.use(h, o, begin)
		if h.done() {
			r.over(h)
		}
	}
	if o.end = r.since(); err != nil {
		return r.failed(o, o.Op.String(), err)
	}
	r.record(o, created)
	if o.Op == iotrace.Open {
		return r.offer(o)
	}
	return nil
}

// begin takes the time at which an operation begins, and lets the rank go on if it
// only waits for that.
func (r *running) begin(o *op) {
	o.begin = r.since()
	if o.began != nil {
		close(o.began)
		o.began = nil
	}
}

// openHandle opens the file of an operation.
func (r *running) openHandle(o *op, begin func()) (created bool, err error) {
	h := &r.handles[o.handle]
	h.openFile, created, err = r.files[o.file].open(r, o.file, begin)
	return created, err
}

// offer lets others use a handle that was opened. What O_DIRECT takes to open is not
// counted: the trace opens once.
func (r *running) offer(o *op) error {
	h := &r.handles[o.handle]
	if r.o.Direct {
		f, ok := h.openFile.(directFile)
		if !ok {
			return r.failed(o, "open", ErrDirect)
		}
		var err error
		if h.direct, err = r.opened(f.Direct); err != nil {
			return r.failed(o, "open", err)
		}
	}
	unused := h.users.Load() == 0
	close(h.ready)
	if unused {
		r.over(h)
	}
	return nil
}

// use does what needs an open file.
func (r *running) use(h *handle, o *op, begin func()) error {
	f := h.openFile
	if h.direct != nil && o.Op.Data() && o.Offset%page == 0 && o.Bytes%page == 0 && o.Bytes > 0 {
		f = h.direct
		r.direct.Add(1)
	}
	begin()
	switch o.Op {
	case iotrace.Write:
		err := r.write(f, o.Bytes, o.Offset, o.Rank)
		o.moved = o.Bytes // or all has failed
		r.progress.add(o.Bytes)
		return err
	case iotrace.Read:
		n, err := r.read(f, o.Bytes, o.Offset)
		o.moved = n
		r.missed.Add(o.Bytes - n)
		r.progress.add(o.Bytes)
		return err
	case iotrace.Sync:
		return f.Sync()
	case iotrace.Seek:
		return f.SeekTo(o.Offset)
	case iotrace.Truncate:
		return f.Truncate(o.Bytes)
	}
	return nil
}

// failed names what failed.
func (r *running) failed(o *op, what string, err error) error {
	e := new(Error)
	if !errors.As(err, &e) {
		e = &Error{Op: what, Path: r.path(o.file), Offset: iotrace.None, Bytes: o.Bytes, Err: err}
		if o.Op.Data() && what == o.Op.String() {
			e.Offset = o.Offset
		}
	}
	e.Rank = r.p.ranks[o.Rank].Rank
	return e
}

func (r *running) record(o *op, created bool) {
	rec := r.o.Recorder
	if rec == nil {
		return
	}
	e := o.Event
	e.Rank, e.Create = r.recorded.ranks[o.Rank], created
	if o.Op.Data() {
		e.Bytes = o.moved
	}
	if o.file != iotrace.None {
		e.File = r.recorded.files[o.file]
	}
	base := rec.Since(r.start)
	e.Start, e.End = base+o.begin, base+o.end
	rec.Record(e)
}
