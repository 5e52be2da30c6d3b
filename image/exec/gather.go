package exec

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"ckpt/image/plan"

	"golang.org/x/sync/errgroup"
)

// A pull is what a round needs of one rank.
type pull struct {
	from   int
	ranges []Range
}

// A run is what one operation writes.
type run struct {
	file   int
	offset int64
	data   []byte
	own    bool // memory of the caller, not of the slot
	key    int  // of the first piece, if own
}

// gather makes s ready to be written as round k.
func (w *writer) gather(ctx context.Context, s *slot, k int, r plan.Round) error {
	s.round = k
	used := w.findPulls(s, r.Gathers)
	if err := w.findRuns(s, r.Writes, used); err != nil {
		return err
	}
	if err := w.pullAll(ctx, s); err != nil {
		return err
	}
	w.stats.Rounds++
	w.stats.Pulls += int64(len(s.pulls))
	w.stats.Pulled += used
	return nil
}

// findPulls finds what to pull, and returns how much of the buffer that fills.
func (w *writer) findPulls(s *slot, gathers []plan.Gather) (used int64) {
	s.pulls = s.pulls[:0]
	// The pulls refer to the ranges, which must not move therefore.
	s.ranges = slices.Grow(s.ranges[:0], len(gathers))
	first := 0
	for _, g := range gathers {
		if g.Buffer == plan.InPlace {
			continue
		}
		end := g.Buffer + g.Bytes
		s.ranges = append(s.ranges, Range{Key: g.Key, Offset: g.Offset, P: w.memory(s)[g.Buffer:end:end]})
		used = max(used, end)
		n := len(s.pulls)
		if n == 0 || s.pulls[n-1].from != g.From {
			s.pulls = append(s.pulls, pull{from: g.From})
			first, n = len(s.ranges)-1, n+1
		}
		s.pulls[n-1].ranges = s.ranges[first:]
	}
	return used
}

// findRuns finds what to write. It copies memory that cannot be written in place behind the used
// part of the buffer.
func (w *writer) findRuns(s *slot, writes []plan.Write, used int64) error {
	s.runs = s.runs[:0]
	for i := range writes {
		offset, first := writes[i].Offset, len(s.runs)
		for _, part := range writes[i].Parts {
			r := run{file: writes[i].File, offset: offset, key: part.Key}
			offset += part.Bytes
			if part.Buffer != plan.InPlace {
				r.data = s.mem[part.Buffer : part.Buffer+part.Bytes]
			} else {
				mem, err := w.own(part)
				if err != nil {
					return err
				}
				if r.own = !w.opt.Direct || isAligned(mem); r.own {
					r.data = mem
				} else {
					r.data = w.memory(s)[used : used+part.Bytes]
					used += int64(copy(r.data, mem))
					w.stats.Aligned += part.Bytes
				}
			}
			s.runs = joined(s.runs, r, first)
		}
	}
	return nil
}

// joined puts r at the end of runs, which belong to one operation from the first on.
func joined(runs []run, r run, first int) []run {
	if n := len(runs); n > first && runs[n-1].own == r.own && adjoins(runs[n-1].data, r.data) {
		last := &runs[n-1]
		last.data = last.data[:len(last.data)+len(r.data)]
		return runs
	}
	return append(runs, r)
}

// own returns the memory of a part in place.
func (w *writer) own(part plan.Part) ([]byte, error) {
	mem := w.opt.Own(part.Key)
	if end := part.Offset + part.Bytes; end > int64(len(mem)) {
		return nil, w.fail(Error{
			Op: Gather, From: w.rank, Key: part.Key, Offset: part.Offset, Bytes: part.Bytes,
			Err: fmt.Errorf("the piece has %d bytes", len(mem)),
		})
	}
	return mem[part.Offset : part.Offset+part.Bytes], nil
}

// pullAll fills the buffer.
func (w *writer) pullAll(ctx context.Context, s *slot) error {
	if !w.plan.Settings.P2 || len(s.pulls) < 2 {
		for i := range s.pulls {
			if err := w.pull(ctx, s, &s.pulls[i]); err != nil {
				return err
			}
		}
		return nil
	}
	var g errgroup.Group
	for i := range s.pulls {
		g.Go(func() error { return w.pull(ctx, s, &s.pulls[i]) })
	}
	return g.Wait()
}

// pull fetches what comes from one rank.
func (w *writer) pull(ctx context.Context, s *slot, p *pull) error {
	var bytes int64
	for i := range p.ranges {
		bytes += int64(len(p.ranges[i].P))
	}
	start, first := time.Now(), p.ranges[0]
	err := ctx.Err()
	switch {
	case err != nil:
	case w.opt.Pull == nil:
		err = errors.New("Options.Pull is missing")
	default:
		err = w.opt.Pull.Pull(ctx, p.from, p.ranges)
	}
	if err != nil {
		return w.fail(Error{
			Op: Gather, From: p.from, Key: first.Key, Offset: first.Offset, Bytes: bytes, Err: err,
		})
	}
	w.observe(Event{
		Op: Gather, Round: s.round, Buffer: s.index,
		From: p.from, Key: first.Key, Offset: first.Offset, Bytes: bytes,
		Start: start, End: time.Now(),
	})
	return nil
}

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
