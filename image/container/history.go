package container

import (
	"path"
	"sync"

	"github.com/zeebo/blake3"

	"ckpt/zones"
)

// A History remembers the extents that a process has written or loaded, so that what has not
// changed is not stored again. Extents are compared by place and by the hash of their contents;
// those known to be clean by place alone, for which regions of a zone have different names.
//
// References lead to the file that holds the bytes. An extent in a file of a checkpoint before
// WriteOptions.Oldest is stored anew: a checkpoint does not depend on all before it.
//
// Goroutines may share it. It takes about 130 bytes per extent.
type History struct {
	mu    sync.Mutex
	pasts map[int]*past // by checkpoint
}

// NewHistory returns an empty history.
func NewHistory() *History { return &History{pasts: make(map[int]*past)} }

// past is what the process stored in a checkpoint, in whichever files.
type past struct{ extents map[pastKey]poolEntry }

type pastKey struct {
	region string
	zone   zones.Zone
	offset int64
}

// find returns where an extent of this place and contents is stored, in checkpoint oldest or
// later.
func (p *past) find(r *zones.Region, offset int64, key poolKey, oldest int) (poolEntry, bool) {
	at, ok := p.at(r, offset, int64(key.len), oldest)
	return at, ok && at.extent.id == key.id
}

// at returns where the extent of this place and length is stored, in checkpoint oldest or
// later. An extent of zeros has no file.
func (p *past) at(r *zones.Region, offset, n int64, oldest int) (poolEntry, bool) {
	if p == nil {
		return poolEntry{}, false
	}
	at, ok := p.extents[pastKey{r.Name, r.Zone, offset}]
	if !ok || at.extent.rawLen != n {
		return at, false
	}
	if at.file == nil {
		return at, true
	}
	holder, ok := PathNumber(at.file.path)
	return at, ok && holder >= oldest
}

// same is find for an extent of another file, whose contents may not be known.
func (p *past) same(r regionRec, e extentRec, oldest int) (poolEntry, bool) {
	region := zones.Region{Name: r.name, Zone: r.zone}
	at, ok := p.find(&region, e.offset, poolKey{e.id, int(e.rawLen)}, oldest)
	return at, ok && at.file != nil && ID(e.id) != (ID{})
}

// of returns what the process stored in checkpoint base; nil if that is not known.
func (h *History) of(base int) *past {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.pasts[base]
}

// remember keeps what was stored in checkpoint number, after base, in the file name with this
// digest, and by holders in others.
func (h *History) remember(number, base int, x *index, holders []*poolFile, name string, digest [32]byte) {
	if h == nil {
		return
	}
	self := &poolFile{path: JobPath(name), digest: digest, closed: true}
	h.add(number, base, func(p *past) {
		for i, e := range x.extents {
			file := holders[i]
			if file == nil {
				file = self
			}
			p.add(x, e, file)
		}
	})
}

// add adds an extent, unless its contents are not known.
func (p *past) add(x *index, e extentRec, file *poolFile) {
	switch {
	case e.codec == codecZero:
		file = nil
	case ID(e.id) == (ID{}):
		return
	}
	e.fileRef = 0
	r := &x.regions[e.region]
	p.extents[pastKey{r.name, r.zone, e.offset}] = poolEntry{file, e}
}

// add adds to checkpoint number, and forgets all others but base: one of the two is the base of
// the next.
func (h *History) add(number, base int, add func(*past)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.pasts[number]
	if p == nil {
		p = &past{make(map[pastKey]poolEntry)}
		h.pasts[number] = p
	}
	add(p)
	for n := range h.pasts {
		if n != number && n != base {
			delete(h.pasts, n)
		}
	}
}

// Recall fills h with what a file of checkpoint number holds of a rank, for the first
// checkpoint after a restart to refer to.
func (h *History) Recall(p Place, f File, number, rank int) error {
	c, err := p.openAny(f)
	if err != nil {
		return err
	}
	defer c.Close()
	if c.rebuilt != nil {
		return nil // the next checkpoint refers to sound files only
	}
	holders := []*poolFile{{path: f.Path, digest: c.trailer.digest, closed: true}}
	for _, ref := range c.index.files {
		holders = append(holders, &poolFile{path: ref.path, digest: ref.digest, closed: true})
	}
	h.add(number, number, func(p *past) {
		for _, e := range c.index.extents {
			if isOf(c.index.regions[e.region].rank, rank) {
				p.add(c.index, e, holders[e.fileRef])
			}
		}
	})
	return nil
}

// refer numbers the files of the extents with holders, as they are first met, and enters the
// numbers.
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

// An ID identifies the bytes of an extent: the first half of their blake3-256.
type ID [16]byte

// IDOf returns the identity of an extent. It costs a pass over its bytes.
func IDOf(raw []byte) ID {
	sum := blake3.Sum256(raw)
	return ID(sum[:16])
}

// A Pool knows extents by their contents: those added from earlier checkpoints, and those that
// Builders have stored since. It serves one goroutine and takes about 150 bytes per extent.
type Pool struct {
	extents map[poolKey]poolEntry
	files   map[string]*poolFile
}

// NewPool returns an empty pool.
func NewPool() *Pool {
	return &Pool{extents: make(map[poolKey]poolEntry), files: make(map[string]*poolFile)}
}

type poolKey struct {
	id  ID
	len int
}

// poolEntry is where an extent is stored.
type poolEntry struct {
	file   *poolFile
	extent extentRec
}

// poolFile is a container file; its digest is known when it is closed.
type poolFile struct {
	path   string // relative to the directory of the job
	digest [32]byte
	closed bool
}

func (p *Pool) find(k poolKey) (poolEntry, bool) {
	if p == nil {
		return poolEntry{}, false
	}
	e, ok := p.extents[k]
	return e, ok
}

func (p *Pool) put(k poolKey, e poolEntry) {
	if p != nil {
		p.extents[k] = e
	}
}

// Add puts the extents of the files of checkpoint number into the pool. It leaves out an
// earlier file of which the checkpoint uses less than half: that is better stored anew than
// kept for ever. A file that cannot be read is an error: what refers to it could not be
// restored.
func (p *Pool) Add(place Place, number int, files []File) error {
	var found []pooled
	live := make(map[*poolFile]map[int64]int64) // offsets and lengths in use
	size := make(map[*poolFile]int64)
	for _, f := range files {
		err := p.extentsOf(place, f, func(key poolKey, e poolEntry, payload int64) {
			if live[e.file] == nil {
				live[e.file] = make(map[int64]int64)
			}
			live[e.file][e.extent.fileOff] = zones.PageRound(e.extent.storedLen)
			size[e.file] = payload
			if key.id != (ID{}) {
				found = append(found, pooled{key, e})
			}
		})
		if err != nil {
			return err
		}
	}
	worth := make(map[*poolFile]bool)
	for f, extents := range live {
		used := int64(0)
		for _, n := range extents {
			used += n
		}
		worth[f] = path.Dir(f.path) == FormatNumber(number) || used >= size[f]/2
	}
	for _, x := range found {
		if worth[x.entry.file] {
			p.put(x.key, x.entry)
		}
	}
	return nil
}

type pooled struct {
	key   poolKey
	entry poolEntry
}

// extentsOf calls each for every stored extent of a file, with the payload of the file that
// holds it.
func (p *Pool) extentsOf(place Place, f File, each func(poolKey, poolEntry, int64)) error {
	c, err := place.open(f)
	if err != nil {
		return err
	}
	defer c.Close()
	files := []*poolFile{p.file(f.Path, c.trailer.digest)}
	payload := []int64{c.trailer.indexOffset - BlockSize}
	for _, ref := range c.index.files {
		x, err := place.openRef(c, ref)
		if err != nil {
			return err
		}
		x.Close()
		files = append(files, p.file(ref.path, ref.digest))
		payload = append(payload, x.trailer.indexOffset-BlockSize)
	}
	for _, e := range c.index.extents {
		if e.codec == codecZero {
			continue
		}
		entry := poolEntry{files[e.fileRef], e}
		entry.extent.fileRef = 0
		each(poolKey{e.id, int(e.rawLen)}, entry, payload[e.fileRef])
	}
	return nil
}

// file returns the one poolFile of a path.
func (p *Pool) file(path string, digest [32]byte) *poolFile {
	f := p.files[path]
	if f == nil || f.digest != digest {
		f = &poolFile{path: path, digest: digest, closed: true}
		p.files[path] = f
	}
	return f
}
