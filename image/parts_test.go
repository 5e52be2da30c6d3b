package image

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"ckpt/image/codec"
	"ckpt/image/container"
	"ckpt/image/plan"
	"ckpt/internal/durable"
	"ckpt/internal/vfs"
	"ckpt/zones"
	"ckpt/zones/global"
)

// cutRows and cutColumns cut an axis for so many ranks: into blocks, and into blocks that
// are dealt in turn.
func cutRows(cells, halo int64, places int) (list []global.Stretch) {
	for c := range int64(places) {
		s := global.Stretch{Cells: cells, First: cells * c / int64(places), Halo: halo}
		s.Count = cells*(c+1)/int64(places) - s.First
		list = append(list, s)
	}
	return list
}

func cutColumns(cells, block int64, places int) (list []global.Stretch) {
	for c := range int64(places) {
		s := global.Stretch{Cells: cells, First: c * block, Block: block, Stride: block * int64(places)}
		for at := s.First; at < cells; at += s.Stride {
			s.Count += min(block, cells-at)
		}
		list = append(list, s)
	}
	return list
}

// grid returns a part for each pair of stretches.
func grid(rows, columns []global.Stretch) (parts []*global.Part) {
	for _, r := range rows {
		for _, c := range columns {
			parts = append(parts, &global.Part{Elem: 8, Axes: []global.Stretch{r, c}})
		}
	}
	return parts
}

// cellAt is the index of a cell from its position along an axis.
func cellAt(s global.Stretch, at int64) int64 {
	if s.Block > 0 {
		return s.First + at/s.Block*s.Stride + at%s.Block
	}
	return s.First + at - s.Halo
}

// arrayOf returns the region of a part. Cells in the middle, of other ranks, are stale
// where stale is set.
func arrayOf(p *global.Part, version uint64, stale bool) zones.Region {
	r := zones.Region{Name: "u", Zone: zones.Data, Elem: zones.Float64, Size: p.Cells() * 8, Part: p}
	r.Mem = vfs.Aligned(int(zones.PageRound(r.Size)))
	rows, columns := p.Axes[0], p.Axes[1]
	width := columns.Count + 2*columns.Halo
	for at := range p.Cells() {
		i, j := cellAt(rows, at/width), cellAt(columns, at%width)
		v := (version<<40 | uint64(i+100)<<20 | uint64(j+100)) * 0x9e3779b97f4a7c15
		ghost := i < rows.First && rows.First > 0 || i >= rows.First+rows.Count && rows.First+rows.Count < rows.Cells
		if stale && ghost {
			v = 1
		}
		binary.LittleEndian.PutUint64(r.Mem[8*at:], v)
	}
	return r
}

// TestPartReader reads arrays of all ranks into other parts than they were written from,
// out of files of each layout, of which some refer to those of an earlier checkpoint.
func TestPartReader(t *testing.T) {
	t.Parallel()
	const rows, columns = 700, 1100
	was := grid(cutRows(rows, 1, 3), cutRows(columns, 0, 2))
	for _, layout := range []plan.Layout{plan.Shared, plan.Aggregated} {
		j, m := takeParts(t, layout, was)
		for name, now := range map[string][]*global.Part{
			"1":                grid(cutRows(rows, 1, 1), cutRows(columns, 0, 1)),
			"5 rows":           grid(cutRows(rows, 1, 5), cutRows(columns, 0, 1)),
			"2x2":              grid(cutRows(rows, 1, 2), cutRows(columns, 0, 2)),
			"4 cyclic columns": grid(cutRows(rows, 1, 1), cutColumns(columns, 1, 4)),
			"3 block-cyclic":   grid(cutRows(rows, 1, 1), cutColumns(columns, 64, 3)),
		} {
			t.Run(fmt.Sprintf("%s,%s", layout, name), func(t *testing.T) {
				for rank, p := range now {
					checkParts(t, j, m, rank, p)
				}
			})
		}
	}
}

// takeParts takes two checkpoints of parts, and of a replicated region. The second array
// differs in half of the ranks only.
func takeParts(t *testing.T, layout plan.Layout, parts []*global.Part) (*Job, *Manifest) {
	t.Helper()
	return takePacked(t, layout, parts, codec.UseAuto)
}

func takePacked(t *testing.T, layout plan.Layout, parts []*global.Part, packed codec.Setting) (*Job, *Manifest) {
	t.Helper()
	var sources []plan.Source
	memory := make([][]zones.Region, len(parts))
	for i, p := range parts {
		sources = append(sources, plan.Source{Rank: i, Node: i / 2})
		clock := region("clock", zones.Data, 40, uint64(i))
		memory[i] = []zones.Region{arrayOf(p, uint64(i%2), true), clock}
	}
	g := newGroupJob(t, sources, plan.Settings{Layout: layout, StripeSize: 64 << 10, Aggregators: 2, P1: true, P2: true}, packed, true)
	ctx := context.Background()
	if _, err := g.take(ctx, 1, 0, memory); err != nil {
		t.Fatal(err)
	}
	for i, p := range parts {
		memory[i][0] = arrayOf(p, 0, true)
	}
	m, err := g.take(ctx, 2, 1, memory)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range parts {
		m.Ranks[i].Global, m.Ranks[i].Replicated = []GlobalPart{{Region: "u", Part: *p}}, []string{"clock"}
	}
	if err := m.check(); err != nil {
		t.Fatal(err)
	}
	return g.job, m
}

func checkParts(t *testing.T, j *Job, m *Manifest, rank int, p *global.Part) {
	t.Helper()
	want := arrayOf(p, 0, false)
	got := empty([]zones.Region{want})[0]
	handed := int64(0)
	r := j.Parts(m, rank, container.LoadOptions{Loaded: func(mem []byte) error {
		if len(mem) >= slabBytes+zones.PageSize {
			return fmt.Errorf("%d bytes were handed over at once", len(mem))
		}
		if handed%zones.PageSize != 0 && handed < want.Size {
			return fmt.Errorf("memory from %d on was handed over: no whole page", handed)
		}
		handed += int64(len(mem))
		return nil
	}})
	defer r.Close()
	clock := region("clock", zones.Data, 40, 9)
	clock.Replicated = true
	for _, into := range []zones.Region{got, clock} {
		if err := r.Load(context.Background(), into); err != nil {
			t.Fatalf("rank %d: %v", rank, err)
		}
	}
	if !bytes.Equal(got.Mem, want.Mem) {
		t.Errorf("rank %d: the array is another one", rank)
	}
	if !bytes.Equal(clock.Mem, region("clock", zones.Data, 40, 0).Mem) {
		t.Errorf("rank %d: the replicated region is not that of rank 0", rank)
	}
	if handed != want.Size+clock.Size {
		t.Errorf("rank %d: %d bytes handed over, want %d", rank, handed, want.Size+clock.Size)
	}
}

// TestPartReaderDiffers: what the checkpoint does not have is told by name.
func TestPartReaderDiffers(t *testing.T) {
	t.Parallel()
	j, m := takeParts(t, plan.Shared, grid(cutRows(20, 1, 2), cutRows(30, 0, 1)))
	good := func() *global.Part { return grid(cutRows(20, 1, 1), cutRows(30, 0, 1))[0] }
	halo, other := good(), good()
	halo.Axes[0].Halo = 2
	other.Axes[1].Cells, other.Axes[1].Count = 31, 31
	for _, c := range []struct {
		into zones.Region
		want string
	}{
		{arrayOf(halo, 0, false), `array "u" is another one than that of rank 0 in it: halos of 1 and 2 cells along axis 0`},
		{arrayOf(other, 0, false), `array "u" is another one than that of rank 0 in it: 30 and 31 cells along axis 1`},
		{zones.Region{Name: "v", Zone: zones.Data, Elem: zones.Float64, Part: good()}, `it has no array "v" of all ranks`},
		{zones.Region{Name: "clock", Zone: zones.Data, Elem: zones.Float64, Size: 48, Replicated: true}, `region "clock" is 48 bytes of float64, was 40 of float64`},
		{zones.Region{Name: "own", Zone: zones.Data, Elem: zones.Float64, Size: 8}, `there is no region "own" of rank 1`},
	} {
		r := j.Parts(m, 1, container.LoadOptions{})
		err := r.Load(context.Background(), c.into)
		r.Close()
		if !errors.Is(err, container.ErrRegionsDiffer) || !bytes.HasSuffix([]byte(err.Error()), []byte(c.want)) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	m.Ranks[1].Global = nil // cells that no rank has
	r := j.Parts(m, 0, container.LoadOptions{})
	defer r.Close()
	if err := r.Load(context.Background(), arrayOf(good(), 0, false)); !errors.As(err, new(*durable.DamageError)) {
		t.Errorf("%v", err)
	}
}
