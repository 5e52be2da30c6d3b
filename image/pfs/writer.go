package pfs

import "ckpt/image/plan"

// writer is a rank that carries out its part of a plan, as image/exec does.
type writer struct {
	job    *job
	index  int // in Plan.Writers
	rank   int
	number int // of its file
	client *Client
	file   *File
	rounds rounds  // nil for an individual writer
	ready  float64 // when it could begin
	slots  [2]slot // only the first without P3
	bytes  int64

	own    []extent // of an individual writer: what it has not begun to write
	flying int      // operations of an individual writer under way

	filling *slot   // into which bytes are gathered
	writing *slot   // from which they are written
	both    bool    // at the same time
	since   float64 // when the faster of both was done, or a later phase began
	ended   bool    // no further round

	phases [phaseCount]float64
}

// The phases of a writer.
const (
	create = iota
	packing
	gather
	lockWait
	writeTime
	syncTime
	swapWait
	phaseCount
)

// slot is a collective buffer with a round in it.
type slot struct {
	pulls   []pull
	extents []extent
	at      int     // pulls that have begun, then extents
	bytes   int64   // of all extents
	full    bool    // gathered, but not yet being written
	since   float64 // when gathering began
}

// pull is what a round needs of one other rank.
type pull struct {
	rank  int // its position
	from  *host
	bytes int64
}

// The steps of a writer.
const (
	begins int32 = iota
	pulls
	gathered
	flushedAll
	synced
)

// writer makes one, with its first round not yet made.
func (j *job) writer(i int) *writer {
	rank := j.Plan.Writers[i].Rank
	h := j.hosts[j.position(rank)]
	w := &writer{job: j, index: i, rank: rank}
	w.number = j.fileOf(i)
	w.file = j.file(w.number, h)
	w.client = j.sim.clientAt(h, Process{App: j.App, User: j.User, Rank: rank})
	if j.settings.Strategy == plan.Individual {
		w.collect()
	} else {
		w.rounds = j.rounds(rank)
	}
	return w
}

// fileOf returns the file of a writer.
func (j *job) fileOf(i int) int {
	switch j.settings.Layout {
	case plan.Shared:
		return 0
	case plan.Aggregated:
		if j.settings.Strategy != plan.Individual {
			return i
		}
	}
	file, _ := j.Plan.Places(j.Plan.Writers[i].Rank)
	return file
}

// collect finds the extents that an individual writer writes. Bytes that lie side by
// side are one extent.
func (w *writer) collect() {
	for r := range w.job.Plan.WriterPlan(w.rank) {
		for i := range r.Writes {
			op := &r.Writes[i]
			if n := len(w.own) - 1; n >= 0 && w.own[n].offset+w.own[n].bytes == op.Offset {
				w.own[n].bytes += op.Bytes
			} else {
				w.own = append(w.own, extent{op.Offset, op.Bytes})
			}
		}
	}
}

func (w *writer) act(what int32) {
	sim := w.job.sim
	switch what {
	case begins:
		w.phases[swapWait] += sim.now - w.ready
		if w.rounds == nil {
			w.since = sim.now
			w.individual()
			return
		}
		w.step()
	case pulls:
		w.pull()
	case gathered:
		w.gathered()
	case flushedAll:
		w.phases[writeTime] += sim.now - w.since
		w.since = sim.now
		switch {
		case !w.job.Sync || w.job.Read:
			sim.schedule(sim.now, w, synced)
		case w.client.undrained > 0:
			w.client.Drain(float64(sim.sys.Sync), func() { w.act(synced) })
		default:
			sim.schedule(w.client.Drained()+float64(sim.sys.Sync), w, synced)
		}
	case synced:
		w.phases[syncTime] += sim.now - w.since
		if at := w.job.position(w.rank); w.job.unpacked != nil {
			w.phases[packing] = w.phases[create] + max(0, w.job.unpacked[at]-sim.now)
		}
		w.job.done()
	}
}

// individual keeps as many operations under way as it may.
func (w *writer) individual() {
	for w.flying < max(1, w.job.Depth) && len(w.own) > 0 {
		e := &w.own[0]
		// Operations end where the plan's do, at multiples of WriteBytes from the
		// beginning of the extent, unless chunks are larger.
		op := extent{e.offset, min(e.bytes, max(plan.WriteBytes, w.job.sim.chunkBytes))}
		e.offset += op.bytes
		if e.bytes -= op.bytes; e.bytes == 0 {
			w.own = w.own[1:]
		}
		w.flying++
		w.client.begin(w.file, []extent{op}, w.job.Read, w)
	}
	if w.flying == 0 {
		w.share(w.job.sim.now - w.since)
		w.finish()
	}
}

// share makes the phases of operations that overlap the parts of the time that
// they took together.
func (w *writer) share(seconds float64) {
	if sum := w.phases[lockWait] + w.phases[writeTime]; sum > 0 {
		w.phases[lockWait] *= seconds / sum
		w.phases[writeTime] *= seconds / sum
	}
}

// finished is told that an operation is done.
func (w *writer) finished(o *op) {
	sim := w.job.sim
	w.phases[lockWait] += o.locked - o.start
	w.phases[writeTime] += sim.now - o.locked
	w.bytes += o.bytes
	w.job.progress.add(o.bytes)
	if w.rounds == nil {
		if w.job.Read && w.job.Unpack != nil {
			w.job.unpack(sim.now, w.job.position(w.rank), float64(o.bytes))
		}
		w.flying--
		w.individual()
		return
	}
	w.write()
}

// fill makes the next round and gathers it into a slot. A reader has it read
// first.
func (w *writer) fill(s *slot) {
	if w.ended = !w.take(s); w.ended {
		w.step()
		return
	}
	s.full = w.job.Read
	if w.job.Read {
		w.step()
		return
	}
	w.gather(s)
}

// gathered ends the gathering of a round, or its scattering after it was read.
func (w *writer) gathered() {
	s := w.filling
	w.phases[gather] += w.job.sim.now - s.since
	s.full, w.filling = !w.job.Read, nil
	w.step()
}

// step goes on when both buffers are free: a full one is written, and with P3
// the next round is gathered into the other meanwhile.
func (w *writer) step() {
	now := w.job.sim.now
	if w.writing != nil || w.filling != nil {
		w.since = now // the faster one waits from here on
		return
	}
	if w.both {
		w.phases[swapWait] += now - w.since
		w.both = false
	}
	full, other := &w.slots[0], &w.slots[1]
	if !full.full {
		full, other = other, full
	}
	switch {
	case full.full:
		full.full, full.at, w.writing = false, 0, full
		w.write()
		if w.job.settings.P3 && !w.job.Read && !w.ended {
			w.fill(other)
			w.both = w.filling != nil
		}
	case w.ended:
		w.finish()
	default:
		w.fill(full)
	}
}

// write writes what is left of a round. Where a write waits for its answer the
// next one begins afterwards; else all go out together.
func (w *writer) write() {
	s := w.writing
	if s.at == len(s.extents) {
		w.writing = nil
		if w.job.Read {
			w.gather(s)
			return
		}
		w.step()
		return
	}
	next := s.extents[s.at:]
	if w.job.Read || w.job.sim.sys.dirty() == 0 {
		next = next[:1]
	}
	s.at += len(next)
	w.client.begin(w.file, next, w.job.Read, w)
}

// finish waits until all is at the servers, and lets the next writer begin if each
// waits for its turn.
func (w *writer) finish() {
	j := w.job
	if w.rounds != nil {
		w.rounds.stop()
	}
	w.slots = [2]slot{}
	if !j.settings.P1 && w.index+1 < len(j.writers) {
		next := j.writers[w.index+1]
		j.sim.schedule(next.ready, next, begins)
	}
	w.since = j.sim.now
	w.client.Flush(func() { w.act(flushedAll) })
}
