package benchmarks

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"

	"golang.org/x/sync/errgroup"

	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// A probeFile is one that is probed.
type probeFile struct {
	vfs.File
	name     string
	buffered bool
}

func (r *probing) name() string {
	r.files++
	return filepath.Join(r.dir, fmt.Sprint(r.files))
}

// open creates a file, or opens one that is there for writing.
func (r *probing) open(name string, create, direct bool) (*probeFile, error) {
	buffered, around := vfs.Opener(vfs.FS.OpenWrite), vfs.Opener(vfs.FS.OpenWriteDirect)
	if create {
		buffered, around = vfs.FS.Create, vfs.FS.CreateDirect
	}
	open := buffered
	if direct {
		open = around
	}
	f, err := open(r.fs, name)
	if err != nil {
		return nil, durable.Op("open", name, -1, err)
	}
	return &probeFile{f, name, !direct}, nil
}

// write writes a request, and has the disk begin with what went to the page cache, as
// package container does.
func (f *probeFile) write(b []byte, off int64) error {
	if _, err := f.WriteAt(b, off); err != nil {
		return durable.Op("write", f.name, off, err)
	}
	if f.buffered {
		_ = f.Flush(off, int64(len(b))) // only a hint
	}
	return nil
}

func (f *probeFile) sync() error { return durable.Op("sync", f.name, -1, f.Sync()) }

// closed closes a file after an error, which may be nil.
func (r *probing) closed(f *probeFile, err error) error {
	if cerr := f.Close(); err == nil {
		err = durable.Op("close", f.name, -1, cerr)
	}
	return err
}

// cleared removes all files of a probe, after an error, which may be nil.
func (r *probing) cleared(err error) error {
	entries, lerr := r.fs.ReadDir(r.dir)
	if err == nil {
		err = durable.Op("list", r.dir, -1, lerr)
	}
	for _, e := range entries {
		if rerr := r.remove(filepath.Join(r.dir, e.Name())); err == nil {
			err = rerr
		}
	}
	return err
}

// probe measures once, and removes the files outside of the time.
func (r *probing) probe(p *probe) error {
	err := r.ctx.Err()
	seconds := 0.0
	if err == nil {
		seconds, err = r.measure(p)
	}
	if err = r.cleared(err); err != nil {
		return err
	}
	p.Seconds = append(p.Seconds, seconds)
	r.res.Written += p.Bytes()
	return nil
}

// measure returns the time that the writers of a probe take together.
func (r *probing) measure(p *probe) (seconds float64, err error) {
	job, err := r.prepare(p)
	if err != nil {
		return 0, err
	}
	var ready sync.WaitGroup
	start := make(chan struct{})
	var g errgroup.Group
	for w := range p.Writers {
		ready.Add(1)
		g.Go(func() error {
			ready.Done()
			<-start
			return job(w)
		})
	}
	ready.Wait()
	begin := r.now()
	close(start)
	err = g.Wait()
	return r.now().Sub(begin).Seconds(), err
}

// prepare does what is not measured, and returns what each writer then does.
func (r *probing) prepare(p *probe) (func(writer int) error, error) {
	switch p.Kind {
	case probeWrite:
		return r.prepareWrite(p)
	case probeSync:
		return r.prepareSync(p)
	}
	return r.prepareNames(p)
}

func (r *probing) prepareWrite(p *probe) (func(int) error, error) {
	names := make([]string, p.Writers)
	for w := range names {
		names[w] = r.name()
		if p.Shared {
			names[w] = names[0]
		}
	}
	if p.Shared {
		f, err := r.open(names[0], true, false)
		if err == nil {
			err = r.closed(f, nil)
		}
		if err != nil {
			return nil, err
		}
	}
	return func(w int) error {
		f, err := r.open(names[w], !p.Shared, p.Direct)
		if err != nil {
			return err
		}
		if err = r.requests(p, f, w); err == nil {
			err = f.sync()
		}
		return r.closed(f, err)
	}, nil
}

// requests writes what one writer has. Each has a part of a shared file.
func (r *probing) requests(p *probe, f *probeFile, w int) error {
	var g errgroup.Group
	g.SetLimit(p.Depth)
	for k := range p.Requests {
		if err := r.ctx.Err(); err != nil {
			return errors.Join(err, g.Wait())
		}
		at := int64(k)
		if p.Shared {
			at = int64(w*p.Requests + k)
		}
		from := (int64(w*p.Requests+k) * p.Request) % (int64(len(r.data)) - p.Request + 1) &^ (vfs.DirectUnit - 1)
		g.Go(func() error { return f.write(r.data[from:from+p.Request], at*p.Request) })
	}
	return g.Wait()
}

// prepareSync makes the files that are synced.
func (r *probing) prepareSync(p *probe) (func(int) error, error) {
	names := make([]string, p.Writers)
	for w := range names {
		names[w] = r.name()
		f, err := r.open(names[w], true, false)
		if err != nil {
			return nil, err
		}
		if err = f.write(r.data[:p.Request], 0); err == nil {
			err = f.sync()
		}
		if err = r.closed(f, err); err != nil {
			return nil, err
		}
	}
	return func(w int) error {
		f, err := r.open(names[w], false, false)
		if err != nil {
			return err
		}
		for k := 0; k < p.Requests && err == nil; k++ {
			// A longer file has to sync its length, too, as a checkpoint does.
			if err = f.write(r.data[:p.Request], int64(k+1)*p.Request); err == nil {
				err = f.sync()
			}
		}
		return r.closed(f, err)
	}, nil
}

// prepareNames makes the files that are renamed or removed.
func (r *probing) prepareNames(p *probe) (func(int) error, error) {
	names := make([][]string, p.Writers)
	for w := range names {
		for range p.Requests {
			name := r.name()
			names[w] = append(names[w], name)
			if p.Kind == probeCreate || p.Kind == probeSyncDir {
				continue
			}
			if err := r.create(name); err != nil {
				return nil, err
			}
		}
	}
	return func(w int) error {
		for _, name := range names[w] {
			if err := r.names(p.Kind, name); err != nil {
				return err
			}
		}
		return r.ctx.Err()
	}, nil
}

func (r *probing) create(name string) error {
	f, err := r.open(name, true, false)
	if err != nil {
		return err
	}
	return r.closed(f, nil)
}

// names does what a kind of probe does with one name.
func (r *probing) names(kind probeKind, name string) error {
	switch kind {
	case probeCreate:
		return r.create(name)
	case probeRename:
		return durable.Op("rename", name, -1, r.fs.Rename(name, name+"r"))
	case probeSyncDir:
		if err := r.create(name); err != nil {
			return err
		}
		return durable.Op("sync", r.dir, -1, r.fs.SyncDir(r.dir))
	}
	if err := r.fs.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return durable.Op("remove", name, -1, err)
	}
	return nil
}
