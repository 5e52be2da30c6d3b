package exec

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"ckpt/image/plan"
)

// Puller fetches bytes of other ranks.
type Puller interface {
	// Pull fills p with the bytes of a piece of rank from, beginning at offset,
	// or returns an error. It returns soon after ctx is done, and leaves p alone
	// once it has returned. With P2 there are several calls at once, but no two
	// for the same rank.
	Pull(ctx context.Context, from, key int, offset int64, p []byte) error
}

// BatchPuller is a Puller that can fetch in one message all that a round needs
// of a rank. It is then used for nothing else.
type BatchPuller interface {
	// PullAll fills the P of each range, under the terms of Pull. The ranges
	// belong to the caller.
	PullAll(ctx context.Context, from int, ranges []Range) error
}

// Range is a run of bytes of one piece, and where they go.
type Range struct {
	Key    int   // of the piece
	Offset int64 // in the piece
	P      []byte
}

// Turn lets writers work one after the other, in whatever way processes can wait
// for each other. Writers are numbered as in Plan.Writers.
type Turn interface {
	// Wait returns when all writers before this one are done, or with an error
	// when ctx is.
	Wait(ctx context.Context, writer int) error
	// Done says that the writer is done. It is not called for a writer that
	// failed: those after it wait until their context ends.
	Done(writer int)
}

// Options say where the bytes come from and where they go. Own and Files are
// required, Pull if the plan has the rank gather anything, and Turn without P1 if
// there is more than one writer.
type Options struct {
	// Own returns the memory of a piece of this rank. It must not change until Run
	// returns. Own may be called more than once for a piece, but by one goroutine
	// at a time.
	Own func(key int) []byte
	// Pull fetches the bytes of other ranks. It may be a BatchPuller.
	Pull Puller
	// Files opens or creates a file for writing, which remains the caller's. It is
	// called at most once for each file, when the first bytes are there to write.
	Files func(file int) (io.WriterAt, error)
	// Direct says that the files are open for direct I/O: memory that is not
	// page-aligned has to be copied before it is written.
	Direct bool
	// Turn is used if P1 is off.
	Turn Turn
	// Depth is how many operations of an individual writer are under way at a
	// time; 0 means one. With Join each of them is one call: bytes that lie apart
	// in memory are copied first.
	Depth int
	Join  bool
	// Prepare, if not nil, is called with each part that an individual writer is
	// about to write, by the goroutine that writes it.
	Prepare func(plan.Part)

	// Buffers, if not nil, provides the memory and keeps it for the next call.
	Buffers *Buffers
	// Observe, if not nil, is called after each successful operation. Goroutines
	// call it at the same time, and their work waits for it.
	Observe func(Event)
	// Clock tells the time, for Stats and events; default time.Now.
	Clock func() time.Time
}

var errFiles = errors.New("exec: Options.Files is missing")

// check says what is missing for the part of a writer.
func (o *Options) check(p *plan.Plan, rank int) error {
	switch {
	case o.Own == nil:
		return errors.New("exec: Options.Own is missing")
	case o.Files == nil:
		return errFiles
	case !p.Settings.P1 && o.Turn == nil && len(p.Writers) > 1:
		return fmt.Errorf("exec: rank %d: Options.Turn is missing: P1 is off and there are %d writers", rank, len(p.Writers))
	}
	return nil
}

// Run carries out the part of one rank. For a rank that is no writer it does
// nothing. The Stats say what was done, also with an error.
func Run(ctx context.Context, p *plan.Plan, rank int, opt Options) (Stats, error) {
	i, ok := slices.BinarySearchFunc(p.Writers, rank, func(w plan.Writer, rank int) int { return cmp.Compare(w.Rank, rank) })
	if !ok {
		return Stats{}, nil
	}
	if err := opt.check(p, rank); err != nil {
		return Stats{}, err
	}
	if opt.Buffers == nil {
		opt.Buffers = new(Buffers)
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	w := newWriter(p, i, opt, stop)
	err := firstError(ctx, w.run(ctx))
	return w.stats, err
}

// firstError returns what stopped everything, given what it led to.
func firstError(ctx context.Context, err error) error {
	if first, ok := context.Cause(ctx).(*Error); ok && err != nil {
		return first
	}
	return err
}
