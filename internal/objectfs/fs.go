package objectfs

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"sync"
	"syscall"
	"time"

	"ckpt/internal/vfs"
)

const (
	tempSuffix  = ".tmp"   // of files that are there once they are renamed
	leaseSuffix = ".lease" // of locks, which no list shows
	// Once is the base name of files that nothing replaces. Forbid takes their names.
	Once = "manifest"
)

// FS is a file system in a bucket.
type FS struct {
	vfs.NoDirect
	c        *client
	root     string // where it is mounted, as "/s3:/bucket"
	partSize int64
	slots    chan struct{} // of parts that are being uploaded
	pool     *pool
	// each calls do again and again until stop is called; nil: leases are renewed when they are
	// used, and files are written when they are synced or closed.
	each func(period time.Duration, do func()) (stop func())
	ttl  time.Duration // of leases

	mu     sync.Mutex
	dirs   map[string]bool   // keys of directories that were seen
	held   map[string]*file  // by key: created, and not there yet
	leases map[string]*Lease // by key
	proofs map[string]bool   // keys of directories below which the storage was proved
	// doubted: a request to remove an object may still arrive, and remove a later one of its name.
	doubted bool
}

var _ vfs.FS = (*FS)(nil)

// Sizes of parts: S3 takes at most maxParts of at least minPart.
const (
	minPart     = 5 << 20
	defaultPart = 8 << 20
	maxPart     = 64 << 20
	maxParts    = 10_000
	uploads     = 3 // at a time, if the URL does not say
	maxUploads  = 16
)

// New returns the file system of a bucket, as mounted at root.
func New(b Bucket, root string) *FS {
	f := &FS{c: &client{b, sleep}, root: root, ttl: leaseTime, each: vfs.Every,
		dirs: map[string]bool{}, held: map[string]*file{}, leases: map[string]*Lease{}, proofs: map[string]bool{}}
	f.parts(defaultPart, uploads)
	return f
}

// Alone is for tests: the file system does nothing by itself, repeats requests at once, and has
// parts of another length.
func (f *FS) Alone(part int64) {
	f.each = nil
	f.parts(part, uploads)
	f.c.sleep = func(context.Context, time.Duration) error { return nil }
}

// parts sets the length of parts and how many are under way.
func (f *FS) parts(bytes int64, connections int) {
	f.partSize, f.slots, f.pool = bytes, make(chan struct{}, connections), newPool(bytes, connections)
}

// background is the context of requests, which vfs.FS has none for: each ends by its own
// deadline.
func background() context.Context { return context.Background() }

// key returns the key of a name; "" for the root.
func (f *FS) key(name string) (string, error) {
	rest, ok := strings.CutPrefix(path.Clean(name), f.root)
	if !ok || rest != "" && rest[0] != '/' {
		return "", fs.ErrNotExist
	}
	return strings.TrimPrefix(rest, "/"), nil
}

func failed(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: errnoOf(err)}
}

// errnoOf has errors answer as those of the kernel do.
func errnoOf(err error) error {
	if errors.Is(err, ErrTransient) {
		return fmt.Errorf("%w: %w", err, syscall.ETIMEDOUT)
	}
	return err
}

// above returns the key of the directory of a key.
func above(key string) string {
	dir, _ := path.Split(key)
	return strings.TrimSuffix(dir, "/")
}

// below returns how the keys in a directory begin.
func below(key string) string {
	if key == "" {
		return ""
	}
	return key + "/"
}

// gone reports whether an object stands for a file that must not be made.
func gone(o Object) bool { return o.Size == 0 && path.Base(o.Key) == Once }

// look returns the object of a file; fs.ErrNotExist for a directory as well.
func (f *FS) look(key string) (Object, error) {
	if key == "" {
		return Object{}, fs.ErrNotExist
	}
	o, err := f.c.head(background(), key)
	if o.Key = key; err == nil && gone(o) {
		err = fs.ErrNotExist
	}
	return o, err
}

// Stat implements vfs.FS.
func (f *FS) Stat(name string) (fs.FileInfo, error) {
	key, err := f.key(name)
	if err != nil {
		return nil, failed("stat", name, err)
	}
	if key == "" {
		return info{name: path.Base(name), dir: true}, nil
	}
	if w := f.isHeld(key); w != nil {
		size, _ := w.Size()
		return info{name: path.Base(key), size: size}, nil
	}
	o, err := f.look(key)
	if err == nil {
		return infoOf(o), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, failed("stat", name, err)
	}
	is, err := f.isDir(key, false)
	if err == nil && is {
		return info{name: path.Base(key), dir: true}, nil
	}
	if err == nil {
		err = cmp.Or(f.parent(key), error(fs.ErrNotExist))
	}
	return nil, failed("stat", name, err)
}

func (f *FS) isHeld(key string) *file {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.held[key]
}

// Free implements vfs.FS: a bucket has no end.
func (f *FS) Free(string) (int64, error) { return vfs.Unbounded, nil }

// Remove implements vfs.FS.
func (f *FS) Remove(name string) error {
	key, err := f.key(name)
	if err == nil && key == "" {
		err = syscall.ENOTEMPTY
	}
	if err == nil {
		if w := f.release(key); w != nil {
			return failed("remove", name, w.abort())
		}
		var o Object
		o, err = f.look(key)
		switch {
		case err == nil:
			if err = f.mayRemove(o); err == nil {
				err = f.delete(key)
			}
		case errors.Is(err, fs.ErrNotExist):
			err = f.removeDir(key)
		}
	}
	return failed("remove", name, err)
}

func (f *FS) delete(key string) error {
	doubted, err := f.c.delete(background(), key)
	if doubted {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.doubted = true
	}
	return err
}

// Forbid makes sure that no file of this name is made later. It fails with fs.ErrExist if one
// is there.
func (f *FS) Forbid(name string) error {
	key, err := f.key(name)
	if err == nil && path.Base(key) != Once {
		err = fs.ErrInvalid
	}
	if err == nil {
		err = f.forbid(key)
	}
	return failed("forbid", name, err)
}

func (f *FS) forbid(key string) error {
	_, err := f.c.put(background(), key, nil, Condition{New: true})
	if errors.Is(err, ErrPrecondition) {
		var o Object
		if o, err = f.c.head(background(), key); err == nil && o.Size > 0 {
			err = fs.ErrExist
		}
	}
	return err
}

// Forbidden implements vfs.Fencer.
func (f *FS) Forbidden(name string) (bool, error) {
	key, err := f.key(name)
	var is bool
	if err == nil {
		is, err = f.isForbidden(key)
	}
	return is, failed("stat", name, err)
}

func (f *FS) isForbidden(key string) (bool, error) {
	o, err := f.c.head(background(), key)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	o.Key = key
	return err == nil && gone(o), err
}

// Rename implements vfs.FS: for a file under a temporary name in one step, for others of at
// most a part by a copy.
func (f *FS) Rename(oldName, newName string) error {
	from, err := f.key(oldName)
	if err != nil {
		return failed("rename", oldName, err)
	}
	to, err := f.key(newName)
	if err == nil {
		err = f.parent(to)
	}
	if err != nil {
		return failed("rename", newName, err)
	}
	if w := f.release(from); w != nil {
		err := w.appear(to)
		if err != nil {
			f.hold(from, w)
		}
		return failed("rename", newName, err)
	}
	o, err := f.look(from)
	if err == nil && o.Size > f.partSize {
		err = errors.ErrUnsupported
	}
	b := make([]byte, o.Size)
	if err == nil {
		_, _, err = f.c.get(background(), from, b, 0, o.Tag)
	}
	if err == nil {
		err = f.replace(to, b)
	}
	if err == nil {
		err = f.delete(from)
	}
	return failed("rename", oldName, err)
}

// replace writes an object in the place of another or of none, but never without a condition:
// a request that was long under way must not undo a later one.
func (f *FS) replace(key string, b []byte) (err error) {
	if path.Base(key) == Once {
		_, err = f.c.put(background(), key, b, Condition{New: true})
		if errors.Is(err, ErrPrecondition) {
			var is bool
			if is, err = f.isForbidden(key); is {
				err = vfs.ErrForbidden
			} else if err == nil {
				err = fmt.Errorf("%w: another process has written it", fs.ErrExist)
			}
		}
		return err
	}
	const tries = 5
	for range tries {
		o, herr := f.c.head(background(), key)
		when := Condition{Tag: o.Tag}
		if errors.Is(herr, fs.ErrNotExist) {
			when = Condition{New: true}
		} else if herr != nil {
			return herr
		}
		if _, err = f.c.put(background(), key, b, when); !errors.Is(err, ErrPrecondition) {
			return err
		}
	}
	return err
}

// hold keeps a file that others do not see yet.
func (f *FS) hold(key string, w *file) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held[key] = w
}

// appeared forgets a file that is there under its own name.
func (f *FS) appeared(w *file) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.held[w.key] == w {
		delete(f.held, w.key)
	}
}

func (f *FS) release(key string) *file {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := f.held[key]
	delete(f.held, key)
	return w
}

// info is a fs.FileInfo.
type info struct {
	name     string
	size     int64
	dir      bool
	modified time.Time
}

func infoOf(o Object) info {
	return info{name: path.Base(o.Key), size: o.Size, modified: o.Modified}
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.size }
func (i info) ModTime() time.Time { return i.modified }
func (i info) IsDir() bool        { return i.dir }
func (i info) Sys() any           { return nil }
func (i info) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o700
	}
	return 0o600
}

// Open implements vfs.FS.
func (f *FS) Open(name string) (vfs.File, error) {
	key, err := f.key(name)
	if err == nil && key == "" {
		err = syscall.EISDIR
	}
	if err != nil {
		return nil, failed("open", name, err)
	}
	if w := f.isHeld(key); w != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.up != nil {
			return nil, failed("open", name, errors.ErrUnsupported)
		}
		return &reading{fs: f, name: name, key: key, head: bytes.Clone(w.small), size: w.size}, nil
	}
	r := &reading{fs: f, name: name, key: key}
	if err := r.open(); err != nil {
		return nil, failed("open", name, err)
	}
	return r, nil
}
