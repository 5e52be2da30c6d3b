package container

import (
	"ckpt/image/plan"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
	"ckpt/zones"
	"context"
	"time"
)

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
