package container

import (
	"math/bits"
	"runtime"
	"slices"
	"sync"
	"time"

	"ckpt/image/codec"
	"ckpt/internal/durable"
	"ckpt/iotrace"
	"ckpt/zones"

	"golang.org/x/sync/errgroup"
)

// A packer makes the stored bytes of chunks.
type packer struct {
	w       *writer
	encoder *codec.Encoder // nil: raw
	runs    []run          // of the chunk: where its stored bytes are in memory
	n       int64          // bytes of them
	// Memory that was fetched: what is written from where it lies, and what is not.
	kept, packed [][]byte
	// Bytes that do not stay where they are go through the stage, which is the only run then.
	stage  []byte
	staged bool
	// The cost so far, if there is an encoder.
	offered             int64 // bytes of memory, to the encoder
	processor, encoding time.Duration
}

// A run is stored bytes that follow each other in memory.
type run struct {
	mem     []byte
	extents []int // that it has; nil if their checksums are known
}

// clock begins to count the processor time of a chunk, and returns what ends that.
func (p *packer) clock() (stop func()) {
	runtime.LockOSThread() // whose time it is
	begin := codec.ProcessorTime()
	return func() {
		p.processor += codec.ProcessorTime() - begin
		runtime.UnlockOSThread()
	}
}

// pack fills in the records of a chunk, but for their places, and returns its stored bytes;
// those in the stage are valid until the next call.
func (p *packer) pack(c chunk) ([]run, error) {
	if p.w.stored != nil {
		return p.copied(c)
	}
	if p.encoder != nil {
		defer p.clock()()
	}
	p.runs, p.n, p.staged, p.kept = nil, 0, false, nil
	if err := p.w.fetch(c); err != nil {
		return nil, err
	}
	for i := c.first; i < c.last; i++ {
		if !p.w.settled(i) {
			mem := p.w.memory(i)
			p.note(mem, p.extent(i, mem, c))
		}
	}
	p.settle()
	if p.staged {
		p.runs = []run{{mem: p.stage[:p.n]}}
	}
	return p.runs, nil
}

// copied is pack for extents that another file has in stored form.
func (p *packer) copied(c chunk) ([]run, error) {
	p.runs, p.n, p.staged, p.kept = nil, 0, false, nil
	need := int64(0)
	for i := c.first; i < c.last; i++ {
		if !p.w.settled(i) {
			need += zones.PageRound(p.w.index.extents[i].storedLen)
		}
	}
	if need == 0 {
		return nil, nil
	}
	if p.staged = true; int64(len(p.stage)) < need {
		p.stage = stageOf(need)
	}
	for i := c.first; i < c.last; i++ {
		if p.w.settled(i) {
			continue
		}
		rec := &p.w.index.extents[i]
		end := p.n + zones.PageRound(rec.storedLen)
		if err := p.w.stored(rec, p.stage[p.n:end]); err != nil {
			return nil, err
		}
		rec.fileOff, p.n = p.n, end
	}
	p.runs = []run{{mem: p.stage[:p.n]}}
	return p.runs, nil
}

// extent packs an extent, and reports whether it is written from where it lies.
func (p *packer) extent(i int, mem []byte, c chunk) bool {
	rec := &p.w.index.extents[i]
	r := &p.w.regions[rec.region]
	if codec.IsZero(mem) {
		rec.codec = codecZero
		return false
	}
	if p.w.opt.History != nil {
		rec.id = IDOf(mem)
		if at, ok := p.w.past.find(r, rec.offset, poolKey{rec.id, len(mem)}, p.w.opt.Oldest); ok {
			p.w.refer(i, at)
			return false
		}
	}
	if p.encoder != nil {
		return p.encode(rec, r, mem, c)
	}
	rec.storedLen = int64(len(mem))
	p.leave(rec, mem)
	if last := &p.runs[len(p.runs)-1]; p.w.sumsLater {
		last.extents = append(last.extents, i)
	} else {
		rec.sum(mem)
	}
	return true
}

// sum enters the checksum of a raw extent.
func (e *extentRec) sum(mem []byte) {
	e.rawCRC = durable.Sum(mem)
	e.storedCRC = e.rawCRC
}

// leave notes an extent that is written from where it is, at a place relative to its chunk.
func (p *packer) leave(rec *extentRec, mem []byte) {
	rec.fileOff = p.n
	p.n += int64(len(mem))
	if k := len(p.runs) - 1; k >= 0 && (rec.offset > 0 || !p.w.sumsLater) && continues(p.runs[k].mem, mem) {
		p.runs[k].mem = p.runs[k].mem[:len(p.runs[k].mem)+len(mem)]
		return
	}
	p.runs = append(p.runs, run{mem: mem})
}

// encode packs an extent, if that pays. A chunk of raw extents that adjoin in memory stays
// there: encode reports whether it does so far.
func (p *packer) encode(rec *extentRec, r *zones.Region, mem []byte, c chunk) bool {
	rec.sum(mem)
	stored := mem
	begin := codec.ProcessorTime()
	enc := p.encoder.Encode(mem, r.Elem)
	p.encoding += codec.ProcessorTime() - begin
	p.offered += rec.rawLen
	switch enc.ID {
	case codec.Raw, codec.Zero:
	default:
		rec.codec, rec.filter = uint8(enc.ID), uint8(enc.Filter)
		stored = enc.Data
		rec.storedCRC = durable.Sum(stored)
	}
	rec.storedLen = int64(len(stored))
	if rec.codec == codecRaw && !p.staged && (p.n == 0 && (!p.w.direct || isAligned(mem)) || p.n > 0 && continues(p.runs[0].mem, mem)) {
		p.leave(rec, mem)
		return true
	}
	if !p.staged {
		p.staged = true
		// Each extent is stored in whole pages.
		if need := c.n + int64(c.last-c.first)*zones.PageSize; int64(len(p.stage)) < need {
			p.stage = stageOf(need)
		}
		if p.n > 0 {
			copy(p.stage, p.runs[0].mem)
		}
	}
	rec.fileOff = p.n
	end := p.n + zones.PageRound(rec.storedLen)
	clear(p.stage[p.n+int64(copy(p.stage[p.n:], stored)) : end])
	p.n = end
	return false
}

// stages keeps staging buffers from one write for the next: fresh memory costs a fault for
// each page, which took longer than to pack the checkpoint of a small rank.
var stages sync.Pool

// stageOf returns a buffer of at least n bytes.
func stageOf(n int64) []byte {
	if kept, _ := stages.Get().(*[]byte); kept != nil && int64(len(*kept)) >= n {
		return *kept
	}
	return aligned(1 << bits.Len64(uint64(n-1)))
}

// keepStages gives the buffers of a write that is over to the next one.
func (w *writer) keepStages() {
	for _, p := range w.packers {
		w.free = append(w.free, p.stage)
		p.stage = nil
	}
	for _, stage := range w.free {
		if len(stage) > 0 {
			stages.Put(&stage)
		}
	}
	w.free = nil
}

// place adds the place of a chunk to the places of its extents.
func (w *writer) place(c chunk, at int64) {
	for i := c.first; i < c.last; i++ {
		if rec := &w.index.extents[i]; rec.codec != codecZero && w.holders[i] == nil {
			rec.fileOff += at
		}
	}
}

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

// clipped returns the regions apart: memory of one does not continue in another's, so that a
// part that is fetched is of one region.
func clipped(regions []zones.Region) []zones.Region {
	regions = slices.Clone(regions)
	for i := range regions {
		regions[i].Mem = slices.Clip(regions[i].Mem)
	}
	return regions
}

// fetchLimit returns where a round that begins at chunk first ends because of the memory it
// holds.
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

// settle releases the memory of a packed chunk that is not written from where it lies.
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

// note remembers the fetched memory of an extent, and whether it is written from where it lies.
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
		if n := len(w.free); (p.encoder != nil || w.stored != nil) && p.stage == nil && n > 0 {
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

// zoneOf returns the zone of the first extent of a chunk.
func (w *writer) zoneOf(c chunk) iotrace.Zone {
	return traceZone(w.regions[w.index.extents[c.first].region].Zone)
}
