package nodes

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// windowBytes is how much parity an Encoder has in memory, of rows that lack data of
// some member. spanBytes is how much of a file may be under way at least: a container
// is written with 16 MiB under way, in any order, and bytes that are needed must not be
// queued behind those that wait.
const (
	windowBytes = 16 << 20
	spanBytes   = 24 << 20
)

// An Encoder makes a parity file, out of what all members of a set add, in any order
// and each at its pace. A member that is ahead waits a little for the others. When they
// do not go on, parity that does not fit into memory is written into its place in the
// file as far as it is known, and read again when more comes: so no member can block.
type Encoder struct {
	fs       vfs.FS
	path     string
	id       ParityID
	layout   layout
	code     *code
	window   int64 // units
	patience time.Duration
	file     *vfs.Around
	use      sync.RWMutex // of the file, held to read by what reads and writes it

	mu       sync.Mutex
	changed  sync.Cond // a row or a buffer has become free
	members  []memberState
	rows     map[int64]*row   // by unit of the file, without those that are complete
	sums     map[int64]uint32 // of the complete ones
	free     [][]byte
	buffers  int    // that there may be yet
	spilled  int    // rows, so far
	complete []*row // to be written
	writers  int    // goroutines that write them
	added    int    // calls of Add, so far
	low      int64  // units below are complete, or waited for no more
	skip     int64  // how many are waited for no more the next time
	err      error
	info     ParityInfo
	done     chan struct{} // closed when the file is durable, or there is an error
	remove   sync.Once     // takes the file away after an error
}

type memberState struct {
	ended bool
	size  int64 // once it has ended; before, the end of what it added
}

// A row is the parity of one row.
type row struct {
	unit  int64
	row   int64
	j     int // which parity of its row
	users int // who code, or move it between memory and file
	moved bool
	spans [][]span // of what was added, by member
	// Parity up to reach may be other than zero. It is in buf, or else in the file if
	// reach is not 0.
	reach int
	mu    sync.Mutex
	buf   []byte
}

// A span is bytes [from, to) of a unit.
type span struct{ from, to int }

// NewEncoder creates the parity file path, which must not exist.
func NewEncoder(fsys vfs.FS, path string, id ParityID) (*Encoder, error) {
	return newEncoder(fsys, path, id, windowBytes, patience)
}

func newEncoder(fsys vfs.FS, path string, id ParityID, window int64, patience time.Duration) (*Encoder, error) {
	if id.Unit == 0 {
		id.Unit = UnitBytes
	}
	if err := id.check(); err != nil {
		return nil, durable.Op("protect", path, -1, err)
	}
	n, m := len(id.Set.Members), id.Set.Parity
	e := &Encoder{fs: fsys, path: path, id: id, layout: layout{n, m, id.Unit}, patience: patience, members: make([]memberState, n),
		rows: make(map[int64]*row), sums: make(map[int64]uint32), skip: 1, done: make(chan struct{})}
	e.changed.L = &e.mu
	e.buffers = int(max(2, window/id.Unit))
	e.window = max(int64(e.buffers), spanBytes/id.Unit*int64(m)/int64(n-m))
	for i, rank := range id.Set.Members {
		e.members[i].ended = rank < 0
	}
	var err error
	if e.code, err = codeOf(n-m, m); err != nil {
		return nil, durable.Op("protect", path, -1, err)
	}
	if e.file, err = vfs.CreateAround(fsys, path, false); err != nil {
		return nil, durable.Op("create", path, -1, err)
	}
	return e, nil
}

// Add adds bytes of a member's file, given by its position: a part of one unit. It does
// not keep p.
func (e *Encoder) Add(member int, off int64, p []byte) error {
	r, err := e.begin(member, off, p)
	if err != nil {
		return e.fail(err)
	}
	at := int(off % e.layout.unit)
	r.mu.Lock()
	err = e.code.add(r.j, e.layout.place(r.row, member)-e.layout.m, p, r.buf[at:at+len(p)])
	r.mu.Unlock()
	if err != nil {
		return e.fail(durable.Op("protect", e.path, -1, err))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	r.users--
	e.added++
	if r.users == 0 && e.whole(r) {
		e.ready(r)
	} else {
		e.changed.Broadcast()
	}
	return nil
}

// begin finds the row of bytes that a member adds, and keeps it in memory.
func (e *Encoder) begin(member int, off int64, p []byte) (*row, error) {
	unit := off / e.layout.unit
	from := int(off - unit*e.layout.unit)
	if member < 0 || member >= e.layout.n || e.id.Set.Members[member] < 0 || off < 0 || off > maxFile || len(p) == 0 || from+len(p) > int(e.layout.unit) {
		return nil, durable.Op("protect", e.path, -1, fmt.Errorf("member %d adds %d bytes at offset %d, which are not in one unit", member, len(p), off))
	}
	at := e.layout.rowOf(member, unit)
	j := e.layout.place(at, e.id.Index)
	if j >= e.layout.m {
		return nil, durable.Op("protect", e.path, -1, fmt.Errorf("offset %d of member %d is not in parity %d", off, member, e.id.Index))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	m := &e.members[member]
	if m.ended && e.err == nil {
		return nil, durable.Op("protect", e.path, -1, fmt.Errorf("member %d adds bytes at offset %d after its end", member, off))
	}
	e.pace(e.layout.parityUnit(e.id.Index, at))
	r, err := e.take(e.layout.parityUnit(e.id.Index, at), at, j)
	if err != nil {
		return nil, err
	}
	if _, over := e.sums[r.unit]; over || !r.cover(member, span{from, from + len(p)}) {
		r.users--
		return nil, durable.Op("protect", e.path, -1, fmt.Errorf("member %d adds bytes at offset %d twice", member, off))
	}
	r.reach = max(r.reach, from+len(p))
	m.size = max(m.size, off+int64(len(p)))
	return r, nil
}

// cover notes a span of a member. It reports false if some of it was there.
func (r *row) cover(member int, s span) bool {
	list := r.spans[member]
	i, found := slices.BinarySearchFunc(list, s.from, func(a span, from int) int { return a.from - from })
	if found || i > 0 && list[i-1].to > s.from || i < len(list) && list[i].from < s.to {
		return false
	}
	left, right := i > 0 && list[i-1].to == s.from, i < len(list) && list[i].from == s.to
	switch {
	case left && right:
		list[i-1].to = list[i].to
		list = slices.Delete(list, i, i+1)
	case left:
		list[i-1].to = s.to
	case right:
		list[i].from = s.from
	default:
		list = slices.Insert(list, i, s)
	}
	r.spans[member] = list
	return true
}

// whole reports whether nothing more can come for a row.
func (e *Encoder) whole(r *row) bool {
	for i, m := range e.members {
		if m.ended || e.layout.place(r.row, i) < e.layout.m {
			continue
		}
		if s := r.spans[i]; len(s) != 1 || s[0] != (span{0, int(e.layout.unit)}) {
			return false
		}
	}
	return true
}

// Contributor returns what takes the bytes of one member.
func (e *Encoder) Contributor(member int) Contributor { return &contributor{e, member} }

type contributor struct {
	e      *Encoder
	member int
}

func (c *contributor) Add(off int64, p []byte) error      { return c.e.Add(c.member, off, p) }
func (c *contributor) End(size int64) (ParityInfo, error) { return c.e.End(c.member, size) }

func (c *contributor) Abort() {
	c.e.Abort(fmt.Errorf("rank %d aborted", c.e.id.Set.Members[c.member]))
}

// End says that a member's file is size bytes long, and that all of it has been added
// but zeros. It returns when the parity file is durable, with its name, after the end of
// all members.
func (e *Encoder) End(member int, size int64) (ParityInfo, error) {
	last, err := e.end(member, size)
	if err == nil {
		err = e.storeWhole()
	}
	if err == nil && last {
		err = e.finish()
	}
	if err != nil {
		return ParityInfo{}, e.fail(err)
	}
	<-e.done
	if err := e.failure(); err != nil {
		return ParityInfo{}, e.fail(err)
	}
	return e.info, nil
}

// end notes the end of a member, and reports whether it was the last.
func (e *Encoder) end(member int, size int64) (last bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil {
		return false, e.err
	}
	if member < 0 || member >= e.layout.n || e.members[member].ended || size < e.members[member].size || size > maxFile {
		return false, durable.Op("protect", e.path, -1, fmt.Errorf("member %d ends at %d bytes, which is not possible", member, size))
	}
	e.members[member] = memberState{true, size}
	for _, m := range e.members {
		if !m.ended {
			return false, nil
		}
	}
	return true, nil
}

// Abort ends the encoder and removes its file, unless that is durable. All calls of it
// return the error.
func (e *Encoder) Abort(err error) {
	_ = e.fail(durable.Op("protect", e.path, -1, fmt.Errorf("aborted: %w", err)))
}

// fail keeps the first error, and returns it. The file has been removed then, for every
// caller: the next one may make a file of the same name, which must not be removed late.
func (e *Encoder) fail(err error) error {
	if err == nil {
		return nil
	}
	e.mu.Lock()
	first := e.stop(err)
	e.mu.Unlock()
	if first == nil {
		return err // the file is durable
	}
	e.remove.Do(func() {
		e.use.Lock()
		defer e.use.Unlock()
		_ = e.file.Close()
		_ = durable.Remove(e.fs, e.path)
	})
	return first
}

// stop ends all work on the file with an error, and returns the first such error. It returns nil if the
// file is durable already. The caller holds the lock, and has held it since the row that the error
// spoilt became free: another member would make a wrong file durable.
func (e *Encoder) stop(err error) error {
	select {
	case <-e.done:
	default:
		e.err = err
		close(e.done)
		e.release()
		e.changed.Broadcast()
	}
	return e.err
}

// finish writes what is missing once all members have ended, and makes the file
// durable.
func (e *Encoder) finish() error {
	h, err := newHeader(e.id, e.sizes())
	if err != nil {
		return durable.Op("protect", e.path, -1, err)
	}
	sums, err := e.table(&h)
	if err != nil {
		return err
	}
	table := encodeTable(sums)
	h.tableCRC = durable.Sum(table)
	head := h.encode()
	if err := e.seal(&h, head, table); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil {
		return e.err
	}
	e.info = ParityInfo{Set: e.id.Set.ID, Index: e.id.Index, Bytes: h.fileLen, Digest: digestOf(head, table)}
	close(e.done)
	e.release()
	return nil
}

func (e *Encoder) sizes() []int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	sizes := make([]int64, len(e.members))
	for i, m := range e.members {
		sizes[i] = m.size
	}
	return sizes
}

// table returns the checksums of all units. Units to which nothing was added are holes.
func (e *Encoder) table(h *header) ([]uint32, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.rows) > 0 || int64(len(e.sums)) > h.units {
		return nil, errors.New("rows are left")
	}
	sums := make([]uint32, h.units)
	var zeros []byte
	for u := range h.units {
		sum, ok := e.sums[u]
		if !ok {
			if zeros == nil {
				zeros = make([]byte, e.layout.unit)
			}
			sum = durable.Sum(zeros[:h.unitLen(u)])
		}
		sums[u] = sum
	}
	return sums, nil
}

// seal writes table and header, and makes all durable.
func (e *Encoder) seal(h *header, head, table []byte) error {
	e.use.Lock()
	defer e.use.Unlock()
	if err := e.failure(); err != nil {
		return err // the file is closed
	}
	err := error(nil)
	if len(table) > 0 {
		err = durable.WriteAt(e.file, e.path, table, h.tableAt)
	}
	if err == nil {
		err = durable.WriteAt(e.file, e.path, head, 0)
	}
	var size int64
	if err == nil {
		size, err = e.file.Size()
	}
	if err == nil && size != h.fileLen {
		err = fmt.Errorf("file is %d bytes long after writing %d", size, h.fileLen)
	}
	if err == nil {
		err = e.file.Sync()
	}
	if err == nil {
		err = e.fs.SyncDir(filepath.Dir(e.path))
	}
	if err == nil {
		err = e.file.Close()
	}
	return durable.Op("write", e.path, -1, err)
}

func (e *Encoder) failure() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.err
}
