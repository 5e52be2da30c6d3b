package filecache

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// A session is one use of a file, from its opening to its end, as each node directory
// keeps it.
//
// All nodes have the state "opening" before the first has "open", and "open" before
// the first write is accepted; so a node without a session was lost if another one has
// "open". The first "closed" says that the store has everything.
type session struct {
	Use       int64  `json:"use"` // when it began; the newest counts
	Name      string `json:"name"`
	State     string `json:"state"`
	Node      int    `json:"node"`
	Nodes     int    `json:"nodes"`
	Size      int64  `json:"size"`
	Unit      int64  `json:"unit,omitempty"`
	Stripe    int64  `json:"stripe,omitempty"`
	Growing   bool   `json:"growing,omitempty"`
	Create    bool   `json:"create,omitempty"`
	Levels    Levels `json:"levels"`
	Processes []int  `json:"processes"`
}

const (
	opening = "opening"
	open    = "open"
	closed  = "closed"
)

const maxSession = 1 << 20

func sessionPath(dir string) string { return filepath.Join(dir, "session") }

// write makes the session of a node durable.
func (s session) write(n Node, dir string) error {
	return durable.ReplaceSealed(n.FS, sessionPath(dir), s)
}

// readSession returns the session of a node, and whether there is one. A damaged one is an
// error.
func readSession(n Node, dir string) (s session, ok bool, err error) {
	err = durable.ReadSealed(n.FS, sessionPath(dir), maxSession, &s)
	if missing(err) {
		return s, false, nil
	}
	return s, err == nil, err
}

// same reports whether two nodes speak of the same use of a file.
func (s session) same(o session) bool {
	return s.Use == o.Use && s.Name == o.Name && s.Nodes == o.Nodes && s.Size == o.Size && s.Unit == o.Unit && s.Stripe == o.Stripe && slices.Equal(s.Processes, o.Processes)
}

// clearDir removes all files of a directory, and the directory.
func clearDir(n Node, dir string) error {
	list, err := n.FS.ReadDir(dir)
	if missing(err) {
		return nil
	}
	if err != nil {
		return durable.Op("read", dir, -1, err)
	}
	var errs []error
	for _, e := range list {
		errs = append(errs, durable.Remove(n.FS, filepath.Join(dir, e.Name())))
	}
	errs = append(errs, durable.Remove(n.FS, dir), durable.Op("sync", n.Dir, -1, n.FS.SyncDir(n.Dir)))
	return errors.Join(errs...)
}

// frameHead is the length of the head of a frame: a request that writes, as records
// and journals keep it. Numbers are little-endian.
//
//	0    4   CRC-32C of bytes 8…63 and the payload
//	4    4   commit mark, 1; 0 when the record has been deleted
//	8    8   use of the file that it belongs to
//	16   8   sequence number of the request in its process
//	24   8   offset in the file
//	32   8   bytes of the payload
//	40   4   process
//	44   4   part of the request
//	48   4   parts of the request
//	52   4   mask, −1 for an unconditional write
//	56   8   zero
const frameHead = 64

const committed = 1

// A frame is a head. Its payload is read when it is needed.
type frame struct {
	use         int64
	seq         uint64
	off, n      int64
	process     int
	part, parts int
	mask        int
	at          int64 // of the payload in its file
}

func (f frame) encode(payload []byte) []byte {
	b := make([]byte, frameHead)
	le := binary.LittleEndian
	le.PutUint32(b[4:], committed)
	le.PutUint64(b[8:], uint64(f.use))
	le.PutUint64(b[16:], f.seq)
	le.PutUint64(b[24:], uint64(f.off))
	le.PutUint64(b[32:], uint64(len(payload)))
	le.PutUint32(b[40:], uint32(f.process))
	le.PutUint32(b[44:], uint32(f.part))
	le.PutUint32(b[48:], uint32(f.parts))
	le.PutUint32(b[52:], uint32(f.mask))
	le.PutUint32(b, durable.AddSum(durable.Sum(b[8:]), payload))
	return b
}

// writeFrame writes a frame and makes it durable. A frame that is torn has a checksum
// that does not match.
func writeFrame(f vfs.File, path string, at int64, head frame, payload []byte) error {
	b := head.encode(payload)
	if len(payload) <= 64<<10 {
		b = append(b, payload...)
	} else if err := durable.WriteAt(f, path, payload, at+frameHead); err != nil {
		return err
	}
	if err := durable.WriteAt(f, path, b, at); err != nil {
		return err
	}
	return durable.Op("sync", path, -1, f.Sync())
}

// readFrame reads the frame at an offset of a file of some length, and whether it is
// a whole one of this use of the file.
func readFrame(f io.ReaderAt, path string, at, length, use int64) (frame, bool, error) {
	if length-at < frameHead {
		return frame{}, false, nil
	}
	b := make([]byte, frameHead)
	if err := durable.ReadAt(f, path, b, at); err != nil {
		return frame{}, false, err
	}
	le := binary.LittleEndian
	h := frame{
		use: int64(le.Uint64(b[8:])), seq: le.Uint64(b[16:]), off: int64(le.Uint64(b[24:])), n: int64(le.Uint64(b[32:])),
		process: int(int32(le.Uint32(b[40:]))), part: int(le.Uint32(b[44:])), parts: int(le.Uint32(b[48:])),
		mask: int(int32(le.Uint32(b[52:]))), at: at + frameHead,
	}
	if le.Uint32(b[4:]) != committed || h.use != use || h.n < 0 || h.n > length-h.at || h.off < 0 {
		return h, false, nil
	}
	sum := durable.Sum(b[8:])
	err := pieces(f, path, h.at, h.n, func(_ int64, p []byte) error {
		sum = durable.AddSum(sum, p)
		return nil
	})
	return h, err == nil && sum == le.Uint32(b), err
}

// pieceSize is the length of reads and writes of whole fragments.
const pieceSize = 1 << 20

// pieces reads n bytes at off piece by piece. The offset that do gets counts from 0.
func pieces(f io.ReaderAt, path string, off, n int64, do func(at int64, p []byte) error) error {
	buf := make([]byte, min(n, pieceSize))
	for at := int64(0); at < n; {
		p := buf[:min(n-at, pieceSize)]
		if err := durable.ReadAt(f, path, p, off+at); err != nil {
			return err
		}
		if err := do(at, p); err != nil {
			return err
		}
		at += int64(len(p))
	}
	return nil
}

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
// one. A torn record does not count: its request was not sent.
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
