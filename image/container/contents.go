package container

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync"

	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// IsImage reports whether a file that begins with head is a container file.
func IsImage(head []byte) bool {
	return len(head) >= len(headerMagic) && string(head[:len(headerMagic)]) == headerMagic
}

// Contents is an open container file, to be read in parts, by several goroutines.
type Contents struct {
	place   Place
	c       *container
	Regions []Region
	first   []int     // extent of each region, and one more
	spare   sync.Pool // of extentReaders, for their decoders and buffers

	mu   sync.Mutex
	refs []*container // files that the extents refer to; nil until one is read
}

// Open opens a file. The files that it refers to are opened when they are read.
func (p Place) Open(f File) (*Contents, error) {
	c, err := p.openAny(f)
	if err != nil {
		return nil, err
	}
	return p.contents(c), nil
}

// OpenFile opens a container file whose manifest is not at hand.
func OpenFile(fsys vfs.FS, path string) (*Contents, error) {
	c, err := openContainer(fsys, path)
	if err != nil {
		return nil, err
	}
	return Place{FS: fsys, Dir: filepath.Dir(filepath.Dir(path)), Job: c.header.Job}.contents(c), nil
}

func (p Place) contents(c *container) *Contents {
	o := &Contents{place: p, c: c, Regions: c.regions(), refs: make([]*container, len(c.index.files))}
	at := 0
	for _, r := range c.index.regions {
		o.first = append(o.first, at)
		at += int(r.extents)
	}
	o.first = append(o.first, at)
	return o
}

// Close closes all files.
func (o *Contents) Close() error {
	for _, x := range o.refs {
		if x != nil {
			x.Close()
		}
	}
	if o.c == nil {
		return nil
	}
	return o.c.Close()
}

// holder returns the file that a reference leads to, open: 0 is this one.
func (o *Contents) holder(ref uint32) (*container, error) {
	if ref == 0 {
		return o.c, nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.refs[ref-1] == nil {
		x, err := o.place.openRef(o.c, o.c.index.files[ref-1])
		if err != nil {
			return nil, err
		}
		o.refs[ref-1] = x
	}
	return o.refs[ref-1], nil
}

// read reads extents, from whichever files hold them, and checks them.
func (o *Contents) read(ctx context.Context, extents []extentRec, r *reader) error {
	byFile := make([][]extentRec, 1+len(o.refs))
	for _, e := range extents {
		if e.codec != codecZero {
			byFile[e.fileRef] = append(byFile[e.fileRef], e)
		} else if err := r.zero(ctx, o.c.path, r.dest(e)); err != nil {
			return err
		}
	}
	r.device, r.spare = o.place.Device, &o.spare
	for ref, list := range byFile {
		if len(list) == 0 {
			continue
		}
		x, err := o.holder(uint32(ref))
		if err != nil {
			return err
		}
		for _, e := range list {
			if end := x.trailer.indexOffset; e.fileOff > end || e.storedLen > end-e.fileOff {
				return durable.Damaged(o.c.path, o.c.trailer.indexOffset,
					"extent ends outside the payload of %s", x.path)
			}
		}
		slices.SortStableFunc(list, byPlace)
		if err := r.read(ctx, x.f, x.path, list); err != nil {
			return err
		}
	}
	return nil
}

// byPlace orders extents of one file.
func byPlace(a, b extentRec) int { return cmp.Compare(a.fileOff, b.fileOff) }

// An Extent is a part of a region as it is stored.
type Extent struct {
	Offset    int64 // in the region
	Bytes     int64
	Zero      bool // nothing is stored
	Elsewhere bool // in another file
	rec       extentRec
	file      string // where it is stored
}

// SameAs reports whether two extents are zeros, stored in one place, or known to have the same
// contents.
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
	recs := o.extentsOf(region)
	out := make([]Extent, len(recs))
	for i, e := range recs {
		file := JobPath(o.c.path)
		if e.fileRef > 0 {
			file = o.c.index.files[e.fileRef-1].path
		}
		out[i] = Extent{Offset: e.offset, Bytes: e.rawLen, Zero: e.codec == codecZero,
			Elsewhere: e.fileRef > 0, rec: e, file: file}
	}
	return out
}

func (o *Contents) extentsOf(region int) []extentRec {
	return o.c.index.extents[o.first[region]:o.first[region+1]]
}

// Read reads an extent into buf, which is as long, and checks it.
func (o *Contents) Read(ctx context.Context, e Extent, buf []byte) error {
	if int64(len(buf)) != e.Bytes {
		return durable.Op("read", o.c.path, -1, fmt.Errorf("%d bytes for an extent of %d", len(buf), e.Bytes))
	}
	r := &reader{depth: 1, dest: func(extentRec) []byte { return buf }}
	return o.read(ctx, []extentRec{e.rec}, r)
}

// windowBytes is how much of a region a RegionReader keeps: enough extents for few calls.
const windowBytes = 16 << 20

// A RegionReader reads one region, in one goroutine. It keeps the extents read last.
type RegionReader struct {
	o           *Contents
	size        int64
	records     []extentRec
	buf         []byte
	first, last int // of the records in buf
}

// Region returns a reader of a region.
func (o *Contents) Region(i int) *RegionReader {
	return &RegionReader{o: o, size: o.Regions[i].Size, records: o.extentsOf(i)}
}

// Find returns which region a rank has under a name, or -1.
func (o *Contents) Find(rank int, name string) int {
	return slices.IndexFunc(o.Regions, func(r Region) bool { return r.Name == name && r.Of(rank) })
}

// Turn makes the reader one of another region, and keeps its memory.
func (r *RegionReader) Turn(o *Contents, i int) {
	next := o.Region(i)
	r.o, r.size, r.records, r.first, r.last = next.o, next.size, next.records, 0, 0
}

// Fetch reads the extents of the bytes between two offsets, so that copies of them, in any
// order, read no more; nothing where they are too many to be kept.
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

// Copy writes the bytes between two offsets, each checked. It reads the extents that hold them,
// with holes where that takes less time than another call. Progress, unless nil, gets the bytes
// written.
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
	if err := r.o.read(ctx, r.records[i:last], &reader{depth: defaultDepth, dest: dest}); err != nil {
		return err
	}
	r.first, r.last = i, last
	return nil
}
