package image

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"ckpt/image/exec"
	"ckpt/image/plan"
	"ckpt/image/vfs"
	"ckpt/iotrace"
	"ckpt/zones"
)

// A Group is what the ranks that write a checkpoint into common files have agreed
// on. All of them call WriteGroup with the same, but for Rank.
type Group struct {
	// Settings say who writes what; the layout is Aggregated or Shared.
	Settings plan.Settings
	// Ranks are all ranks and their nodes, in order, without pieces.
	Ranks []plan.Source
	Rank  int // the caller
	// Paths are those of the files, which exist and are empty: GroupFiles says how
	// many.
	Paths   []string
	Network Network
	// Buffers, if not nil, keeps the collective buffers for the next checkpoint.
	Buffers *exec.Buffers
}

// A Network connects the ranks of a Group while they write.
type Network interface {
	// Puller fetches bytes from what the other ranks serve.
	exec.Puller
	// Serve answers the pulls of others from piece, as of the next Exchange. Piece
	// may be called by several goroutines, and may wait.
	Serve(piece func(ctx context.Context, key int) ([]byte, error))
	// Exchange hands over some bytes, and returns when all ranks have: with those
	// of each rank, in the order of Group.Ranks. They belong to the network.
	Exchange(ctx context.Context, mine []byte) ([][]byte, error)
}

// GroupInfo describes what a rank has written together with others.
type GroupInfo struct {
	File string // the file that holds the regions of this rank
	// Closed are the files that this rank has completed. Their Zones are empty.
	Closed []FileInfo
	Zones  zones.Sizes // of the regions as the program asked for them
	Waves  int         // how many times the ranks exchanged sizes
	Stats  exec.Stats
	// ManagementTime is what was spent on agreeing, on planning and on indexes,
	// StorageTime the rest.
	ManagementTime, StorageTime time.Duration
}

// GroupFiles returns how many files a group writes. An error is about the
// settings, a *plan.SettingError where one of them is to blame.
func GroupFiles(settings plan.Settings, ranks []plan.Source) (int, error) {
	_, files, err := groupSettings(settings, ranks)
	return files, err
}

// groupSettings returns the settings as they take effect.
func groupSettings(settings plan.Settings, ranks []plan.Source) (plan.Settings, int, error) {
	settings.Header = blockSize
	p, err := plan.New(ranks, settings)
	if err != nil {
		return settings, 0, err
	}
	return p.Settings, len(p.Files), nil
}

// What a rank serves besides its pieces, whose keys count from 0.
const (
	recordsKey = -1 // its part of the index
	turnKey    = -2 // a byte, when it has written its part of the wave
)

// WriteGroup writes the regions of a rank, together with all other ranks of g,
// and returns when what this rank has written is durable. The checkpoint is when
// all ranks have returned. The memory of the regions must not change meanwhile.
//
// The ranks proceed in waves. In each a rank encodes as much as its staging
// memory holds, of g.Settings.Buffer bytes; what is stored as it is needs none,
// so that without a codec there is one wave. The ranks then tell each other their
// sizes, from which each computes the same plan; a prefix sum gives every rank
// its place. What the plan says is carried out by package exec.
//
// The files are the caller's to remove after an error. Every rank has to be told
// of the error of another, by its ctx: it waits for it otherwise.
func WriteGroup(ctx context.Context, fsys vfs.FS, g Group, h Header, regions []zones.Region, opt WriteOptions) (GroupInfo, error) {
	w, err := newGroupWriter(fsys, g, h, regions, opt)
	if err != nil {
		return GroupInfo{}, err
	}
	err = w.run(ctx)
	if cerr := w.close(); err == nil {
		err = cerr
	}
	if err != nil {
		return GroupInfo{}, err
	}
	return w.info, nil
}

// groupWriter carries out the part of one rank.
type groupWriter struct {
	*writer
	g     Group
	fs    vfs.FS
	me    int // position among g.Ranks
	start time.Time
	info  GroupInfo
	waves int

	encoders []*chunkEncoder
	stages   [][]byte // free staging buffers
	staged   [][]byte // those that the wave uses
	most     int      // staging buffers there may be
	next     int      // chunk to encode
	dealt    int      // chunks of the program's memory that were written
	region   int      // the last one of which something was stored; -1 none
	pieces   []groupPiece
	stored   []groupChunk

	ends    []int64 // of the files, as of the waves before
	closers []int   // rank that completes each file
	mine    int     // the file with this rank's regions
	files   map[int]vfs.File
	order   []int // of the files opened
}

// groupPiece is a run of memory that is stored in one place.
type groupPiece struct {
	mem   []byte
	align bool // begins a region
}

// groupChunk is where the stored bytes of a chunk are.
type groupChunk struct {
	chunk
	piece int
	off   int64
}

func newGroupWriter(fsys vfs.FS, g Group, h Header, regions []zones.Region, opt WriteOptions) (*groupWriter, error) {
	fail := func(err error) (*groupWriter, error) { return nil, opError("write", h.Job, -1, err) }
	start := time.Now()
	settings, files, err := groupSettings(g.Settings, g.Ranks)
	if err != nil {
		return fail(err)
	}
	g.Settings = settings
	me := slices.IndexFunc(g.Ranks, func(s plan.Source) bool { return s.Rank == g.Rank })
	if files != len(g.Paths) || me < 0 {
		return fail(fmt.Errorf("rank %d of %d ranks is to write %d files, the settings make %d", g.Rank, len(g.Ranks), len(g.Paths), files))
	}
	h.Rank, h.Node = -1, -1
	inner, err := newWriter(g.Paths[0], h, regions, opt)
	if err != nil {
		return fail(err)
	}
	for i := range inner.index.regions {
		inner.index.regions[i].rank = int32(g.Rank)
	}
	inner.chunks = chunksOfRegions(inner.index.extents)
	_, canWriteDirect := fsys.(vfs.DirectWriter)
	inner.direct = canWriteDirect && !opt.Buffered
	if g.Buffers == nil {
		g.Buffers = new(exec.Buffers)
	}
	w := &groupWriter{writer: inner, g: g, fs: fsys, me: me, start: start, region: -1, ends: make([]int64, files), files: make(map[int]vfs.File)}
	w.most = max(int(g.Settings.Buffer/stageBytes), inner.opt.Depth)
	for worker := range inner.opt.Depth {
		w.encoders = append(w.encoders, &chunkEncoder{w: inner, encoder: opt.Codec.encoder(worker)})
	}
	for _, r := range regions {
		w.info.Zones.Add(r.Zone, r.Size)
	}
	return w, nil
}

// chunksOfRegions groups extents into chunks that do not cross regions, for each
// region begins at a stripe.
func chunksOfRegions(extents []extentRec) []chunk {
	var chunks []chunk
	for first := 0; first < len(extents); {
		last := first + 1
		for last < len(extents) && extents[last].region == extents[first].region {
			last++
		}
		for _, c := range chunksOfMemory(extents[first:last]) {
			chunks = append(chunks, chunk{c.first + first, c.last + first, c.n})
		}
		first = last
	}
	return chunks
}

func (w *groupWriter) run(ctx context.Context) error {
	w.begin()
	for more := true; more; w.waves++ {
		var err error
		if more, err = w.wave(ctx); err != nil {
			return err
		}
	}
	w.info.Waves = w.waves
	return w.finish(ctx)
}

// wave writes the next part of all ranks; more says whether there is another.
func (w *groupWriter) wave(ctx context.Context) (more bool, err error) {
	if err := w.encode(ctx); err != nil {
		return false, err
	}
	turn := make(chan struct{})
	w.g.Network.Serve(func(ctx context.Context, key int) ([]byte, error) {
		switch {
		case key == turnKey:
			select {
			case <-turn:
				return []byte{1}, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		case key < 0 || key >= len(w.pieces):
			return nil, fmt.Errorf("there is no piece %d", key)
		}
		return w.pieces[key].mem, nil
	})
	begin := time.Now()
	all, err := w.exchange(ctx, w.share())
	if err != nil {
		return false, err
	}
	p, more, err := w.plan(all)
	if err != nil {
		return false, err
	}
	w.indexing += time.Since(begin)
	if w.waves == 0 {
		for _, f := range p.Files {
			w.closers = append(w.closers, f.Rank)
		}
		w.mine, _ = p.Places(w.g.Rank)
		w.info.File = w.g.Paths[w.mine]
	}
	begin = time.Now()
	stats, err := exec.Run(ctx, p, w.g.Rank, exec.Options{
		Own:  func(key int) []byte { return w.pieces[key].mem },
		Pull: w.g.Network, Direct: w.direct, Turn: &turns{w.g.Network, p, turn}, Buffers: w.g.Buffers, Observe: w.opt.Trace.observe(w.g.Paths, w.ends, w.peer),
		Files: func(i int) (vfs.File, error) {
			f, err := w.file(i)
			return displaced{f, w.ends[i]}, err
		}})
	w.info.Stats.Add(stats)
	if err != nil {
		return false, w.named(err)
	}
	// When all are through, nobody needs our memory any more.
	if _, err := w.exchange(ctx, nil); err != nil {
		return false, err
	}
	w.waited.Add(int64(time.Since(begin)))
	if n := min(w.next, w.live) - w.dealt; n > 0 {
		w.dealt += n
		w.gone(int64(n))
	}
	w.place(p)
	return more, nil
}

// encode fills the pieces of the wave: chunks in order, until there may be no
// memory left to stage what comes out.
func (w *groupWriter) encode(ctx context.Context) error {
	w.stages = append(w.stages, w.staged...)
	w.staged, w.pieces, w.stored = w.staged[:0], w.pieces[:0], w.stored[:0]
	for w.next < len(w.chunks) && len(w.staged)+len(w.encoders) <= w.most {
		if err := ctx.Err(); err != nil {
			return opError("write", w.path, -1, err)
		}
		batch := w.chunks[w.next:min(w.next+len(w.encoders), len(w.chunks))]
		out := make([][]byte, len(batch))
		var workers errgroup.Group
		for i, c := range batch {
			e := w.encoders[i]
			if n := len(w.stages); e.stage == nil && n > 0 {
				e.stage, w.stages = w.stages[n-1], w.stages[:n-1]
			}
			workers.Go(func() error {
				start := w.trace.now()
				out[i] = e.encode(c)
				w.trace.record(iotrace.Encode, w.zoneOf(c), iotrace.None, int64(len(out[i])), start)
				return nil
			})
		}
		_ = workers.Wait()
		for i, c := range batch {
			e := w.encoders[i]
			if e.staged {
				w.staged = append(w.staged, e.stage)
				e.stage = nil
			}
			w.store(c, out[i])
			w.done(c.n)
		}
		w.next += len(batch)
	}
	return nil
}

// store notes the stored bytes of a chunk as a piece, or as the end of one.
func (w *groupWriter) store(c chunk, b []byte) {
	if len(b) == 0 {
		return
	}
	region := int(w.index.extents[c.first].region)
	n := len(w.pieces)
	if n > 0 && region == w.region && continues(w.pieces[n-1].mem, b) {
		p := &w.pieces[n-1]
		w.stored = append(w.stored, groupChunk{c, n - 1, int64(len(p.mem))})
		p.mem = p.mem[:len(p.mem)+len(b)]
		return
	}
	w.pieces = append(w.pieces, groupPiece{b, region != w.region})
	w.stored = append(w.stored, groupChunk{c, n, 0})
	w.region = region
}

// share is what a rank tells the others of its part of a wave: whether it was the
// last, and the lengths of its pieces, in pages, doubled, plus one for those that
// begin a region.
func (w *groupWriter) share() []byte {
	b := []byte{0}
	if w.next == len(w.chunks) {
		b[0] = 1
	}
	for _, p := range w.pieces {
		n := uint64(zones.PageRound(int64(len(p.mem)))/zones.PageSize) << 1
		if p.align {
			n |= 1
		}
		b = binary.AppendUvarint(b, n)
	}
	return b
}

// plan makes the plan of a wave out of what all ranks have told.
func (w *groupWriter) plan(all [][]byte) (p *plan.Plan, more bool, err error) {
	sources := slices.Clone(w.g.Ranks)
	for i, b := range all {
		if len(b) == 0 || b[0] > 1 {
			return nil, false, w.confused(i)
		}
		more = more || b[0] == 0
		sources[i].Pieces = nil
		for b = b[1:]; len(b) > 0; {
			v, n := binary.Uvarint(b)
			if n <= 0 || v > 1<<48 {
				return nil, false, w.confused(i)
			}
			b = b[n:]
			sources[i].Pieces = append(sources[i].Pieces,
				plan.Piece{Key: len(sources[i].Pieces), Bytes: int64(v>>1) * zones.PageSize, Align: v&1 == 1})
		}
	}
	s := w.g.Settings
	s.Header = 0
	if w.waves == 0 {
		s.Header = blockSize
	} else if s.Layout == plan.Shared {
		count := int64(s.StripeCount)
		s.FirstOST = int((int64(s.FirstOST) + w.ends[0]/s.StripeSize) % count)
	}
	p, err = plan.New(sources, s)
	return p, more, opError("write", w.path, -1, err)
}

func (w *groupWriter) confused(i int) error {
	return opError("write", w.path, -1, fmt.Errorf("rank %d does not tell what it writes", w.g.Ranks[i].Rank))
}

// place enters the places of the wave's chunks.
func (w *groupWriter) place(p *plan.Plan) {
	_, offsets := p.Places(w.g.Rank)
	for _, c := range w.stored {
		w.encoders[0].place(c.chunk, w.ends[w.mine]+offsets[c.piece]+c.off)
	}
	for i, f := range p.Files {
		w.ends[i] += f.Bytes
		if w.g.Settings.Layout == plan.Shared {
			w.ends[i] = (w.ends[i] + w.g.Settings.StripeSize - 1) / w.g.Settings.StripeSize * w.g.Settings.StripeSize
		}
	}
}

// peer returns a rank as the trace numbers it.
func (w *groupWriter) peer(rank int) int32 {
	i := slices.IndexFunc(w.g.Ranks, func(s plan.Source) bool { return s.Rank == rank })
	return w.opt.Trace.Recorder.Rank(TraceRank(rank, w.g.Ranks[i].Node))
}

// exchange is that of the network, with its result checked.
func (w *groupWriter) exchange(ctx context.Context, mine []byte) ([][]byte, error) {
	t := w.opt.Trace.steps()
	start := t.now()
	all, err := w.g.Network.Exchange(ctx, mine)
	t.record(iotrace.Barrier, 0, iotrace.None, int64(len(mine)), start)
	if err == nil && len(all) != len(w.g.Ranks) {
		err = fmt.Errorf("%d of %d ranks have told what they write", len(all), len(w.g.Ranks))
	}
	return all, opError("write", w.path, -1, err)
}

// file opens a file, once.
func (w *groupWriter) file(i int) (vfs.File, error) {
	if f, ok := w.files[i]; ok {
		return f, nil
	}
	t := w.opt.Trace.of(w.g.Paths[i])
	start := t.now()
	f, err := vfs.File(nil), errors.ErrUnsupported
	if dw, ok := w.fs.(vfs.DirectWriter); ok && !w.opt.Buffered {
		f, err = dw.OpenWriteDirect(w.g.Paths[i])
	}
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EINVAL) {
		f, err = w.fs.OpenWrite(w.g.Paths[i])
	}
	if err != nil {
		return nil, opError("open", w.g.Paths[i], -1, err)
	}
	t.opened(false, start)
	w.files[i] = f
	w.order = append(w.order, i)
	return f, nil
}

// close closes all files.
func (w *groupWriter) close() error {
	var errs []error
	for _, i := range w.order {
		t := w.opt.Trace.of(w.g.Paths[i])
		start := t.now()
		errs = append(errs, opError("close", w.g.Paths[i], -1, w.files[i].Close()))
		t.record(iotrace.Close, 0, iotrace.None, 0, start)
	}
	return errors.Join(errs...)
}

// named makes an error of exec one that names the file.
func (w *groupWriter) named(err error) error {
	e, ok := errors.AsType[*exec.Error](err)
	if !ok {
		return opError("write", w.path, -1, err)
	}
	if e.Op == exec.Write || e.Op == exec.Open {
		return opError(string(e.Op), w.g.Paths[e.File], w.ends[e.File]+e.Offset, e.Err)
	}
	return opError(string(e.Op), w.path, -1, err)
}

// displaced is a file whose offsets count from somewhere in it.
type displaced struct {
	vfs.File
	by int64
}

func (d displaced) WriteAt(b []byte, off int64) (int, error) { return d.File.WriteAt(b, off+d.by) }

// turns lets the writers of a wave work one after the other: who waits pulls a
// byte from the one before, who serves it when it is done.
type turns struct {
	network Network
	plan    *plan.Plan
	done    chan struct{}
}

func (t *turns) Wait(ctx context.Context, writer int) error {
	if writer == 0 {
		return nil
	}
	return t.network.Pull(ctx, t.plan.Writers[writer-1].Rank, turnKey, 0, make([]byte, 1))
}

func (t *turns) Done(int) { close(t.done) }

// hexDigest words a digest as manifests do.
func hexDigest(d [32]byte) string { return hex.EncodeToString(d[:]) }
