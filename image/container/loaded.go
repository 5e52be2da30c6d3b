package container

import (
	"context"

	"golang.org/x/sync/semaphore"

	"ckpt/internal/durable"
)

// fillBytes is the most memory that a load writes to before it hands it over: no less
// than the longest extent.
const fillBytes = maxExtent

// handsOver makes the reader hand over the memory that it has filled.
func (r *reader) handsOver(loaded func(mem []byte) error) {
	if loaded != nil {
		r.loaded, r.filling = loaded, semaphore.NewWeighted(fillBytes)
	}
}

// adjoining returns how many of the extents, from the first on, are handed over at
// once, and their memory: those that follow each other in memory, up to a staging buffer.
// Without a hook these are all.
func (r *reader) adjoining(extents []extentRec) (n int, mem []byte) {
	if r.loaded == nil {
		return len(extents), nil
	}
	mem = r.dest(extents[0])
	for n = 1; n < len(extents); n++ {
		next := r.dest(extents[n])
		if !continues(mem, next) || len(mem)+len(next) > stageBytes {
			break
		}
		mem = mem[:len(mem)+len(next)]
	}
	return n, mem
}

// fill fills memory and hands it over.
func (r *reader) fill(ctx context.Context, path string, mem []byte, fill func() error) error {
	if r.loaded == nil {
		return fill()
	}
	n := int64(len(mem))
	if err := r.filling.Acquire(ctx, n); err != nil {
		return durable.Op("read", path, -1, err)
	}
	defer r.filling.Release(n)
	if err := fill(); err != nil {
		return err
	}
	return durable.Op("hand over memory of", path, -1, r.loaded(mem))
}

// zero fills memory that holds zeros.
func (r *reader) zero(ctx context.Context, path string, mem []byte) error {
	for len(mem) > 0 {
		part := mem[:min(len(mem), stageBytes)]
		err := r.fill(ctx, path, part, func() error {
			clear(part)
			return nil
		})
		if err != nil {
			return err
		}
		mem = mem[len(part):]
	}
	return nil
}
