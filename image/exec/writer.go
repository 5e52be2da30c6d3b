package exec

import (
	"context"
	"io"
	"sync"
	"time"

	"ckpt/image/plan"

	"golang.org/x/sync/errgroup"
)

// writer is the part of one rank in progress.
type writer struct {
	plan  *plan.Plan
	index int // in plan.Writers
	rank  int
	opt   Options
	batch BatchPuller // opt.Pull, if it is one
	stop  context.CancelCauseFunc

	slots [2]slot  // only the first without P3
	spare [][]byte // memory of operations of an individual writer

	mu    sync.Mutex // of files, spare and what individual operations count
	files map[int]io.WriterAt
	// The gathers and the writes, which may go on at the same time, count in
	// different fields.
	stats Stats
}

// newWriter takes options that are complete but for the clock. Stop cancels the
// context that run is given.
func newWriter(p *plan.Plan, index int, opt Options, stop context.CancelCauseFunc) *writer {
	if opt.Clock == nil {
		opt.Clock = time.Now
	}
	w := &writer{plan: p, index: index, rank: p.Writers[index].Rank, opt: opt, stop: stop, files: make(map[int]io.WriterAt)}
	w.batch, _ = opt.Pull.(BatchPuller)
	return w
}

// fail stops everything at once: what has failed may have to wait for a write in
// progress before it can return.
func (w *writer) fail(e Error) error {
	e.Rank = w.rank
	w.stop(&e)
	return &e
}

// run does the work when it is the writer's turn.
func (w *writer) run(ctx context.Context) error {
	turns := !w.plan.Settings.P1 && w.opt.Turn != nil
	if turns {
		if err := w.opt.Turn.Wait(ctx, w.index); err != nil {
			return w.fail(Error{Op: WaitTurn, Err: err})
		}
	}
	err := w.rounds(ctx)
	w.release() // before the next writer wants the same memory
	if turns && err == nil {
		w.opt.Turn.Done(w.index)
	}
	return err
}

// A slot is a collective buffer with a round in it.
type slot struct {
	index  int
	round  int
	mem    []byte // page-aligned; nil as long as no round has needed it
	ranges []Range
	pulls  []pull
	runs   []run
}

// rounds gathers and writes round after round.
func (w *writer) rounds(ctx context.Context) error {
	if w.plan.Settings.Strategy == plan.Individual {
		return w.individual(ctx)
	}
	if w.plan.Settings.P3 {
		return w.overlapped(ctx)
	}
	k, s := 0, &w.slots[0]
	for r := range w.plan.WriterPlan(w.rank) {
		if err := w.gather(ctx, s, k, r); err != nil {
			return err
		}
		if err := w.write(ctx, s); err != nil {
			return err
		}
		k++
	}
	return nil
}

// overlapped writes each round while the next is gathered into the other
// buffer. To wait for both before the buffers change places is all the
// synchronisation that two buffers need.
func (w *writer) overlapped(ctx context.Context) error {
	k, full, empty := 0, (*slot)(nil), &w.slots[0]
	w.slots[1].index = 1
	for r := range w.plan.WriterPlan(w.rank) {
		if err := w.both(ctx, full, empty, k, r); err != nil {
			return err
		}
		full, empty = empty, &w.slots[1-empty.index]
		k++
	}
	if full == nil {
		return nil
	}
	return w.write(ctx, full)
}

// both writes what is in full, if anything, and gathers round k into empty.
func (w *writer) both(ctx context.Context, full, empty *slot, k int, r plan.Round) error {
	if full == nil {
		return w.gather(ctx, empty, k, r)
	}
	var gathered, written time.Time
	var g errgroup.Group
	g.Go(func() error {
		err := w.write(ctx, full)
		written = w.opt.Clock()
		return err
	})
	g.Go(func() error {
		err := w.gather(ctx, empty, k, r)
		gathered = w.opt.Clock()
		return err
	})
	if err := g.Wait(); err != nil {
		return err
	}
	switch wait := written.Sub(gathered); {
	case wait > 0:
		w.stats.SwapTime += wait
		w.observe(Event{Op: WaitWrite, Round: k, Buffer: empty.index, Start: gathered, End: written})
	case wait < 0:
		w.stats.SwapTime -= wait
		w.observe(Event{Op: WaitGather, Round: full.round, Buffer: full.index, Start: written, End: gathered})
	}
	return nil
}

func (w *writer) observe(e Event) {
	if w.opt.Observe != nil {
		e.Rank = w.rank
		w.opt.Observe(e)
	}
}

// memory returns the buffer of a slot.
func (w *writer) memory(s *slot) []byte {
	if s.mem == nil {
		s.mem = w.opt.Buffers.get(w.most())
		w.stats.BufferBytes += int64(len(s.mem))
	}
	return s.mem
}

// most returns how many bytes a round moves at most: no more than there are.
func (w *writer) most() int64 {
	var all int64
	for i := range w.plan.Files {
		all += w.plan.Files[i].Bytes
	}
	return min(w.plan.Settings.Buffer, all)
}

// release gives the buffers back.
func (w *writer) release() {
	for i := range w.slots {
		if s := &w.slots[i]; s.mem != nil {
			w.opt.Buffers.put(s.mem)
			s.mem = nil
		}
	}
	for _, mem := range w.spare {
		w.opt.Buffers.put(mem)
	}
	w.spare = nil
}
