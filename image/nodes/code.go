package nodes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/klauspost/reedsolomon"
	"golang.org/x/sync/errgroup"

	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

// A code makes the parity of k data shards, each by itself. With one parity it is the
// exclusive or.
type code struct {
	k, m  int
	whole reedsolomon.Encoder
	each  []reedsolomon.Encoder // parity j alone
}

// codes has the codes that have been made: their matrices take time.
var codes sync.Map

func codeOf(k, m int) (*code, error) {
	key := [2]int{k, m}
	if c, ok := codes.Load(key); ok {
		return c.(*code), nil
	}
	c, err := newCode(k, m)
	if err != nil {
		return nil, fmt.Errorf("code of %d+%d: %w", k, m, err)
	}
	codes.Store(key, c)
	return c, nil
}

func newCode(k, m int) (c *code, err error) {
	c = &code{k: k, m: m, each: make([]reedsolomon.Encoder, m)}
	// The callers share out the work themselves.
	options := []reedsolomon.Option{reedsolomon.WithMaxGoroutines(1), reedsolomon.WithFastOneParityMatrix()}
	if c.whole, err = reedsolomon.New(k, m, options...); err != nil {
		return nil, err
	}
	rows, err := c.matrix()
	for j := 0; j < m && err == nil; j++ {
		c.each[j], err = reedsolomon.New(k, 1, append(options, reedsolomon.WithCustomMatrix(rows[j:j+1]))...)
	}
	return c, err
}

// matrix returns the coefficients of the parities: a parity of a single 1 shows each.
func (c *code) matrix() ([][]byte, error) {
	rows := make([][]byte, c.m)
	for j := range rows {
		rows[j] = make([]byte, c.k)
	}
	for d := range c.k {
		parity := make([][]byte, c.m)
		for j := range parity {
			parity[j] = make([]byte, 1)
		}
		if err := c.whole.EncodeIdx([]byte{1}, d, parity); err != nil {
			return nil, err
		}
		for j := range parity {
			rows[j][d] = parity[j][0]
		}
	}
	return rows, nil
}

// add adds the part of data shard d to parity j, which begins as zeros. Both are of one
// length.
func (c *code) add(j, d int, data, parity []byte) error {
	return c.each[j].EncodeIdx(data, d, [][]byte{parity})
}

// restore fills in one of the shards, of which k are not nil: the data, and then the
// parities.
func (c *code) restore(shards [][]byte, missing int, into []byte) error {
	required := make([]bool, c.k+c.m)
	required[missing] = true
	shards[missing] = into[:0]
	if err := c.whole.ReconstructSome(shards, required); err != nil {
		return err
	}
	if len(shards[missing]) != len(into) || &shards[missing][0] != &into[0] {
		copy(into, shards[missing])
	}
	return nil
}

// UnitBytes is the length of the units that members' files are cut into.
const UnitBytes = 256 << 10

// A layout says where the units of a set are. In row r, the positions r, r+1, … r+m-1
// modulo n hold parity 0, 1, … m-1, and those after them data 0, 1, … n-m-1.
type layout struct {
	n, m int // members, and those that hold parity in a row
	unit int64
}

func newLayout(set Set, unit int64) (layout, error) {
	return layout{len(set.Members), set.Parity, unit}, set.Check()
}

// place returns where a position stands in a row: below m it holds that parity, and
// from m on it is data.
func (l layout) place(row int64, position int) int {
	return int((int64(position) - row%int64(l.n) + int64(l.n)) % int64(l.n))
}

// holder returns the position that holds parity j of a row.
func (l layout) holder(row int64, j int) int { return int((row + int64(j)) % int64(l.n)) }

// As rows go on, the place of a position falls: from its number to 0, then from n-1 on.
// So it holds parity in m rows of n that follow each other, and from the end of the n
// to their beginning if its number is below m: early are those at the beginning, and
// late is the first of the others.
func (l layout) parityRows(position int) (early, late int) {
	if position < l.m {
		return position + 1, l.n + position - l.m + 1
	}
	return 0, position - l.m + 1
}

// rowOf returns the row in which a unit of a member's file is.
func (l layout) rowOf(member int, unit int64) int64 {
	k := int64(l.n - l.m)
	early, late := l.parityRows(member)
	step := early + int(unit%k)
	if step >= late {
		step += l.m - early
	}
	return unit/k*int64(l.n) + int64(step)
}

// rowAt returns the row of which a parity file has a unit.
func (l layout) rowAt(position int, unit int64) int64 {
	early, late := l.parityRows(position)
	step := int(unit % int64(l.m))
	if step >= early {
		step += late - early
	}
	return unit/int64(l.m)*int64(l.n) + int64(step)
}

// parityUnit returns which unit of a parity file belongs to a row: as many as it has of
// the rows before.
func (l layout) parityUnit(position int, row int64) int64 {
	early, late := l.parityRows(position)
	rest := int(row % int64(l.n))
	return row/int64(l.n)*int64(l.m) + int64(min(rest, early)+min(max(rest-late, 0), l.m-early))
}

// dataUnit returns which unit of a member's file is in a row in which it is data.
func (l layout) dataUnit(member int, row int64) int64 { return row - l.parityUnit(member, row) }

// Holders returns the positions of the holders that a member contributes to: all. The
// parity file of its own node has the length of its file.
func (s Set) Holders() []int {
	list := make([]int, len(s.Nodes))
	for i := range list {
		list[i] = i
	}
	return list
}

// ErrTooMany says that more is lost than a code can restore.
var ErrTooMany = errors.New("more is lost than the code can restore")

// Sources are where a Rebuild reads what is left of a set. Both take positions in the
// set; what they return may be used by several goroutines.
type Sources struct {
	// Data returns a member's file; nil if it is lost.
	Data func(member int) io.ReaderAt
	// Parity returns the parity file of a member's node; nil if it is lost.
	Parity func(index int) *Parity
}

// rebuilding is the rebuilding of the file of one member.
type rebuilding struct {
	set    Set
	lost   int
	header *header // of one of the parity files; they agree
	layout layout
	code   *code
	data   []io.ReaderAt
	parity []*Parity
	out    io.WriterAt
}

// rebuildBytes bounds the memory of a Rebuild.
const rebuildBytes = 32 << 20

// Rebuild writes the file of a member, given by its position, out of the other
// members' files and of parity. Whatever cannot be read, or fails its checksum, counts as lost:
// the error is ErrTooMany when too little is left of a row. The members' files have to
// be sound, for nothing here can check them; so the caller checks what was rebuilt. It
// returns the length of the file.
func Rebuild(ctx context.Context, set Set, lost int, from Sources, out io.WriterAt) (size int64, err error) {
	r := &rebuilding{set: set, lost: lost, out: out}
	if err := r.open(from); err != nil {
		return 0, err
	}
	size = r.header.sizes[lost]
	g, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	units := (size + r.layout.unit - 1) / r.layout.unit
	for range min(4, units, max(1, rebuildBytes/(int64(r.layout.n)*r.layout.unit))) {
		g.Go(func() error {
			buffers := vfs.Aligned((r.layout.n + 1) * int(r.layout.unit))
			for u := next.Add(1) - 1; u < units; u = next.Add(1) - 1 {
				if err := cmp.Or(context.Cause(ctx), r.unit(u, buffers)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return size, g.Wait()
}

// open finds what is left.
func (r *rebuilding) open(from Sources) error {
	if err := r.set.Check(); err != nil {
		return err
	}
	n := len(r.set.Members)
	if r.lost < 0 || r.lost >= n || r.set.Members[r.lost] < 0 {
		return fmt.Errorf("set %d has no member %d", r.set.ID, r.lost)
	}
	r.data, r.parity = make([]io.ReaderAt, n), make([]*Parity, n)
	for i := range n {
		if i != r.lost && r.set.Members[i] >= 0 {
			r.data[i] = from.Data(i)
		}
		if r.parity[i] = from.Parity(i); r.parity[i] == nil {
			continue
		}
		if err := r.agree(i); err != nil {
			return err
		}
	}
	if r.header == nil {
		return fmt.Errorf("set %d has no parity left: %w", r.set.ID, ErrTooMany)
	}
	r.layout = r.header.layout
	var err error
	r.code, err = codeOf(n-r.set.Parity, r.set.Parity)
	return err
}

// agree checks that a parity file is of this set, and of the same files as the others.
func (r *rebuilding) agree(i int) error {
	p := r.parity[i]
	id := p.header.id
	switch {
	case id.Index != i || id.Set.ID != r.set.ID || id.Set.Parity != r.set.Parity || !slices.Equal(id.Set.Members, r.set.Members) || !slices.Equal(id.Set.Nodes, r.set.Nodes):
		return durable.Damaged(p.path, 0, "it is parity %d of set %d, not %d of %d, or of other ranks", id.Index, id.Set.ID, i, r.set.ID)
	case r.header == nil:
		r.header = &p.header
	case id.Job != r.header.id.Job || id.Checkpoint != r.header.id.Checkpoint || id.Unit != r.header.id.Unit || !slices.Equal(p.header.sizes, r.header.sizes):
		return durable.Damaged(p.path, 0, "it is not of the same files as other parities of the set")
	}
	return nil
}

// unit rebuilds one unit of the file.
func (r *rebuilding) unit(u int64, buffers []byte) error {
	l := r.layout
	row := l.rowOf(r.lost, u)
	shards := make([][]byte, l.n)
	found := 0
	var errs []error
	// Data goes first: where it is zero, nothing is read.
	for k := range l.n {
		place := (l.m + k) % l.n
		position := int((row + int64(place)) % int64(l.n))
		if position == r.lost || found == l.n-l.m {
			continue
		}
		b := buffers[k*int(l.unit):][:l.unit]
		ok, err := r.read(row, place, position, b)
		if err != nil {
			errs = append(errs, err)
		}
		if ok && err == nil {
			shards[shardOf(l, place)] = b
			found++
		}
	}
	off := u * l.unit
	if found < l.n-l.m {
		return fmt.Errorf("rank %d at offset %d: %d of %d parts of set %d are left, %d are needed: %w",
			r.set.Members[r.lost], off, found, l.n, r.set.ID, l.n-l.m, errors.Join(append(errs, ErrTooMany)...))
	}
	into := buffers[l.n*int(l.unit):][:l.unit]
	if err := r.code.restore(shards, shardOf(l, l.place(row, r.lost)), into); err != nil {
		return fmt.Errorf("rebuild rank %d at offset %d: %w", r.set.Members[r.lost], off, err)
	}
	return durable.WriteAt(r.out, fmt.Sprintf("file of rank %d", r.set.Members[r.lost]), into[:min(l.unit, r.header.sizes[r.lost]-off)], off)
}

// shardOf returns which shard of the code a place in a row is: data goes first.
func shardOf(l layout, place int) int {
	if place >= l.m {
		return place - l.m
	}
	return l.n - l.m + place
}

// read reads what a position has of a row; ok says that it is not lost.
func (r *rebuilding) read(row int64, place, position int, b []byte) (ok bool, err error) {
	if place < r.layout.m {
		p := r.parity[position]
		if p == nil {
			return false, nil
		}
		return true, p.readUnit(r.layout.parityUnit(position, row), b)
	}
	off := r.layout.dataUnit(position, row) * r.layout.unit
	n := max(0, min(r.layout.unit, r.header.sizes[position]-off))
	clear(b[n:])
	switch {
	case n == 0:
		return true, nil
	case r.data[position] == nil:
		return false, nil
	}
	return true, durable.ReadAt(r.data[position], fmt.Sprintf("file of rank %d", r.set.Members[position]), b[:n], off)
}

// Recompute makes a parity file that is lost out of the files of all members, which have
// to be sound. It becomes the same as the one that was lost.
func Recompute(ctx context.Context, fsys vfs.FS, path string, id ParityID, sizes []int64, data func(member int) io.ReaderAt) (ParityInfo, error) {
	if len(sizes) != len(id.Set.Members) {
		return ParityInfo{}, durable.Op("protect", path, -1, fmt.Errorf("%d lengths of files for %d members", len(sizes), len(id.Set.Members)))
	}
	e, err := NewEncoder(fsys, path, id)
	if err != nil {
		return ParityInfo{}, err
	}
	id = e.id
	h, err := newHeader(id, sizes)
	if err != nil {
		e.Abort(err)
		return ParityInfo{}, e.failure()
	}
	b := vfs.Aligned(int(id.Unit))
	for u := range h.units {
		if err := e.recompute(ctx, &h, u, data, b); err != nil {
			return ParityInfo{}, e.fail(err)
		}
	}
	var info ParityInfo
	var g errgroup.Group
	for i, rank := range id.Set.Members {
		if rank < 0 {
			continue
		}
		g.Go(func() error {
			in, err := e.End(i, sizes[i])
			if err == nil && i == slices.IndexFunc(id.Set.Members, func(rank int) bool { return rank >= 0 }) {
				info = in
			}
			return err
		})
	}
	err = g.Wait()
	return info, err
}

// recompute adds all data of one unit of a parity file.
func (e *Encoder) recompute(ctx context.Context, h *header, u int64, data func(member int) io.ReaderAt, b []byte) error {
	row := h.layout.rowAt(h.id.Index, u)
	for i, size := range h.sizes {
		if h.layout.place(row, i) < h.layout.m {
			continue
		}
		off := h.layout.dataUnit(i, row) * h.layout.unit
		n := min(h.layout.unit, size-off)
		if n <= 0 {
			continue
		}
		if err := ctx.Err(); err != nil {
			return durable.Op("protect", e.path, -1, err)
		}
		if err := durable.ReadAt(data(i), fmt.Sprintf("file of rank %d", h.id.Set.Members[i]), b[:n], off); err != nil {
			return err
		}
		if err := e.Add(i, off, b[:n]); err != nil {
			return err
		}
	}
	return nil
}
