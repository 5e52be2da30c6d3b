package container

import (
	"cmp"
	"context"
	"io"
	"slices"
)

// windowBytes is how much of a region Extract holds in memory at once: enough
// extents that their files are read in few calls.
const windowBytes = 16 << 20

// Extract writes a region to w, in order. It reads the extents of the region and no
// others; holes are read along where that takes less time than another call. Every
// byte is checked before it is written. Progress, unless nil, is told of the bytes
// written.
func (o *Contents) Extract(ctx context.Context, region int, w io.Writer, progress func(int64)) error {
	x := extraction{o: o}
	records := o.c.index.extents[o.first[region]:o.first[region+1]]
	for left := o.Regions[region].Size; len(records) > 0; {
		n, size := window(records)
		b, err := x.read(ctx, records[:n], size)
		if err != nil {
			return err
		}
		b = b[:min(left, int64(len(b)))] // the last page may be longer than the region
		if _, err := w.Write(b); err != nil {
			return err
		}
		if progress != nil {
			progress(int64(len(b)))
		}
		left -= int64(len(b))
		records = records[n:]
	}
	return nil
}

// window returns how many extents to read together, at least one, and their size.
func window(records []extentRec) (n int, size int64) {
	for _, e := range records {
		if n > 0 && size+e.rawLen > windowBytes {
			break
		}
		n, size = n+1, size+e.rawLen
	}
	return n, size
}

// extraction reads parts of one region.
type extraction struct {
	o   *Contents
	buf []byte
}

// read returns the contents of extents that follow each other in a region.
func (x *extraction) read(ctx context.Context, records []extentRec, size int64) ([]byte, error) {
	b := staged(&x.buf, size)
	start := records[0].offset
	dest := func(e extentRec) []byte { return b[e.offset-start : e.offset-start+e.rawLen] }
	byFile := make(map[uint32][]extentRec)
	for _, e := range records {
		if e.codec == codecZero {
			clear(dest(e))
			continue
		}
		byFile[e.fileRef] = append(byFile[e.fileRef], e)
	}
	for _, extents := range byFile {
		slices.SortFunc(extents, func(a, b extentRec) int { return cmp.Compare(a.fileOff, b.fileOff) })
		holder := x.o.holder(extents[0])
		r := &reader{depth: defaultDepth, dest: dest, device: x.o.place.Device}
		if err := r.read(ctx, holder.f, holder.path, extents); err != nil {
			return nil, err
		}
	}
	return b, nil
}
