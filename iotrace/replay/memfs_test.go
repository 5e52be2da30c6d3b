package replay

import (
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"ckpt/internal/vfs"
)

// memFS is a file system in memory that keeps lengths but no bytes. It can be full,
// and fail at any operation.
type memFS struct {
	vfs.FS // nil: a replay needs no more than the methods below
	mu     sync.Mutex
	nodes  map[string]*memNode
	open   int   // files
	limit  int   // of them; 0: any number
	room   int64 // bytes that may be written; negative: any number
	free   int64 // reported as free; negative: any number
	calls  int   // operations so far
	fail   func(call int, op, name string) error
	log    []string // of operations, if it is not nil
	most   int      // reads and writes at a time
	now    int
	busy   func() // called during each read and write
}

type memNode struct {
	dir  bool
	size int64
}

func newMemFS() *memFS {
	return &memFS{nodes: map[string]*memNode{"/": {dir: true}}, room: -1, free: -1}
}

func (m *memFS) Free(string) (int64, error) {
	if m.free < 0 {
		return math.MaxInt64, nil
	}
	return m.free, nil
}

// do is the beginning of every operation; the caller has to unlock.
func (m *memFS) do(op, name string) error {
	m.mu.Lock()
	m.calls++
	if m.log != nil {
		m.log = append(m.log, op+" "+filepath.Base(name))
	}
	if m.fail != nil {
		if err := m.fail(m.calls, op, name); err != nil {
			return &fs.PathError{Op: op, Path: name, Err: err}
		}
	}
	return nil
}

func (m *memFS) node(op, name string, err error) (*memNode, error) {
	if err != nil {
		return nil, err
	}
	n := m.nodes[name]
	if n == nil {
		return nil, &fs.PathError{Op: op, Path: name, Err: syscall.ENOENT}
	}
	return n, nil
}

func (m *memFS) make(op, name string, n *memNode) error {
	if err := m.do(op, name); err != nil {
		return err
	}
	if m.nodes[name] != nil {
		return &fs.PathError{Op: op, Path: name, Err: syscall.EEXIST}
	}
	if m.nodes[filepath.Dir(name)] == nil {
		return &fs.PathError{Op: op, Path: name, Err: syscall.ENOENT}
	}
	m.nodes[name] = n
	return nil
}

func (m *memFS) Create(name string) (vfs.File, error) {
	defer m.mu.Unlock()
	n := new(memNode)
	if err := m.make("create", name, n); err != nil {
		return nil, err
	}
	if m.limit > 0 && m.open == m.limit {
		delete(m.nodes, name)
		return nil, &fs.PathError{Op: "create", Path: name, Err: syscall.EMFILE}
	}
	m.open++
	return &memFile{m: m, n: n, name: name}, nil
}

func (m *memFS) OpenWrite(name string) (vfs.File, error) {
	defer m.mu.Unlock()
	n, err := m.node("open", name, m.do("open", name))
	if err == nil && m.limit > 0 && m.open == m.limit {
		err = &fs.PathError{Op: "open", Path: name, Err: syscall.EMFILE}
	}
	if err != nil {
		return nil, err
	}
	m.open++
	return &memFile{m: m, n: n, name: name}, nil
}

func (m *memFS) Stat(name string) (fs.FileInfo, error) {
	defer m.mu.Unlock()
	n, err := m.node("stat", name, m.do("stat", name))
	return memInfo{n: n}, err
}

type memInfo struct {
	fs.FileInfo
	n *memNode
}

func (i memInfo) IsDir() bool { return i.n.dir }

func (m *memFS) Rename(old, name string) error {
	defer m.mu.Unlock()
	n, err := m.node("rename", old, m.do("rename", old))
	if err == nil {
		delete(m.nodes, old)
		m.nodes[name] = n
	}
	return err
}

func (m *memFS) Remove(name string) error {
	defer m.mu.Unlock()
	_, err := m.node("remove", name, m.do("remove", name))
	for other := range m.nodes {
		if err == nil && filepath.Dir(other) == name && other != name {
			err = &fs.PathError{Op: "remove", Path: name, Err: syscall.ENOTEMPTY}
		}
	}
	if err == nil {
		delete(m.nodes, name)
	}
	return err
}

func (m *memFS) Mkdir(name string) error {
	defer m.mu.Unlock()
	return m.make("mkdir", name, &memNode{dir: true})
}

// names returns what is there, without the root.
func (m *memFS) names() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []string
	for name := range m.nodes {
		if name != "/" {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

type memFile struct {
	vfs.Plain // of nil, likewise
	m         *memFS
	n         *memNode
	name      string
	closed    bool
}

func (f *memFile) use(op string) error {
	if err := f.m.do(op, f.name); err != nil {
		return err
	}
	if f.closed {
		return &fs.PathError{Op: op, Path: f.name, Err: os.ErrClosed}
	}
	return nil
}

// wait is what a request takes.
func (f *memFile) wait() {
	f.m.now++
	f.m.most = max(f.m.most, f.m.now)
	if f.m.busy != nil {
		f.m.mu.Unlock()
		f.m.busy()
		f.m.mu.Lock()
	}
	f.m.now--
}

func length(b [][]byte) (n int64) {
	for _, x := range b {
		n += int64(len(x))
	}
	return n
}

func (f *memFile) ReadV(into [][]byte, off int64) (int64, error) {
	defer f.m.mu.Unlock()
	if err := f.use("read"); err != nil {
		return 0, err
	}
	f.wait()
	return min(length(into), max(0, f.n.size-off)), nil
}

func (f *memFile) WriteV(from [][]byte, off int64) (int64, error) {
	defer f.m.mu.Unlock()
	if err := f.use("write"); err != nil {
		return 0, err
	}
	f.wait()
	n := length(from)
	if f.m.room >= 0 && n > f.m.room {
		// As a disk does, it takes what goes in first.
		if n = f.m.room; n == 0 {
			return 0, &fs.PathError{Op: "write", Path: f.name, Err: syscall.ENOSPC}
		}
	}
	if f.m.room >= 0 {
		f.m.room -= n
	}
	if n > 0 {
		f.n.size = max(f.n.size, off+n)
	}
	return n, nil
}

func (f *memFile) Seek(off int64, _ int) (int64, error) {
	defer f.m.mu.Unlock()
	return off, f.use("seek")
}

func (f *memFile) Truncate(size int64) error {
	defer f.m.mu.Unlock()
	err := f.use("truncate")
	if err == nil {
		f.n.size = size
	}
	return err
}

func (f *memFile) Sync() error {
	defer f.m.mu.Unlock()
	return f.use("sync")
}

func (f *memFile) Close() error {
	defer f.m.mu.Unlock()
	err := f.use("close")
	if !f.closed {
		f.closed = true
		f.m.open--
	}
	return err
}

func (m *memFS) String() string { return fmt.Sprint(m.names()) }
