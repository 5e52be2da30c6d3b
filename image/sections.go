package image

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"ckpt/image/container"
	"ckpt/internal/durable"
	"ckpt/zones"
	"ckpt/zones/global"
)

// ErrPartialArray says that a checkpoint has some cells of a global array only.
var ErrPartialArray = errors.New("the array is not whole")

// A GlobalArray is an array of all ranks in a checkpoint, as one.
type GlobalArray struct {
	Name string
	Elem zones.Elem
	// Shape is the cells along each axis, in the order of C, and the elements of a cell if there
	// are several. Halos and what lies beyond the edges are not in it.
	Shape  []int64
	zone   zones.Zone
	stored zones.Elem // as its regions have it
	held   []global.Held
}

// Bytes is the size of the array.
func (a *GlobalArray) Bytes() int64 { return global.Whole(a.Shape).Len() * int64(a.Elem.Size()) }

// GlobalNames lists the arrays of all ranks that a checkpoint says it has, in the order of the
// first rank that has them.
func (m *Manifest) GlobalNames() (names []string) {
	for i := range m.Ranks {
		for k := range m.Ranks[i].Global {
			g := &m.Ranks[i].Global[k]
			if name := g.Name(g.Region); !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// GlobalArray finds an array of all ranks. Blocks, unless nil, tells where the ranks hold an array
// that the manifest does not speak of. It fails with ErrNoArray, ErrPartialArray, or as Open does.
func (j *Job) GlobalArray(m *Manifest, name string, blocks func(region string) ([]global.Held, error)) (*GlobalArray, error) {
	held := m.heldOf(name)
	if len(held) == 0 && blocks != nil {
		held, _ = blocks(name)
	}
	if len(held) == 0 {
		return nil, fmt.Errorf("%w of all ranks: %q; checkpoint %d has %s", ErrNoArray, name, m.Number, orNone(m.GlobalNames()))
	}
	if err := global.CheckTiles(held); err != nil {
		return nil, fmt.Errorf("checkpoint %d: array %q: %w: %w", m.Number, name, ErrPartialArray, err)
	}
	a := &GlobalArray{Name: name, held: held}
	if err := j.typeOf(m, a); err != nil {
		return nil, err
	}
	for _, s := range held[0].Part.Axes {
		a.Shape = append(a.Shape, s.Cells)
	}
	size, cell := int64(a.Elem.Size()), held[0].Part.Elem
	if cell%size != 0 {
		a.Elem, size = zones.Bytes, 1
	}
	if cell == size {
		return a, nil
	}
	a.Shape = append(a.Shape, cell/size)
	for i := range held {
		if held[i].Part.Index == nil {
			held[i].Part = held[i].Part.Split(size)
		}
	}
	return a, nil
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "no such array"
	}
	return strings.Join(names, ", ")
}

// heldOf lists the parts of an array.
func (m *Manifest) heldOf(name string) (held []global.Held) {
	for i := range m.Ranks {
		r := &m.Ranks[i]
		for k := range r.Global {
			if g := &r.Global[k]; g.Name(g.Region) == name {
				held = append(held, global.Held{Rank: r.Rank, Part: &g.Part, Region: g.Region})
			}
		}
	}
	return held
}

// typeOf reads zone and type of an array from the file of the first rank that holds it.
func (j *Job) typeOf(m *Manifest, a *GlobalArray) error {
	h := a.held[0]
	i := slices.IndexFunc(m.Ranks, func(r Rank) bool { return r.Rank == h.Rank })
	if i < 0 {
		return fmt.Errorf("checkpoint %d: array %q: %w: rank %d is not in it", m.Number, a.Name, ErrPartialArray, h.Rank)
	}
	f, err := m.file(m.Ranks[i].File)
	if err != nil {
		return err
	}
	regions, err := j.Place().Regions(f)
	if err != nil {
		return err
	}
	k := slices.IndexFunc(regions, func(r container.Region) bool { return r.Name == regionOf(h, a.Name) && r.Of(h.Rank) })
	if k < 0 && h.Region == "" {
		return fmt.Errorf("%w: rank %d has not stored %q", ErrNoArray, h.Rank, a.Name)
	}
	if k < 0 {
		return durable.Damaged(j.manifestPath(m.Number), 0, "rank %d holds array %q in region %q, which %s does not have", h.Rank, a.Name, h.Region, f.Path)
	}
	a.zone, a.stored, a.Elem = regions[k].Zone, regions[k].Elem, regions[k].Elem
	return nil
}

func regionOf(h global.Held, name string) string {
	if h.Region == "" {
		return name
	}
	return h.Region
}

// WriteSection writes the elements of a section, the last axis running fastest. It reads the
// extents that hold them. Progress, unless nil, gets the bytes written.
func (p *PartReader) WriteSection(ctx context.Context, a *GlobalArray, s global.Section, w io.Writer, progress func(int64)) error {
	elem, step := int64(a.Elem.Size()), s.Len()
	if a.held[0].Part.Index == nil { // the cells of a list are looked for at once
		step = sectionStep(s, elem)
	}
	buf := make([]byte, min(step, s.Len())*elem)
	for lo := int64(0); lo < s.Len(); lo += step {
		mem := buf[:min(step, s.Len()-lo)*elem]
		if err := p.ReadSection(ctx, a, s, lo, mem); err != nil {
			return err
		}
		if _, err := w.Write(mem); err != nil {
			return err
		}
		if progress != nil {
			progress(int64(len(mem)))
		}
	}
	return nil
}

// sectionBytes is how much of a section is in memory. Extents that two steps touch are read twice.
const sectionBytes = 16 << 20

// sectionStep is a number of elements that are whole rows where some fit.
func sectionStep(s global.Section, elem int64) int64 {
	row := int64(1)
	for i := len(s.Picks) - 1; i >= 0 && row*max(1, s.Picks[i].N)*elem <= sectionBytes; i-- {
		row *= max(1, s.Picks[i].N)
	}
	return max(1, sectionBytes/elem/row) * row
}

// ReadSection fills mem with elements of a section from the lo-th on.
func (p *PartReader) ReadSection(ctx context.Context, a *GlobalArray, s global.Section, lo int64, mem []byte) error {
	elem := int64(a.Elem.Size())
	into := zones.Region{Name: a.Name, Zone: a.zone, Elem: a.stored, Blocks: []*global.Part{}}
	return s.Boxes(lo, lo+int64(len(mem))/elem, func(at int64, box global.Section) error {
		part := mem[at*elem : (at+box.Len())*elem]
		if a.held[0].Part.Index != nil {
			return p.listedSection(ctx, a, box, part)
		}
		got := int64(0)
		for _, h := range a.held {
			list := h.Part.Section(h.Rank, box)
			for _, t := range list {
				got += t.Bytes()
			}
			if err := p.transfers(ctx, h, into, list, part); err != nil {
				return err
			}
		}
		if got != int64(len(part)) {
			return durable.Damaged(p.job.manifestPath(p.m.Number), 0, "%d of %d bytes of array %q are in no rank's part", int64(len(part))-got, len(part), a.Name)
		}
		return nil
	})
}

// listedSection fills mem with cells of an array that lists give.
func (p *PartReader) listedSection(ctx context.Context, a *GlobalArray, box global.Section, mem []byte) error {
	part := &global.Part{Elem: a.held[0].Part.Elem, Axes: a.held[0].Part.Axes, Index: a.held[0].Part.Index}
	cells := make([]int64, box.Picks[0].N)
	for i := range cells {
		cells[i] = box.Picks[0].Start + int64(i)*box.Picks[0].Step
	}
	whole, elem := mem, int64(a.Elem.Size())
	if part.Elem != elem { // then some elements of each cell
		whole = make([]byte, int64(len(cells))*part.Elem)
	}
	into := zones.Region{Name: a.Name, Zone: a.zone, Elem: a.stored, Size: int64(len(whole)), Mem: whole, Part: part}
	p.cells = func(string) ([]int64, error) { return cells, nil }
	if err := p.listed(ctx, into, a.held); err != nil || part.Elem == elem {
		return err
	}
	for at := range int64(len(mem)) / elem {
		k, i := at/box.Picks[1].N, at%box.Picks[1].N
		from := k*part.Elem + (box.Picks[1].Start+i*box.Picks[1].Step)*elem
		copy(mem[at*elem:(at+1)*elem], whole[from:])
	}
	return nil
}

// npyTypes are the names of NumPy for the types of elements, little-endian.
var npyTypes = map[zones.Elem]string{zones.Float64: "<f8", zones.Float32: "<f4", zones.Int32: "<i4", zones.Int64: "<i8",
	zones.Float16: "<f2", zones.Int16: "<i2", zones.Int8: "|i1"}

// Vector is the shape of a region of so many bytes as one axis, and the type that NumPy can have of
// its elements: bytes where it has no such type.
func Vector(elem zones.Elem, bytes int64) (shape []int64, as zones.Elem) {
	if npyTypes[elem] == "" || bytes%int64(elem.Size()) != 0 {
		elem = zones.Bytes
	}
	return []int64{bytes / int64(elem.Size())}, elem
}

// NPYHeader returns the header of NumPy's format 1.0 for an array: magic, version, length of the
// rest, and a Python dictionary padded so that the data is aligned to 64 bytes. Elements of a type
// that NumPy lacks are opaque.
func NPYHeader(elem zones.Elem, shape []int64) []byte {
	kind := npyTypes[elem]
	switch {
	case elem == zones.Bytes:
		kind = "|u1"
	case kind == "":
		kind = fmt.Sprintf("|V%d", elem.Size())
	}
	sides := ""
	for _, n := range shape {
		sides += fmt.Sprintf("%d, ", n)
	}
	if sides = strings.TrimSuffix(sides, " "); len(shape) > 1 {
		sides = strings.TrimSuffix(sides, ",")
	}
	dict := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", kind, sides)
	const fixed = 10
	length := (fixed+len(dict)+1+63)/64*64 - fixed
	b := append([]byte("\x93NUMPY\x01\x00"), 0, 0)
	binary.LittleEndian.PutUint16(b[8:], uint16(length))
	b = append(b, dict...)
	for len(b) < fixed+length-1 {
		b = append(b, ' ')
	}
	return append(b, '\n')
}
