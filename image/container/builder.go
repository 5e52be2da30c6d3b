package container

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"ckpt/image/codec"
	"ckpt/internal/durable"
	"ckpt/zones"
)

// A Builder makes a container file out of a stream of extents. Those known to its Pool become
// references, so that what files have in common is stored once.
//
// One goroutine uses a Builder, which writes behind it. It needs up to four buffers of 4 MiB,
// which Flush gives back, and 64 bytes per extent.
type Builder struct {
	out    *output // nil once it is closed
	path   string
	pool   *Pool
	self   *poolFile // this file, as the pool knows it
	header []byte
	index  index
	rank   int32
	zones  zones.Sizes
	pack   *codec.Encoder // nil: extents are stored as they are
	refs   map[*poolFile]uint32

	stage []byte
	n     int   // bytes staged
	at    int64 // file offset of the stage
	open  int64 // bytes that the last region still lacks

	writes errgroup.Group // under way
	failed atomic.Value   // the first error of one
	spare  chan []byte    // stages that may be used; nil ones are not made yet

	aside     []extentRec // of the region that Aside makes
	asideName string
	asideZone zones.Zone
	asideSize int64
	asideBuf  []byte // not stored yet
}

// maxExtents leaves room in the index for the names of regions.
const maxExtents = maxIndex / 2 / extentSize

// asideBytes is the length of the extents that Aside makes.
const asideBytes = 256 << 10

// Build creates the container file at path. Pool may be nil.
func (p Place) Build(path string, h Header, pool *Pool) (*Builder, error) {
	if err := h.check(); err != nil {
		return nil, durable.Op("create", path, -1, err)
	}
	b := &Builder{path: path, pool: pool, rank: int32(h.Rank), header: aligned(BlockSize),
		at: BlockSize, refs: make(map[*poolFile]uint32)}
	rel, err := filepath.Rel(p.Dir, path)
	if err != nil {
		return nil, durable.Op("create", path, -1, err)
	}
	b.self = &poolFile{path: filepath.ToSlash(rel)}
	h.encode(b.header)
	b.index.header = digestOf(b.header)
	b.out, err = createOutput(p.FS, path, tracer{}, false, 0)
	return b, err
}

// Pack has the extents that follow packed by a codec, which may be nil, where that pays.
func (b *Builder) Pack(c *Codec) { b.pack = c.encoder(0) }

// Region begins the next region. The extents that follow cover its size, rounded up to pages.
func (b *Builder) Region(name string, zone zones.Zone, size int64) error {
	if err := b.full(); err != nil {
		return err
	}
	if name == "" || len(name) > maxName || !zone.Valid() || size < 0 {
		return durable.Op("write", b.path, -1, fmt.Errorf("region %.40q has %d bytes of %v", name, size, zone))
	}
	b.index.regions = append(b.index.regions, regionRec{name: name, zone: zone, rank: b.rank, size: size})
	b.zones.Add(zone, size)
	b.open = zones.PageRound(size)
	return nil
}

// full checks that the last region is covered.
func (b *Builder) full() error {
	if b.open == 0 {
		return nil
	}
	r := b.index.regions[len(b.index.regions)-1]
	return durable.Op("write", b.path, -1, fmt.Errorf("region %q of %d bytes lacks %d", r.name, r.size, b.open))
}

// Zeros covers the next n bytes of the region with zeros, which cost nothing.
func (b *Builder) Zeros(n int64) error {
	for n > 0 {
		e := extentRec{codec: codecZero, rawLen: min(n, maxExtent)}
		if err := b.add(e); err != nil {
			return err
		}
		n -= e.rawLen
	}
	return nil
}

// Rest covers the rest of the region with zeros.
func (b *Builder) Rest() error { return b.Zeros(b.open) }

// Extent covers the next bytes of the region with raw, whole pages of at most 64 MiB identified
// by id. It reports whether they had to be stored.
func (b *Builder) Extent(raw []byte, id ID) (stored bool, err error) {
	if len(raw) == 0 || len(raw)%zones.PageSize != 0 || len(raw) > maxExtent {
		return false, durable.Op("write", b.path, -1,
			fmt.Errorf("extent of %d bytes: want whole pages, at most %d", len(raw), maxExtent))
	}
	e, p, known := b.record(raw, id)
	if err := b.add(e); err != nil || known {
		return false, err
	}
	return true, b.store(p)
}

// record makes the record of an extent: a reference if it is known, else the next place, with the
// bytes to store there.
func (b *Builder) record(raw []byte, id ID) (e extentRec, stored []byte, known bool) {
	key := poolKey{id, len(raw)}
	if at, ok := b.pool.find(key); ok {
		return b.reference(at), nil, true
	}
	e = extentRec{rawLen: int64(len(raw)), id: id, fileOff: b.at + int64(b.n)}
	e.sum(raw)
	stored = raw
	if b.pack != nil {
		if packed := b.pack.Encode(raw, zones.Bytes); packed.ID != codec.Raw && packed.ID != codec.Zero {
			e.codec, e.filter, stored = uint8(packed.ID), uint8(packed.Filter), packed.Data
			e.storedCRC = durable.Sum(stored)
		}
	}
	e.storedLen = int64(len(stored))
	b.pool.put(key, poolEntry{b.self, e})
	return e, stored, false
}

// Share covers the next bytes of the region with a reference to raw, which it stores at the end
// of the last region of the file pack unless it is known.
func (b *Builder) Share(raw []byte, id ID, pack *Builder) (stored bool, err error) {
	key := poolKey{id, len(raw)}
	if _, ok := b.pool.find(key); !ok {
		if err := pack.grow(int64(len(raw))); err != nil {
			return false, err
		}
		if stored, err = pack.Extent(raw, id); err != nil {
			return false, err
		}
	}
	at, ok := b.pool.find(key)
	if !ok {
		return false, durable.Op("write", b.path, -1, errors.New("the files do not share a pool"))
	}
	return stored, b.add(b.reference(at))
}

// grow makes the last region n bytes larger, of a file that collects extents of others.
func (b *Builder) grow(n int64) error {
	if len(b.index.regions) == 0 || n <= 0 || n%zones.PageSize != 0 {
		return durable.Op("write", b.path, -1, fmt.Errorf("no region to make %d bytes larger", n))
	}
	r := &b.index.regions[len(b.index.regions)-1]
	r.size += n
	b.open += n
	b.zones.Add(r.zone, n)
	return nil
}

// Aside appends bytes to one more region, while others are covered: what belongs to all of
// them, like the headers of a foreign format. It becomes the last region.
func (b *Builder) Aside(name string, zone zones.Zone, p []byte) error {
	if b.asideBuf == nil {
		b.asideBuf = make([]byte, 0, asideBytes)
		b.asideName, b.asideZone = name, zone
	}
	b.asideSize += int64(len(p))
	for len(p) > 0 {
		n := min(len(p), cap(b.asideBuf)-len(b.asideBuf))
		b.asideBuf = append(b.asideBuf, p[:n]...)
		p = p[n:]
		if len(b.asideBuf) == cap(b.asideBuf) {
			if err := b.storeAside(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *Builder) storeAside() error {
	n := zones.PageRound(int64(len(b.asideBuf)))
	if n == 0 {
		return nil
	}
	raw := b.asideBuf[:n]
	clear(raw[len(b.asideBuf):])
	b.asideBuf = b.asideBuf[:0]
	e, p, known := b.record(raw, IDOf(raw))
	b.aside = append(b.aside, e)
	if known {
		return nil
	}
	return b.store(p)
}

// addAside makes the region of what was put aside.
func (b *Builder) addAside() error {
	if b.asideBuf == nil {
		return nil
	}
	if err := b.storeAside(); err != nil {
		return err
	}
	if err := b.Region(b.asideName, b.asideZone, b.asideSize); err != nil {
		return err
	}
	for _, e := range b.aside {
		if err := b.add(e); err != nil {
			return err
		}
	}
	return b.full()
}

// reference returns the record of an extent that lies elsewhere, or earlier in this file.
func (b *Builder) reference(at poolEntry) extentRec {
	e := at.extent
	if at.file == b.self {
		return e
	}
	k, ok := b.refs[at.file]
	if !ok {
		b.index.files = append(b.index.files, fileRec{path: at.file.path})
		k = uint32(len(b.index.files))
		b.refs[at.file] = k
	}
	e.fileRef = k
	return e
}

func (b *Builder) add(e extentRec) error {
	if e.rawLen > b.open {
		return durable.Op("write", b.path, -1, fmt.Errorf("an extent of %d bytes is %d too long for its region", e.rawLen, e.rawLen-b.open))
	}
	if len(b.index.extents) >= maxExtents {
		return durable.Op("write", b.path, -1, fmt.Errorf("the process has more than %d extents, or too much address space: its index would be too long", maxExtents))
	}
	r := &b.index.regions[len(b.index.regions)-1]
	e.region = uint32(len(b.index.regions) - 1)
	e.offset = zones.PageRound(r.size) - b.open
	b.open -= e.rawLen
	b.index.extents = append(b.index.extents, e)
	r.extents++
	return nil
}

// store appends the bytes of an extent to the payload, up to a page.
func (b *Builder) store(p []byte) error {
	if err := b.append(p); err != nil {
		return err
	}
	var zero [zones.PageSize]byte
	return b.append(zero[:zones.PageRound(int64(len(p)))-int64(len(p))])
}

func (b *Builder) append(raw []byte) error {
	for len(raw) > 0 {
		if err, _ := b.failed.Load().(error); err != nil {
			return err // no use in going on
		}
		if b.stage == nil {
			b.takeStage()
		}
		n := copy(b.stage[b.n:], raw)
		b.n += n
		raw = raw[n:]
		if b.n == len(b.stage) {
			b.flush()
		}
	}
	return nil
}

// takeStage waits for a buffer.
func (b *Builder) takeStage() {
	if b.spare == nil {
		b.spare = make(chan []byte, defaultDepth)
		for range cap(b.spare) {
			b.spare <- nil
		}
	}
	if b.stage = <-b.spare; b.stage == nil {
		b.stage = aligned(stageBytes)
	}
}

// flush writes the stage, while the next one is filled.
func (b *Builder) flush() {
	if b.n == 0 {
		return
	}
	stage, n, at := b.stage, b.n, b.at
	b.writes.Go(func() error {
		err := b.out.write(stage[:n], at)
		if err != nil {
			b.failed.CompareAndSwap(nil, err)
		}
		b.spare <- stage
		return err
	})
	b.at += int64(n)
	b.stage, b.n = nil, 0
}

// Flush writes what is staged and gives the buffers back; extents may follow.
func (b *Builder) Flush() error {
	b.flush()
	err := b.writes.Wait()
	b.stage, b.spare = nil, nil
	return err
}

// Close completes the file and returns when its data is durable. The files that it refers to
// are closed before. After an error the file is removed.
func (b *Builder) Close() (FileInfo, error) {
	size, err := b.finish()
	if err != nil {
		return FileInfo{}, errors.Join(err, b.Discard())
	}
	out := b.out
	b.out = nil
	if err := out.close(nil); err != nil {
		return FileInfo{}, err
	}
	return FileInfo{Path: b.path, Bytes: size, IndexBlake3: hexDigest(b.self.digest), Zones: b.zones}, nil
}

func (b *Builder) finish() (size int64, err error) {
	if err := b.full(); err != nil {
		return 0, err
	}
	if err := b.addAside(); err != nil {
		return 0, err
	}
	if err := b.index.checkNames(); err != nil {
		return 0, durable.Op("write", b.path, -1, err)
	}
	for file, k := range b.refs {
		if !file.closed {
			return 0, durable.Op("write", b.path, -1, fmt.Errorf("it refers to %s, which is not complete", file.path))
		}
		b.index.files[k-1].digest = file.digest
	}
	if err := b.Flush(); err != nil {
		return 0, err
	}
	t := b.index.tail(b.at)
	err = b.out.write(b.header, 0)
	if err == nil {
		err = b.out.complete(t.bytes, t.trailer)
	}
	if err != nil {
		return 0, err
	}
	b.self.digest, b.self.closed = t.trailer.digest, true
	return t.trailer.fileLen, b.out.sync()
}

// Discard removes the file. After Close it does nothing.
func (b *Builder) Discard() error {
	if b.out == nil {
		return nil
	}
	_ = b.Flush() // nothing may write to the file any more
	out := b.out
	b.out = nil
	return out.discard()
}
