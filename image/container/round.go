package container

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"ckpt/image/exec"
	"ckpt/image/plan"
	"ckpt/internal/durable"
	"ckpt/iotrace"
	"ckpt/zones"
)

// The ranks proceed in rounds. In each a rank packs as many chunks as its staging
// memory holds, of Settings.Buffer bytes. The ranks then tell each other their sizes,
// from which each computes the same plan: a prefix sum gives every rank its place.
// Package exec carries out the plan, while the next round is packed. Bytes that are
// stored as they are need no staging, and without a codec and a History one round has
// them all: their checksums are made meanwhile.

// A round is a part of what a rank writes.
type round struct {
	pieces []piece
	chunks []storedChunk
	staged [][]byte // staging buffers in use
	held   [][]byte // memory that was fetched
	first  int      // chunk
	last   int      // chunk after the last
}

// piece is a run of memory of one region that is stored in one place.
type piece struct {
	run
	region int
	align  bool // begins a region
}

// storedChunk is where the stored bytes of a chunk are.
type storedChunk struct {
	chunk
	piece int
	off   int64
}

// A round that does more than find zeros has at most so many chunks, so that writing begins
// soon; of several ranks more, since they agree on each.
const (
	chunksAlone    = 4
	chunksTogether = 16
)

// writeRound writes a round, and packs the next; more says whether any rank has one.
func (w *writer) writeRound(ctx context.Context, r *round) (next *round, more bool, err error) {
	defer func() {
		w.release(r.held)
		if err != nil && next != nil {
			w.release(next.held)
			next = nil
		}
	}()
	turn := make(chan struct{})
	begin := time.Now()
	p, more, err := w.agree(ctx, r, turn)
	if err != nil {
		return nil, false, err
	}
	if w.info.Rounds == 0 {
		for _, f := range p.Files {
			w.closers = append(w.closers, f.Rank)
		}
		w.mine, _ = p.Places(w.joint.Rank)
		w.info.File = w.joint.Paths[w.mine]
	}
	w.indexing += time.Since(begin)
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return w.carryOut(gctx, r, p, turn) })
	g.Go(func() error { return w.sums(gctx, r) })
	g.Go(func() (err error) {
		next, err = w.packRound(gctx)
		return err
	})
	if err := g.Wait(); err != nil {
		return next, false, err
	}
	if w.joint.Network != nil {
		// When all are through, our memory is needed no more.
		if _, err := w.exchange(ctx, nil); err != nil {
			return next, false, err
		}
	}
	if n := min(r.last, w.live) - r.first; n > 0 {
		w.gone(int64(n))
	}
	w.free = append(w.free, r.staged...)
	w.placeRound(r, p)
	return next, more, nil
}

// full reports whether a round can take no more chunks than those it has.
func (w *writer) full(r *round) bool {
	most := max(int(w.joint.Settings.Buffer/stageBytes), w.opt.Depth)
	return len(r.staged)+len(w.packers) > most || r.last == w.limit(r)
}

// limit returns where a round ends at the latest. It depends on the settings of the layout
// only, as the shared file does. Fetched memory makes shorter rounds.
func (w *writer) limit(r *round) int {
	limit := len(w.chunks)
	alone := w.joint.Network == nil
	switch {
	case w.sumsLater:
	case alone:
		limit = min(limit, r.first+chunksAlone)
	default:
		limit = min(limit, r.first+chunksTogether)
	}
	if alone && r.first < w.live {
		limit = min(limit, w.live) // the program waits for these
	}
	if w.opt.Fetch != nil {
		limit = w.fetchLimit(r.first, limit)
	}
	return limit
}

// packRound packs the chunks of a round.
func (w *writer) packRound(ctx context.Context) (*round, error) {
	r := &round{first: w.next, last: w.next}
	for !w.full(r) {
		if err := ctx.Err(); err != nil {
			w.release(r.held)
			return nil, durable.Op("write", w.path, -1, err)
		}
		batch := w.chunks[r.last:min(r.last+len(w.packers), w.limit(r))]
		out := make([][]run, len(batch))
		begin := time.Now()
		err := w.packAll(batch, out)
		w.effort.packing += time.Since(begin)
		for i := range batch {
			r.held = append(r.held, w.packers[i].kept...)
		}
		if err != nil {
			w.release(r.held)
			return nil, err
		}
		for i, c := range batch {
			if p := w.packers[i]; p.staged {
				r.staged = append(r.staged, p.stage)
				p.stage = nil
			}
			w.store(r, c, out[i])
			if w.sumsLater {
				w.done(c.n - w.packers[i].n) // the zeros
			} else {
				w.done(c.n)
			}
		}
		r.last += len(batch)
	}
	w.next = r.last
	return r, nil
}

// store notes the stored bytes of a chunk as pieces, or as the end of one.
func (w *writer) store(r *round, c chunk, runs []run) {
	for i, b := range runs {
		region := int(w.index.extents[c.first].region)
		if len(b.extents) > 0 {
			region = int(w.index.extents[b.extents[0]].region)
		}
		n := len(r.pieces)
		if n > 0 && region == w.region && continues(r.pieces[n-1].mem, b.mem) {
			n--
		} else {
			r.pieces = append(r.pieces, piece{run: run{mem: b.mem[:0]}, region: region, align: region != w.region})
		}
		p := &r.pieces[n]
		if i == 0 {
			r.chunks = append(r.chunks, storedChunk{c, n, int64(len(p.mem))})
		}
		p.mem = p.mem[:len(p.mem)+len(b.mem)]
		p.extents = append(p.extents, b.extents...)
		w.region = region
	}
}

// sums makes the checksums of a round that lacks them. An individual writer makes them just
// before it writes: the disk never waits, and bytes are read from memory once.
func (w *writer) sums(ctx context.Context, r *round) error {
	if w.joint.Settings.Strategy == plan.Individual {
		return nil
	}
	for i := range r.pieces {
		for k := range r.pieces[i].extents {
			if err := ctx.Err(); err != nil {
				return durable.Op("write", w.path, -1, err)
			}
			w.sum(&r.pieces[i], k)
		}
	}
	return nil
}

// sumPart makes the checksums of the extents that begin in a part of a piece.
func (w *writer) sumPart(r *round, part plan.Part) {
	p := &r.pieces[part.Key]
	if len(p.extents) == 0 {
		return
	}
	// Extents of a region are of one length, but for the last.
	length := w.index.extents[p.extents[0]].rawLen
	for k := (part.Offset + length - 1) / length; k*length < part.Offset+part.Bytes; k++ {
		w.sum(p, int(k))
	}
}

// sum makes the checksum of an extent of a piece.
func (w *writer) sum(p *piece, k int) {
	rec := &w.index.extents[p.extents[k]]
	rec.sum(w.memory(p.extents[k]))
	w.done(rec.rawLen)
}

// share tells the others a rank's part of a round: whether it was the last, and the lengths of
// its pieces in pages, doubled, plus one where a region begins.
func (w *writer) share(r *round) []byte {
	b := []byte{0}
	if r.last == len(w.chunks) {
		b[0] = 1
	}
	for _, p := range r.pieces {
		n := uint64(zones.PageRound(int64(len(p.mem)))/zones.PageSize) << 1
		if p.align {
			n |= 1
		}
		b = binary.AppendUvarint(b, n)
	}
	return b
}

// agree makes the plan of a round, out of what all ranks tell. From then on others may pull its
// pieces; turn is closed when they may write after this rank.
func (w *writer) agree(ctx context.Context, r *round, turn chan struct{}) (p *plan.Plan, more bool, err error) {
	if w.joint.Network == nil {
		return w.plan([][]byte{w.share(r)})
	}
	w.joint.Network.Serve(func(ctx context.Context, key int) ([]byte, error) {
		switch {
		case key == turnKey:
			select {
			case <-turn:
				return []byte{1}, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		case key < 0 || key >= len(r.pieces):
			return nil, fmt.Errorf("there is no piece %d", key)
		}
		return r.pieces[key].mem, nil
	})
	all, err := w.exchange(ctx, w.share(r))
	if err != nil {
		return nil, false, err
	}
	return w.plan(all)
}

// plan makes the plan of a round out of what all ranks have told.
func (w *writer) plan(all [][]byte) (p *plan.Plan, more bool, err error) {
	sources := slices.Clone(w.joint.Ranks)
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
	s := w.joint.Settings
	s.Header = 0
	if w.info.Rounds == 0 {
		s.Header = BlockSize
	} else if s.Layout == plan.Shared {
		count := int64(s.StripeCount)
		s.FirstOST = int((int64(s.FirstOST) + w.ends[0]/s.StripeSize) % count)
	}
	p, err = plan.New(sources, s)
	return p, more, durable.Op("write", w.path, -1, err)
}

// carryOut writes what the plan of a round has this rank write.
func (w *writer) carryOut(ctx context.Context, r *round, p *plan.Plan, turn chan struct{}) error {
	begin, held := time.Now(), w.opt.held()
	stats, err := exec.Run(ctx, p, w.joint.Rank, exec.Options{
		Own:  func(key int) []byte { return r.pieces[key].mem },
		Pull: w.joint.Network, Direct: w.direct, Turn: &turns{w.joint.Network, p, turn}, Buffers: w.joint.Buffers,
		Depth: min(w.opt.Depth, max(1, int(w.joint.Settings.Buffer/plan.WriteBytes))), Join: true,
		Observe: w.observe(r), Prepare: func(part plan.Part) { w.sumPart(r, part) },
		Files: func(i int) (io.WriterAt, error) {
			o, err := w.output(i)
			return displaced{o, w.ends[i]}, err
		}})
	took := time.Since(begin) - (w.opt.held() - held)
	w.effort.written, w.effort.storing = w.effort.written+stats.Bytes, w.effort.storing+took
	w.effort.last, w.effort.lastly = stats.Bytes, took
	if err != nil {
		return w.named(err)
	}
	return nil
}

// displaced is a file whose offsets count from somewhere in it.
type displaced struct {
	*output
	by int64
}

func (d displaced) WriteAt(b []byte, off int64) (int, error) { return d.output.WriteAt(b, off+d.by) }

// turns lets the writers of a round work one after the other: each pulls a byte from the one
// before, which serves it when done.
type turns struct {
	network Network
	plan    *plan.Plan
	done    chan struct{}
}

func (t *turns) Wait(ctx context.Context, writer int) error {
	if writer == 0 {
		return nil
	}
	before := t.plan.Writers[writer-1].Rank
	return t.network.Pull(ctx, before, []exec.Range{{Key: turnKey, P: make([]byte, 1)}})
}

func (t *turns) Done(int) { close(t.done) }

// named makes an error of exec one that names the file.
func (w *writer) named(err error) error {
	e, ok := errors.AsType[*exec.Error](err)
	if !ok {
		return durable.Op("write", w.path, -1, err)
	}
	if e.Op == exec.Write || e.Op == exec.Open {
		return durable.Op(string(e.Op), w.joint.Paths[e.File], w.ends[e.File]+e.Offset, e.Err)
	}
	return durable.Op(string(e.Op), w.path, -1, err)
}

// placeRound enters the places of the chunks of a round.
func (w *writer) placeRound(r *round, p *plan.Plan) {
	_, offsets := p.Places(w.joint.Rank)
	for _, c := range r.chunks {
		w.place(c.chunk, w.ends[w.mine]+offsets[c.piece]+c.off)
	}
	for i, f := range p.Files {
		w.ends[i] += f.Bytes
		if w.joint.Settings.Layout == plan.Shared {
			w.ends[i] = (w.ends[i] + w.joint.Settings.StripeSize - 1) / w.joint.Settings.StripeSize * w.joint.Settings.StripeSize
		}
	}
}

// observe returns the observer of the exec.Run of a round.
func (w *writer) observe(r *round) func(exec.Event) {
	t := w.opt.Trace
	if t == nil {
		return nil
	}
	return func(e exec.Event) {
		out := iotrace.Event{Rank: t.Rank, File: iotrace.None, Peer: iotrace.None, Checkpoint: int32(t.Checkpoint), Round: int32(e.Round),
			Offset: iotrace.None, Bytes: e.Bytes, Start: t.Recorder.Since(e.Start), End: t.Recorder.Since(e.End)}
		switch e.Op {
		case exec.Write:
			out.Op, out.File, out.Offset = iotrace.Write, t.Recorder.File(JobPath(w.joint.Paths[e.File])), e.Offset+w.ends[e.File]
			out.Start = t.Recorder.Since(t.began(e.Start))
			if e.Buffer == plan.InPlace {
				out.Zone = traceZone(w.regions[r.pieces[e.Key].region].Zone)
			}
		case exec.Gather:
			i := slices.IndexFunc(w.joint.Ranks, func(s plan.Source) bool { return s.Rank == e.From })
			out.Op, out.Peer = iotrace.Gather, t.Recorder.Rank(TraceRank(e.From, w.joint.Ranks[i].Node))
		default:
			out.Op = iotrace.LockWait
		}
		t.Recorder.Record(out)
	}
}
