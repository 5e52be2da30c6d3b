package filecache

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// A journal has all requests that wrote to a fragment since the store had it last
// (level 2): on its own node and on the next ones, each copy complete. A new file
// begins whenever the store has the fragment; the old ones are removed then.
//
// Head of a file, 64 bytes, little-endian; frames follow:
//
//	0    4   CRC-32C of bytes 4…63
//	4    4   "CFJ1"
//	8    8   use of the file that it belongs to
//	16   8   epoch, from 1: the newest one counts
//	24   8   base: what the store has that the frames build on
//	32   8   carried: frames that were here when the file got its name
//	40   4   node of the fragment
//	44   20  zero
type journal struct {
	head   journalHead
	copies []journalCopy
	size   int64
	limit  int64
}

type journalCopy struct {
	node Node
	path string
	file vfs.File
}

type journalHead struct {
	use                  int64
	epoch, base, carried uint64
	owner                int
}

const (
	journalStart = 64
	journalMagic = "CFJ1"
)

func (h journalHead) encode() []byte {
	b := make([]byte, journalStart)
	le := binary.LittleEndian
	copy(b[4:], journalMagic)
	le.PutUint64(b[8:], uint64(h.use))
	le.PutUint64(b[16:], h.epoch)
	le.PutUint64(b[24:], h.base)
	le.PutUint64(b[32:], h.carried)
	le.PutUint32(b[40:], uint32(h.owner))
	le.PutUint32(b, durable.Sum(b[4:]))
	return b
}

func decodeJournalHead(b []byte) (h journalHead, ok bool) {
	le := binary.LittleEndian
	if len(b) < journalStart || string(b[4:8]) != journalMagic || le.Uint32(b) != durable.Sum(b[4:journalStart]) {
		return h, false
	}
	return journalHead{int64(le.Uint64(b[8:])), le.Uint64(b[16:]), le.Uint64(b[24:]), le.Uint64(b[32:]), int(le.Uint32(b[40:]))}, true
}

func journalPath(dir string, owner int, epoch uint64) string {
	return filepath.Join(dir, fmt.Sprintf("journal-%d-%d", owner, epoch))
}

// keepers returns the nodes that keep the journal of a fragment.
func keepers(owner, replicas, nodes int) []int {
	list := make([]int, replicas+1)
	for i := range list {
		list[i] = (owner + i) % nodes
	}
	return list
}

// createJournal makes the files of a journal with some frames, and their names
// durable: only then do they count.
func createJournal(nodes []Node, dirs []string, head journalHead, limit int64, carried func(add func(frame, []byte) error) error) (*journal, error) {
	j := &journal{head: head, size: journalStart, limit: limit}
	for i, n := range nodes {
		c := journalCopy{node: n, path: journalPath(dirs[i], head.owner, head.epoch)}
		err := durable.Remove(n.FS, c.path)
		if err == nil {
			c.file, err = n.FS.Create(c.path)
		}
		if err != nil {
			return nil, errors.Join(durable.Op("create", c.path, -1, err), j.close())
		}
		j.copies = append(j.copies, c)
	}
	if err := j.begin(dirs, carried); err != nil {
		return nil, errors.Join(err, j.close())
	}
	return j, nil
}

func (j *journal) begin(dirs []string, carried func(add func(frame, []byte) error) error) error {
	if carried != nil {
		err := carried(func(h frame, payload []byte) error {
			j.head.carried++
			return j.append(h, payload)
		})
		if err != nil {
			return err
		}
	}
	for i, c := range j.copies {
		if err := durable.WriteAt(c.file, c.path, j.head.encode(), 0); err != nil {
			return err
		}
		if err := durable.Op("sync", c.path, -1, c.file.Sync()); err != nil {
			return err
		}
		if err := durable.Op("sync", dirs[i], -1, c.node.FS.SyncDir(dirs[i])); err != nil {
			return err
		}
	}
	return nil
}

// append makes a request durable in all copies.
func (j *journal) append(h frame, payload []byte) error {
	at := j.size
	err := each(len(j.copies), func(i int) error {
		return writeFrame(j.copies[i].file, j.copies[i].path, at, h, payload)
	})
	j.size += frameHead + int64(len(payload))
	return err
}

func (j *journal) close() error {
	var errs []error
	for _, c := range j.copies {
		if c.file != nil {
			errs = append(errs, c.file.Close())
		}
	}
	return errors.Join(errs...)
}

// removeJournals removes the journals of a directory that drop names, durably.
func removeJournals(n Node, dir string, drop func(owner int, epoch uint64) bool) error {
	list, err := n.FS.ReadDir(dir)
	if err != nil {
		return durable.Op("read", dir, -1, err)
	}
	removed := false
	for _, e := range list {
		owner, epoch, ok := parseJournal(e.Name())
		if !ok || !drop(owner, epoch) {
			continue
		}
		if err := durable.Remove(n.FS, filepath.Join(dir, e.Name())); err != nil {
			return err
		}
		removed = true
	}
	if !removed {
		return nil
	}
	return durable.Op("sync", dir, -1, n.FS.SyncDir(dir))
}

func parseJournal(name string) (owner int, epoch uint64, ok bool) {
	n, err := fmt.Sscanf(name, "journal-%d-%d", &owner, &epoch)
	return owner, epoch, err == nil && n == 2 && name == fmt.Sprintf("journal-%d-%d", owner, epoch)
}

// A found journal is a copy that was found on a node. Its file is open.
type found struct {
	head   journalHead
	frames []frame
	end    int64 // of the last whole frame
	path   string
	file   vfs.File
}

// findJournals opens all copies on a node that are of this use of the file.
func findJournals(n Node, dir string, use int64) ([]*found, error) {
	list, err := n.FS.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, durable.Op("read", dir, -1, err)
	}
	var all []*found
	for _, e := range list {
		if _, _, ok := parseJournal(e.Name()); !ok {
			continue
		}
		j, err := scanJournal(n, filepath.Join(dir, e.Name()), use)
		if err != nil {
			return nil, errors.Join(err, closeFound(all))
		}
		if j != nil {
			all = append(all, j)
		}
	}
	return all, nil
}

// scanJournal returns nil for a file that does not count: one whose head or carried
// frames are not there yet, or one of another use of the file.
func scanJournal(n Node, path string, use int64) (*found, error) {
	f, err := n.FS.Open(path)
	if err != nil {
		return nil, durable.Op("open", path, -1, err)
	}
	j := &found{path: path, file: f}
	if ok, err := j.scan(use); err != nil || !ok {
		return nil, errors.Join(err, f.Close())
	}
	return j, nil
}

func (j *found) scan(use int64) (bool, error) {
	size, err := j.file.Size()
	if err != nil {
		return false, durable.Op("read", j.path, -1, err)
	}
	if size < journalStart {
		return false, nil
	}
	b := make([]byte, journalStart)
	if err := durable.ReadAt(j.file, j.path, b, 0); err != nil {
		return false, err
	}
	var ok bool
	if j.head, ok = decodeJournalHead(b); !ok || j.head.use != use {
		return false, nil
	}
	for at := int64(journalStart); ; {
		j.end = at
		h, ok, err := readFrame(j.file, j.path, at, size, use)
		if err != nil {
			return false, err
		}
		if !ok { // the end, or a torn frame
			return uint64(len(j.frames)) >= j.head.carried, nil
		}
		j.frames = append(j.frames, h)
		at = h.at + h.n
	}
}

func closeFound(list []*found) error {
	var errs []error
	for _, j := range list {
		errs = append(errs, j.file.Close())
	}
	return errors.Join(errs...)
}

// newest returns the copy to use for each fragment, or nil: of
// those that build on the newest base, the one of the newest epoch, the longest. A
// fragment whose copies all build on an older base needs no frames, since the store
// had all fragments before the first journal began again.
func newest(all []*found, nodes int) (best []*found, base uint64) {
	for _, j := range all {
		base = max(base, j.head.base)
	}
	best = make([]*found, nodes)
	for _, j := range all {
		if j.head.owner >= nodes {
			continue
		}
		if j.head.base != base {
			j = &found{head: journalHead{owner: j.head.owner, base: base}}
		}
		if b := best[j.head.owner]; b == nil || j.compare(b) > 0 {
			best[j.head.owner] = j
		}
	}
	return best, base
}

func (j *found) compare(other *found) int {
	return cmp.Or(cmp.Compare(j.head.epoch, other.head.epoch), cmp.Compare(len(j.frames), len(other.frames)))
}

// A requestID names a request of a process.
type requestID struct {
	process int
	seq     uint64
}

// unfinished returns the requests whose parts are not all in the journals, which were
// under way, and the others, which count.
func unfinished(best []*found) (cut, counted map[requestID]bool) {
	parts := make(map[requestID]map[int]bool)
	cut, counted = make(map[requestID]bool), make(map[requestID]bool)
	for _, j := range best {
		for _, h := range j.frames {
			id := requestID{h.process, h.seq}
			if parts[id] == nil {
				parts[id] = make(map[int]bool)
			}
			parts[id][h.part] = true
			cut[id] = len(parts[id]) < h.parts
		}
	}
	for id := range parts {
		if !cut[id] {
			counted[id] = true
			delete(cut, id)
		}
	}
	return cut, counted
}

// lastSeq returns the largest number of a request of a process.
func lastSeq(best []*found, process int) (last uint64) {
	for _, j := range best {
		for _, h := range j.frames {
			if h.process == process {
				last = max(last, h.seq)
			}
		}
	}
	return last
}
