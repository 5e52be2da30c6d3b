package container

import (
	"slices"

	"golang.org/x/sync/errgroup"

	"ckpt/internal/durable"
	"ckpt/iotrace"
	"ckpt/zones"
)

// Memory that is elsewhere, in another process, is fetched chunk by chunk: a packer
// fetches what it is about to read of a chunk, and releases what it has packed or does
// not store. Memory that is written from where it lies is released after its round,
// when no other rank needs it any more. Two rounds at a time hold memory: one is packed
// while the one before is written.

const (
	// fetchBytes is the most memory that a round holds.
	fetchBytes = 16 << 20
	// fetchExtent is the longest extent of memory that is fetched.
	fetchExtent = stageBytes
)

// extent returns the length of an extent.
func (o *WriteOptions) extent() int64 {
	n := zones.PageRound(int64(o.ExtentBytes))
	if n <= 0 {
		n = defaultExtent
	}
	if o.Fetch != nil {
		return min(n, fetchExtent)
	}
	return min(n, maxExtent)
}

// clipped returns the regions so that no part of the memory of one continues in that of
// another: a part that is fetched is of one region.
func clipped(regions []zones.Region) []zones.Region {
	regions = slices.Clone(regions)
	for i := range regions {
		regions[i].Mem = slices.Clip(regions[i].Mem)
	}
	return regions
}

// fetchLimit returns where a round that begins at chunk first ends at the latest,
// because of the memory that it holds.
func (w *writer) fetchLimit(first, limit int) int {
	held := int64(0)
	for i := first; i < limit; i++ {
		if held += w.chunks[i].n; held > fetchBytes {
			return i
		}
	}
	return limit
}

// findClean makes references of the extents that have not changed since the base.
func (w *writer) findClean() {
	if w.opt.Clean == nil {
		return
	}
	for i := range w.index.extents {
		rec := &w.index.extents[i]
		if rec.codec == codecZero {
			continue
		}
		r := &w.regions[rec.region]
		if at, ok := w.past.at(r, rec.offset, rec.rawLen, w.opt.Oldest); ok && w.opt.Clean(r.Name, rec.offset, rec.rawLen) {
			w.refer(i, at)
			w.clean += rec.rawLen
		}
	}
}

// refer makes an extent one that is stored elsewhere, or of zeros.
func (w *writer) refer(i int, at poolEntry) {
	rec := &w.index.extents[i]
	region, offset := rec.region, rec.offset
	*rec = at.extent
	rec.region, rec.offset, rec.fileRef = region, offset, 0
	w.holders[i] = at.file
}

// settled reports whether an extent needs no memory: it is known to be zero, or where
// it is stored.
func (w *writer) settled(i int) bool {
	return w.index.extents[i].codec == codecZero || w.holders[i] != nil
}

// fetch makes the memory of a chunk readable. After an error it releases all of it.
func (w *writer) fetch(c chunk) error {
	if w.opt.Fetch == nil {
		return nil
	}
	var parts [][]byte
	for i := c.first; i < c.last; i++ {
		if !w.settled(i) {
			parts = adjoined(parts, w.memory(i))
		}
	}
	for i, mem := range parts {
		if err := w.opt.Fetch(mem); err != nil {
			w.release(parts[:i+1])
			return durable.Op("fetch memory for", w.path, -1, err)
		}
	}
	return nil
}

// release says that memory is not read again.
func (w *writer) release(parts [][]byte) {
	if w.opt.Release == nil {
		return
	}
	for _, mem := range parts {
		w.opt.Release(mem)
	}
}

// settle releases the memory of a chunk that is not written from where it lies, once
// it is packed.
func (p *packer) settle() {
	if p.w.opt.Fetch == nil {
		return
	}
	if p.staged {
		p.packed, p.kept = append(p.packed, p.kept...), nil
	}
	p.w.release(p.packed)
	p.packed = nil
}

// note remembers the memory of an extent that was fetched, and whether it is written
// from where it lies.
func (p *packer) note(mem []byte, stays bool) {
	switch {
	case p.w.opt.Fetch == nil:
	case stays:
		p.kept = adjoined(p.kept, mem)
	default:
		p.packed = adjoined(p.packed, mem)
	}
}

// adjoined puts memory at the end of a list of parts.
func adjoined(parts [][]byte, mem []byte) [][]byte {
	if k := len(parts) - 1; k >= 0 && continues(parts[k], mem) {
		parts[k] = parts[k][:len(parts[k])+len(mem)]
		return parts
	}
	return append(parts, mem)
}

// packAll packs chunks at the same time, one per packer.
func (w *writer) packAll(batch []chunk, out [][]run) error {
	var workers errgroup.Group
	for i, c := range batch {
		p := w.packers[i]
		if n := len(w.free); p.encoder != nil && p.stage == nil && n > 0 {
			p.stage, w.free = w.free[n-1], w.free[:n-1]
		}
		workers.Go(func() (err error) {
			start := w.trace.now()
			out[i], err = p.pack(c)
			if p.encoder != nil && err == nil { // else it is checksums
				w.trace.record(iotrace.Encode, w.zoneOf(c), iotrace.None, p.n, start)
			}
			return err
		})
	}
	return workers.Wait()
}
