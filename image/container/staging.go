package container

import (
	"golang.org/x/sync/errgroup"

	"ckpt/image/codec"
)

// capture copies extents into the staging memory, from the last chunk down while there is
// space: chunks are written in order, so those without a copy are dealt with first. Zeros take
// no space.
func (w *writer) capture() {
	w.copies = make([][]byte, len(w.index.extents))
	need := make([]int64, len(w.chunks))
	w.eachChunk(0, func(i int) { need[i] = w.findZeros(w.chunks[i]) })
	w.live = len(w.chunks)
	at := make([]int64, len(w.chunks))
	for used := int64(0); w.live > 0; w.live-- {
		n := need[w.live-1]
		if n > int64(len(w.opt.Staging.mem))-used {
			break
		}
		at[w.live-1] = used
		used += n
	}
	w.eachChunk(w.live, func(i int) { w.copyChunk(w.chunks[i], w.opt.Staging.mem[at[i]:]) })
	w.remaining.Store(int64(w.live))
	w.gone(0)
}

// eachChunk does something for the chunks from first on, some at the same time.
func (w *writer) eachChunk(first int, do func(i int)) {
	var g errgroup.Group
	g.SetLimit(w.opt.Depth)
	for i := first; i < len(w.chunks); i++ {
		g.Go(func() error {
			do(i)
			return nil
		})
	}
	_ = g.Wait()
}

// findZeros marks the zero extents of a chunk and returns the length of the others.
func (w *writer) findZeros(c chunk) (n int64) {
	for i := c.first; i < c.last; i++ {
		if mem := w.memory(i); codec.IsZero(mem) {
			w.copies[i] = zeros
		} else {
			n += int64(len(mem))
		}
	}
	return n
}

// copyChunk copies the other extents of a chunk, adjoining ones at once: from 1 MiB on, copy
// goes around the processor's caches, which spares reading what is overwritten.
func (w *writer) copyChunk(c chunk, to []byte) {
	var run []byte // memory to copy
	first := c.first
	flush := func(end int) {
		if len(run) == 0 {
			return
		}
		copy(to, run)
		for i := first; i < end; i++ {
			n := w.index.extents[i].rawLen
			w.copies[i], to = to[:n], to[n:]
		}
		run = nil
	}
	for i := c.first; i < c.last; i++ {
		mem := w.memory(i)
		switch {
		case len(mem) == 0:
			flush(i)
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

// memory returns the bytes of an extent: its copy, or the program's; zeros may be empty.
func (w *writer) memory(i int) []byte {
	if w.copies != nil && w.copies[i] != nil {
		return w.copies[i]
	}
	rec := &w.index.extents[i]
	if w.settled(i) {
		return zeros
	}
	return w.regions[rec.region].Mem[rec.offset : rec.offset+rec.rawLen]
}

// gone notes that n chunks of the program's memory are dealt with, and tells when it may go on.
func (w *writer) gone(n int64) {
	if w.remaining.Add(-n) == 0 && w.opt.Captured != nil && w.told.CompareAndSwap(false, true) {
		w.opt.Captured()
	}
}

// settled reports whether an extent needs no memory: it is zero, or stored elsewhere.
func (w *writer) settled(i int) bool {
	return w.index.extents[i].codec == codecZero || w.holders[i] != nil
}
