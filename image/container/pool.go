package container

import (
	"path"

	"ckpt/zones"

	"github.com/zeebo/blake3"
)

// An ID identifies the bytes of an extent: the first half of their blake3-256.
type ID [16]byte

// IDOf returns the identity of an extent. It costs a pass over its bytes.
func IDOf(raw []byte) ID {
	sum := blake3.Sum256(raw)
	return ID(sum[:16])
}

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

// Add puts the extents of the files of checkpoint number into the pool, also those
// that it has from earlier ones. Of an earlier file of which the checkpoint uses less
// than half, it offers nothing: it is better stored anew than kept for ever for the
// sake of a few extents. Files that cannot be read are an error: what refers to them
// could not be restored.
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

// extentsOf calls each for every stored extent of a file, with
// the length of the payload of the file that holds it.
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
