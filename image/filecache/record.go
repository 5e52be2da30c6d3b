package filecache

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// A record is the place in a writer's own node directory where its request is kept
// while owners serve it (level 1). A process has one request under way at a time, so
// that one place is enough.
type record struct {
	file vfs.File
	path string
}

func recordPath(dir string, process int) string {
	return filepath.Join(dir, fmt.Sprintf("record-%d", process))
}

// createRecord makes the record of a process. Its name becomes durable with the
// directory.
func createRecord(n Node, dir string, process int) error {
	path := recordPath(dir, process)
	if err := durable.Remove(n.FS, path); err != nil {
		return err
	}
	f, err := n.FS.Create(path)
	if err != nil {
		return durable.Op("create", path, -1, err)
	}
	return errors.Join(durable.Op("sync", path, -1, f.Sync()), f.Close())
}

func openRecord(n Node, dir string, process int) (*record, error) {
	path := recordPath(dir, process)
	f, err := n.FS.OpenWrite(path)
	if err != nil {
		return nil, durable.Op("open", path, -1, err)
	}
	return &record{f, path}, nil
}

// put makes a request durable before any owner hears of it.
func (r *record) put(h frame, payload []byte) error {
	return writeFrame(r.file, r.path, 0, h, payload)
}

// remove deletes the record durably: if it came back after a later write to the same
// bytes had been acknowledged, a replay would undo that write.
func (r *record) remove() error {
	if err := durable.WriteAt(r.file, r.path, make([]byte, 8), 0); err != nil {
		return err
	}
	return durable.Op("sync", r.path, -1, r.file.Sync())
}

func (r *record) close() error { return r.file.Close() }

// readRecord calls do with the request that a process left unfinished, if there is
// one. A torn record is none: its request was not sent.
func readRecord(n Node, dir string, process int, use int64, do func(frame, []byte) error) error {
	path := recordPath(dir, process)
	f, err := n.FS.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return durable.Op("open", path, -1, err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return durable.Op("read", path, -1, err)
	}
	h, ok, err := readFrame(f, path, 0, size, use)
	if err != nil || !ok {
		return err
	}
	payload := make([]byte, h.n)
	if err := durable.ReadAt(f, path, payload, h.at); err != nil {
		return err
	}
	return do(h, payload)
}
