package container

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ckpt/image/exec"
	"ckpt/image/plan"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
	"ckpt/iotrace"
	"ckpt/zones"
)

// writer carries out the part of one rank. Extents are fixed before anything is written; their
// places follow from their stored lengths.
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
	past    *past       // of Base; may be nil
	holders []*poolFile // of the extents that are references, by extent
	number  int
	direct  bool
	info    JointInfo

	chunks    []chunk
	packers   []*packer
	sumsLater bool     // checksums are made while the bytes are written
	free      [][]byte // staging buffers that no round uses
	next      int      // chunk to pack
	region    int      // the last one of which something was stored, or -1

	outputs []*output // by file; nil if not opened
	ends    []int64   // of the files, as of the rounds before
	closers []int     // rank that completes each file
	mine    int       // the file with this rank's regions

	start, planned time.Time
	held           time.Duration // when it began
	indexing       time.Duration
	effort         effort
	mu             sync.Mutex // of progress

	clean int64 // bytes of memory that have not changed since the base

	// stored, if not nil, reads the stored bytes of an extent, which nothing packs.
	stored func(*extentRec, []byte) error

	copies    [][]byte // by extent, nil for some; nil without staging
	live      int      // chunks that have no copy, which are the first
	remaining atomic.Int64
	told      atomic.Bool
}

// A chunk is extents [first, last) of the index, n bytes of memory, stored side by side.
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
	if opt.Fetch != nil {
		regions = clipped(regions)
	}
	if j.Buffers == nil {
		j.Buffers = new(exec.Buffers)
	}
	if opt.Fetch != nil && opt.Staging != nil {
		return nil, errors.New("memory that is fetched cannot be staged as well")
	}
	if opt.Depth <= 0 {
		opt.Depth = defaultDepth
	}
	w := &writer{start: start, held: opt.held(), fs: fsys, joint: j, me: me, path: j.Paths[0], trace: opt.Trace.of(j.Paths[0]), regions: regions, opt: opt,
		number: h.Number, header: aligned(BlockSize), region: -1, ends: make([]int64, files), outputs: make([]*output, files),
		sumsLater: opt.History == nil && opt.Codec.None() && opt.Fetch == nil}
	h.encode(w.header)
	w.index.header = digestOf(w.header)
	if err := w.cut(rank, opt.extent()); err != nil {
		return nil, err
	}
	w.past = opt.History.of(opt.Base)
	w.holders = make([]*poolFile, len(w.index.extents))
	w.findClean()
	w.planned = time.Now()
	return w, nil
}

// cut cuts the regions into extents.
func (w *writer) cut(rank int32, extent int64) error {
	for i, r := range w.regions {
		if err := checkRegion(r, 0); err != nil {
			return err
		}
		rec := regionRec{name: r.Name, zone: r.Zone, elem: r.Elem, rank: rank, size: r.Size}
		for off := int64(0); off < int64(len(r.Mem)); off += extent {
			n := min(extent, int64(len(r.Mem))-off)
			w.index.extents = append(w.index.extents, extentRec{region: uint32(i), offset: off, rawLen: n})
			rec.extents++
		}
		for off, end := int64(len(r.Mem)), zones.PageRound(r.Size); off < end; off += maxExtent {
			w.index.extents = append(w.index.extents, extentRec{region: uint32(i), offset: off, rawLen: min(maxExtent, end-off), codec: codecZero})
			rec.extents++
		}
		w.index.regions = append(w.index.regions, rec)
		w.info.Zones.Add(r.Zone, r.Size)
	}
	return w.index.checkNames()
}

// chunksOfMemory groups extents [first, last) into chunks of up to a staging buffer; longer
// ones stand alone, settled ones count as empty.
func (w *writer) chunksOfMemory(first, last int) []chunk {
	var chunks []chunk
	for i := first; i < last; i++ {
		n := w.index.extents[i].rawLen
		if w.settled(i) {
			n = 0
		}
		if k := len(chunks) - 1; k >= 0 && chunks[k].n+n <= stageBytes {
			chunks[k].last, chunks[k].n = i+1, chunks[k].n+n
			continue
		}
		chunks = append(chunks, chunk{i, i + 1, n})
	}
	return chunks
}

// longest returns the length of the file without its index, if nothing is packed or left out.
func (w *writer) longest() int64 {
	n := int64(2 * BlockSize)
	for _, r := range w.regions {
		n += int64(len(r.Mem))
	}
	return n
}

// head writes the header of a file.
func (w *writer) head(i int) error {
	o, err := w.output(i)
	if err != nil {
		return err
	}
	return o.write(w.header, 0)
}

// complete writes what follows the payload of a file.
func (w *writer) complete(i int, t *tail) error {
	o, err := w.output(i)
	if err != nil {
		return err
	}
	if err := o.complete(t.bytes, t.trailer); err != nil {
		return err
	}
	w.info.Closed = append(w.info.Closed, FileInfo{Path: o.path, Bytes: t.trailer.fileLen, Holes: t.holes, IndexBlake3: hexDigest(t.trailer.digest)})
	return nil
}

// end makes durable what this rank has written. Digest is of the file with its regions.
func (w *writer) end(digest [32]byte) error {
	begin, held := time.Now(), w.opt.held()
	for _, o := range w.outputs {
		if o == nil {
			continue
		}
		if err := o.sync(); err != nil {
			return err
		}
	}
	w.opt.Codec.learn(w.efforts(time.Since(begin) - (w.opt.held() - held)))
	w.info.ManagementTime = w.planned.Sub(w.start) + w.indexing
	w.info.StorageTime = time.Since(w.start) - w.info.ManagementTime - (w.opt.held() - w.held)
	w.opt.History.remember(w.number, w.opt.Base, &w.index, w.holders, w.joint.Paths[w.mine], digest)
	return nil
}

// efforts returns what the write has cost, with a last sync that took so long.
func (w *writer) efforts(sync time.Duration) effort {
	e := w.effort
	e.storing, e.lastly = e.storing+sync, e.lastly+sync
	e.rounds, e.writes = w.info.Rounds, 1
	for _, p := range w.packers {
		e.packed, e.processor, e.encoding = e.packed+p.offered, e.processor+p.processor, e.encoding+p.encoding
	}
	return e
}

func (w *writer) done(n int64) {
	if w.opt.Progress != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.opt.Progress(n)
	}
}

// output returns a file, which it opens once.
func (w *writer) output(i int) (*output, error) {
	if w.outputs[i] != nil {
		return w.outputs[i], nil
	}
	o, err := openOutput(w.fs, w.joint.Paths[i], w.opt.Trace.of(w.joint.Paths[i]), w.opt.Buffered)
	if err == nil {
		w.outputs[i] = o
	}
	return o, err
}

// exchange calls the network and checks the result.
func (w *writer) exchange(ctx context.Context, mine []byte) ([][]byte, error) {
	t := w.opt.Trace.steps()
	start := t.now()
	all, err := w.joint.Network.Exchange(ctx, mine)
	t.record(iotrace.Barrier, 0, iotrace.None, int64(len(mine)), start)
	if err == nil && len(all) != len(w.joint.Ranks) {
		err = fmt.Errorf("%d of %d ranks have told what they write", len(all), len(w.joint.Ranks))
	}
	return all, durable.Op("write", w.path, -1, err)
}

// chunksOfRegions groups extents into chunks within regions: each region begins at a stripe.
func (w *writer) chunksOfRegions() []chunk {
	extents := w.index.extents
	var chunks []chunk
	for first := 0; first < len(extents); {
		last := first + 1
		for last < len(extents) && extents[last].region == extents[first].region {
			last++
		}
		chunks = append(chunks, w.chunksOfMemory(first, last)...)
		first = last
	}
	return chunks
}

func (w *writer) confused(i int) error {
	return durable.Op("write", w.path, -1, fmt.Errorf("rank %d does not tell what it writes", w.joint.Ranks[i].Rank))
}

// Write makes the container file path, which must not exist, out of regions, and returns when
// its data is durable; its name becomes so at Tx.Commit. It writes memory in place, which must
// not change meanwhile.
//
// After an error, or when ctx is done, no file is left. The error names the file; it is
// durable.ErrStorageFull when the disk is full.
func Write(ctx context.Context, fsys vfs.FS, path string, h Header, regions []zones.Region, opt WriteOptions) (FileInfo, error) {
	start, held := time.Now(), opt.held()
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
	w.direct, w.outputs[0] = o.direct(), o
	w.chunks = w.chunksOfMemory(0, len(w.index.extents))
	if err := o.close(w.alone(ctx)); err != nil {
		return FileInfo{}, err
	}
	info := w.info.Closed[0]
	info.Zones, info.ManagementTime, info.StorageTime = w.info.Zones, w.info.ManagementTime, time.Since(start)-w.info.ManagementTime-(opt.held()-held)
	return info, nil
}

// alone writes the one file of the writer, from its beginning to its end.
func (w *writer) alone(ctx context.Context) error {
	if err := w.head(0); err != nil {
		return err
	}
	if err := w.run(ctx); err != nil {
		return err
	}
	begin := time.Now()
	w.index.refer(w.holders)
	t := w.index.tail(w.ends[0])
	w.indexing += time.Since(begin)
	if err := w.complete(0, t); err != nil {
		return err
	}
	return w.end(t.trailer.digest)
}

// WriteJoint writes the regions of a rank, with all other ranks of j, and returns when what
// this rank has written is durable; the checkpoint is when all have returned. The memory must
// not change meanwhile.
//
// After an error the files are the caller's to remove. Every rank waits for the others: ctx has
// to tell it of an error.
func WriteJoint(ctx context.Context, fsys vfs.FS, j Joint, h Header, regions []zones.Region, opt WriteOptions) (JointInfo, error) {
	h.Rank, h.Node = -1, -1
	w, err := newWriter(fsys, j, h, int32(j.Rank), regions, opt)
	if err != nil {
		return JointInfo{}, durable.Op("write", h.Job, -1, err)
	}
	return w.shared(ctx)
}

// shared opens the files as they are needed, and closes them.
func (w *writer) shared(ctx context.Context) (JointInfo, error) {
	w.direct = !w.opt.Buffered
	w.chunks = w.chunksOfRegions()
	err := w.together(ctx)
	for _, o := range w.outputs {
		if o == nil {
			continue
		}
		if cerr := o.close(nil); err == nil {
			err = cerr
		}
	}
	if err != nil {
		return JointInfo{}, err
	}
	return w.info, nil
}

// together writes the part of this rank in the files of all.
func (w *writer) together(ctx context.Context) error {
	if err := w.run(ctx); err != nil {
		return err
	}
	tails, digest, err := w.agreeOnIndexes(ctx)
	if err != nil {
		return err
	}
	for i, t := range tails {
		if t == nil {
			continue
		}
		if err := w.head(i); err != nil {
			return err
		}
		if err := w.complete(i, t); err != nil {
			return err
		}
	}
	return w.end(digest)
}

// run writes all chunks.
func (w *writer) run(ctx context.Context) error {
	for worker := range min(w.opt.Depth, len(w.chunks)) {
		w.packers = append(w.packers, &packer{w: w, encoder: w.opt.Codec.encoder(worker)})
	}
	if w.opt.Staging != nil {
		w.capture()
	}
	if w.clean > 0 {
		w.done(w.clean)
	}
	r, err := w.packRound(ctx)
	for more := true; more && err == nil; w.info.Rounds++ {
		r, more, err = w.writeRound(ctx, r)
	}
	if err == nil {
		err = durable.Op("write", w.path, -1, ctx.Err())
	}
	if err == nil {
		w.keepStages()
	}
	return err
}
