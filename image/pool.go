package image

import "path/filepath"

// A Pool knows extents by their contents: those of earlier checkpoints that were
// put into it, and those that Builders have stored since. It is used by one
// goroutine. An extent costs it about 150 bytes.
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

// AddTo puts the extents of checkpoint m into the pool, also those that it has
// from earlier ones. Files that cannot be read are an error: what refers to
// them could not be restored.
func (j *Job) AddTo(p *Pool, m *Manifest) error {
	for _, f := range m.Files {
		if err := j.addFile(p, m, f); err != nil {
			return err
		}
	}
	return nil
}

func (j *Job) addFile(p *Pool, m *Manifest, f File) error {
	c, err := j.openFile(m, f)
	if err != nil {
		return err
	}
	defer c.Close()
	rel, err := filepath.Rel(j.dir, c.path)
	if err != nil {
		return err
	}
	files := []*poolFile{p.file(filepath.ToSlash(rel), c.trailer.digest)}
	for _, ref := range c.index.files {
		x, err := j.openRef(c, ref)
		if err != nil {
			return err
		}
		x.Close()
		files = append(files, p.file(ref.path, ref.digest))
	}
	for _, e := range c.index.extents {
		if ID(e.id) == (ID{}) {
			continue
		}
		entry := poolEntry{files[e.fileRef], e}
		entry.extent.fileRef = 0
		p.put(poolKey{e.id, int(e.rawLen)}, entry)
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
