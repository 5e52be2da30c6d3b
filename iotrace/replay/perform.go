package replay

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"

	"ckpt/internal/vfs"
	"ckpt/iotrace"
)

// A liveFile is a planned file in the directory.
type liveFile struct {
	mu    sync.Mutex
	made  bool // it exists
	ever  bool // it existed once
	times int  // number of renamings and removals
	// name is the planned file whose name it has. Files exchange their names when one
	// takes the place of the other, so that each name is that of one file.
	name atomic.Int32
}

// create creates the file, which does not exist yet.
func (f *liveFile) create(r *running, i int32) (openFile, error) {
	file, err := r.opened(func() (openFile, error) { return asOpen(r.o.fs.Create(r.path(i))) })
	if err != nil {
		return nil, &Error{Op: "create", Path: r.path(i), Offset: iotrace.None, Rank: iotrace.None, Err: err}
	}
	f.made, f.ever = true, true
	return file, nil
}

// open opens the file, or creates it if it is missing; created tells which. It calls
// begin before each attempt.
func (f *liveFile) open(r *running, i int32, begin func()) (file openFile, created bool, err error) {
	for {
		begin()
		f.mu.Lock()
		if !f.made {
			defer f.mu.Unlock()
			file, err = f.create(r, i)
			return file, true, err
		}
		times, path := f.times, r.path(i)
		f.mu.Unlock()
		// Outside of the lock: ranks open a file at the same time.
		file, err = r.opened(func() (openFile, error) { return asOpen(r.o.fs.OpenWrite(path)) })
		if err == nil && r.path(i) != path { // it may be another one that has this name now
			if err := file.Close(); err != nil {
				return nil, false, err
			}
			continue
		}
		if !errors.Is(err, fs.ErrNotExist) || !f.gone(times) {
			return file, false, err
		}
	}
}

// stat looks at the file. It creates a missing file first.
func (f *liveFile) stat(r *running, i int32, begin func()) error {
	for {
		f.mu.Lock()
		err := f.there(r, i)
		times, path := f.times, r.path(i)
		f.mu.Unlock()
		if err != nil {
			return err
		}
		begin()
		_, err = r.o.fs.Stat(path)
		if !errors.Is(err, fs.ErrNotExist) || !f.gone(times) {
			return err
		}
	}
}

// there creates the file if it is missing.
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

// gone reports whether the file was renamed or removed more than times times.
func (f *liveFile) gone(times int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.times > times
}

// remove removes the file. If a faster rank has done so already, it creates the file
// first.
func (f *liveFile) remove(r *running, i int32, begin func()) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.there(r, i); err != nil {
		return err
	}
	begin()
	err := r.o.fs.Remove(r.path(i))
	if err == nil {
		f.made = false
		f.times++
	}
	return err
}

// rename gives file i the name of file to, which is replaced. If a faster rank has
// removed it, rename creates it first.
func (r *running) rename(i, to int32, begin func()) error {
	f, g := &r.files[i], &r.files[to]
	for _, k := range slices.Compact([]int32{min(i, to), max(i, to)}) { // in one order for all
		r.files[k].mu.Lock()
		defer r.files[k].mu.Unlock()
	}
	if err := f.there(r, i); err != nil {
		return err
	}
	begin()
	if err := r.o.fs.Rename(r.path(i), r.path(to)); err != nil || i == to {
		return err
	}
	f.name.Store(g.name.Swap(f.name.Load()))
	g.made = false
	f.times++
	g.times++
	return nil
}

// A handle is an open file. It is closed after its last user.
type handle struct {
	ready  chan struct{} // closed when it is open
	users  atomic.Int32
	idle   chan struct{} // closed when users is 0
	closes bool          // the trace closes it; else it stays open until the end
	openFile
	direct openFile // bypasses the page cache, or nil
}

// done removes a user, and reports whether it was the last.
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

// perform performs, times and records one operation.
func (r *running) perform(ctx context.Context, i int32, began chan<- struct{}) (err error) {
	o := r.p.op(i)
	handles := r.p.before[i]
	if o.opens {
		handles = []int32{o.handle}
	}
	for _, h := range handles {
		if err := r.openBeyond(o, h); err != nil {
			return err
		}
	}
	begin := func() {
		o.begin = r.since()
		if began != nil { // the rank waits only for the start
			close(began)
			began = nil
		}
	}
	created := false
	switch o.Op {
	case iotrace.Barrier:
		begin()
		if o.meeting != iotrace.None {
			if err := r.meeting[o.meeting].join(ctx); err != nil {
				return err
			}
		}
	case carried, exchanged:
		begin()
	case iotrace.Open:
		created, err = r.openHandle(o.handle, o.empties, begin)
	case iotrace.Stat:
		err = r.files[o.File].stat(r, o.File, begin)
	case iotrace.Rename:
		err = r.rename(o.File, o.Peer, begin)
	case iotrace.Unlink:
		err = r.files[o.File].remove(r, o.File, begin)
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
		return r.failed(o, o.File, o.Op.String(), err)
	}
	r.record(i, created)
	if o.Op == iotrace.Open {
		return r.offer(o, o.handle)
	}
	return nil
}

// openHandle opens the file of a handle, and empties it if it should.
func (r *running) openHandle(handle int32, empties bool, begin func()) (created bool, err error) {
	h, file := &r.handles[handle], r.p.handles[handle]
	h.openFile, created, err = r.files[file].open(r, file, begin)
	if err == nil && !created && empties {
		return true, h.openFile.Truncate(0)
	}
	return created, err
}

// openBeyond opens a handle for which the trace has no open, before an operation.
func (r *running) openBeyond(o op, handle int32) error {
	if _, err := r.openHandle(handle, false, func() {}); err != nil {
		return r.failed(o, r.p.handles[handle], "open", err)
	}
	r.opens.Add(1)
	return r.offer(o, handle)
}

// offer makes an opened handle available to others. Opening for O_DIRECT is not timed,
// because the trace opens once.
func (r *running) offer(o op, handle int32) error {
	h := &r.handles[handle]
	if r.o.Direct {
		var err error
		if h.direct, err = r.opened(func() (openFile, error) { return direct(h.openFile) }); err != nil {
			return r.failed(o, r.p.handles[handle], "open", err)
		}
	}
	unused := h.users.Load() == 0
	close(h.ready)
	if unused {
		r.over(h)
	}
	return nil
}

// use performs an operation on an open file.
func (r *running) use(h *handle, o op, begin func()) error {
	f := h.openFile
	if h.direct != nil && o.Op.Data() && o.Offset%page == 0 && o.Bytes%page == 0 && o.Bytes > 0 {
		f = h.direct
		r.direct.Add(1)
	}
	begin()
	switch o.Op {
	case iotrace.Write:
		err := r.write(f, o.Bytes, o.Offset, o.Rank)
		r.progress.add(o.Bytes)
		return err
	case iotrace.Read:
		n, err := r.read(f, o.Bytes, o.Offset)
		r.missed.Add(o.Bytes - n)
		r.progress.add(o.Bytes)
		if err == nil {
			o.Bytes = n // fewer at the end of a file
		}
		return err
	case iotrace.Sync:
		return f.Sync()
	case iotrace.Seek:
		_, err := f.Seek(o.Offset, io.SeekStart)
		return err
	case iotrace.Truncate:
		return f.Truncate(o.Bytes)
	}
	return nil
}

// failed adds the names of the rank and the file to an error.
func (r *running) failed(o op, file int32, what string, err error) error {
	e := new(Error)
	if !errors.As(err, &e) {
		e = &Error{Op: what, Path: r.path(file), Offset: iotrace.None, Bytes: o.Bytes, Err: err}
		if o.Op.Data() && what == o.Op.String() {
			e.Offset = o.Offset
		}
	}
	e.Rank = r.p.ranks[o.Rank].Rank
	return e
}

func (r *running) record(i int32, created bool) {
	rec, o := r.o.Recorder, r.p.op(i)
	if rec == nil || o.Op == carried {
		return
	}
	e := *o.Event
	e.Rank, e.Create = r.recorded.ranks[o.Rank], created
	if o.name != iotrace.None {
		e.File = r.recorded.files[o.name]
	}
	e.Peer = iotrace.None
	base := rec.Since(r.start)
	e.Start, e.End = base+o.begin, base+o.end
	if o.Op.Valid() {
		rec.Record(e)
	}
	if !renames(o.Event) || o.to == iotrace.None {
		return
	}
	n := iotrace.Renaming{From: e.File, To: r.recorded.files[o.to], At: e.End}
	rec.Renamed(n)
	if o.Op == exchanged {
		rec.Renamed(iotrace.Renaming{From: n.To, To: n.From, At: n.At})
		return
	}
	// The files below a directory are renamed when it is.
	for k := i + 1; int(k) < len(r.p.events) && r.p.events[k].Start == o.Start; k++ {
		if b := r.p.op(k); b.Op == carried && b.Rank == o.Rank {
			rec.Renamed(iotrace.Renaming{From: r.recorded.files[b.name], To: r.recorded.files[b.to], At: n.At})
		}
	}
}

// An openFile has what a replay needs of a file: single calls, as in the trace.
type openFile interface {
	vfs.File
	io.Seeker
}

// asOpen checks that a file can do all that.
func asOpen(f vfs.File, err error) (openFile, error) {
	if err != nil {
		return nil, err
	}
	if f, ok := f.(openFile); ok {
		return f, nil
	}
	return nil, errors.Join(errors.ErrUnsupported, f.Close())
}

// direct opens the same file with O_DIRECT.
func direct(f openFile) (openFile, error) {
	d, err := asOpen(f.ReopenDirect())
	if vfs.NotDirect(err) {
		err = ErrDirect
	}
	return d, err
}
