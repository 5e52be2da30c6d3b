package exec

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"

	"ckpt/image/plan"
)

// individual writes own bytes. Writes begin in the order of the plan, up to Options.Depth at a
// time.
func (w *writer) individual(ctx context.Context) (err error) {
	var g errgroup.Group
	g.SetLimit(max(1, w.opt.Depth))
	defer func() {
		if werr := g.Wait(); err == nil {
			err = werr
		}
	}()
	before := make(chan struct{})
	close(before)
	for r := range w.plan.WriterPlan(w.rank) {
		s := &slot{round: int(w.stats.Rounds)}
		w.stats.Rounds++
		for _, op := range r.Writes {
			if err := ctx.Err(); err != nil {
				return w.fail(Error{Op: Write, File: op.File, Offset: op.Offset, Bytes: op.Bytes, Err: err})
			}
			runs, err := w.ownRuns(op)
			if err != nil {
				return err
			}
			t := &turn{before: before, began: make(chan struct{})}
			before = t.began
			g.Go(func() error {
				defer t.begin()
				return w.operation(ctx, s, op, runs, t)
			})
		}
	}
	return nil
}

// A turn keeps writes in order: a disk sees a file that grows.
type turn struct {
	before <-chan struct{} // closed when the operation before has begun to write
	began  chan struct{}
	once   sync.Once
}

// begin lets the next operation begin.
func (t *turn) begin() { t.once.Do(func() { close(t.began) }) }

// ownRuns returns what an operation writes.
func (w *writer) ownRuns(op plan.Write) (runs []run, err error) {
	offset := op.Offset
	for _, part := range op.Parts {
		mem, err := w.own(part)
		if err != nil {
			return nil, err
		}
		runs = joined(runs, run{file: op.File, offset: offset, data: mem, own: true, key: part.Key}, 0)
		offset += part.Bytes
	}
	return runs, nil
}

// operation carries out one operation.
func (w *writer) operation(ctx context.Context, s *slot, op plan.Write, runs []run, t *turn) error {
	if w.opt.Prepare != nil {
		for _, part := range op.Parts {
			w.opt.Prepare(part)
		}
	}
	apart := w.opt.Join && len(runs) > 1
	for i := range runs {
		apart = apart || w.opt.Direct && !isAligned(runs[i].data)
	}
	if apart {
		mem := w.take()
		defer w.give(mem)
		n := 0
		for i := range runs {
			n += copy(mem[n:], runs[i].data)
		}
		runs = []run{{file: op.File, offset: op.Offset, data: mem[:n], own: true, key: runs[0].key}}
		w.copied(int64(n))
	}
	<-t.before
	for i := range runs {
		if err := w.writeRun(ctx, s, &runs[i], t.begin); err != nil {
			return err
		}
	}
	return nil
}

// copied counts own bytes that were copied.
func (w *writer) copied(n int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stats.Aligned += n
}

// take returns memory for the bytes of an operation.
func (w *writer) take() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := len(w.spare); n > 0 {
		mem := w.spare[n-1]
		w.spare = w.spare[:n-1]
		return mem
	}
	mem := w.opt.Buffers.get(min(w.most(), plan.WriteBytes))
	w.stats.BufferBytes += int64(len(mem))
	return mem
}

// give gives it back.
func (w *writer) give(mem []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.spare = append(w.spare, mem)
}
