package container

import (
	"sync"
	"time"

	"ckpt/image/codec"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
	"ckpt/zones"
)

// A Codec compresses the extents of what one process writes. It is kept from one
// checkpoint to the next, for it learns what compresses how well, and is used by
// one Write at a time.
type Codec struct {
	setting  codec.Setting
	opt      codec.Options
	learns   bool // the bandwidth is not known
	encoders []*codec.Encoder
}

// NewCodec returns a Codec. Bandwidth is what the storage takes from this process
// in bytes per second, for codec.UseAuto; with 0 it is measured at each Write for
// the next one.
func NewCodec(setting codec.Setting, bandwidth float64) *Codec {
	return &Codec{setting: setting, opt: codec.Options{Bandwidth: bandwidth, Workers: defaultDepth},
		learns: bandwidth <= 0 && setting == codec.UseAuto}
}

// Too little is written in less to tell the bandwidth.
const learnBytes = 16 << 20

// learn takes the bytes that went to storage, and how long some worker, or the
// final sync, waited for it.
func (c *Codec) learn(n int64, waited time.Duration) {
	if c == nil || !c.learns || n < learnBytes || waited <= 0 {
		return
	}
	b := float64(n) / waited.Seconds()
	if known := c.opt.Bandwidth; known > 0 && b > known/2 && b < known*2 {
		return // what the encoders have learned is worth more
	}
	c.opt.Bandwidth, c.encoders = b, nil
}

// encoder returns that of a worker. It is called before the workers run.
func (c *Codec) encoder(worker int) *codec.Encoder {
	if c == nil || c.setting == codec.UseNone {
		return nil
	}
	for len(c.encoders) <= worker {
		c.encoders = append(c.encoders, codec.NewEncoder(c.setting, c.opt))
	}
	return c.encoders[worker]
}

// A chunkEncoder makes the stored bytes of chunks.
type chunkEncoder struct {
	w       *writer
	encoder *codec.Encoder // nil: raw
	stage   []byte         // reused
	used    int            // bytes of it
	// run is the stored bytes as long as they are one range of memory, which
	// is then written from where it is; after that they are in the stage.
	run    []byte
	staged bool
}

// encode fills in the records of a chunk, but for their places, and returns its
// stored bytes, which are valid until the next call.
func (e *chunkEncoder) encode(c chunk) []byte {
	e.used, e.run, e.staged = 0, nil, false
	for i := c.first; i < c.last; i++ {
		rec := &e.w.index.extents[i]
		r := &e.w.regions[rec.region]
		*rec = extentRec{region: rec.region, offset: rec.offset, rawLen: rec.rawLen}
		e.w.holders[i] = nil
		mem := e.w.memory(i)
		if codec.IsZero(mem) {
			rec.codec = codecZero
			continue
		}
		if e.w.opt.History != nil {
			rec.id = IDOf(mem)
			if at, ok := e.w.past.find(r, rec.offset, poolKey{rec.id, len(mem)}, e.w.opt.Oldest); ok {
				region, offset := rec.region, rec.offset
				*rec = at.extent
				rec.region, rec.offset, rec.fileRef = region, offset, 0
				e.w.holders[i] = at.file
				continue
			}
		}
		e.store(rec, r, mem, c)
	}
	if e.staged {
		return e.stage[:e.used]
	}
	return e.run
}

// store appends an extent to the stored bytes. Its place is noted relative to
// their begin.
func (e *chunkEncoder) store(rec *extentRec, r *zones.Region, mem []byte, c chunk) {
	rec.rawCRC = durable.Sum(mem)
	stored := mem
	rec.storedCRC = rec.rawCRC
	if e.encoder != nil {
		enc := e.encoder.Encode(mem, r.Elem)
		switch enc.ID {
		case codec.Raw, codec.Zero:
		default:
			rec.codec, rec.filter = uint8(enc.ID), uint8(enc.Filter)
			stored = enc.Data
			rec.storedCRC = durable.Sum(stored)
		}
	}
	rec.storedLen = int64(len(stored))
	if rec.codec == codecRaw && !e.staged {
		if e.run == nil && (!e.w.direct || isAligned(mem)) {
			e.run = mem
			return
		}
		if n := len(e.run); continues(e.run, mem) {
			rec.fileOff = int64(n)
			e.run = e.run[:n+len(mem)]
			return
		}
	}
	if !e.staged {
		e.staged = true
		if int64(len(e.stage)) < c.n {
			e.stage = aligned(int(max(c.n, stageBytes)))
		}
		e.used = copy(e.stage, e.run)
	}
	rec.fileOff = int64(e.used)
	n := int(zones.PageRound(int64(len(stored))))
	clear(e.stage[e.used+copy(e.stage[e.used:], stored) : e.used+n])
	e.used += n
}

// continues says that b follows a in the same piece of memory.
func continues(a, b []byte) bool {
	n := len(a)
	return n > 0 && cap(a)-n >= len(b) && &a[:n+1][n] == &b[0]
}

// place adds the place of the chunk to those of its extents.
func (e *chunkEncoder) place(c chunk, at int64) {
	for i := c.first; i < c.last; i++ {
		if rec := &e.w.index.extents[i]; rec.codec != codecZero && e.w.holders[i] == nil {
			rec.fileOff += at
		}
	}
}

// A queue gives out places one after the other, in the order of the turns.
type queue struct {
	mu   sync.Mutex
	cond sync.Cond
	turn int
	at   int64
}

func (q *queue) init(at int64) {
	q.cond.L = &q.mu
	q.turn, q.at = 0, at
}

// take waits until it is turn's turn and takes n bytes. Every turn must be taken
// by somebody.
func (q *queue) take(turn int, n int64) (at int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.turn != turn {
		q.cond.Wait()
	}
	at = q.at
	q.at += n
	q.turn++
	q.cond.Broadcast()
	return at
}

func (q *queue) end() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.at
}

// A room takes room on the disk ahead of the writes, a little at a time: how much
// will be needed is not known, and what one rank takes in vain another lacks.
type room struct {
	mu    sync.Mutex
	f     vfs.Preallocator // nil if the file has no such ability
	full  bool             // no more is to be had
	taken int64
	limit int64
}

// Room is taken from roomFrom bytes on, a quarter of what has been written, at
// least roomStep and at most roomMost: every time, the writes under way are waited
// for.
const (
	roomFrom = 16 << 20
	roomStep = 4 << 20
	roomMost = 64 << 20
)

// begin is told what the file will be at most.
func (r *room) begin(f vfs.File, limit int64) {
	r.f, _ = f.(vfs.Preallocator)
	r.full, r.taken, r.limit = false, 0, limit
}

// need is told up to where the file is to be written.
func (r *room) need(end int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.f == nil || r.full || end <= r.taken || end < roomFrom {
		return
	}
	size := min(end+min(max(end/4, roomStep), roomMost), r.limit)
	if size <= r.taken {
		return
	}
	// Only a hint: where it fails, the writes will tell.
	if r.f.Preallocate(size) != nil {
		r.full = true
		return
	}
	r.taken = size
}

// end gives back what lies beyond the length of the file.
func (r *room) end(length int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.f == nil || r.taken <= length && !r.full {
		return nil
	}
	return r.f.Truncate(length)
}
