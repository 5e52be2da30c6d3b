package container

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"ckpt/internal/durable"
	"ckpt/internal/vfs"
	"ckpt/iotrace"
	"ckpt/zones"
)

// Defaults of WriteOptions, chosen by measurement (docs/FORMAT.md, "Speed").
const (
	defaultExtent = 256 << 10
	defaultDepth  = 4
	// stageBytes is the length of a write: extents are gathered into writes
	// worth the disk's while. It is also that of a staging buffer.
	stageBytes = 4 << 20
	// stageBelow is the length from which an extent is read by itself, straight
	// into the memory of its region.
	stageBelow = 1 << 20
)

// WriteOptions are the settings of Write. The zero value stores the bytes as they
// are, but for extents of zeros, which are never stored.
type WriteOptions struct {
	// ExtentBytes is the length of an extent, the unit of checksums, compression
	// and comparison. It is rounded up to whole pages; 0 means 256 KiB, the limit
	// is 64 MiB.
	ExtentBytes int
	// Depth is how many writes are under way at a time; 0 means 4. Each may
	// need a staging buffer of 4 MiB.
	Depth int
	// Buffered writes through the page cache. Otherwise Write goes around it
	// where the file system lets it, and falls back to it where not.
	Buffered bool
	// Codec compresses; nil stores raw bytes.
	Codec *Codec
	// History, if not nil, remembers what is written. Extents that have not
	// changed since checkpoint Base become references to where they are stored;
	// with Base 0, or one that History does not know, all are stored. So are those
	// that lie in files of checkpoints before Oldest.
	History      *History
	Base, Oldest int
	// Staging, if not nil, takes a copy of the memory, and Captured is called, once
	// and before Write returns, when the memory may change again. Without it, the
	// memory must not change until Write returns.
	Staging  *Staging
	Captured func()
	// Trace, if not nil, records what is done.
	Trace *Tracing
	// Progress, if not nil, is told the bytes of memory dealt with since the
	// last call. It is never called twice at once.
	Progress func(int64)
}

// FileInfo describes a container file that Write has made.
type FileInfo struct {
	Path        string
	Bytes       int64       // length of the file
	Holes       int64       // of which so many are in holes
	IndexBlake3 string      // digest of the file's index, hexadecimal
	Zones       zones.Sizes // of the regions as the program asked for them
	// ManagementTime is what Write spent on laying out the file and on its
	// index, StorageTime the rest: writing and waiting for the disk, with the
	// checksums and the encoding done meanwhile. The sum is the time of the call.
	ManagementTime, StorageTime time.Duration
}

// Write makes the container file path, which must not exist, out of regions,
// and returns when its data is durable. The name becomes so at Tx.Commit. The
// memory of the regions is written in place, without a copy, and must not
// change meanwhile.
//
// On an error, or when ctx is done, no file is left. The error names the file;
// it is durable.ErrStorageFull when the disk is full.
func Write(ctx context.Context, fsys vfs.FS, path string, h Header, regions []zones.Region, opt WriteOptions) (FileInfo, error) {
	start := time.Now()
	w, err := newWriter(path, h, regions, opt)
	if err != nil {
		return FileInfo{}, durable.Op("write", path, -1, err)
	}
	w.begin()
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
		IndexBlake3:    hexDigest(w.trailer.digest),
		ManagementTime: w.indexing,
	}
	for _, r := range regions {
		info.Zones.Add(r.Zone, r.Size)
	}
	info.ManagementTime += w.planned.Sub(start)
	info.StorageTime = time.Since(start) - info.ManagementTime
	opt.History.remember(w, path, w.trailer.digest)
	return info, nil
}

// writer carries out one Write. What is in which extent is fixed before the file
// is made; where an extent is stored, when its stored length is known.
type writer struct {
	path     string
	trace    tracer
	regions  []zones.Region
	header   []byte // the header block, aligned
	index    index
	chunks   []chunk
	opt      WriteOptions
	past     *past       // of Base; nil if there is none
	holders  []*poolFile // of the extents that are references, by extent
	number   int
	direct   bool
	queue    queue // gives out places in the file
	room     room
	payload  int64 // offset of the end of the payload
	trailer  trailer
	written  atomic.Int64 // bytes of payload
	waited   atomic.Int64 // ns, of all workers
	planned  time.Time
	indexing time.Duration
	mu       sync.Mutex // of progress

	copies    [][]byte // by extent, nil if there is none; nil without staging
	live      int      // chunks that have no copy, which are the first
	remaining atomic.Int64
	told      atomic.Bool
}

// A chunk is extents [first, last) of the index, n bytes of memory, whose stored
// bytes lie one behind the other in the file.
type chunk struct {
	first, last int
	n           int64
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
	if opt.Depth <= 0 {
		opt.Depth = defaultDepth
	}
	w := &writer{path: path, trace: opt.Trace.of(path), regions: regions, opt: opt, number: h.Number, header: aligned(BlockSize)}
	h.encode(w.header)
	w.index.header = digestOf(w.header)
	for i, r := range regions {
		if err := checkRegion(r); err != nil {
			return nil, err
		}
		rec := regionRec{name: r.Name, zone: r.Zone, elem: r.Elem, rank: int32(h.Rank), size: r.Size}
		for off := int64(0); off < int64(len(r.Mem)); off += extent {
			n := min(extent, int64(len(r.Mem))-off)
			w.index.extents = append(w.index.extents, extentRec{region: uint32(i), offset: off, rawLen: n})
			rec.extents++
		}
		w.index.regions = append(w.index.regions, rec)
	}
	if err := w.index.checkNames(); err != nil {
		return nil, err
	}
	w.past = opt.History.of(opt.Base)
	w.holders = make([]*poolFile, len(w.index.extents))
	w.chunks = chunksOfMemory(w.index.extents)
	w.planned = time.Now()
	return w, nil
}

// begin copies the memory, if there is room for a copy.
func (w *writer) begin() {
	if w.opt.Staging != nil {
		w.capture()
	}
}

// chunksOfMemory groups extents that follow each other into chunks of up to a
// staging buffer; longer extents stand alone.
func chunksOfMemory(extents []extentRec) []chunk {
	var chunks []chunk
	for i, e := range extents {
		if k := len(chunks) - 1; k >= 0 && chunks[k].n+e.rawLen <= stageBytes {
			chunks[k].last, chunks[k].n = i+1, chunks[k].n+e.rawLen
			continue
		}
		chunks = append(chunks, chunk{i, i + 1, e.rawLen})
	}
	return chunks
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

// run makes the file with create, fills it and removes it again on an error.
func (w *writer) run(ctx context.Context, fsys vfs.FS, create func(string) (vfs.File, error)) error {
	if err := ctx.Err(); err != nil {
		return durable.Op("write", w.path, -1, err)
	}
	start := w.trace.now()
	f, err := create(w.path)
	if err != nil {
		return durable.Op("create", w.path, -1, err)
	}
	w.trace.opened(true, start)
	err = w.fill(ctx, f)
	start = w.trace.now()
	cerr := f.Close()
	w.trace.record(iotrace.Close, 0, iotrace.None, 0, start)
	if err == nil && cerr != nil {
		err = durable.Op("close", w.path, -1, cerr)
	}
	if err == nil {
		return nil
	}
	if rerr := fsys.Remove(w.path); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
		err = fmt.Errorf("%w; then %w", err, durable.Op("remove", w.path, -1, rerr))
	}
	return err
}

func (w *writer) fill(ctx context.Context, f vfs.File) error {
	w.room.begin(f, w.longest())
	if err := w.writeAt(f, w.header, 0, 0); err != nil {
		return err
	}
	if err := w.writePayload(ctx, f); err != nil {
		return err
	}
	start := time.Now()
	tail := w.tail()
	w.indexing += time.Since(start)
	if err := w.writeAt(f, tail, w.payload, 0); err != nil {
		return err
	}
	if err := w.room.end(w.trailer.fileLen); err != nil {
		return durable.Op("write", w.path, -1, err)
	}
	start = time.Now()
	if err := f.Sync(); err != nil {
		return durable.Op("sync", w.path, -1, err)
	}
	w.trace.record(iotrace.Sync, 0, iotrace.None, 0, start)
	workers := max(1, min(w.opt.Depth, len(w.chunks)))
	w.opt.Codec.learn(w.written.Load(), time.Duration(w.waited.Load())/time.Duration(workers)+time.Since(start))
	// What is there is what we wrote, or we do not call it written.
	size, err := f.Size()
	if err == nil && size != w.trailer.fileLen {
		err = fmt.Errorf("file is %d bytes long after writing %d", size, w.trailer.fileLen)
	}
	return durable.Op("write", w.path, -1, err)
}

// writePayload encodes and writes the chunks, Depth of them at a time, so that
// the disk is busy with one while the next is encoded. Places in the file are
// given out in the order of the chunks: the file does not depend on who is fast,
// unless codec.UseAuto does.
func (w *writer) writePayload(ctx context.Context, f vfs.File) error {
	g, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	w.queue.init(BlockSize)
	for worker := range min(w.opt.Depth, len(w.chunks)) {
		e := chunkEncoder{w: w, encoder: w.opt.Codec.encoder(worker)}
		g.Go(func() error {
			for {
				if err := ctx.Err(); err != nil {
					return durable.Op("write", w.path, -1, err)
				}
				i := int(next.Add(1)) - 1
				if i >= len(w.chunks) {
					return nil
				}
				c := w.chunks[i]
				start, zone := w.trace.now(), w.zoneOf(c)
				b := e.encode(c)
				if e.encoder != nil { // else it is checksums
					w.trace.record(iotrace.Encode, zone, iotrace.None, int64(len(b)), start)
				}
				at := w.queue.take(i, int64(len(b)))
				w.room.need(at + int64(len(b)))
				e.place(c, at)
				if err := w.writeChunk(f, b, at, zone); err != nil {
					return err
				}
				if i < w.live {
					w.gone(1)
				}
				w.done(c.n)
			}
		})
	}
	err := g.Wait()
	w.payload = w.queue.end()
	return err
}

// memory returns the length of the file if nothing is packed, left out or referred
// to, but for its index.
func (w *writer) longest() int64 {
	n := int64(2 * BlockSize)
	for _, c := range w.chunks {
		n += c.n
	}
	return n
}

func (w *writer) writeChunk(f vfs.File, b []byte, at int64, zone iotrace.Zone) error {
	if len(b) == 0 {
		return nil
	}
	start := time.Now()
	if err := w.writeAt(f, b, at, zone); err != nil {
		return err
	}
	w.waited.Add(int64(time.Since(start)))
	w.written.Add(int64(len(b)))
	if fl, ok := f.(vfs.Flusher); ok && !w.direct {
		// Only a hint: the disk should work while we go on.
		_ = fl.Flush(at, int64(len(b)))
	}
	return nil
}

func (w *writer) tail() (tail []byte) {
	w.index.refer(w.holders)
	tail, w.trailer = w.index.tail(w.payload)
	return tail
}

// tail encodes the index and the trailer, which lie behind the payload.
func (x *index) tail(payload int64) ([]byte, trailer) {
	b := x.encode()
	n := zones.PageRound(int64(len(b)))
	tail := aligned(int(n) + BlockSize)
	copy(tail, b)
	t := trailer{
		indexCRC:    durable.Sum(b),
		indexOffset: payload,
		indexLen:    int64(len(b)),
		fileLen:     payload + n + BlockSize,
		regions:     int64(len(x.regions)),
		files:       int64(len(x.files)),
		extents:     int64(len(x.extents)),
		digest:      digestOf(b),
	}
	t.encode(tail[n:])
	return tail, t
}

// zoneOf returns the zone of the first extent of a chunk.
func (w *writer) zoneOf(c chunk) iotrace.Zone {
	return traceZone(w.regions[w.index.extents[c.first].region].Zone)
}

func (w *writer) writeAt(f vfs.File, b []byte, off int64, zone iotrace.Zone) error {
	start := w.trace.now()
	n, err := f.WriteAt(b, off)
	w.trace.record(iotrace.Write, zone, off, int64(n), start)
	if err == nil && n != len(b) {
		err = fmt.Errorf("only %d of %d bytes were written", n, len(b))
	}
	return durable.Op("write", w.path, off, err)
}

func (w *writer) done(n int64) {
	if w.opt.Progress != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.opt.Progress(n)
	}
}
