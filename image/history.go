package image

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"sync"
)

// A History remembers the extents of the files that a process has written or
// loaded, so that what has not changed since is not stored again. Extents are
// compared by their place, and by the hash of their contents.
//
// References always lead to the file that holds the bytes. An extent whose file is
// of a checkpoint before WriteOptions.Oldest is stored anew, so that a checkpoint
// does not depend on all that there ever were.
//
// It may be used by several goroutines. It takes about 150 bytes per extent.
type History struct {
	mu    sync.Mutex
	files map[string]map[int]*past // by name without directory, and checkpoint
}

// NewHistory returns an empty history.
func NewHistory() *History { return &History{files: make(map[string]map[int]*past)} }

// past is what a file of a checkpoint held.
type past struct {
	number  int
	extents map[pastKey]poolEntry
}

type pastKey struct {
	region string
	offset int64
	poolKey
}

// find returns where an extent of this place and contents is stored, if that is
// in a file of checkpoint oldest or a later one.
func (p *past) find(region string, offset int64, key poolKey, oldest int) (poolEntry, bool) {
	if p == nil {
		return poolEntry{}, false
	}
	at, ok := p.extents[pastKey{region, offset, key}]
	if !ok {
		return at, false
	}
	holder, ok := parsePathNumber(at.file.path)
	return at, ok && holder >= oldest
}

// of returns what the file of this name held in checkpoint base; nil if that is
// not known.
func (h *History) of(file string, base int) *past {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.files[filepath.Base(file)][base]
}

// remember keeps what w has written, besides what its base held: only one of
// the two will be the base of the next.
func (h *History) remember(w *writer) {
	if h == nil {
		return
	}
	self := &poolFile{path: path.Join(filepath.Base(filepath.Dir(w.path)), filepath.Base(w.path)), digest: w.trailer.digest, closed: true}
	p := &past{number: w.number, extents: make(map[pastKey]poolEntry, len(w.index.extents))}
	for i, e := range w.index.extents {
		if ID(e.id) == (ID{}) {
			continue
		}
		file := w.holders[i]
		if file == nil {
			file = self
		}
		p.add(&w.index, e, file)
	}
	h.keep(filepath.Base(w.path), p, w.opt.Base)
}

func (p *past) add(x *index, e extentRec, file *poolFile) {
	e.fileRef = 0
	p.extents[pastKey{x.regions[e.region].name, e.offset, poolKey{e.id, int(e.rawLen)}}] = poolEntry{file, e}
}

// keep stores p and forgets all others but that of base.
func (h *History) keep(name string, p *past, base int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	files := map[int]*past{p.number: p}
	if b := h.files[name][base]; b != nil {
		files[base] = b
	}
	h.files[name] = files
}

// Recall fills h with what a file of checkpoint m holds, so that the first
// checkpoint after a restart can refer to it.
func (j *Job) Recall(h *History, m *Manifest, file string) error {
	i := slices.IndexFunc(m.Files, func(f File) bool { return f.Path == file })
	if i < 0 {
		return opError("open", file, -1, fmt.Errorf("checkpoint %d has no such file", m.Number))
	}
	c, err := j.openFile(m, m.Files[i])
	if err != nil {
		return err
	}
	defer c.Close()
	holders := []*poolFile{{path: file, digest: c.trailer.digest, closed: true}}
	for _, ref := range c.index.files {
		holders = append(holders, &poolFile{path: ref.path, digest: ref.digest, closed: true})
	}
	p := &past{number: m.Number, extents: make(map[pastKey]poolEntry)}
	for _, e := range c.index.extents {
		if ID(e.id) != (ID{}) {
			p.add(c.index, e, holders[e.fileRef])
		}
	}
	h.keep(path.Base(file), p, m.Number)
	return nil
}

// refer numbers the files that the extents with holders are in, in the order in
// which they are first met, and enters the numbers.
func (x *index) refer(holders []*poolFile) {
	x.files = nil
	refs := make(map[string]uint32)
	for i, h := range holders {
		if h == nil {
			continue
		}
		k, ok := refs[h.path]
		if !ok {
			x.files = append(x.files, fileRec{digest: h.digest, path: h.path})
			k = uint32(len(x.files))
			refs[h.path] = k
		}
		x.extents[i].fileRef = k
	}
}
