package wire

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"ckpt/internal/vfs"
)

// FS is the file system of a peer: the directory of its node, by the names that this process has
// for it.
type FS struct {
	vfs.NoDirect
	client *PeerClient
	ctx    context.Context
}

var _ vfs.FS = (*FS)(nil)

// FS returns the files of the peer. Every operation ends with ctx.
func (c *PeerClient) FS(ctx context.Context) *FS { return &FS{client: c, ctx: ctx} }

func (f *FS) inner(name string) (string, error) {
	rel, err := filepath.Rel(f.client.peer.Dir, name)
	if err != nil || !filepath.IsLocal(rel) {
		return "", fs.ErrPermission
	}
	return rel, nil
}

func (f *FS) ask(verb string, op byte, name, to string) (n *connection, a answer, err error) {
	q := request{op: op}
	q.name, err = f.inner(name)
	if err == nil && to != "" {
		q.to, err = f.inner(to)
	}
	if err == nil {
		n, err = f.client.connection(f.ctx)
	}
	if err == nil {
		a, err = n.call(f.ctx, &q)
	}
	if err != nil {
		return nil, a, &fs.PathError{Op: verb, Path: name, Err: err}
	}
	return n, a, nil
}

func (f *FS) open(verb string, op byte, name string) (*file, error) {
	n, a, err := f.ask(verb, op, name, "")
	if err != nil {
		return nil, err
	}
	return &file{ctx: f.ctx, conn: n, name: name, handle: uint32(a.value)}, nil
}

func (f *FS) Create(name string) (vfs.File, error) {
	return asFile(f.open("create", opCreate, name))
}

func (f *FS) Open(name string) (vfs.File, error) { return asFile(f.open("open", opOpen, name)) }

func (f *FS) OpenWrite(name string) (vfs.File, error) {
	return asFile(f.open("open", opOpenWrite, name))
}

func asFile(f *file, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (f *FS) Rename(oldName, newName string) error {
	_, _, err := f.ask("rename", opRename, oldName, newName)
	return err
}

func (f *FS) Remove(name string) error {
	_, _, err := f.ask("remove", opRemove, name, "")
	return err
}

func (f *FS) Mkdir(name string) error {
	_, _, err := f.ask("mkdir", opMkdir, name, "")
	return err
}

func (f *FS) SyncDir(name string) error {
	_, _, err := f.ask("sync", opSyncDir, name, "")
	return err
}

// Lock implements vfs.FS. The lock ends with the connection at the latest.
func (f *FS) Lock(name string) (io.Closer, error) {
	l, err := f.open("lock", opLock, name)
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (f *FS) Free(name string) (int64, error) {
	_, a, err := f.ask("statfs", opFree, name, "")
	return a.value, err
}

func (f *FS) Stat(name string) (fs.FileInfo, error) {
	var e entry
	if err := f.look("stat", opStat, name, &e); err != nil {
		return nil, err
	}
	e.Name = filepath.Base(name)
	return info{e}, nil
}

func (f *FS) ReadDir(name string) ([]fs.DirEntry, error) {
	var entries []entry
	if err := f.look("list", opReadDir, name, &entries); err != nil {
		return nil, err
	}
	list := make([]fs.DirEntry, len(entries))
	for i, e := range entries {
		list[i] = fs.FileInfoToDirEntry(info{e})
	}
	return list, nil
}

func (f *FS) look(verb string, op byte, name string, into any) error {
	_, a, err := f.ask(verb, op, name, "")
	if err != nil {
		return err
	}
	if err := json.Unmarshal(a.data, into); err != nil {
		return &fs.PathError{Op: verb, Path: name, Err: err}
	}
	return nil
}

type info struct{ e entry }

func (i info) Name() string       { return i.e.Name }
func (i info) Size() int64        { return i.e.Bytes }
func (i info) Mode() fs.FileMode  { return i.e.FileMode }
func (i info) ModTime() time.Time { return i.e.Modified }
func (i info) IsDir() bool        { return i.e.FileMode.IsDir() }
func (i info) Sys() any           { return nil }

// A file is open on the other side, over one connection.
type file struct {
	vfs.OnlyBytes
	ctx    context.Context
	conn   *connection
	name   string
	handle uint32
	closed atomic.Bool
}

var _ vfs.File = (*file)(nil)

func (f *file) fail(verb string, err error) error {
	return &fs.PathError{Op: verb, Path: f.name, Err: err}
}

// ask asks something of the file that carries no data.
func (f *file) ask(verb string, op byte, size int64) (int64, error) {
	if f.closed.Load() {
		return 0, f.fail(verb, fs.ErrClosed)
	}
	a, err := f.conn.call(f.ctx, &request{op: op, handle: f.handle, size: size})
	if err != nil {
		return 0, f.fail(verb, err)
	}
	return a.value, nil
}

func (f *file) Sync() error {
	_, err := f.ask("sync", opSync, 0)
	return err
}

func (f *file) Size() (int64, error) { return f.ask("stat", opSize, 0) }

func (f *file) Preallocate(size int64) error {
	_, err := f.ask("fallocate", opPreallocate, size)
	return err
}

func (f *file) Truncate(size int64) error {
	_, err := f.ask("truncate", opTruncate, size)
	return err
}

// Close closes the file on the other side even if the context of the calls has ended.
func (f *file) Close() error {
	if f.closed.Swap(true) {
		return f.fail("close", fs.ErrClosed)
	}
	_, err := f.conn.call(context.WithoutCancel(f.ctx), &request{op: opClose, handle: f.handle})
	if err != nil {
		return f.fail("close", err)
	}
	return nil
}

// A piece is a part of a large read or write that is under way.
type piece struct {
	call  *call
	bytes int
}

// pieces moves a large read or write in pieces, several at a time, and returns how many bytes are
// done without a gap from the start.
func (f *file) pieces(p []byte, send func(at, n int) (piece, error)) (done int, end bool, err error) {
	var queue []piece
	collect := func() {
		x := queue[0]
		queue = queue[1:]
		a, werr := f.conn.wait(f.ctx, x.call)
		switch {
		case err != nil || end: // a gap
		case werr != nil:
			err = werr
		default:
			done += int(min(a.value, int64(x.bytes)))
			end = int(a.value) < x.bytes || a.status == statusEnd
		}
	}
	for at := 0; at < len(p) && err == nil && !end; at += maxData {
		if len(queue) == inFlight {
			collect()
			if err != nil || end {
				break
			}
		}
		x, serr := send(at, min(maxData, len(p)-at))
		if serr != nil {
			err = serr
			break
		}
		queue = append(queue, x)
	}
	for len(queue) > 0 {
		collect()
	}
	return done, end, err
}

func (f *file) ReadAt(p []byte, off int64) (int, error) {
	if err := f.usable(off); err != nil {
		return 0, f.fail("read", err)
	}
	done, end, err := f.pieces(p, func(at, n int) (piece, error) {
		q := request{op: opReadAt, handle: f.handle, off: off + int64(at), size: int64(n)}
		c, err := f.conn.start(f.ctx, &q, p[at:at+n])
		return piece{c, n}, err
	})
	switch {
	case err != nil:
		return done, f.fail("read", err)
	case done < len(p) && end:
		return done, io.EOF
	}
	return done, nil
}

func (f *file) WriteAt(p []byte, off int64) (int, error) {
	if err := f.usable(off); err != nil {
		return 0, f.fail("write", err)
	}
	done, _, err := f.pieces(p, func(at, n int) (piece, error) {
		q := request{op: opWriteAt, handle: f.handle, off: off + int64(at), data: p[at : at+n]}
		c, err := f.conn.start(f.ctx, &q, nil)
		return piece{c, n}, err
	})
	if err == nil && done < len(p) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return done, f.fail("write", err)
	}
	return done, nil
}

func (f *file) usable(off int64) error {
	switch {
	case f.closed.Load():
		return fs.ErrClosed
	case off < 0:
		return errors.New("negative offset")
	}
	return nil
}

// A Way is the file system of a node that one process after the other serves, as incarnations
// end, perhaps on another host.
type Way struct {
	vfs.NoDirect
	mu  sync.Mutex
	to  vfs.FS
	why error
}

var _ vfs.FS = (*Way)(nil)

// NewWay returns a way that leads nowhere yet, for the reason why.
func NewWay(why error) *Way { return &Way{why: why} }

// Lead has the way lead to a file system; nil is nowhere.
func (w *Way) Lead(to vfs.FS) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.to = to
}

func (w *Way) follow(op, name string, do func(vfs.FS) error) error {
	w.mu.Lock()
	to := w.to
	w.mu.Unlock()
	if to == nil {
		return &fs.PathError{Op: op, Path: name, Err: w.why}
	}
	return do(to)
}

func (w *Way) Create(name string) (f vfs.File, err error) {
	err = w.follow("create", name, func(to vfs.FS) error { f, err = to.Create(name); return err })
	return f, err
}

func (w *Way) Open(name string) (f vfs.File, err error) {
	err = w.follow("open", name, func(to vfs.FS) error { f, err = to.Open(name); return err })
	return f, err
}

func (w *Way) OpenWrite(name string) (f vfs.File, err error) {
	err = w.follow("open", name, func(to vfs.FS) error { f, err = to.OpenWrite(name); return err })
	return f, err
}

func (w *Way) Rename(oldName, newName string) error {
	return w.follow("rename", oldName, func(to vfs.FS) error { return to.Rename(oldName, newName) })
}

func (w *Way) Remove(name string) error {
	return w.follow("remove", name, func(to vfs.FS) error { return to.Remove(name) })
}

func (w *Way) Mkdir(name string) error {
	return w.follow("mkdir", name, func(to vfs.FS) error { return to.Mkdir(name) })
}

func (w *Way) ReadDir(name string) (list []fs.DirEntry, err error) {
	err = w.follow("list", name, func(to vfs.FS) error { list, err = to.ReadDir(name); return err })
	return list, err
}

func (w *Way) Stat(name string) (fi fs.FileInfo, err error) {
	err = w.follow("stat", name, func(to vfs.FS) error { fi, err = to.Stat(name); return err })
	return fi, err
}

func (w *Way) SyncDir(name string) error {
	return w.follow("sync", name, func(to vfs.FS) error { return to.SyncDir(name) })
}

func (w *Way) Lock(name string) (l io.Closer, err error) {
	err = w.follow("lock", name, func(to vfs.FS) error { l, err = to.Lock(name); return err })
	return l, err
}

func (w *Way) Free(name string) (n int64, err error) {
	err = w.follow("statfs", name, func(to vfs.FS) error { n, err = to.Free(name); return err })
	return n, err
}

func (f *FS) Locked(name string) (bool, error)  { return vfs.TryLocked(f, name) }
func (w *Way) Locked(name string) (bool, error) { return vfs.TryLocked(w, name) }
