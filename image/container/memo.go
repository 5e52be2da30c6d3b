package container

import (
	"errors"
	"sort"
	"sync"

	"ckpt/internal/durable"
)

// A Memo remembers what has been verified of the files of a job, so that
// checkpoints which share files have each byte of them read once. A file of
// thousands of checkpoints is referred to by many: their indexes are kept as well,
// up to a bound.
type Memo struct {
	mu      sync.Mutex
	files   map[memoKey]*checkedFile
	indexes map[memoKey]*container // closed
	extents int                    // of indexes
}

// memoExtents bounds the extents of the indexes that a Memo keeps, about 100 bytes each.
const memoExtents = 1 << 18

// A memoKey names a file with certain contents.
type memoKey struct {
	path  string
	index [32]byte
}

// A checkedFile is what has been verified of a file. One goroutine at a time
// verifies a file.
type checkedFile struct {
	index   bool           // header, index and trailer have been read
	whole   bool           // all of it has been
	extents map[int64]bool // which have been read, by offset, unless all have
	damage  []*durable.DamageError
}

// file returns what has been verified of c.
func (m *Memo) file(c *container) *checkedFile {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.files == nil {
		m.files = make(map[memoKey]*checkedFile)
	}
	key := memoKey{c.path, c.trailer.digest}
	if m.files[key] == nil {
		m.files[key] = &checkedFile{extents: make(map[int64]bool)}
	}
	return m.files[key]
}

// index returns the container with the index that ref names, closed, or nil.
func (m *Memo) index(ref fileRec) *container {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.indexes[memoKey{ref.path, ref.digest}]
}

// keep remembers the index of a container for index.
func (m *Memo) keep(ref fileRec, c *container) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := len(c.index.extents)
	if m.indexes == nil || m.extents+n > memoExtents {
		m.indexes, m.extents = make(map[memoKey]*container), 0
	}
	m.indexes[memoKey{ref.path, ref.digest}] = c
	m.extents += n
}

// unread returns the extents of list that have not been read.
func (f *checkedFile) unread(list []extentRec) (fresh []extentRec) {
	for _, e := range list {
		if !f.whole && !f.extents[e.fileOff] {
			fresh = append(fresh, e)
		}
	}
	return fresh
}

func (f *checkedFile) remember(list []extentRec) {
	for _, e := range list {
		f.extents[e.fileOff] = true
	}
}

// complete says that all of the file has been read.
func (f *checkedFile) complete() { f.whole, f.extents = true, nil }

// noting returns a function that remembers damage and passes it on.
func (f *checkedFile) noting(note func(error) error) func(error) error {
	return func(err error) error {
		var d *durable.DamageError
		if errors.As(err, &d) {
			f.damage = append(f.damage, d)
		}
		return note(err)
	}
}

// again notes the damage that was found before in any of the extents, which are in the
// order of the file, or, of the nil list, in the file.
func (f *checkedFile) again(note func(error) error, list []extentRec) error {
	for _, d := range f.damage {
		// The last extent that begins at or before the damage.
		i := sort.Search(len(list), func(i int) bool { return list[i].fileOff > d.Offset }) - 1
		if list != nil && (i < 0 || d.Offset >= list[i].fileOff+max(list[i].storedLen, 1)) {
			continue
		}
		if err := note(d); err != nil {
			return err
		}
	}
	return nil
}
