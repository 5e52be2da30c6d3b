package image

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"ckpt/image/vfs"
	"ckpt/zones"
)

// Defaults of WriteOptions, chosen by measurement (docs/FORMAT.md, "Speed").
const (
	defaultExtent = 4 << 20
	defaultDepth  = 4
	// stageBytes is the size of a staging buffer, through which small extents
	// are gathered into writes worth the disk's while.
	stageBytes = 4 << 20
	// stageBelow is the length from which an extent is written by itself,
	// straight from the memory of its region.
	stageBelow = 1 << 20
)

// WriteOptions are the settings of Write. The zero value is a good choice.
type WriteOptions struct {
	// ExtentBytes is the length of an extent, the unit of checksums and of
	// writes. It is rounded up to whole pages; 0 means 4 MiB, the limit is
	// 64 MiB.
	ExtentBytes int
	// Depth is how many writes are under way at a time; 0 means 4. Each may
	// need a staging buffer of 4 MiB.
	Depth int
	// Buffered writes through the page cache. Otherwise Write goes around it
	// where the file system lets it, and falls back to it where not.
	Buffered bool
	// Progress, if not nil, is told the bytes written since the last call. It
	// is never called twice at once.
	Progress func(int64)
}

// FileInfo describes a container file that Write has made.
type FileInfo struct {
	Path        string
	Bytes       int64       // length of the file
	IndexBlake3 string      // digest of the file's index, hexadecimal
	Zones       zones.Sizes // of the regions as the program asked for them
	// ManagementTime is what Write spent on laying out the file and on its
	// index, StorageTime the rest: writing and waiting for the disk, with the
	// checksums computed meanwhile. The sum is the time of the call.
	ManagementTime, StorageTime time.Duration
}

// Write makes the container file path, which must not exist, out of regions,
// and returns when its data is durable. The name becomes so at Tx.Commit. The
// memory of the regions is written in place, without a copy, and must not
// change meanwhile.
//
// On an error, or when ctx is done, no file is left. The error names the file;
// it is ErrStorageFull when the disk is full.
func Write(ctx context.Context, fsys vfs.FS, path string, h Header, regions []zones.Region, opt WriteOptions) (FileInfo, error) {
	start := time.Now()
	w, err := newWriter(path, h, regions, opt)
	if err != nil {
		return FileInfo{}, opError("write", path, -1, err)
	}
	dc, ok := fsys.(vfs.DirectCreator)
	w.direct = ok && !opt.Buffered
	if w.direct {
		err = w.run(ctx, fsys, dc.CreateDirect)
		if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EINVAL) {
			w.direct = false
		}
	}
	if !w.direct {
		err = w.run(ctx, fsys, fsys.Create)
	}
	if err != nil {
		return FileInfo{}, err
	}
	info := FileInfo{
		Path:           path,
		Bytes:          w.trailer.fileLen,
		IndexBlake3:    hex.EncodeToString(w.trailer.digest[:]),
		ManagementTime: w.indexTime,
	}
	for _, r := range regions {
		info.Zones.Add(r.Zone, r.Size)
	}
	info.ManagementTime += w.planned.Sub(start)
	info.StorageTime = time.Since(start) - info.ManagementTime
	return info, nil
}

// writer carries out one Write. Its plan is fixed before the file is made.
type writer struct {
	path     string
	regions  []zones.Region
	depth    int
	header   []byte // the header block, aligned
	index    index
	chunks   []chunk
	payload  int64 // offset of its end
	progress func(int64)
	direct   bool

	trailer   trailer
	planned   time.Time
	indexTime time.Duration
	mu        sync.Mutex // of progress
}

// A chunk is one write of payload: extents [first, last) of the index, which
// lie one behind the other in the file.
type chunk struct {
	first, last int
	off, n      int64
}

func newWriter(path string, h Header, regions []zones.Region, opt WriteOptions) (*writer, error) {
	if err := h.check(); err != nil {
		return nil, err
	}
	extent := zones.PageRound(int64(opt.ExtentBytes))
	if extent <= 0 {
		extent = defaultExtent
	}
	extent = min(extent, maxExtent)
	w := &writer{path: path, regions: regions, depth: opt.Depth, progress: opt.Progress, header: aligned(blockSize)}
	if w.depth <= 0 {
		w.depth = defaultDepth
	}
	h.encode(w.header)
	w.index.header = digestOf(w.header)
	at := int64(blockSize)
	for i, r := range regions {
		if err := checkRegion(r); err != nil {
			return nil, err
		}
		rec := regionRec{name: r.Name, zone: r.Zone, elem: r.Elem, rank: int32(h.Rank), size: r.Size}
		for off := int64(0); off < int64(len(r.Mem)); off += extent {
			n := min(extent, int64(len(r.Mem))-off)
			w.index.extents = append(w.index.extents, extentRec{
				region: uint32(i), offset: off, rawLen: n, storedLen: n, fileOff: at,
			})
			at += n
			rec.extents++
		}
		w.index.regions = append(w.index.regions, rec)
	}
	if err := w.index.checkNames(); err != nil {
		return nil, err
	}
	w.payload = at
	w.chunks = chunksOf(w.index.extents)
	w.planned = time.Now()
	return w, nil
}

func checkRegion(r zones.Region) error {
	switch {
	case r.Name == "" || len(r.Name) > maxName:
		return fmt.Errorf("region name %.40q is %d bytes long, want 1 to %d", r.Name, len(r.Name), maxName)
	case !r.Zone.Valid() || !r.Elem.Valid():
		return fmt.Errorf("region %q has unknown %v or %v", r.Name, r.Zone, r.Elem)
	case r.Size < 0 || int64(len(r.Mem)) != zones.PageRound(r.Size):
		return fmt.Errorf("region %q has %d bytes of memory for a size of %d", r.Name, len(r.Mem), r.Size)
	}
	return nil
}

// chunksOf groups extents that follow each other in the file: large ones stand
// alone, small ones are gathered up to a staging buffer.
func chunksOf(extents []extentRec) []chunk {
	var chunks []chunk
	for i, e := range extents {
		if k := len(chunks) - 1; k >= 0 {
			c := &chunks[k]
			if e.storedLen < stageBelow && extents[c.first].storedLen < stageBelow &&
				e.fileOff == c.off+c.n && c.n+e.storedLen <= stageBytes {
				c.last, c.n = i+1, c.n+e.storedLen
				continue
			}
		}
		chunks = append(chunks, chunk{i, i + 1, e.fileOff, e.storedLen})
	}
	return chunks
}

// run makes the file with create, fills it and removes it again on an error.
func (w *writer) run(ctx context.Context, fsys vfs.FS, create func(string) (vfs.File, error)) error {
	if err := ctx.Err(); err != nil {
		return opError("write", w.path, -1, err)
	}
	f, err := create(w.path)
	if err != nil {
		return opError("create", w.path, -1, err)
	}
	err = w.fill(ctx, f)
	if cerr := f.Close(); err == nil && cerr != nil {
		err = opError("close", w.path, -1, cerr)
	}
	if err == nil {
		return nil
	}
	if rerr := fsys.Remove(w.path); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
		err = fmt.Errorf("%w; then %w", err, opError("remove", w.path, -1, rerr))
	}
	return err
}

func (w *writer) fill(ctx context.Context, f vfs.File) error {
	if p, ok := f.(vfs.Preallocator); ok {
		// Only a hint, but a full disk is best noticed now.
		size := w.payload + zones.PageRound(int64(w.index.encodedLen())) + blockSize
		if err := p.Preallocate(size); isFull(err) {
			return opError("write", w.path, -1, err)
		}
	}
	if err := w.writeAt(f, w.header, 0); err != nil {
		return err
	}
	if err := w.writePayload(ctx, f); err != nil {
		return err
	}
	start := time.Now()
	tail := w.tail()
	w.indexTime += time.Since(start)
	if err := w.writeAt(f, tail, w.payload); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return opError("sync", w.path, -1, err)
	}
	// What is there is what we wrote, or we do not call it written.
	size, err := f.Size()
	if err == nil && size != w.trailer.fileLen {
		err = fmt.Errorf("file is %d bytes long after writing %d", size, w.trailer.fileLen)
	}
	return opError("write", w.path, -1, err)
}

// writePayload writes the chunks, depth of them at a time, so that the disk is
// busy with one while the checksums of the next are computed.
func (w *writer) writePayload(ctx context.Context, f vfs.File) error {
	g, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for range min(w.depth, len(w.chunks)) {
		g.Go(func() error {
			var stage []byte
			for {
				i := int(next.Add(1)) - 1
				if i >= len(w.chunks) {
					return nil
				}
				if err := ctx.Err(); err != nil {
					return opError("write", w.path, -1, err)
				}
				c := w.chunks[i]
				b := w.gather(c, &stage)
				if err := w.writeAt(f, b, c.off); err != nil {
					return err
				}
				if fl, ok := f.(vfs.Flusher); ok && !w.direct {
					// Only a hint: the disk should work while we go on.
					_ = fl.Flush(c.off, c.n)
				}
			}
		})
	}
	return g.Wait()
}

// gather computes the checksums of a chunk and returns its bytes: the memory of
// the region itself where it can be written from there, else a copy in stage.
func (w *writer) gather(c chunk, stage *[]byte) []byte {
	for i := c.first; i < c.last; i++ {
		e := &w.index.extents[i]
		mem := w.regions[e.region].Mem[e.offset : e.offset+e.rawLen]
		e.rawCRC = crc32.Checksum(mem, castagnoli)
		e.storedCRC = e.rawCRC
		if c.last == c.first+1 && (!w.direct || isAligned(mem)) {
			return mem
		}
		if int64(len(*stage)) < c.n {
			*stage = aligned(int(max(c.n, min(stageBytes, w.payload))))
		}
		copy((*stage)[e.fileOff-c.off:], mem)
	}
	return (*stage)[:c.n]
}

func (w *writer) tail() (tail []byte) {
	tail, w.trailer = w.index.tail(w.payload)
	return tail
}

// tail encodes the index and the trailer, which lie behind the payload.
func (x *index) tail(payload int64) ([]byte, trailer) {
	b := x.encode()
	n := zones.PageRound(int64(len(b)))
	tail := aligned(int(n) + blockSize)
	copy(tail, b)
	t := trailer{
		indexCRC:    crc32.Checksum(b, castagnoli),
		indexOffset: payload,
		indexLen:    int64(len(b)),
		fileLen:     payload + n + blockSize,
		regions:     int64(len(x.regions)),
		files:       int64(len(x.files)),
		extents:     int64(len(x.extents)),
		digest:      digestOf(b),
	}
	t.encode(tail[n:])
	return tail, t
}

func (w *writer) writeAt(f vfs.File, b []byte, off int64) error {
	n, err := f.WriteAt(b, off)
	if err == nil && n != len(b) {
		err = fmt.Errorf("only %d of %d bytes were written", n, len(b))
	}
	if err != nil {
		return opError("write", w.path, off, err)
	}
	if w.progress != nil {
		w.mu.Lock()
		w.progress(int64(n))
		w.mu.Unlock()
	}
	return nil
}
