package exec

import (
	"context"
	"io"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sync/errgroup"

	"ckpt/image/plan"
	"ckpt/internal/vfs"
)

// writer is the part of one rank in progress.
type writer struct {
	plan  *plan.Plan
	index int // in plan.Writers
	rank  int
	opt   Options
	stop  context.CancelCauseFunc

	slots [2]slot  // only the first without P3
	spare [][]byte // memory of operations of an individual writer

	mu    sync.Mutex // of files, spare and what individual operations count
	files map[int]io.WriterAt
	// Gathers and writes, which go on at the same time, count in different fields.
	stats Stats
}

// newWriter takes complete options. Stop cancels the context that run is given.
func newWriter(p *plan.Plan, index int, opt Options, stop context.CancelCauseFunc) *writer {
	return &writer{plan: p, index: index, rank: p.Writers[index].Rank, opt: opt, stop: stop,
		files: make(map[int]io.WriterAt)}
}

// fail stops everything at once: what has failed may wait for a write in progress.
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

// overlapped writes each round while the next is gathered into the other buffer. Waiting for
// both before the buffers change places is all the synchronisation needed.
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
		written = time.Now()
		return err
	})
	g.Go(func() error {
		err := w.gather(ctx, empty, k, r)
		gathered = time.Now()
		return err
	})
	if err := g.Wait(); err != nil {
		return err
	}
	switch wait := written.Sub(gathered); {
	case wait > 0:
		w.observe(Event{Op: WaitWrite, Round: k, Buffer: empty.index, Start: gathered, End: written})
	case wait < 0:
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

// write writes the round in s.
func (w *writer) write(ctx context.Context, s *slot) error {
	for i := range s.runs {
		if err := w.writeRun(ctx, s, &s.runs[i], func() {}); err != nil {
			return err
		}
	}
	return nil
}

// writeRun writes a run with one call, and calls begun when that begins.
func (w *writer) writeRun(ctx context.Context, s *slot, r *run, begun func()) error {
	failed := func(err error) error {
		return w.fail(Error{Op: Write, File: r.file, Offset: r.offset, Bytes: int64(len(r.data)), Err: err})
	}
	if err := ctx.Err(); err != nil {
		return failed(err)
	}
	f, err := w.file(r.file)
	if err != nil {
		return err
	}
	start := time.Now()
	begun()
	n, err := f.WriteAt(r.data, r.offset)
	if err == nil && n != len(r.data) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return failed(err)
	}
	w.wrote(1, int64(n))
	e := Event{
		Op: Write, Round: s.round, Buffer: s.index, Key: r.key, File: r.file, Offset: r.offset, Bytes: int64(n),
		Start: start, End: time.Now(),
	}
	if r.own {
		e.Buffer = plan.InPlace
	}
	w.observe(e)
	return nil
}

// wrote counts calls and their bytes.
func (w *writer) wrote(calls, bytes int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stats.Writes += calls
	w.stats.Bytes += bytes
}

// file returns an open file.
func (w *writer) file(i int) (io.WriterAt, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if f, ok := w.files[i]; ok {
		return f, nil
	}
	f, err := w.opt.Files(i)
	if err != nil {
		return nil, w.fail(Error{Op: Open, File: i, Err: err})
	}
	w.files[i] = f
	return f, nil
}

// Buffers keeps the memory of one Run for the next: as many buffers as were in use at a time.
// The zero value is empty; goroutines may share it.
type Buffers struct {
	mu   sync.Mutex
	free [][]byte
}

// get returns n bytes, page-aligned, with anything in them.
func (b *Buffers) get(n int64) []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	last := len(b.free) - 1
	for i, mem := range b.free {
		if int64(cap(mem)) >= n {
			b.free[i] = b.free[last]
			b.free = b.free[:last]
			return mem[:n]
		}
	}
	if last >= 0 {
		// A buffer that is too small gives way to one that is not.
		b.free[last] = nil
		b.free = b.free[:last]
	}
	return vfs.Aligned(int(n))
}

func (b *Buffers) put(mem []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free = append(b.free, mem)
}

func isAligned(b []byte) bool { return address(b)%plan.PageSize == 0 }

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// adjoins says that b follows a in the same piece of memory.
func adjoins(a, b []byte) bool {
	n := len(a)
	return len(b) > 0 && cap(a)-n >= len(b) && &a[:n+1][n] == &b[0]
}
