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

// Pin opens the files that hold extents of a region, so that it can be read once they have lost
// their names.
func (o *Contents) Pin(region int) error {
	for _, e := range o.extentsOf(region) {
		if _, err := o.holder(e.fileRef); err != nil {
			return err
		}
	}
	return nil
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
	o       *Contents
	size    int64
	records []extentRec
	buf     []byte
	used    int64         // of buf
	keeps   int64         // bytes of extents, or what one read needs
	held    map[int]int64 // where in buf a record is
	last    int           // record found last
}

// Region returns a reader of a region.
func (o *Contents) Region(i int) *RegionReader {
	return o.RegionKeeping(i, windowBytes)
}

// RegionKeeping returns a reader of a region that keeps so many bytes from one read to the next.
func (o *Contents) RegionKeeping(i int, bytes int64) *RegionReader {
	r := &RegionReader{keeps: bytes}
	r.Turn(o, i)
	return r
}

// Find returns which region a rank has under a name, or -1.
func (o *Contents) Find(rank int, name string) int {
	return slices.IndexFunc(o.Regions, func(r Region) bool { return r.Name == name && r.Of(rank) })
}

// Turn makes the reader one of another region, and keeps its memory.
func (r *RegionReader) Turn(o *Contents, i int) {
	r.o, r.size, r.records, r.last = o, o.Regions[i].Size, o.extentsOf(i), 0
	r.forget()
}

func (r *RegionReader) forget() {
	if r.used = 0; r.held == nil {
		r.held = make(map[int]int64)
	}
	clear(r.held)
}

// extentAt returns the extent that holds a byte.
func (r *RegionReader) extentAt(at int64) int {
	if e := r.records[r.last]; at >= e.offset && at < e.offset+e.rawLen {
		return r.last
	}
	i, found := slices.BinarySearchFunc(r.records, at, func(e extentRec, at int64) int { return cmp.Compare(e.offset, at) })
	if !found {
		i--
	}
	r.last = i
	return i
}

func (r *RegionReader) check(from, to int64) error {
	if from < 0 || to < from || to > r.size {
		return durable.Damaged(r.o.c.path, r.o.c.trailer.indexOffset, "bytes %d to %d are asked for of a region of %d", from, to, r.size)
	}
	return nil
}

// Copy writes the bytes between two offsets, each checked. It reads the extents that hold them,
// with holes where that takes less time than another call. Progress, unless nil, gets the bytes
// written.
func (r *RegionReader) Copy(ctx context.Context, w io.Writer, from, to int64, progress func(int64)) error {
	if err := r.check(from, to); err != nil {
		return err
	}
	for from < to {
		b, ok := r.bytes(from, to)
		if !ok {
			if err := r.hold(ctx, r.window(r.extentAt(from), to)); err != nil {
				return err
			}
			continue
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
		if progress != nil {
			progress(int64(len(b)))
		}
		from += int64(len(b))
	}
	return nil
}

// window returns the extents from the i-th on, up to an offset or as many as are kept.
func (r *RegionReader) window(i int, to int64) []int {
	list, size := []int{i}, r.records[i].rawLen
	for i++; i < len(r.records) && r.records[i].offset < to && size+r.records[i].rawLen <= windowBytes; i++ {
		list, size = append(list, i), size+r.records[i].rawLen
	}
	return list
}

// Gather copies blocks of the region to places of mem; each calls its argument for every block. It
// reads the extents that hold spans once, and what lies between where that takes less time than
// another call. The spans cover the blocks; gaps up to BlockSize, in which no extent lies, may be in
// them. No byte is copied before it is checked.
func (r *RegionReader) Gather(ctx context.Context, mem []byte, spans func(span func(src, n int64)), each func(block func(dst, src, n int64))) error {
	touched, err := r.touched(spans)
	for err == nil && len(touched) > 0 {
		n, size := 1, r.records[touched[0]].rawLen
		for ; n < len(touched) && size+r.records[touched[n]].rawLen <= windowBytes; n++ {
			size += r.records[touched[n]].rawLen
		}
		if err = r.hold(ctx, touched[:n]); err != nil {
			break
		}
		lo := r.records[touched[0]].offset
		hi := r.records[touched[n-1]].offset + r.records[touched[n-1]].rawLen
		var run []byte // kept bytes from runAt on, since most blocks lie where the last one did
		var runAt int64
		each(func(dst, src, n int64) {
			if at := src - runAt; at >= 0 && at+n <= int64(len(run)) {
				copy(mem[dst:dst+n], run[at:at+n])
				return
			}
			// Blocks of other extents have their turn in another pass.
			for at, end := max(src, lo), min(src+n, hi); at < end; {
				if at < runAt || at >= runAt+int64(len(run)) {
					runAt = r.records[r.extentAt(at)].offset
					run, _ = r.bytes(runAt, hi)
				}
				at += int64(copy(mem[dst+at-src:dst+end-src], run[at-runAt:]))
			}
		})
		touched = touched[n:]
	}
	return err
}

// touched lists the extents that hold spans, in their order.
func (r *RegionReader) touched(spans func(span func(src, n int64))) (list []int, err error) {
	seen := make([]bool, len(r.records))
	spans(func(src, n int64) {
		if err == nil {
			err = r.check(src, src+n)
		}
		if err != nil || n == 0 {
			return
		}
		for i := r.extentAt(src); i < len(seen) && r.records[i].offset < src+n; i++ {
			seen[i] = true
		}
	})
	for i, touched := range seen {
		if touched {
			list = append(list, i)
		}
	}
	return list, err
}

// bytes returns what the reader keeps of the bytes from an offset on, as far as they lie side by
// side.
func (r *RegionReader) bytes(from, to int64) (b []byte, ok bool) {
	i := r.extentAt(from)
	at, ok := r.held[i]
	if !ok {
		return nil, false
	}
	e := r.records[i]
	start, end := at+from-e.offset, at+e.rawLen
	for from+end-start < to {
		i++
		if next, ok := r.held[i]; !ok || next != end {
			break
		}
		end += r.records[i].rawLen
	}
	return r.buf[start:min(end, start+to-from)], true
}

// hold reads those of the extents that are not kept. Where they do not fit, it lets go of all
// others.
func (r *RegionReader) hold(ctx context.Context, list []int) error {
	missing, size := r.missing(list)
	if r.used+size > r.keeps && r.used > 0 {
		r.forget()
		missing, size = r.missing(list)
	}
	if len(missing) == 0 {
		return nil
	}
	if need := r.used + size; need > int64(len(r.buf)) {
		larger := aligned(int(max(need, min(2*r.used, windowBytes))))
		copy(larger, r.buf[:r.used])
		r.buf = larger
	}
	places, at := make(map[int64]int64, len(missing)), r.used
	for _, e := range missing {
		places[e.offset] = at
		at += e.rawLen
	}
	dest := func(e extentRec) []byte { return r.buf[places[e.offset]:][:e.rawLen] }
	if err := r.o.read(ctx, missing, &reader{depth: defaultDepth, dest: dest}); err != nil {
		return err
	}
	for _, i := range list {
		if at, ok := places[r.records[i].offset]; ok {
			r.held[i] = at
		}
	}
	r.used = at
	return nil
}

// missing returns those of the extents that are not kept, and their memory.
func (r *RegionReader) missing(list []int) (missing []extentRec, size int64) {
	for _, i := range list {
		if _, ok := r.held[i]; !ok {
			missing = append(missing, r.records[i])
			size += r.records[i].rawLen
		}
	}
	return missing, size
}
