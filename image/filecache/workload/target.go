package workload

import (
	"context"
	"errors"
	"io"
	"path/filepath"

	"ckpt/image/filecache"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// A Target opens the file of a workload.
type Target struct {
	processes int
	open      func(ctx context.Context, name string, size int64, create bool) (*opened, error)
}

// opened is a file as all processes use it.
type opened struct {
	files []file // by process
	sync  func(ctx context.Context) error
	close func(ctx context.Context) error
	abort func() error
}

// file is a file as one process uses it.
type file interface {
	io.ReaderAt
	io.WriterAt
}

// Cached is the cache. The flags and the size of the options are those of the workload.
func Cached(c *filecache.Cache, opt filecache.Options) Target {
	return Target{len(opt.Processes), func(ctx context.Context, name string, size int64, create bool) (*opened, error) {
		opt := opt
		opt.Size, opt.Flags = size, 0
		if create {
			opt.Flags = filecache.Create
		}
		f, err := c.Open(ctx, name, opt)
		if err != nil {
			return nil, err
		}
		o := &opened{sync: f.Sync, close: f.Close, abort: f.Abandon}
		for i := range opt.Processes {
			o.files = append(o.files, f.Process(i))
		}
		return o, nil
	}}
}

// Plain is the file in the store, which each process opens for itself. With synced, each
// write is durable before the next one begins, as in the cache.
func Plain(s filecache.Store, processes int, synced bool) Target {
	return Target{processes, func(_ context.Context, name string, size int64, create bool) (*opened, error) {
		p := &plain{}
		if err := p.open(s, name, size, processes, create, synced); err != nil {
			return nil, errors.Join(err, p.abort())
		}
		o := &opened{sync: p.sync, abort: p.abort}
		o.close = func(ctx context.Context) error { return errors.Join(p.sync(ctx), p.abort()) }
		for _, f := range p.files {
			o.files = append(o.files, f)
		}
		return o, nil
	}}
}

type plain struct{ files []plainFile }

type plainFile struct {
	vfs.File
	synced bool
}

func (f plainFile) WriteAt(b []byte, off int64) (int, error) {
	n, err := f.File.WriteAt(b, off)
	if err == nil && f.synced {
		err = f.Sync()
	}
	return n, err
}

func (p *plain) open(s filecache.Store, name string, size int64, processes int, create, synced bool) error {
	path := filepath.Join(s.Dir, name)
	if create {
		if err := makeFile(s.FS, path, size); err != nil {
			return err
		}
	}
	for range processes {
		f, err := s.FS.OpenWrite(path)
		if err != nil {
			return durable.Op("open", path, -1, err)
		}
		p.files = append(p.files, plainFile{f, synced})
	}
	return nil
}

// makeFile makes a file of zeros.
func makeFile(fsys vfs.FS, path string, size int64) error {
	if err := durable.MkdirAll(fsys, filepath.Dir(path)); err != nil {
		return err
	}
	if err := durable.Remove(fsys, path); err != nil {
		return err
	}
	f, err := fsys.Create(path)
	if err != nil {
		return durable.Op("create", path, -1, err)
	}
	return errors.Join(durable.WriteAt(f, path, []byte{0}, size-1), f.Close())
}

func (p *plain) sync(context.Context) error {
	var errs []error
	for _, f := range p.files {
		errs = append(errs, f.Sync())
	}
	return errors.Join(errs...)
}

func (p *plain) abort() error {
	var errs []error
	for _, f := range p.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}
