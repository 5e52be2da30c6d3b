package container

import (
	"cmp"
	"context"
	"io"
	"slices"
	"sync"

	"ckpt/internal/durable"
)

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
