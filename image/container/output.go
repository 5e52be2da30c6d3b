package container

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"

	"ckpt/image/codec"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
	"ckpt/iotrace"

	"golang.org/x/sync/errgroup"
)

// An output is a container file that is being written, around the page cache where that works,
// by several goroutines.
type output struct {
	fs      vfs.FS
	path    string
	trace   tracer
	created bool // by us: it is removed if it cannot be completed
	file    *vfs.Around
	space   reservation
}

// createOutput creates a file that becomes no longer than limit; 0 if unknown.
func createOutput(fsys vfs.FS, path string, trace tracer, buffered bool, limit int64) (*output, error) {
	o := &output{fs: fsys, path: path, trace: trace, created: true}
	if err := o.open("create", vfs.CreateAround, buffered); err != nil {
		return nil, err
	}
	if limit > 0 {
		o.space.f, o.space.limit = o.file.File(), limit
	}
	return o, nil
}

// openOutput opens a file that several ranks fill.
func openOutput(fsys vfs.FS, path string, trace tracer, buffered bool) (*output, error) {
	o := &output{fs: fsys, path: path, trace: trace}
	return o, o.open("open", vfs.OpenAround, buffered)
}

func (o *output) open(op string, open func(vfs.FS, string, bool) (*vfs.Around, error), buffered bool) (err error) {
	start := o.trace.now()
	if o.file, err = open(o.fs, o.path, buffered); err != nil {
		return durable.Op(op, o.path, -1, err)
	}
	o.trace.opened(o.created, start)
	return nil
}

// direct reports whether the file goes around the page cache.
func (o *output) direct() bool { return o.file.Direct() }

// WriteAt implements io.WriterAt.
func (o *output) WriteAt(b []byte, off int64) (int, error) {
	o.space.reach(off + int64(len(b)))
	return o.file.WriteAt(b, off)
}

// write is WriteAt, recorded and with an error that names the file.
func (o *output) write(b []byte, off int64) error {
	start := o.trace.now()
	n, err := o.WriteAt(b, off)
	o.trace.record(iotrace.Write, 0, off, int64(n), start)
	if err == nil && n != len(b) {
		err = io.ErrShortWrite
	}
	return durable.Op("write", o.path, off, err)
}

// complete writes the tail of a file whose header and payload are there, and checks its length.
func (o *output) complete(tail []byte, t trailer) error {
	if err := o.write(tail, t.indexOffset); err != nil {
		return err
	}
	if err := o.space.release(t.fileLen); err != nil {
		return durable.Op("write", o.path, -1, err)
	}
	size, err := o.file.Size()
	if err == nil && size != t.fileLen {
		err = fmt.Errorf("file is %d bytes long after writing %d", size, t.fileLen)
	}
	return durable.Op("write", o.path, -1, err)
}

// sync makes the file durable, but not its name.
func (o *output) sync() error {
	start := o.trace.now()
	if err := o.file.Sync(); err != nil {
		return durable.Op("sync", o.path, -1, err)
	}
	o.trace.record(iotrace.Sync, 0, iotrace.None, 0, start)
	return nil
}

// close closes the file, and removes it after an error if we made it.
func (o *output) close(err error) error {
	start := o.trace.now()
	cerr := durable.Op("close", o.path, -1, o.file.Close())
	o.trace.record(iotrace.Close, 0, iotrace.None, 0, start)
	if err == nil {
		err = cerr
	}
	if err == nil || !o.created {
		return err
	}
	if rerr := o.remove(); rerr != nil {
		err = fmt.Errorf("%w; then %w", err, rerr)
	}
	return err
}

func (o *output) remove() error {
	if err := o.fs.Remove(o.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return durable.Op("remove", o.path, -1, err)
	}
	return nil
}

// discard closes and removes the file, whatever closing it would say.
func (o *output) discard() error {
	_ = o.close(nil)
	return o.remove()
}

// A reservation takes free space ahead of the writes, a little at a time: space that one rank
// takes in vain another lacks.
type reservation struct {
	mu    sync.Mutex
	f     vfs.File // nil if the file has no such ability
	full  bool     // no more is to be had
	taken int64
	limit int64 // of the length of the file
}

// Space is reserved from reserveFrom bytes on, a quarter of what has been written, within
// bounds: each time, the writes under way are waited for.
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
	if err := r.f.Preallocate(size); err != nil {
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
	if err := r.f.Truncate(length); !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return nil // a file that is too long is found by its size
}

// capture copies extents into the staging memory, from the last chunk down while there is
// space: chunks are written in order, so those without a copy are dealt with first. Zeros take
// no space.
func (w *writer) capture() {
	w.copies = make([][]byte, len(w.index.extents))
	need := make([]int64, len(w.chunks))
	w.eachChunk(0, func(i int) { need[i] = w.findZeros(w.chunks[i]) })
	w.live = len(w.chunks)
	at := make([]int64, len(w.chunks))
	for used := int64(0); w.live > 0; w.live-- {
		n := need[w.live-1]
		if n > int64(len(w.opt.Staging.mem))-used {
			break
		}
		at[w.live-1] = used
		used += n
	}
	w.eachChunk(w.live, func(i int) { w.copyChunk(w.chunks[i], w.opt.Staging.mem[at[i]:]) })
	w.remaining.Store(int64(w.live))
	w.gone(0)
}

// eachChunk does something for the chunks from first on, some at the same time.
func (w *writer) eachChunk(first int, do func(i int)) {
	var g errgroup.Group
	g.SetLimit(w.opt.Depth)
	for i := first; i < len(w.chunks); i++ {
		g.Go(func() error {
			do(i)
			return nil
		})
	}
	_ = g.Wait()
}

// findZeros marks the zero extents of a chunk and returns the length of the others.
func (w *writer) findZeros(c chunk) (n int64) {
	for i := c.first; i < c.last; i++ {
		if mem := w.memory(i); codec.IsZero(mem) {
			w.copies[i] = zeros
		} else {
			n += int64(len(mem))
		}
	}
	return n
}

// copyChunk copies the other extents of a chunk, adjoining ones at once: from 1 MiB on, copy
// goes around the processor's caches, which spares reading what is overwritten.
func (w *writer) copyChunk(c chunk, to []byte) {
	var run []byte // memory to copy
	first := c.first
	flush := func(end int) {
		if len(run) == 0 {
			return
		}
		copy(to, run)
		for i := first; i < end; i++ {
			n := w.index.extents[i].rawLen
			w.copies[i], to = to[:n], to[n:]
		}
		run = nil
	}
	for i := c.first; i < c.last; i++ {
		mem := w.memory(i)
		switch {
		case len(mem) == 0:
			flush(i)
		case continues(run, mem):
			run = run[:len(run)+len(mem)]
		default:
			flush(i)
			run, first = mem, i
		}
	}
	flush(c.last)
}

// zeros stands for a copy of an extent of zeros.
var zeros = []byte{}

// memory returns the bytes of an extent: its copy, or the program's; zeros may be empty.
func (w *writer) memory(i int) []byte {
	if w.copies != nil && w.copies[i] != nil {
		return w.copies[i]
	}
	rec := &w.index.extents[i]
	if w.settled(i) {
		return zeros
	}
	return w.regions[rec.region].Mem[rec.offset : rec.offset+rec.rawLen]
}

// gone notes that n chunks of the program's memory are dealt with, and tells when it may go on.
func (w *writer) gone(n int64) {
	if w.remaining.Add(-n) == 0 && w.opt.Captured != nil && w.told.CompareAndSwap(false, true) {
		w.opt.Captured()
	}
}

// settled reports whether an extent needs no memory: it is zero, or stored elsewhere.
func (w *writer) settled(i int) bool {
	return w.index.extents[i].codec == codecZero || w.holders[i] != nil
}
