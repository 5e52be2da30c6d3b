package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync/atomic"
	"time"

	"ckpt/image/nodes"
	"ckpt/internal/vfs"
)

// answer answers a request. Its error is about the connection.
func (n *session) answer(q *request) error {
	switch q.op {
	case opReadAt:
		return n.readAt(q)
	case opAsk:
		return n.ask(q)
	}
	value, data, err := n.perform(q)
	return n.reply(q, value, data, err)
}

func (n *session) reply(q *request, value int64, data []byte, err error) error {
	a := &answer{number: q.number, value: value, data: data}
	if err != nil {
		a.status, a.value, a.data = statusFailed, 0, EncodeError(bare(err))
	}
	if len(a.data) > maxList {
		a.status, a.value, a.data = statusFailed, 0, EncodeError(fmt.Errorf("the answer has %d bytes (at most %d)", len(data), maxList))
	}
	return n.send(a)
}

// bare takes the name of the file off an error. The client knows it, and by which name.
func bare(err error) error {
	switch e := err.(type) {
	case *fs.PathError:
		return e.Err
	case *os.LinkError:
		return e.Err
	}
	return err
}

func (n *session) perform(q *request) (value int64, data []byte, err error) {
	switch q.op {
	case opWriteAt, opSync, opSize, opPreallocate, opTruncate:
		value, err = n.onFile(q)
		return value, nil, err
	case opClose:
		return 0, nil, n.close(q.handle)
	case opContribute, opAdd, opEnd:
		return n.contribute(q)
	}
	name, err := n.path(q.op, q.name)
	if err != nil {
		return 0, nil, err
	}
	switch q.op {
	case opCreate:
		value, err = n.keep(n.served.FS.Create(name))
	case opOpen:
		value, err = n.keep(n.served.FS.Open(name))
	case opOpenWrite:
		value, err = n.keep(n.served.FS.OpenWrite(name))
	case opLock:
		value, err = n.keep(n.served.FS.Lock(name))
	case opFree:
		value, err = n.served.FS.Free(name)
	case opReadDir, opStat:
		data, err = n.look(q.op, name)
	default:
		err = n.change(q, name)
	}
	return value, data, err
}

func (n *session) change(q *request, name string) error {
	switch q.op {
	case opRemove:
		return n.served.FS.Remove(name)
	case opMkdir:
		return n.served.FS.Mkdir(name)
	case opSyncDir:
		return n.served.FS.SyncDir(name)
	case opRename:
		to, err := n.path(q.op, q.to)
		if err != nil {
			return err
		}
		return n.served.FS.Rename(name, to)
	}
	return fmt.Errorf("operation %d: %w", q.op, errors.ErrUnsupported)
}

func (n *session) onFile(q *request) (int64, error) {
	f, err := opened[vfs.File](n, q.handle)
	if err != nil {
		return 0, err
	}
	switch q.op {
	case opWriteAt:
		k, err := f.WriteAt(q.data, q.off)
		return int64(k), err
	case opSync:
		return 0, f.Sync()
	case opSize:
		return f.Size()
	}
	if q.op == opTruncate {
		return 0, f.Truncate(q.size)
	}
	return 0, f.Preallocate(q.size)
}

func (n *session) readAt(q *request) error {
	f, err := opened[vfs.File](n, q.handle)
	if err == nil && q.size > maxData {
		err = fmt.Errorf("a read of %d bytes (at most %d)", q.size, maxData)
	}
	if err != nil {
		return n.reply(q, 0, nil, err)
	}
	pool := poolOf(int(q.size))
	b := pool.Get().(*[]byte)
	defer pool.Put(b)
	k, err := f.ReadAt((*b)[:q.size], q.off)
	if err == nil || err == io.EOF {
		a := &answer{number: q.number, value: int64(k), data: (*b)[:k]}
		if err == io.EOF {
			a.status = statusEnd
		}
		return n.send(a)
	}
	return n.reply(q, 0, nil, err)
}

func (n *session) contribute(q *request) (value int64, data []byte, err error) {
	if q.op == opContribute {
		if n.served.Contribute == nil {
			return 0, nil, fmt.Errorf("parity: %w", errors.ErrUnsupported)
		}
		c, err := n.served.Contribute(n.ctx, q.name)
		value, err = n.keep(&contribution{Contributor: c}, err)
		return value, nil, err
	}
	c, err := opened[*contribution](n, q.handle)
	if err != nil {
		return 0, nil, err
	}
	if q.op == opAdd {
		return 0, nil, c.Add(q.off, q.data)
	}
	// The end may wait for other members, so it ends with this client.
	defer context.AfterFunc(n.ctx, func() { c.Close() })()
	info, err := c.End(q.size)
	if err != nil {
		return 0, nil, err
	}
	c.complete.Store(true)
	data, err = json.Marshal(info)
	return 0, data, err
}

// contribution is aborted when it is closed before it is complete.
type contribution struct {
	nodes.Contributor
	complete atomic.Bool
}

func (c *contribution) Close() error {
	if !c.complete.Load() {
		c.Abort()
	}
	return nil
}

// keep opens something for the client, under a handle.
func (n *session) keep(c io.Closer, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.open) >= maxOpen {
		return 0, errors.Join(fmt.Errorf("%d files are open", maxOpen), c.Close())
	}
	n.last++
	n.open[n.last] = c
	return int64(n.last), nil
}

// opened returns what is open under a handle.
func opened[T io.Closer](n *session, handle uint32) (T, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	c, ok := n.open[handle].(T)
	if !ok {
		return c, fs.ErrClosed
	}
	return c, nil
}

func (n *session) close(handle uint32) error {
	c, err := opened[io.Closer](n, handle)
	if err != nil {
		return err
	}
	n.mu.Lock()
	delete(n.open, handle)
	n.mu.Unlock()
	return c.Close()
}

type entry struct {
	Name     string      `json:"name"`
	Bytes    int64       `json:"bytes"`
	FileMode fs.FileMode `json:"mode"`
	Modified time.Time   `json:"modified"`
}

func (n *session) look(op byte, name string) ([]byte, error) {
	if op == opStat {
		fi, err := n.served.FS.Stat(name)
		if err != nil {
			return nil, err
		}
		return json.Marshal(entryOf(fi))
	}
	list, err := n.served.FS.ReadDir(name)
	if err != nil {
		return nil, err
	}
	entries := make([]entry, 0, len(list))
	for _, e := range list {
		fi, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		entries = append(entries, entryOf(fi))
	}
	return json.Marshal(entries)
}

func entryOf(fi fs.FileInfo) entry {
	return entry{Name: fi.Name(), Bytes: fi.Size(), FileMode: fi.Mode(), Modified: fi.ModTime()}
}
