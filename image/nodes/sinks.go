package nodes

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// ParityInfo describes a parity file that is durable.
type ParityInfo struct {
	Set   int `json:"set"`
	Index int `json:"index"` // position of its node in the set
	// Bytes is the length of the file, Digest the one of its header and checksums,
	// hexadecimal.
	Bytes  int64  `json:"bytes"`
	Digest string `json:"digest"`
}

// A Contributor takes what one member has for one holder of its set, in this process
// or another. Add may be called by several goroutines, in any order; it does not keep
// p, a part of one unit. It may report the error of another Add, of any member.
type Contributor interface {
	Add(off int64, p []byte) error
	// End says that the member's file is complete and size bytes long: what was not
	// added is zero. It returns when the parity of all members is durable.
	End(size int64) (ParityInfo, error)
	// Abort says that the member's file will not become complete. The parity file is
	// removed, and the other members' calls end with an error.
	Abort()
}

// Contribution is a Sink that gives the bytes of a member's file to the holders of
// its set.
type Contribution struct {
	layout  layout
	member  int
	holders []Contributor // by position

	mu    sync.Mutex
	files []ParityInfo
}

// Coded returns the Sink of a member of a set, given by its position. The holders are
// given by theirs: all of Holders.
func Coded(set Set, member int, holders map[int]Contributor) (*Contribution, error) {
	return coded(set, member, holders, UnitBytes)
}

func coded(set Set, member int, holders map[int]Contributor, unit int64) (*Contribution, error) {
	l, err := newLayout(set, unit)
	if err != nil {
		return nil, err
	}
	c := &Contribution{layout: l, member: member, holders: make([]Contributor, l.n)}
	for _, i := range set.Holders() {
		if c.holders[i] = holders[i]; c.holders[i] == nil {
			return nil, fmt.Errorf("set %d: member %d lacks holder %d of its parity (there are %v)", set.ID, member, i, slices.Sorted(maps.Keys(holders)))
		}
	}
	return c, nil
}

// WriteAt implements Sink.
func (c *Contribution) WriteAt(p []byte, off int64) (int, error) {
	done := 0
	for done < len(p) {
		at := off + int64(done)
		unit := at / c.layout.unit
		n := min(len(p)-done, int(c.layout.unit-at%c.layout.unit))
		row := c.layout.rowOf(c.member, unit)
		for j := range c.layout.m {
			if err := c.holders[c.layout.holder(row, j)].Add(at, p[done:done+n]); err != nil {
				return done, err
			}
		}
		done += n
	}
	return done, nil
}

// Finish implements Sink.
func (c *Contribution) Finish(size int64) error {
	var g errgroup.Group
	for _, h := range c.holders {
		g.Go(func() error {
			info, err := h.End(size)
			if err != nil {
				return err
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.files = append(c.files, info)
			return nil
		})
	}
	return g.Wait()
}

// Abort implements Sink.
func (c *Contribution) Abort() {
	for _, h := range c.holders {
		h.Abort()
	}
}

// Files returns the parity files that protect the member's file, once it is finished.
func (c *Contribution) Files() []ParityInfo {
	c.mu.Lock()
	defer c.mu.Unlock()
	files := slices.Clone(c.files)
	slices.SortFunc(files, func(a, b ParityInfo) int { return a.Index - b.Index })
	return files
}

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
	if err == nil && has != size {
		if terr := c.file.File().Truncate(size); !errors.Is(terr, errors.ErrUnsupported) {
			has, err = size, terr
		}
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
