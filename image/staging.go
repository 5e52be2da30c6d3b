package image

import (
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"ckpt/image/codec"
)

// Staging is memory into which a Write copies what it has to store, so that the
// program can go on before it is stored. It is used by one Write at a time.
type Staging struct{ mem []byte }

// NewStaging makes a Staging of mem, which begins at a page boundary. What does
// not fit into it is written from where it is.
func NewStaging(mem []byte) *Staging { return &Staging{mem} }

// capture copies extents into the staging memory, from the last chunk on down,
// until there is no more room: chunks are written in order, so that those which
// had no room are dealt with first. Zeros take none.
func (w *writer) capture() {
	w.copies = make([][]byte, len(w.index.extents))
	w.live = len(w.chunks)
	left := w.opt.Staging.mem
	for w.live > 0 && w.chunks[w.live-1].n <= int64(len(left)) {
		// As many chunks as surely fit, at the same time.
		first, n := w.live, int64(0)
		for first > 0 && w.live-first < 16*w.opt.Depth && n+w.chunks[first-1].n <= int64(len(left)) {
			first--
			n += w.chunks[first].n
		}
		var used atomic.Int64
		var g errgroup.Group
		g.SetLimit(w.opt.Depth)
		for _, c := range w.chunks[first:w.live] {
			g.Go(func() error {
				w.copyChunk(c, left, &used)
				return nil
			})
		}
		_ = g.Wait()
		left = left[used.Load():]
		w.live = first
	}
	w.remaining.Store(int64(w.live))
	w.gone(0)
}

// copyChunk copies the extents of a chunk that are not zero to the place behind
// used, and adds their length to it. Those that follow each other are copied at
// once: from 1 MiB on, copy goes around the processor's caches, which spares
// reading what is overwritten.
func (w *writer) copyChunk(c chunk, to []byte, used *atomic.Int64) {
	var run []byte // memory to copy
	first := c.first
	flush := func(end int) {
		if len(run) == 0 {
			return
		}
		at := used.Add(int64(len(run))) - int64(len(run))
		copy(to[at:], run)
		for i := first; i < end; i++ {
			n := w.index.extents[i].rawLen
			w.copies[i] = to[at : at+n]
			at += n
		}
		run = nil
	}
	for i := c.first; i < c.last; i++ {
		mem := w.memory(i)
		switch {
		case codec.IsZero(mem):
			flush(i)
			w.copies[i] = zeros
		case continues(run, mem):
			run = run[:len(run)+len(mem)]
		default:
			flush(i)
			run, first = mem, i
		}
	}
	flush(c.last)
}

// zeros stands for a copy of an extent of zeros.
var zeros = []byte{}

// memory returns the bytes of an extent: the copy, if there is one, else those of
// the program; zeros may be empty.
func (w *writer) memory(i int) []byte {
	if w.copies != nil && w.copies[i] != nil {
		return w.copies[i]
	}
	rec := &w.index.extents[i]
	return w.regions[rec.region].Mem[rec.offset : rec.offset+rec.rawLen]
}

// gone notes that n chunks of the program's memory have been dealt with, and tells
// when the program may go on.
func (w *writer) gone(n int64) {
	if w.remaining.Add(-n) == 0 && w.opt.Captured != nil && w.told.CompareAndSwap(false, true) {
		w.opt.Captured()
	}
}
