package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"ckpt/internal/vfs"
	"ckpt/iotrace"
)

// Options control a replay. Dir is required.
type Options struct {
	// Dir is the directory of the files. It is created if necessary; its parent must
	// exist.
	Dir string
	// Ranks is the number of ranks; 0 is as in the trace.
	Ranks int
	// Bytes is the number of bytes that all ranks write; 0 is what the trace writes,
	// for that number of ranks. AtMost, if not 0, bounds it, and so does half of the
	// free space.
	Bytes, AtMost int64
	// ScaleBytes multiplies all offsets and lengths; 0 is 1. Not together with Bytes.
	ScaleBytes float64
	// Layout decides which files the writes go to; by default as in the trace.
	Layout Layout
	// Aggregators is the number of writers for the layout Aggregated; 0 is one for
	// each node.
	Aggregators int
	// KeepGaps keeps the time between the operations of a rank. Without it they follow
	// each other at once.
	KeepGaps bool
	// Direct bypasses the page cache for page-aligned requests.
	Direct bool
	// Overwrite replaces existing files. They are removed at the end like the others.
	Overwrite bool
	// Keep keeps the files.
	Keep bool
	// Consume allows Run to overwrite the events of the trace. It spares a copy.
	Consume bool
	// Seed of the bytes that are written.
	Seed uint64

	// Recorder, if not nil, records the replay like the trace, with the names of the
	// files in Dir. It does not record preparations, nor opens and removals that the
	// trace does not have.
	Recorder *iotrace.Recorder
	// Progress, if not nil, is called with the bytes moved so far and in all,
	// preparations included. Calls do not overlap.
	Progress func(done, total int64)
	// Planned, if not nil, is called before the first file is made. Planning takes
	// seconds for a large trace.
	Planned func()

	fs    vfs.FS // replaced in tests
	clock clock  // likewise
}

// Run replays a valid trace. The result is complete only without an error. Run removes
// its files in either case.
func Run(ctx context.Context, t *iotrace.Trace, o Options) (*Result, error) {
	p, res, err := prepared(ctx, t, &o)
	if err != nil {
		return nil, err
	}
	r := newRunning(p, &o)
	if o.Planned != nil {
		o.Planned()
	}
	madeDir, err := r.directory()
	if err == nil {
		err = r.fits()
	}
	if err == nil {
		err = r.prepare(ctx)
	}
	if err == nil {
		err = r.run(ctx)
	}
	err = errors.Join(err, r.close())
	if o.Keep && err == nil {
		err = r.settle()
	}
	if !o.Keep {
		err = errors.Join(err, r.remove(madeDir))
	}
	if err != nil {
		return nil, err
	}
	res.measured(r)
	return res, nil
}

// volume returns the bytes that a replay moves to prepare, write and read.
func (p *plan) volume() (sum int64) {
	for i := range p.events {
		if e := &p.events[i]; e.Op.Data() {
			sum += e.Bytes
		}
	}
	for _, f := range p.files {
		for _, x := range f.fill {
			sum += x.end - x.off
		}
	}
	return sum
}

// prepared checks the options and plans the replay.
func prepared(ctx context.Context, t *iotrace.Trace, o *Options) (*plan, *Result, error) {
	switch {
	case o.Dir == "":
		return nil, nil, optionError("the directory of the replay has no name")
	case o.Ranks < 0:
		return nil, nil, optionError("%d ranks: at least one is needed", o.Ranks)
	}
	if o.Layout == "" {
		o.Layout = Traced
	}
	if o.fs == nil {
		o.fs = vfs.OS{}
	}
	if o.clock == nil {
		o.clock = systemClock{}
	}
	chosen, left, err := choose(ctx, t, o.Consume)
	if err != nil {
		return nil, nil, err
	}
	if len(chosen.Events) == 0 {
		return nil, nil, optionError("the trace has no operations on files")
	}
	// The times are taken now: the next steps may overwrite the events.
	res := new(Result)
	res.traced(chosen)
	scaled, err := scale(ctx, chosen, o.Ranks)
	if err != nil {
		return nil, nil, err
	}
	if o.ScaleBytes != 0 {
		if err := scaleBytes(scaled, o.ScaleBytes); err != nil {
			return nil, nil, err
		}
	}
	if err := o.resize(scaled); err != nil {
		return nil, nil, err
	}
	laid, err := relayout(scaled, o.Layout, o.Aggregators, left)
	if err != nil {
		return nil, nil, err
	}
	if len(laid.Events) == 0 {
		return nil, nil, optionError("nothing of the trace is left for %d ranks", o.Ranks)
	}
	p, err := newPlan(ctx, laid)
	if err != nil {
		return nil, nil, err
	}
	res.Dir, res.Wanted, res.Layout, res.Direct, res.Gaps = o.Dir, o.Bytes, o.Layout, o.Direct, o.KeepGaps
	res.LeftOut, res.RefusedBarriers = left.list(), p.refused
	return p, res, nil
}

// resize gives the trace the bytes that the options ask for, as far as they may be
// written.
func (o *Options) resize(t *iotrace.Trace) error {
	switch {
	case o.Bytes < 0 || o.AtMost < 0:
		return optionError("%d bytes, at most %d: want positive numbers", o.Bytes, o.AtMost)
	case o.Bytes != 0 && o.ScaleBytes != 0:
		return optionError("a number of bytes and a factor for them are given: give only one of the two")
	case o.Bytes == 0 && o.AtMost == 0:
		return nil
	case o.Bytes == 0:
		o.Bytes = volumeOf(t)
	}
	bytes := o.Bytes
	if o.AtMost > 0 {
		bytes = min(bytes, o.AtMost)
		dir := o.Dir
		if _, err := o.fs.Stat(dir); err != nil {
			dir = filepath.Dir(dir) // which must exist
		}
		free, err := o.fs.Free(dir)
		if err != nil {
			return err
		}
		bytes = min(bytes, max(1, free/2))
	}
	return resize(t, bytes)
}

// directory creates the directory if necessary, and reports whether it did.
func (r *running) directory() (bool, error) {
	_, err := r.o.fs.Stat(r.o.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err = r.o.fs.Mkdir(r.o.Dir); err == nil {
			return true, nil
		}
	}
	if err != nil {
		return false, &Error{Op: "make", Path: r.o.Dir, Offset: iotrace.None, Rank: iotrace.None, Err: err}
	}
	return false, nil
}

// prepare checks that no file is in the way, and creates the files that must exist.
func (r *running) prepare(ctx context.Context) error {
	for i := range r.p.files {
		name := r.path(int32(i))
		fi, err := r.o.fs.Stat(name)
		switch {
		case err == nil && (!r.o.Overwrite || fi.IsDir()):
			err = fs.ErrExist
		case r.o.Overwrite: // a link to nothing, too
			err = r.o.fs.Remove(name)
		}
		err = notThere(err)
		if err != nil {
			return &Error{Op: "create", Path: name, Offset: iotrace.None, Rank: iotrace.None, Err: err}
		}
	}
	for i := range r.p.files {
		if !r.p.files[i].prepared {
			continue
		}
		if err := r.prepareFile(ctx, int32(i)); err != nil {
			return err
		}
	}
	return nil
}

// fillChunk is the size of a write that prepares a file.
const fillChunk = 4 << 20

// prepareFile creates a file with the bytes that the trace reads.
func (r *running) prepareFile(ctx context.Context, i int32) (err error) {
	x := &r.p.files[i]
	f, err := r.files[i].create(r, i)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for _, e := range x.fill {
		for off := e.off; off < e.end; off += fillChunk {
			if err := ctx.Err(); err != nil {
				return err
			}
			n := min(fillChunk, e.end-off)
			if err := r.write(f, n, off, 0); err != nil {
				return &Error{Op: "prepare", Path: r.path(i), Offset: off, Bytes: n, Rank: iotrace.None, Err: err}
			}
			r.progress.add(n)
		}
		r.preparedBytes += e.end - e.off
	}
	if len(x.fill) == 0 {
		return nil
	}
	// Reads should come from the disk, as far as the system allows.
	if err := f.Sync(); err != nil {
		return &Error{Op: "prepare", Path: r.path(i), Offset: iotrace.None, Rank: iotrace.None, Err: err}
	}
	_ = f.Forget()
	return nil
}

// path returns the path of a planned file now.
func (r *running) path(i int32) string {
	return filepath.Join(r.o.Dir, r.p.files[r.files[i].name.Load()].name)
}

// settle gives the files that are kept their last names in the trace.
func (r *running) settle() error {
	type naming struct{ from, to string }
	var first, then []naming
	for name, i := range r.p.last {
		if i == iotrace.None || !r.files[i].made {
			continue
		}
		from, to := r.path(i), filepath.Join(r.o.Dir, r.p.names[name])
		if from == to {
			continue
		}
		// Two may have each other's name.
		between := to + "~last"
		first, then = append(first, naming{from, between}), append(then, naming{between, to})
	}
	for _, n := range append(first, then...) {
		if err := r.o.fs.Rename(n.from, n.to); err != nil {
			return &Error{Op: "rename", Path: n.from, Offset: iotrace.None, Rank: iotrace.None, Err: err}
		}
	}
	return nil
}

// remove removes the files of the replay.
func (r *running) remove(dir bool) error {
	var failed error
	for i := range r.files {
		if r.files[i].ever {
			failed = errors.Join(failed, notThere(r.o.fs.Remove(r.path(int32(i)))))
		}
	}
	if dir {
		failed = errors.Join(failed, r.o.fs.Remove(r.o.Dir))
	}
	if failed != nil {
		return fmt.Errorf("not all files of the replay were removed: %w", failed)
	}
	return nil
}

// notThere drops the error of removing a missing file.
func notThere(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// write writes noise that differs from rank to rank.
func (r *running) write(f openFile, n, off int64, rank int32) error {
	done, err := whole(n, off, func(done, k int64) [][]byte { return r.noise.bytes(k, uint64(rank)<<40^uint64(off+done)) }, f.WriteV)
	if err == nil && done < n {
		err = io.ErrShortWrite
	}
	return err
}

// read reads into scratch memory, and returns the number of bytes found.
func (r *running) read(f openFile, n, off int64) (int64, error) {
	b := r.scratch.Get().(*[]byte)
	defer r.scratch.Put(b)
	return whole(n, off, func(_, k int64) [][]byte { return around(*b, 0, k) }, f.ReadV)
}

// maxCall is the most bytes that a call moves (Linux: MAX_RW_COUNT).
const maxCall = 1<<31 - page

// whole moves n bytes in one call, or in more calls if the system moves less. buffers
// returns the buffers for k bytes from done on. At the end of a file whole moves less.
func whole(n, off int64, buffers func(done, k int64) [][]byte, call func([][]byte, int64) (int64, error)) (done int64, err error) {
	for {
		moved, err := call(buffers(done, min(n-done, maxCall)), off+done)
		done += moved
		if err != nil || moved == 0 || done >= n {
			return done, err
		}
	}
}

// since returns the time since the replay began.
func (r *running) since() int64 { return int64(r.o.clock.Now().Sub(r.start)) }
