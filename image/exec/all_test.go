package exec

import (
	"context"
	"fmt"
	"io"
	"sync"

	"ckpt/image/plan"

	"golang.org/x/sync/errgroup"
)

// AllOptions say where the bytes of a whole job go. Files is required. The fields
// without a comment are as in Options.
type AllOptions struct {
	// Files is called at most once for each file, for several files at the same
	// time.
	Files  func(file int) (io.WriterAt, error)
	Direct bool
	// Pull, if not nil, is used by all writers instead of copying from memory.
	Pull Puller

	Buffers *Buffers
	Observe func(Event)
}

// All carries out the parts of all writers in this process, each in a goroutine,
// as Run does. mem returns the memory of a piece of a rank; goroutines call it at
// the same time. The first error stops all writers.
func All(ctx context.Context, p *plan.Plan, mem func(rank, key int) []byte, opt AllOptions) (Stats, error) {
	if opt.Files == nil {
		return Stats{}, errFiles
	}
	if opt.Pull == nil {
		opt.Pull = memory(mem)
	}
	if opt.Buffers == nil {
		opt.Buffers = new(Buffers)
	}
	files := make([]func() (io.WriterAt, error), len(p.Files))
	for i := range files {
		files[i] = sync.OnceValues(func() (io.WriterAt, error) { return opt.Files(i) })
	}
	turns := newTurns(len(p.Writers))
	writers := make([]*writer, len(p.Writers))
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var g errgroup.Group
	for i := range writers {
		rank := p.Writers[i].Rank
		writers[i] = newWriter(p, i, Options{
			Own:     func(key int) []byte { return mem(rank, key) },
			Pull:    opt.Pull,
			Files:   func(file int) (io.WriterAt, error) { return files[file]() },
			Direct:  opt.Direct,
			Turn:    turns,
			Buffers: opt.Buffers,
			Observe: opt.Observe,
		}, stop)
		g.Go(func() error { return writers[i].run(ctx) })
	}
	err := firstError(ctx, g.Wait())
	var sum Stats
	for _, w := range writers {
		sum.Rounds += w.stats.Rounds
		sum.Pulls += w.stats.Pulls
		sum.Writes += w.stats.Writes
		sum.Bytes += w.stats.Bytes
		sum.Pulled += w.stats.Pulled
		sum.Aligned += w.stats.Aligned
		sum.BufferBytes += w.stats.BufferBytes
	}
	return sum, err
}

// memory is a Puller that copies.
type memory func(rank, key int) []byte

func (m memory) Pull(_ context.Context, from int, ranges []Range) error {
	for _, r := range ranges {
		b := m(from, r.Key)
		if r.Offset+int64(len(r.P)) > int64(len(b)) {
			return fmt.Errorf("the piece has %d bytes", len(b))
		}
		copy(r.P, b[r.Offset:])
	}
	return nil
}

// turns is a Turn among goroutines: for each writer a channel that is closed when
// it is done.
type turns []chan struct{}

func newTurns(n int) turns {
	t := make(turns, n)
	for i := range t {
		t[i] = make(chan struct{})
	}
	return t
}

func (t turns) Wait(ctx context.Context, writer int) error {
	if writer == 0 {
		return nil
	}
	select {
	case <-t[writer-1]:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t turns) Done(writer int) { close(t[writer]) }
