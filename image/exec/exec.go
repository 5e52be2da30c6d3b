// Package exec carries out what package plan has decided: it gathers the bytes of other ranks
// and writes the files of a checkpoint. Every process makes the same plan and executes the part
// of its rank:
//
//	p, err := plan.New(sources, settings)
//	stats, err := exec.Run(ctx, p, rank, exec.Options{
//		Own:   func(key int) []byte { return regions[key] }, // this rank's memory
//		Pull:  peers,                                        // the others' memory
//		Files: open,                                         // of type func(file int) (io.WriterAt, error)
//		Turn:  turn,                                         // only without P1
//	})
//
// # Rounds
//
// A writer pulls the bytes of other ranks into a collective buffer, then writes buffer and own
// bytes to the file. The switches of the plan say what happens at the same time (Larrosa
// Jiménez, thesis, Málaga 2015, section 2.3):
//
//	P1  off: Run asks Turn before the first pull, and tells it after the last write
//	P2  on: a goroutine for each rank from which the round has bytes
//	P3  on: round k+1 is gathered while round k is written. The two buffers change
//	    places when both are done.
//
// An individual writer gathers nothing: up to Options.Depth operations are under way.
//
// # Memory
//
// A writer has one page-aligned buffer of Settings.Buffer bytes, or two with P3, made when
// needed and kept by Options.Buffers. Own bytes are written from where they are; for direct I/O
// unaligned ones are copied into what the gathers leave of the buffer, which always suffices.
// An individual writer has a buffer for each operation under way that needs one.
//
// # Promises
//
//   - Without an error every byte of the part has been written once, at its place, and
//     nothing else touched, like holes and the header.
//   - One operation writes what lies side by side in file and memory, at most Settings.Buffer
//     bytes. Writes follow each other in the order of the plan; an individual writer's
//     begin in this order.
//   - The first error, or the end of ctx, stops everything. Run waits for its goroutines:
//     afterwards nothing is written and no memory of the caller touched.
//   - A failed operation returns an *Error, which wraps the error of the kernel, of Puller,
//     Turn or context.
//
// The caller writes headers, syncs, closes and renames. Only its Sync tells whether a
// checkpoint is safe: a write to a page cache succeeds on a full disk.
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
	// Pull fills the P of each range, all that a round needs of rank from. It returns soon after
	// ctx is done, and leaves memory alone then. With P2 there are several calls at once, one per
	// rank. The ranges belong to the caller.
	Pull(ctx context.Context, from int, ranges []Range) error
}

// Range is a run of bytes of one piece, and where they go.
type Range struct {
	Key    int   // of the piece
	Offset int64 // in the piece
	P      []byte
}

// Turn lets writers, numbered as in Plan.Writers, work one after the other.
type Turn interface {
	// Wait returns when all writers before this one are done, or ctx is.
	Wait(ctx context.Context, writer int) error
	// Done says that the writer is done; those after a failed one wait until their context
	// ends.
	Done(writer int)
}

// Options say where the bytes come from and where they go. Own and Files are required, Pull if
// anything is gathered, and Turn without P1 among several writers.
type Options struct {
	// Own returns the memory of a piece of this rank, which stays as it is until Run returns.
	// One goroutine calls it, perhaps more than once for a piece.
	Own func(key int) []byte
	// Pull fetches the bytes of other ranks.
	Pull Puller
	// Files opens a file for writing, which remains the caller's: once, when there is something
	// to write.
	Files func(file int) (io.WriterAt, error)
	// Direct says that files are open for direct I/O: unaligned memory is copied before it is
	// written.
	Direct bool
	// Turn is used if P1 is off.
	Turn Turn
	// Depth is how many operations of an individual writer are under way; 0 means one. With
	// Join each is one call: bytes that lie apart in memory are copied first.
	Depth int
	Join  bool
	// Prepare, if not nil, is called with each part that an individual writer is about to
	// write.
	Prepare func(plan.Part)

	// Buffers, if not nil, provides the memory and keeps it for the next call.
	Buffers *Buffers
	// Observe, if not nil, is called after each successful operation, by several goroutines.
	Observe func(Event)
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

// Run carries out the part of one rank; nothing for a rank that is no writer. The Stats say
// what was done, also with an error.
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

// Error is an operation that failed.
type Error struct {
	Op   Op
	Rank int // the writer

	// Of Gather: whose bytes, of which piece, and from where in it; of several ranges the
	// first.
	From, Key int
	// Of Open and Write.
	File int

	Offset, Bytes int64
	Err           error
}

func (e *Error) Error() string {
	switch e.Op {
	case Gather:
		return fmt.Sprintf("rank %d: gather %d bytes at %d of piece %d of rank %d: %v", e.Rank, e.Bytes, e.Offset, e.Key, e.From, e.Err)
	case Write:
		return fmt.Sprintf("rank %d: write %d bytes at %d of file %d: %v", e.Rank, e.Bytes, e.Offset, e.File, e.Err)
	case Open:
		return fmt.Sprintf("rank %d: open file %d: %v", e.Rank, e.File, e.Err)
	}
	return fmt.Sprintf("rank %d: %s: %v", e.Rank, e.Op, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// Op is what a writer does.
type Op string

// Operations. Some of them only fail, and some only take time.
const (
	Gather     Op = "gather"      // pull bytes of another rank, or read own ones
	Write      Op = "write"       // one call of WriteAt
	Open       Op = "open"        // only in an Error
	WaitTurn   Op = "wait-turn"   // only in an Error
	WaitGather Op = "wait-gather" // only in an Event: round k is written, round k+1 not yet gathered
	WaitWrite  Op = "wait-write"  // only in an Event: round k+1 is gathered, round k not yet written
)

// Event is an operation that a writer has completed.
type Event struct {
	Op    Op
	Rank  int // the writer
	Round int // from 0; of WaitGather and WaitWrite the one that is ready

	// Buffer is the collective buffer, 0 or 1; plan.InPlace for a write of own memory.
	Buffer int

	From, Key int   // of Gather: rank and piece, of several the first
	File      int   // of Write
	Offset    int64 // of Gather in the piece, of Write in the file
	Bytes     int64

	Start, End time.Time
}

// Stats is what a Run did.
type Stats struct {
	Rounds  int64 // gathered
	Pulls   int64 // messages to other ranks
	Writes  int64 // calls of WriteAt
	Bytes   int64 // written
	Pulled  int64 // bytes of other ranks
	Aligned int64 // own bytes copied for direct I/O

	// BufferBytes is the memory of the collective buffers.
	BufferBytes int64
}
