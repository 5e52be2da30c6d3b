package mount

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"ckpt/image"
	"ckpt/zones/global"
)

// BrowseOptions are the settings of Browse.
type BrowseOptions struct {
	// Log gets a line for each read that fails.
	Log func(line string)
	// Blocks, unless nil, tells which arrays ranks hold in blocks that the manifest does not speak
	// of, and where.
	Blocks func(*image.Job, *image.Manifest) (names []string, held func(name string) ([]global.Held, error))
}

// Browse mounts a store for reading.
func Browse(store *image.Store, dir string, o BrowseOptions) (*Mount, error) {
	if _, err := os.Stat(store.Dir()); err == nil { // and no object storage
		if err := apart(store.Dir(), dir); err != nil {
			return nil, err
		}
	}
	b := &browser{store: store, o: o}
	options := &fs.Options{}
	options.Options = []string{"ro"}
	options.DisableXAttrs = true
	return mount(&directory{b: b, of: jobs{b}}, dir, store.Dir(), options)
}

type browser struct {
	store *image.Store
	o     BrowseOptions

	mu   sync.Mutex
	last string // line of the log
}

// errno says why something failed: to the program by a number, to the user by a line unless the
// number says it all.
func (b *browser) errno(what string, err error) syscall.Errno {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, iofs.ErrNotExist), errors.Is(err, image.ErrJobNotFound), errors.Is(err, image.ErrCheckpointNotFound):
		return syscall.ENOENT
	case errors.Is(err, iofs.ErrPermission):
		return syscall.EACCES
	}
	line := fmt.Sprintf("%s: %v", what, err)
	b.mu.Lock()
	repeated := b.last == line // the kernel asks again
	b.last = line
	b.mu.Unlock()
	if !repeated && b.o.Log != nil {
		b.o.Log(line)
	}
	return syscall.EIO
}

// A listing is the contents of a directory.
type listing interface {
	path() string
	names() ([]fuse.DirEntry, error)
	child(name string) (child, error)
}

// A child is what a name stands for. The kernel asks again after a time, and gets the same inode
// if the stamp is the same.
type child struct {
	node  fs.InodeEmbedder
	mode  uint32
	stamp string
	lasts time.Duration
}

// Names of checkpoints and jobs are looked at again, for they may be pruned; what is below a
// checkpoint never changes.
const (
	changes = time.Second
	stays   = time.Hour
)

// A directory is a node that lists.
type directory struct {
	fs.Inode
	b     *browser
	of    listing
	stamp string
}

func (d *directory) stamped() string { return d.stamp }

func (d *directory) Readdir(context.Context) (fs.DirStream, syscall.Errno) {
	list, err := d.of.names()
	if err != nil {
		return nil, d.b.errno(d.of.path(), err)
	}
	return stream(list), 0
}

func (d *directory) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode = 0o555
	return 0
}

func (d *directory) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	c, err := d.of.child(name)
	if err != nil {
		return nil, d.b.errno(d.of.path()+name, err)
	}
	out.SetEntryTimeout(c.lasts)
	out.SetAttrTimeout(c.lasts)
	old := d.GetChild(name)
	if old != nil {
		if s, ok := old.Operations().(interface{ stamped() string }); ok && s.stamped() == c.stamp {
			c.node = old.Operations()
		} else {
			old = nil
		}
	}
	switch n := c.node.(type) {
	case *file:
		n.attr(&out.Attr)
	case *directory:
		out.Mode = 0o555
	}
	if old != nil {
		return old, 0
	}
	return d.NewInode(ctx, c.node, fs.StableAttr{Mode: c.mode}), 0
}

func (b *browser) dir(of listing, stamp string) child {
	return child{&directory{b: b, of: of, stamp: stamp}, fuse.S_IFDIR, stamp, changes}
}

// jobs are the root.
type jobs struct{ b *browser }

func (jobs) path() string { return "" }

func (l jobs) names() (list []fuse.DirEntry, err error) {
	names, err := l.b.store.Jobs()
	for _, name := range names {
		list = append(list, entry(name, fuse.S_IFDIR))
	}
	return list, err
}

func (l jobs) child(name string) (child, error) {
	if _, err := l.b.store.Job(name); err != nil {
		return child{}, err
	}
	return l.b.dir(numbers{l.b, name}, ""), nil
}

// numbers are the checkpoints of a job.
type numbers struct {
	b    *browser
	name string
}

const latest = "latest"

func (l numbers) path() string { return l.name + "/" }

func (l numbers) names() (list []fuse.DirEntry, err error) {
	job, err := l.b.store.Job(l.name)
	if err != nil {
		return nil, err
	}
	all, err := job.Checkpoints()
	for _, n := range all {
		list = append(list, entry(strconv.Itoa(n), fuse.S_IFDIR))
	}
	if len(all) > 0 {
		list = append(list, entry(latest, fuse.S_IFLNK))
	}
	return list, err
}

func (l numbers) child(name string) (child, error) {
	job, err := l.b.store.Job(l.name)
	if err != nil {
		return child{}, err
	}
	if name == latest {
		n, err := job.Latest()
		if err == nil && n == 0 {
			err = image.ErrCheckpointNotFound
		}
		return child{&fs.MemSymlink{Data: []byte(strconv.Itoa(n))}, fuse.S_IFLNK, "", 0}, err
	}
	n, err := strconv.Atoi(name)
	if err != nil || strconv.Itoa(n) != name || n < 1 {
		return child{}, image.ErrCheckpointNotFound
	}
	stamp, err := job.Stamp(n)
	if err != nil {
		return child{}, err
	}
	return l.b.dir(&checkpoint{b: l.b, job: job, number: n}, stamp), nil
}

// A checkpoint reads its manifest when it is looked into.
type checkpoint struct {
	b      *browser
	job    *image.Job
	number int

	mu     sync.Mutex
	m      *image.Manifest
	arrays map[int]map[string]image.Array // by rank, then by name of the file
	global map[string]*image.GlobalArray  // by name of the file
}

func (c *checkpoint) path() string { return fmt.Sprintf("%s/%d/", c.job.Name(), c.number) }

func (c *checkpoint) manifest() (*image.Manifest, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m != nil {
		return c.m, nil
	}
	m, err := c.job.Manifest(c.number)
	c.m = m
	return m, err
}

const (
	manifestName = "manifest.json"
	globalName   = "global"
	rankPrefix   = "rank-"
	suffix       = ".npy"
)

func (c *checkpoint) names() ([]fuse.DirEntry, error) {
	m, err := c.manifest()
	if err != nil {
		return nil, err
	}
	list := []fuse.DirEntry{entry(manifestName, fuse.S_IFREG), entry(globalName, fuse.S_IFDIR)}
	for i := range m.Ranks {
		list = append(list, entry(rankPrefix+strconv.Itoa(m.Ranks[i].Rank), fuse.S_IFDIR))
	}
	return list, nil
}

func (c *checkpoint) child(name string) (child, error) {
	m, err := c.manifest()
	if err != nil {
		return child{}, err
	}
	switch {
	case name == manifestName:
		text, err := json.MarshalIndent(m, "", "  ")
		if err != nil {
			return child{}, err
		}
		return c.file(name, append(text, '\n'), 0, nil), nil
	case name == globalName:
		return c.dir(globals{c}), nil
	}
	for i := range m.Ranks {
		if rank := m.Ranks[i].Rank; name == rankPrefix+strconv.Itoa(rank) {
			return c.dir(regions{c, rank}), nil
		}
	}
	return child{}, iofs.ErrNotExist
}

func (c *checkpoint) dir(of listing) child {
	made := c.b.dir(of, "")
	made.lasts = stays
	return made
}

func (c *checkpoint) file(name string, head []byte, bytes int64, open func() (*image.ArrayReader, error)) child {
	f := &file{b: c.b, path: c.path() + name, head: head, bytes: bytes, open: open, time: c.m.Created}
	return child{f, fuse.S_IFREG, "", stays}
}

// regions are the arrays of a rank.
type regions struct {
	c    *checkpoint
	rank int
}

func (l regions) path() string { return fmt.Sprintf("%s%s%d/", l.c.path(), rankPrefix, l.rank) }

func (l regions) arrays() (map[string]image.Array, error) {
	c := l.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if found, ok := c.arrays[l.rank]; ok {
		return found, nil
	}
	list, err := c.job.Arrays(c.m, l.rank)
	if err != nil {
		return nil, err
	}
	found := make(map[string]image.Array)
	for _, a := range list {
		name := escape(a.Name) + suffix
		if _, taken := found[name]; !taken && len(name) < 256 {
			found[name] = a
		}
	}
	if c.arrays == nil {
		c.arrays = make(map[int]map[string]image.Array)
	}
	c.arrays[l.rank] = found
	return found, nil
}

func (l regions) names() ([]fuse.DirEntry, error) { return files(l.arrays()) }

func (l regions) child(name string) (child, error) {
	arrays, err := l.arrays()
	if err != nil {
		return child{}, err
	}
	a, ok := arrays[name]
	if !ok {
		return child{}, iofs.ErrNotExist
	}
	shape, elem := image.Vector(a.Elem, a.Bytes)
	c := l.c
	return c.file(strings.TrimPrefix(l.path(), c.path())+name, image.NPYHeader(elem, shape), a.Bytes,
		func() (*image.ArrayReader, error) { return c.job.OpenArray(c.m, a) }), nil
}

// globals are the arrays of all ranks.
type globals struct{ c *checkpoint }

func (l globals) path() string { return l.c.path() + globalName + "/" }

// arrays finds all of them. An array that is not whole is left out, as in a checkpoint of a group.
func (l globals) arrays() (map[string]*image.GlobalArray, error) {
	c := l.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.global != nil {
		return c.global, nil
	}
	names := c.m.GlobalNames()
	var held func(string) ([]global.Held, error)
	if c.b.o.Blocks != nil {
		var more []string
		more, held = c.b.o.Blocks(c.job, c.m)
		names = append(names, more...)
	}
	found := make(map[string]*image.GlobalArray)
	for _, name := range names {
		a, err := c.job.GlobalArray(c.m, name, held)
		if errors.Is(err, image.ErrPartialArray) || errors.Is(err, image.ErrNoArray) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if name = escape(name) + suffix; len(name) < 256 {
			found[name] = a
		}
	}
	c.global = found
	return found, nil
}

func (l globals) names() ([]fuse.DirEntry, error) { return files(l.arrays()) }

func (l globals) child(name string) (child, error) {
	arrays, err := l.arrays()
	if err != nil {
		return child{}, err
	}
	a, ok := arrays[name]
	if !ok {
		return child{}, iofs.ErrNotExist
	}
	c := l.c
	return c.file(globalName+"/"+name, image.NPYHeader(a.Elem, a.Shape), a.Bytes(),
		func() (*image.ArrayReader, error) { return c.job.OpenGlobal(c.m, a) }), nil
}

// files lists arrays by the names of their files.
func files[A any](arrays map[string]A, err error) (list []fuse.DirEntry, _ error) {
	for name := range arrays {
		list = append(list, entry(name, fuse.S_IFREG))
	}
	return list, err
}

// A file is a header, and an array after it.
type file struct {
	fs.Inode
	b     *browser
	path  string
	head  []byte
	bytes int64 // after the header
	time  time.Time
	open  func() (*image.ArrayReader, error) // nil: there is a header only
}

func (f *file) stamped() string { return "" }

func (f *file) attr(a *fuse.Attr) {
	a.Mode, a.Size = 0o444, uint64(len(f.head))+uint64(f.bytes)
	a.Blocks, a.Blksize = (a.Size+511)/512, maxRequest
	a.SetTimes(&f.time, &f.time, &f.time)
}

func (f *file) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	f.attr(&out.Attr)
	return 0
}

// Open opens the files behind it. The kernel may keep what it has read: contents never change.
func (f *file) Open(_ context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	if flags&syscall.O_ACCMODE != syscall.O_RDONLY {
		return nil, 0, syscall.EROFS
	}
	h := &opened{file: f}
	if f.open != nil {
		var err error
		if h.array, err = f.open(); err != nil {
			return nil, 0, f.b.errno(f.path, err)
		}
	}
	return h, fuse.FOPEN_KEEP_CACHE, 0
}

// opened is a file that a program has open.
type opened struct {
	file  *file
	array *image.ArrayReader
}

func (h *opened) Read(_ context.Context, b []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	f, n := h.file, 0
	if off < int64(len(f.head)) {
		n = copy(b, f.head[off:])
		off += int64(n)
	}
	rest := b[n:min(int64(len(b)), max(int64(n), int64(n)+int64(len(f.head))+f.bytes-off))]
	if len(rest) > 0 && h.array != nil {
		m, err := h.array.ReadAt(rest, off-int64(len(f.head)))
		if m < len(rest) {
			return nil, f.b.errno(f.path, err)
		}
		n += m
	}
	return fuse.ReadResultData(b[:n]), 0
}

func (h *opened) Release(context.Context) syscall.Errno {
	if h.array != nil {
		h.array.Close()
	}
	return 0
}
