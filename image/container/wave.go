package container

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"ckpt/image/exec"
	"ckpt/image/plan"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
	"ckpt/iotrace"
	"ckpt/zones"
)

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
			return durable.Op("write", w.path, -1, err)
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
				if e.encoder != nil {
					w.trace.record(iotrace.Encode, w.zoneOf(c), iotrace.None, int64(len(out[i])), start)
				}
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
		s.Header = BlockSize
	} else if s.Layout == plan.Shared {
		count := int64(s.StripeCount)
		s.FirstOST = int((int64(s.FirstOST) + w.ends[0]/s.StripeSize) % count)
	}
	p, err = plan.New(sources, s)
	return p, more, durable.Op("write", w.path, -1, err)
}

func (w *groupWriter) confused(i int) error {
	return durable.Op("write", w.path, -1, fmt.Errorf("rank %d does not tell what it writes", w.g.Ranks[i].Rank))
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
