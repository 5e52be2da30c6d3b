package container

import (
	"runtime"
	"time"

	"ckpt/image/codec"
	"ckpt/internal/durable"
	"ckpt/zones"
)

// A packer makes the stored bytes of chunks.
type packer struct {
	w       *writer
	encoder *codec.Encoder // nil: raw
	runs    []run          // of the chunk: where its stored bytes are in memory
	n       int64          // bytes of them
	// Memory that was fetched: what is written from where it lies, and what is not.
	kept, packed [][]byte
	// Bytes that do not stay where they are go through the stage, which is the only
	// run then.
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

// pack fills in the records of a chunk, but for their places, and returns its
// stored bytes. Those in the stage are valid until the next call.
func (p *packer) pack(c chunk) ([]run, error) {
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

// leave notes the bytes of an extent that are written from where they are. Its place
// is noted relative to the begin of the chunk.
func (p *packer) leave(rec *extentRec, mem []byte) {
	rec.fileOff = p.n
	p.n += int64(len(mem))
	if k := len(p.runs) - 1; k >= 0 && (rec.offset > 0 || !p.w.sumsLater) && continues(p.runs[k].mem, mem) {
		p.runs[k].mem = p.runs[k].mem[:len(p.runs[k].mem)+len(mem)]
		return
	}
	p.runs = append(p.runs, run{mem: mem})
}

// encode packs an extent, if that pays. A chunk of raw extents that follow each other
// in memory stays where it is: encode reports whether it does so far.
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
		if int64(len(p.stage)) < c.n {
			p.stage = aligned(int(max(c.n, stageBytes)))
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

// place adds the place of a chunk to those of its extents.
func (w *writer) place(c chunk, at int64) {
	for i := c.first; i < c.last; i++ {
		if rec := &w.index.extents[i]; rec.codec != codecZero && w.holders[i] == nil {
			rec.fileOff += at
		}
	}
}
