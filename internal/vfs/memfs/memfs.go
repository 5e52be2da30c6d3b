// Package memfs is a file system in memory for tests of crash safety. It
// promises what POSIX promises and no more, and a test can clone it as a loss
// of power would leave it:
//
//   - what was written to a file since its last Sync is there, lost or torn
//   - what was created, renamed or removed in a directory since its last
//     SyncDir has happened or not, each by itself
//   - what was synced is there
//   - what a Sync that failed should have written may be lost for ever, although
//     it can still be read and a later Sync succeeds: see FailSync
//
// The idea is from Pebble's vfs.NewCrashableMem.
//
//	m := memfs.New()
//	... use m as a vfs.FS ...
//	after := m.CrashClone(memfs.Crash{Seed: 1})
//
// To look at every state that a run can leave, set AfterOp.
package memfs

import (
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"ckpt/internal/vfs"
)

// PageSize is the unit in which unsynced data is lost or kept.
const PageSize = 4096

// FS is the file system. Its root directory is there from the start. Names are
// taken as absolute.
type FS struct {
	// AfterOp, if not nil, is called after every operation that changes the
	// file system or makes a change durable, with the operation and its name.
	// It may call CrashClone. Set it before use.
	AfterOp func(op, name string)
	// IgnoreSync and IgnoreSyncDir make a file system that lies: it reports
	// success without making anything durable. They show that a crash test
	// can fail.
	IgnoreSync, IgnoreSyncDir bool
	// Reread makes a file system that forgets the pages that a failed Sync did not
	// write, as btrfs does: what can be read then is what the disk holds. ext4 and
	// XFS keep them.
	Reread bool

	vfs.NoDirect
	mu    sync.Mutex
	root  *node
	locks map[string]bool
}

var _ vfs.FS = (*FS)(nil)

// node is a file or a directory.
type node struct {
	// A file. The bytes of synced never change, and data may share them.
	data, synced []byte
	shared       bool    // data and synced are the same memory
	sum          *uint32 // checksum of synced, once computed
	// Pages that count as written and are not on the disk, by number.
	lost map[int]bool

	// A directory: its entries, those after a crash at worst, and what leads
	// from these to those.
	entries, durable map[string]*node
	pending          []change
	stale            bool // pending counts as written and is not on the disk
}

// A change of a directory takes place as a whole or not at all.
type change struct {
	remove string // may be ""
	add    string // may be ""
	node   *node  // under add
}

func newDir() *node {
	return &node{entries: make(map[string]*node), durable: make(map[string]*node)}
}

func (n *node) isDir() bool { return n.entries != nil }

func (c change) apply(m map[string]*node) {
	if c.remove != "" {
		delete(m, c.remove)
	}
	if c.add != "" {
		m[c.add] = c.node
	}
}

// New returns an empty file system.
func New() *FS { return &FS{root: newDir(), locks: make(map[string]bool)} }

func (m *FS) after(op, name string) {
	if m.AfterOp != nil {
		m.AfterOp(op, name)
	}
}

// find returns the node of name.
func (m *FS) find(op, name string) (*node, error) {
	n := m.root
	for part := range strings.SplitSeq(strings.Trim(path.Clean("/"+name), "/"), "/") {
		if part == "" {
			continue
		}
		if !n.isDir() {
			return nil, &fs.PathError{Op: op, Path: name, Err: syscall.ENOTDIR}
		}
		if n = n.entries[part]; n == nil {
			return nil, &fs.PathError{Op: op, Path: name, Err: syscall.ENOENT}
		}
	}
	return n, nil
}

// parent returns the directory of name and the last part of name.
func (m *FS) parent(op, name string) (*node, string, error) {
	dir, base := path.Split(path.Clean("/" + name))
	n, err := m.find(op, dir)
	if err != nil || base == "" {
		return nil, "", &fs.PathError{Op: op, Path: name, Err: syscall.ENOENT}
	}
	if !n.isDir() {
		return nil, "", &fs.PathError{Op: op, Path: name, Err: syscall.ENOTDIR}
	}
	return n, base, nil
}

func (n *node) change(c change) {
	c.apply(n.entries)
	n.pending = append(n.pending, c)
	n.stale = false // the directory is written as a whole
}

func (m *FS) add(op, name string, n *node) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.parent(op, name)
	if err != nil {
		return err
	}
	if dir.entries[base] != nil {
		return &fs.PathError{Op: op, Path: name, Err: syscall.EEXIST}
	}
	dir.change(change{add: base, node: n})
	return nil
}

// Create implements vfs.FS.
func (m *FS) Create(name string) (vfs.File, error) {
	n := &node{}
	if err := m.add("create", name, n); err != nil {
		return nil, err
	}
	m.after("create", name)
	return &file{fs: m, node: n, name: name, write: true}, nil
}

// Mkdir implements vfs.FS.
func (m *FS) Mkdir(name string) error {
	if err := m.add("mkdir", name, newDir()); err != nil {
		return err
	}
	m.after("mkdir", name)
	return nil
}

// Open implements vfs.FS.
func (m *FS) Open(name string) (vfs.File, error) { return m.openFile(name, false) }

// OpenDirect implements vfs.FS: reads return what the disk holds once all
// dirty pages have been written.
func (m *FS) OpenDirect(name string) (vfs.File, error) {
	f, err := m.open(name, false)
	if err != nil {
		return nil, err
	}
	f.direct = true
	return f, nil
}

// OpenWrite implements vfs.FS.
func (m *FS) OpenWrite(name string) (vfs.File, error) { return m.openFile(name, true) }

// openFile returns no nil *file in a vfs.File.
func (m *FS) openFile(name string, write bool) (vfs.File, error) {
	f, err := m.open(name, write)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (m *FS) open(name string, write bool) (*file, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find("open", name)
	if err != nil {
		return nil, err
	}
	if n.isDir() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: syscall.EISDIR}
	}
	return &file{fs: m, node: n, name: name, write: write}, nil
}

// Rename implements vfs.FS, for files and within a directory.
func (m *FS) Rename(oldName, newName string) error {
	if err := m.rename(oldName, newName); err != nil {
		return err
	}
	m.after("rename", newName)
	return nil
}

func (m *FS) rename(oldName, newName string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, from, err := m.parent("rename", oldName)
	if err != nil {
		return err
	}
	dir2, to, err := m.parent("rename", newName)
	if err != nil {
		return err
	}
	n := dir.entries[from]
	switch {
	case dir != dir2:
		return &fs.PathError{Op: "rename", Path: newName, Err: syscall.EXDEV}
	case n == nil:
		return &fs.PathError{Op: "rename", Path: oldName, Err: syscall.ENOENT}
	case n.isDir() || dir.entries[to] != nil && dir.entries[to].isDir():
		return &fs.PathError{Op: "rename", Path: newName, Err: syscall.EISDIR}
	}
	dir.change(change{remove: from, add: to, node: n})
	return nil
}

// Remove implements vfs.FS.
func (m *FS) Remove(name string) error {
	if err := m.remove(name); err != nil {
		return err
	}
	m.after("remove", name)
	return nil
}

func (m *FS) remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, base, err := m.parent("remove", name)
	if err != nil {
		return err
	}
	n := dir.entries[base]
	if n == nil {
		return &fs.PathError{Op: "remove", Path: name, Err: syscall.ENOENT}
	}
	if n.isDir() && len(n.entries) > 0 {
		return &fs.PathError{Op: "remove", Path: name, Err: syscall.ENOTEMPTY}
	}
	dir.change(change{remove: base})
	return nil
}

// ReadDir implements vfs.FS.
func (m *FS) ReadDir(name string) ([]fs.DirEntry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find("readdir", name)
	if err != nil {
		return nil, err
	}
	if !n.isDir() {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: syscall.ENOTDIR}
	}
	var list []fs.DirEntry
	for _, base := range slices.Sorted(maps.Keys(n.entries)) {
		list = append(list, fs.FileInfoToDirEntry(infoOf(base, n.entries[base])))
	}
	return list, nil
}

// Stat implements vfs.FS.
func (m *FS) Stat(name string) (fs.FileInfo, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find("stat", name)
	if err != nil {
		return nil, err
	}
	return infoOf(path.Base(name), n), nil
}

// SyncDir implements vfs.FS.
func (m *FS) SyncDir(name string) error {
	if err := m.syncDir(name); err != nil {
		return err
	}
	m.after("syncdir", name)
	return nil
}

func (m *FS) syncDir(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.find("syncdir", name)
	if err != nil {
		return err
	}
	if !n.isDir() {
		return &fs.PathError{Op: "syncdir", Path: name, Err: syscall.ENOTDIR}
	}
	if !m.IgnoreSyncDir && !n.stale {
		n.durable, n.pending = maps.Clone(n.entries), nil
	}
	return nil
}

// Lock implements vfs.FS.
func (m *FS) Lock(name string) (io.Closer, error) {
	if f, err := m.Create(name); err == nil {
		f.Close()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.find("lock", name); err != nil {
		return nil, err
	}
	name = path.Clean("/" + name)
	if m.locks[name] {
		return nil, &fs.PathError{Op: "lock", Path: name, Err: vfs.ErrLocked}
	}
	m.locks[name] = true
	return lock{m, name}, nil
}

type lock struct {
	fs   *FS
	name string
}

func (l lock) Close() error {
	l.fs.mu.Lock()
	defer l.fs.mu.Unlock()
	delete(l.fs.locks, l.name)
	return nil
}

// Locked implements vfs.FS.
func (m *FS) Locked(name string) (bool, error) { return vfs.TryLocked(m, name) }

// Free implements vfs.FS: memory has no end.
func (m *FS) Free(string) (int64, error) { return 1 << 40, nil }

// info is a fs.FileInfo.
type info struct {
	name string
	size int64
	dir  bool
}

func infoOf(name string, n *node) info { return info{name, int64(len(n.data)), n.isDir()} }

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return i.size }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) IsDir() bool        { return i.dir }
func (i info) Sys() any           { return nil }
func (i info) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o700
	}
	return 0o600
}
