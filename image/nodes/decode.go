package nodes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"ckpt/internal/durable"
	"ckpt/internal/vfs"
)

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

// Rebuild writes the file of a member, given by its position, out of those of the other
// members and of parity. Whatever cannot be read, or fails its checksum, counts as lost:
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
