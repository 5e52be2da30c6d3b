package container

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ckpt/image/exec"
	"ckpt/image/plan"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
	"ckpt/zones"
)

// Defaults of WriteOptions, chosen by measurement (docs/FORMAT.md, "Speed").
const (
	defaultExtent = 256 << 10
	defaultDepth  = 4
	// stageBytes is the length of a chunk: extents are gathered into what is worth
	// the disk's while. It is also that of a staging buffer.
	stageBytes = plan.WriteBytes
	// stageBelow is the length from which an extent is read by itself, straight
	// into the memory of its region.
	stageBelow = 1 << 20
)

// WriteOptions are the settings of Write and WriteJoint. The zero value stores the
// bytes as they are, but for extents of zeros, which are never stored.
type WriteOptions struct {
	// ExtentBytes is the length of an extent, the unit of checksums, compression
	// and comparison. It is rounded up to whole pages; 0 means 256 KiB, the limit
	// is 64 MiB.
	ExtentBytes int
	// Depth is how many chunks are packed, and how many writes are under way, at a
	// time; 0 means 4.
	Depth int
	// Buffer is how many bytes of a file that Write makes are under way at most; 0
	// means 16 MiB. For WriteJoint it is in the settings.
	Buffer int64
	// Buffered writes through the page cache. Otherwise writes go around it where
	// the file system lets them, and through it where not.
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
	// and before the write returns, when the memory may change again. Without it,
	// the memory must not change until the write returns.
	Staging  *Staging
	Captured func()
	// Trace, if not nil, records what is done.
	Trace *Tracing
	// Progress, if not nil, is told the bytes of memory dealt with since the
	// last call. It is never called twice at once.
	Progress func(int64)
}

// FileInfo describes a container file that has been written.
type FileInfo struct {
	Path        string
	Bytes       int64       // length of the file
	Holes       int64       // of which so many are in holes
	IndexBlake3 string      // digest of the file's index, hexadecimal
	Zones       zones.Sizes // of the regions as the program asked for them
	// ManagementTime is what was spent on laying out the file and on its index,
	// StorageTime the rest: writing and waiting for the disk, with the checksums
	// and the packing done meanwhile. The sum is the time of the call.
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
	// A rank that writes a file of its own agrees with itself.
	j := Joint{Settings: plan.Settings{Layout: plan.PerRank, Buffer: opt.Buffer, P1: true}, Ranks: make([]plan.Source, 1), Paths: []string{path}}
	w, err := newWriter(fsys, j, h, int32(h.Rank), regions, opt)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return FileInfo{}, durable.Op("write", path, -1, err)
	}
	o, err := createOutput(fsys, path, opt.Trace.of(path), opt.Buffered, w.longest())
	if err != nil {
		return FileInfo{}, err
	}
	w.direct, w.outputs[0] = o.direct, o
	w.chunks = chunksOfMemory(w.index.extents)
	if err := o.close(w.alone(ctx)); err != nil {
		return FileInfo{}, err
	}
	info := w.info.Closed[0]
	info.Zones, info.ManagementTime, info.StorageTime = w.info.Zones, w.info.ManagementTime, time.Since(start)-w.info.ManagementTime
	return info, nil
}

// alone writes the one file of the writer.
func (w *writer) alone(ctx context.Context) error {
	if err := w.run(ctx); err != nil {
		return err
	}
	begin := time.Now()
	w.index.refer(w.holders)
	t := newTail(&w.index, w.ends[0])
	w.indexing += time.Since(begin)
	if err := w.complete(0, t); err != nil {
		return err
	}
	return w.end(t.trailer.digest)
}

// writer carries out the part of one rank. What is in which extent is fixed before
// anything is written; where an extent is stored, when its stored length is known.
type writer struct {
	joint   Joint
	me      int // position among joint.Ranks
	fs      vfs.FS
	path    string
	trace   tracer
	regions []zones.Region
	header  []byte // the header block, aligned
	index   index
	opt     WriteOptions
	past    *past       // of Base; nil if there is none
	holders []*poolFile // of the extents that are references, by extent
	number  int
	direct  bool
	info    JointInfo

	chunks    []chunk
	packers   []*packer
	sumsLater bool     // checksums are made while the bytes are written
	free      [][]byte // staging buffers that no round uses
	next      int      // chunk to pack
	region    int      // the last one of which something was stored; -1 none

	outputs []*output // by file; nil if not opened
	ends    []int64   // of the files, as of the rounds before
	closers []int     // rank that completes each file
	mine    int       // the file with this rank's regions

	start, planned   time.Time
	indexing, waited time.Duration
	mu               sync.Mutex // of progress

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

func newWriter(fsys vfs.FS, j Joint, h Header, rank int32, regions []zones.Region, opt WriteOptions) (*writer, error) {
	start := time.Now()
	if err := h.check(); err != nil {
		return nil, err
	}
	settings, files, err := jointSettings(j.Settings, j.Ranks)
	if err != nil {
		return nil, err
	}
	j.Settings = settings
	me := slices.IndexFunc(j.Ranks, func(s plan.Source) bool { return s.Rank == j.Rank })
	if files != len(j.Paths) || me < 0 {
		return nil, fmt.Errorf("rank %d of %d ranks is to write %d files, the settings make %d", j.Rank, len(j.Ranks), len(j.Paths), files)
	}
	if j.Buffers == nil {
		j.Buffers = new(exec.Buffers)
	}
	extent := zones.PageRound(int64(opt.ExtentBytes))
	if extent <= 0 {
		extent = defaultExtent
	}
	extent = min(extent, maxExtent)
	if opt.Depth <= 0 {
		opt.Depth = defaultDepth
	}
	w := &writer{start: start, fs: fsys, joint: j, me: me, path: j.Paths[0], trace: opt.Trace.of(j.Paths[0]), regions: regions, opt: opt,
		number: h.Number, header: aligned(BlockSize), region: -1, ends: make([]int64, files), outputs: make([]*output, files),
		sumsLater: opt.History == nil && opt.Codec.none()}
	h.encode(w.header)
	w.index.header = digestOf(w.header)
	for i, r := range regions {
		if err := checkRegion(r); err != nil {
			return nil, err
		}
		rec := regionRec{name: r.Name, zone: r.Zone, elem: r.Elem, rank: rank, size: r.Size}
		for off := int64(0); off < int64(len(r.Mem)); off += extent {
			n := min(extent, int64(len(r.Mem))-off)
			w.index.extents = append(w.index.extents, extentRec{region: uint32(i), offset: off, rawLen: n})
			rec.extents++
		}
		w.index.regions = append(w.index.regions, rec)
		w.info.Zones.Add(r.Zone, r.Size)
	}
	if err := w.index.checkNames(); err != nil {
		return nil, err
	}
	w.past = opt.History.of(opt.Base)
	w.holders = make([]*poolFile, len(w.index.extents))
	w.planned = time.Now()
	return w, nil
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

// longest returns the length of the file if nothing is packed, left out or referred
// to, but for its index.
func (w *writer) longest() int64 {
	n := int64(2 * BlockSize)
	for _, r := range w.regions {
		n += int64(len(r.Mem))
	}
	return n
}

// complete writes what follows the payload of a file, and its header.
func (w *writer) complete(i int, t *tail) error {
	o, err := w.output(i)
	if err != nil {
		return err
	}
	if err := o.complete(w.header, t.bytes, t.trailer); err != nil {
		return err
	}
	w.info.Closed = append(w.info.Closed, FileInfo{Path: o.path, Bytes: t.trailer.fileLen, Holes: t.holes, IndexBlake3: hexDigest(t.trailer.digest)})
	return nil
}

// end makes durable what this rank has written. Digest is that of the file with its
// regions.
func (w *writer) end(digest [32]byte) error {
	begin := time.Now()
	for _, o := range w.outputs {
		if o == nil {
			continue
		}
		if err := o.sync(); err != nil {
			return err
		}
	}
	w.opt.Codec.learn(w.info.Stats.Bytes, w.waited+time.Since(begin))
	w.info.ManagementTime = w.planned.Sub(w.start) + w.indexing
	w.info.StorageTime = time.Since(w.start) - w.info.ManagementTime
	w.opt.History.remember(w, w.joint.Paths[w.mine], digest)
	return nil
}

func (w *writer) done(n int64) {
	if w.opt.Progress != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.opt.Progress(n)
	}
}
