package nodes

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// copier is a Sink that makes a copy of a file.
type copier struct {
	fs   vfs.FS
	path string

	use    sync.RWMutex // held to read by writes
	create sync.Once
	file   *vfs.Around
	err    error // of create, or why the copy is over
	closed bool
}

// Copy returns a Sink that makes a copy of a file: path, which must not exist, in the
// file system of a partner.
func Copy(fsys vfs.FS, path string) Sink { return &copier{fs: fsys, path: path} }

func (c *copier) open() error {
	c.create.Do(func() {
		if c.file, c.err = vfs.CreateAround(c.fs, c.path, false); c.err != nil {
			c.err = durable.Op("create", c.path, -1, c.err)
		}
	})
	return c.err
}

// WriteAt implements Sink.
func (c *copier) WriteAt(p []byte, off int64) (int, error) {
	c.use.RLock()
	defer c.use.RUnlock()
	if err := c.open(); err != nil {
		return 0, err
	}
	if err := durable.WriteAt(c.file, c.path, p, off); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Finish implements Sink.
func (c *copier) Finish(size int64) error {
	c.use.RLock()
	err := c.open()
	if err == nil {
		err = c.complete(size)
	}
	c.use.RUnlock()
	c.use.Lock()
	if err == nil && c.err == nil {
		err = durable.Op("close", c.path, -1, c.file.Close())
		c.closed = true
	}
	err = cmp.Or(c.err, err)
	c.use.Unlock()
	if err != nil {
		c.Abort()
	}
	return err
}

// complete makes the copy durable, and its name.
func (c *copier) complete(size int64) error {
	has, err := c.file.Size()
	if p, ok := c.file.File().(vfs.Preallocator); ok && err == nil && has != size {
		has, err = size, p.Truncate(size)
	}
	if err == nil && has != size {
		err = fmt.Errorf("copy is %d bytes long, the file %d", has, size)
	}
	if err == nil {
		err = c.file.Sync()
	}
	if err == nil {
		err = c.fs.SyncDir(filepath.Dir(c.path))
	}
	return durable.Op("sync", c.path, -1, err)
}

// Abort implements Sink.
func (c *copier) Abort() {
	c.use.Lock()
	defer c.use.Unlock()
	c.create.Do(func() {})
	if c.err == nil {
		c.err = durable.Op("write", c.path, -1, errors.New("aborted"))
	}
	if c.file != nil {
		// The first error is the one that counts.
		if !c.closed {
			_ = c.file.Close()
		}
		_ = durable.Remove(c.fs, c.path)
		c.file = nil
	}
}
