package container

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"sync"

	"ckpt/internal/durable"
	"ckpt/internal/vfs"
	"ckpt/zones"
)

// IsImage reports whether a file that begins with head is a container file.
func IsImage(head []byte) bool {
	return len(head) >= len(headerMagic) && string(head[:len(headerMagic)]) == headerMagic
}

// Contents is an open container file of a checkpoint, to be read in parts. Its
// methods may be called from several goroutines.
type Contents struct {
	place   Place
	c       *container
	refs    []*container
	Regions []zones.Region // without memory
	first   []int          // extent of each region, and one more
	readers sync.Pool      // of extentReaders, for their decoders and buffers
}

// Open opens a file, and the files it refers to.
func (p Place) Open(f File) (*Contents, error) {
	c, err := p.open(f)
	if err != nil {
		return nil, err
	}
	o := &Contents{place: p, c: c, Regions: c.regions()}
	for _, ref := range c.index.files {
		x, err := p.openRef(c, ref)
		if err != nil {
			o.Close()
			return nil, err
		}
		o.refs = append(o.refs, x)
		if err := c.checkRefs(uint32(len(o.refs)), x); err != nil {
			o.Close()
			return nil, err
		}
	}
	at := 0
	for _, r := range c.index.regions {
		o.first = append(o.first, at)
		at += int(r.extents)
	}
	o.first = append(o.first, at)
	return o, nil
}

// Close closes all files.
func (o *Contents) Close() error {
	for _, x := range o.refs {
		x.Close()
	}
	if o.c == nil {
		return nil
	}
	return o.c.Close()
}

// An Extent is a part of a region as it is stored.
type Extent struct {
	Offset int64 // in the region
	Bytes  int64
	Zero   bool // nothing is stored
	rec    extentRec
	file   string // where it is stored
}

// SameAs reports whether two extents are stored in one place, or are zeros, or
// are known to have the same contents.
func (e Extent) SameAs(f Extent) bool {
	if e.Bytes != f.Bytes {
		return false
	}
	if e.Zero || f.Zero {
		return e.Zero && f.Zero
	}
	if ID(e.rec.id) != (ID{}) && e.rec.id == f.rec.id {
		return true
	}
	return e.file == f.file && e.rec.fileOff == f.rec.fileOff && e.rec.storedLen == f.rec.storedLen
}

// Extents lists the extents of a region in order.
func (o *Contents) Extents(region int) []Extent {
	recs := o.c.index.extents[o.first[region]:o.first[region+1]]
	out := make([]Extent, len(recs))
	for i, e := range recs {
		out[i] = Extent{Offset: e.offset, Bytes: e.rawLen, Zero: e.codec == codecZero, rec: e, file: o.holder(e).path}
	}
	return out
}

func (o *Contents) holder(e extentRec) *container {
	if e.fileRef == 0 {
		return o.c
	}
	return o.refs[e.fileRef-1]
}

// Read reads an extent into buf, which is as long, and checks it.
func (o *Contents) Read(e Extent, buf []byte) error {
	if int64(len(buf)) != e.Bytes {
		return durable.Op("read", o.c.path, -1, fmt.Errorf("%d bytes for an extent of %d", len(buf), e.Bytes))
	}
	if e.Zero {
		clear(buf)
		return nil
	}
	x := o.holder(e.rec)
	in, _ := o.readers.Get().(*extentReader)
	if in == nil {
		in = new(extentReader)
	}
	defer o.readers.Put(in)
	in.reader, in.f, in.path = &reader{dest: func(extentRec) []byte { return buf }}, x.f, x.path
	return in.span(context.Background(), []extentRec{e.rec}, span{first: 0, last: 1, off: e.rec.fileOff, n: zones.PageRound(e.rec.storedLen)})
}

// checkRefs checks that the extents which c takes from its k-th external file x
// are extents of that file, so that they are sound if the file is.
func (c *container) checkRefs(k uint32, x *container) error {
	type place struct{ off, stored, raw int64 }
	own := make(map[place]extentRec)
	for _, e := range x.index.own() {
		own[place{e.fileOff, e.storedLen, e.rawLen}] = e
	}
	for _, e := range c.index.extents {
		if e.fileRef != k {
			continue
		}
		want := own[place{e.fileOff, e.storedLen, e.rawLen}]
		want.region, want.offset, want.fileRef = e.region, e.offset, e.fileRef
		if e != want {
			return durable.Damaged(c.path, c.trailer.indexOffset, "extent at offset %d of %s is not one of that file", e.fileOff, x.path)
		}
	}
	return nil
}

// Processes describes a container file as the memory of the processes in it: an
// area per region, which have no addresses and begin at 0. Header, index and trailer of
// a file of several ranks count for the first of them.
func Processes(fsys vfs.FS, path string) ([]*zones.Process, error) {
	c, err := openContainer(fsys, path)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	own := c.index.ownOnce()
	overhead := c.size
	for _, hole := range c.index.holes(c.trailer.indexOffset) {
		overhead -= hole.n
	}
	for _, e := range own {
		overhead -= zones.PageRound(e.storedLen)
	}
	type place struct {
		p    *zones.Process
		area int
	}
	var ps []*zones.Process
	places := make([]place, len(c.index.regions))
	for i, r := range c.index.regions {
		if len(ps) == 0 || ps[len(ps)-1].Rank != int(r.rank) {
			ps = append(ps, c.process(int(r.rank)))
		}
		p := ps[len(ps)-1]
		places[i] = place{p, len(p.Areas)}
		p.Areas = append(p.Areas, zones.Area{End: uint64(zones.PageRound(r.size)), Prot: zones.Read | zones.Write,
			Shared: r.zone == zones.Shared, Name: r.name, Class: zones.ClassOf(r.zone), Resident: -1, Dirty: -1, Occupied: -1})
	}
	if len(ps) == 0 {
		ps = append(ps, c.process(c.header.Rank))
	}
	for _, e := range own {
		n := zones.PageRound(e.storedLen)
		at := places[e.region]
		at.p.Areas[at.area].Stored += n
		at.p.FileBytes += n
	}
	ps[0].FileBytes += overhead
	ps[0].Overhead = overhead
	for _, p := range ps {
		p.Unpacked = p.FileBytes
	}
	return ps, nil
}

// process describes one process of the file, without its areas.
func (c *container) process(rank int) *zones.Process {
	h := c.header
	p := &zones.Process{Source: c.path, Format: zones.FormatCkpt, Name: h.Job, Rank: rank, Role: zones.RoleRank}
	switch h.Kind {
	case KindRank, KindAggregated, KindJob:
	default:
		p.Role, p.Name = zones.RoleLauncher, h.Job+" "+h.Kind
	}
	return p
}

// OwnExtents reads the extents that a container file stores itself, in the order
// of its regions, and calls use for each with the type of its elements. The bytes
// are valid until use returns.
func OwnExtents(ctx context.Context, fsys vfs.FS, path string, use func(elem zones.Elem, raw []byte) error) error {
	c, err := openContainer(fsys, path)
	if err != nil {
		return err
	}
	defer c.Close()
	var raw []byte
	in := extentReader{f: c.f, path: path}
	in.reader = &reader{dest: func(e extentRec) []byte { return staged(&raw, e.rawLen) }}
	for _, e := range c.index.extents {
		if e.fileRef != 0 || e.codec == codecZero {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := in.span(ctx, []extentRec{e}, span{first: 0, last: 1, off: e.fileOff, n: zones.PageRound(e.storedLen)}); err != nil {
			return err
		}
		if err := use(c.index.regions[e.region].elem, raw[:e.rawLen]); err != nil {
			return err
		}
	}
	return nil
}

// windowBytes is how much of a region a RegionReader holds in memory at most: enough
// extents that their files are read in few calls.
const windowBytes = 16 << 20

// A RegionReader reads one region. It keeps the extents that it has read last, and is
// used by one goroutine.
type RegionReader struct {
	o           *Contents
	size        int64
	records     []extentRec
	buf         []byte
	first, last int // of the records in buf
	spare       sync.Pool
}

// Region returns a reader of a region.
func (o *Contents) Region(i int) *RegionReader {
	return &RegionReader{o: o, size: o.Regions[i].Size, records: o.c.index.extents[o.first[i]:o.first[i+1]]}
}

// Find returns which region a rank has under a name, -1 if it has none.
func (o *Contents) Find(rank int, name string) int {
	return slices.IndexFunc(o.c.index.regions, func(r regionRec) bool { return r.name == name && r.of(rank) })
}

// Turn makes the reader one of another region, and keeps its memory.
func (r *RegionReader) Turn(o *Contents, i int) {
	next := o.Region(i)
	r.o, r.size, r.records, r.first, r.last = next.o, next.size, next.records, 0, 0
}

// Fetch reads the extents that hold the bytes from offset from to offset to, so that
// copies of them, in any order, read no more. It does nothing where they are too many to
// be kept.
func (r *RegionReader) Fetch(ctx context.Context, from, to int64) error {
	i := r.extentAt(from)
	last := i
	for size := int64(0); last < len(r.records) && r.records[last].offset < to; last++ {
		if size += r.records[last].rawLen; size > windowBytes {
			return nil
		}
	}
	if i >= r.first && last <= r.last {
		return nil
	}
	return r.read(ctx, i, to)
}

// extentAt returns the extent that holds a byte.
func (r *RegionReader) extentAt(at int64) int {
	i, found := slices.BinarySearchFunc(r.records, at, func(e extentRec, at int64) int { return cmp.Compare(e.offset, at) })
	if !found {
		i--
	}
	return i
}

// Copy writes the bytes from offset from to offset to, each checked before. It reads
// the extents that hold them and no others; holes are read along where that takes less
// time than another call. Progress, unless nil, gets the bytes written.
func (r *RegionReader) Copy(ctx context.Context, w io.Writer, from, to int64, progress func(int64)) error {
	if from < 0 || to < from || to > r.size {
		return durable.Damaged(r.o.c.path, r.o.c.trailer.indexOffset, "bytes %d to %d are asked for of a region of %d", from, to, r.size)
	}
	i := r.extentAt(from)
	for from < to {
		if i < r.first || i >= r.last {
			if err := r.read(ctx, i, to); err != nil {
				return err
			}
		}
		start, end := r.records[r.first].offset, r.records[r.last-1].offset+r.records[r.last-1].rawLen
		b := r.buf[from-start : min(to, end)-start]
		if _, err := w.Write(b); err != nil {
			return err
		}
		if progress != nil {
			progress(int64(len(b)))
		}
		from += int64(len(b))
		i = r.last
	}
	return nil
}

// read reads extents from the i-th on, up to an offset or until the window is full.
func (r *RegionReader) read(ctx context.Context, i int, to int64) error {
	last, size := i+1, r.records[i].rawLen
	for ; last < len(r.records) && r.records[last].offset < to && size+r.records[last].rawLen <= windowBytes; last++ {
		size += r.records[last].rawLen
	}
	r.first, r.last = 0, 0
	b, start := staged(&r.buf, size), r.records[i].offset
	dest := func(e extentRec) []byte { return b[e.offset-start : e.offset-start+e.rawLen] }
	byFile := make(map[uint32][]extentRec)
	for _, e := range r.records[i:last] {
		if e.codec == codecZero {
			clear(dest(e))
			continue
		}
		byFile[e.fileRef] = append(byFile[e.fileRef], e)
	}
	for _, extents := range byFile {
		slices.SortFunc(extents, func(a, b extentRec) int { return cmp.Compare(a.fileOff, b.fileOff) })
		holder := r.o.holder(extents[0])
		in := &reader{depth: defaultDepth, dest: dest, device: r.o.place.Device, spare: &r.spare}
		if err := in.read(ctx, holder.f, holder.path, extents); err != nil {
			return err
		}
	}
	r.first, r.last = i, last
	return nil
}
