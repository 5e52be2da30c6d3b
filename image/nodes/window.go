package nodes

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"

	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// take returns a row in memory, with one user more. The lock is held.
func (e *Encoder) take(unit, at int64, j int) (*row, error) {
	for {
		if e.err != nil {
			return nil, e.err
		}
		if _, over := e.sums[unit]; over {
			return nil, durable.Op("protect", e.path, -1, fmt.Errorf("bytes were added to row %d after it was complete", at))
		}
		r := e.rows[unit]
		if r == nil {
			r = &row{unit: unit, row: at, j: j, spans: make([][]span, e.layout.n)}
			e.rows[unit] = r
		}
		switch {
		case r.moved:
			e.changed.Wait()
		case r.buf != nil:
			r.users++
			return r, nil
		default:
			if err := e.load(r); err != nil {
				return nil, err
			}
		}
	}
}

// spare keeps the buffers of encoders that have ended, of UnitBytes each: the next
// checkpoint begins while the last one's are garbage.
var spare = sync.Pool{New: func() any { b := vfs.Aligned(UnitBytes); return &b }}

// newBuffer returns a buffer for a row.
func (e *Encoder) newBuffer() []byte {
	if e.layout.unit != UnitBytes {
		return vfs.Aligned(int(e.layout.unit))
	}
	return *spare.Get().(*[]byte)
}

// release gives the buffers back that no row uses. The lock is held.
func (e *Encoder) release() {
	for _, b := range e.free {
		if len(b) == UnitBytes {
			spare.Put(&b)
		}
	}
	e.free = nil
}

// load gives a row a buffer, if there is one, and reads into it what was spilled. If
// there is no buffer, it makes one free. The lock is held, but not while it moves.
func (e *Encoder) load(r *row) error {
	if len(e.free) == 0 && e.buffers == 0 {
		if v := e.victim(); v != nil {
			return e.spill(v)
		}
		e.changed.Wait() // for those that code
		return nil
	}
	var buf []byte
	if n := len(e.free); n > 0 {
		buf, e.free = e.free[n-1], e.free[:n-1]
	} else {
		buf = e.newBuffer()
		e.buffers--
	}
	r.moved = true
	n := int(pageRound(int64(r.reach)))
	e.mu.Unlock()
	clear(buf[n:])
	err := e.inFile(func() error {
		if n == 0 {
			return nil
		}
		return durable.ReadAt(e.file, e.path, buf[:n], e.unitAt(r.unit))
	})
	e.mu.Lock()
	r.moved, r.buf = false, buf
	e.changed.Broadcast()
	if err != nil {
		_ = e.stop(err)
	}
	return err
}

// A member that is ahead of the others waits for them, which costs less than to spill:
// what is more than the window above the lowest row that is not complete. The others may
// not go on because they wait for this member at another holder, or because a file gets its
// beginning last. So a member waits at most for its patience while nothing is added: then
// the lowest rows do not count any more, twice as many each time.
const patience = 100 * time.Millisecond

// pace waits until a unit is in the window. The lock is held.
func (e *Encoder) pace(unit int64) {
	for e.err == nil && unit >= e.lowest(unit)+e.window {
		added, over := e.added, false
		timer := time.AfterFunc(e.patience, func() {
			e.mu.Lock()
			defer e.mu.Unlock()
			over = true
			e.changed.Broadcast()
		})
		for !over && e.err == nil && unit >= e.lowest(unit)+e.window {
			e.changed.Wait()
		}
		timer.Stop()
		if e.added == added && unit >= e.lowest(unit)+e.window && e.err == nil {
			e.low += e.skip
			e.skip *= 2
		}
	}
}

// lowest returns the lowest unit up to most that is not complete, but for those that are
// waited for no more.
func (e *Encoder) lowest(most int64) int64 {
	for e.low < most {
		if _, over := e.sums[e.low]; !over && (e.rows[e.low] != nil || !e.nobody(e.low)) {
			break
		}
		e.low++
	}
	return e.low
}

// nobody reports whether a unit has all that it can get.
func (e *Encoder) nobody(unit int64) bool {
	at := e.layout.rowAt(e.id.Index, unit)
	for i, m := range e.members {
		if !m.ended && e.layout.place(at, i) >= e.layout.m {
			return false
		}
	}
	return true
}

// victim returns the row in memory that is needed last: members that are behind go on
// at the lowest rows.
func (e *Encoder) victim() *row {
	var v *row
	for _, r := range e.rows {
		if r.buf != nil && r.users == 0 && !r.moved && (v == nil || r.unit > v.unit) {
			v = r
		}
	}
	return v
}

// spill writes what is known of a row into its place. The lock is held, but not while
// it writes.
func (e *Encoder) spill(r *row) error {
	r.moved = true
	e.spilled++
	buf := r.buf
	n := pageRound(int64(r.reach))
	e.mu.Unlock()
	err := e.inFile(func() error { return durable.WriteAt(e.file, e.path, buf[:n], e.unitAt(r.unit)) })
	e.mu.Lock()
	r.moved, r.buf = false, nil
	e.free = append(e.free, buf)
	e.changed.Broadcast()
	if err != nil {
		_ = e.stop(err)
	}
	return err
}

// ready has a row written that is complete, while others go on. The lock is held.
func (e *Encoder) ready(r *row) {
	r.moved = true
	e.complete = append(e.complete, r)
	if e.writers < maxWriters {
		e.writers++
		go e.write()
	}
}

// Rows that lie side by side are written together, as far as they are complete, while
// several writes are under way.
const (
	maxWriters = 2
	writeRows  = 8
)

// write writes the complete rows.
func (e *Encoder) write() {
	for {
		e.mu.Lock()
		rows := e.batch()
		if len(rows) == 0 {
			e.writers--
			e.mu.Unlock()
			return
		}
		e.mu.Unlock()
		_ = e.fail(e.store(rows))
	}
}

// batch takes complete rows that lie side by side. The lock is held.
func (e *Encoder) batch() []*row {
	if len(e.complete) == 0 {
		return nil
	}
	slices.SortFunc(e.complete, func(a, b *row) int { return cmp.Compare(a.unit, b.unit) })
	n := 1
	for n < min(len(e.complete), writeRows) && e.complete[n].unit == e.complete[n-1].unit+1 && e.lengthOf(e.complete[n-1]) == e.layout.unit {
		n++
	}
	rows := slices.Clone(e.complete[:n])
	e.complete = slices.Delete(e.complete, 0, n)
	return rows
}

// store writes rows that lie side by side.
func (e *Encoder) store(rows []*row) error {
	parts, sums := make([][]byte, len(rows)), make([]uint32, len(rows))
	e.mu.Lock()
	for i, r := range rows {
		parts[i] = r.buf[:e.lengthOf(r)]
	}
	e.mu.Unlock()
	for i, b := range parts {
		sums[i] = durable.Sum(b)
	}
	at := e.unitAt(rows[0].unit)
	err := e.inFile(func() error { return durable.Op("write", e.path, at, e.file.WriteV(parts, at)) })
	if err != nil {
		return err // the rows stay in use
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, r := range rows {
		e.sums[r.unit] = sums[i]
		delete(e.rows, r.unit)
		e.free = append(e.free, r.buf)
		r.buf, r.moved = nil, false
	}
	e.changed.Broadcast()
	return nil
}

// lengthOf returns the length of the unit of a row that is complete. The lock is held.
func (e *Encoder) lengthOf(r *row) int64 {
	var longest int64
	for i, m := range e.members {
		if e.layout.place(r.row, i) < e.layout.m {
			continue
		}
		n := e.layout.unit
		if m.ended {
			n = min(n, m.size-e.layout.dataUnit(i, r.row)*e.layout.unit)
		}
		longest = max(longest, n)
	}
	return pageRound(longest)
}

// storeWhole stores the rows that the end of a member has completed, and waits until no
// complete row is left.
func (e *Encoder) storeWhole() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	for e.err == nil {
		var spilled *row
		left := false
		for _, r := range e.rows {
			if !e.whole(r) {
				continue
			}
			left = true
			switch {
			case r.users > 0 || r.moved:
			case r.buf != nil:
				e.ready(r)
			default:
				spilled = r
			}
		}
		switch {
		case spilled != nil:
			if err := e.load(spilled); err != nil {
				return err
			}
		case left:
			e.changed.Wait()
		default:
			return nil
		}
	}
	return e.err
}

// inFile runs what reads or writes the file, which is not closed meanwhile.
func (e *Encoder) inFile(do func() error) error {
	e.use.RLock()
	defer e.use.RUnlock()
	if err := e.failure(); err != nil {
		return err
	}
	return do()
}

func (e *Encoder) unitAt(u int64) int64 { return headerLen(e.layout.n) + u*e.layout.unit }
