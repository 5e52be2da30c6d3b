package process

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"ckpt/zones"
	"ckpt/zones/global"
)

const (
	maxName    = 255
	maxRegions = 1 << 16
	// maxBytes bounds the sizes and addresses that a client may tell: user space ends below it on
	// every 64-bit Linux with 48 bits of address.
	maxBytes = 1 << 47
)

// A region is memory of the process as the client announced it.
type region struct {
	name    string
	elem    zones.Elem
	address uint64
	size    int64
	// part is what the process holds of an array of all ranks, or nil.
	part       *global.Part
	replicated bool
}

func (r *region) zone() zones.Region {
	return zones.Region{Name: r.name, Zone: zones.Data, Elem: r.elem, Size: r.size, Part: r.part, Replicated: r.replicated}
}

// smallBytes is the size below which a region is copied whole, together with others.
const smallBytes = 1 << 20

func (r *region) small() bool { return r.size < smallBytes }

// A table is the list of regions, in the order in which the program protected them.
type table struct {
	regions []region
}

func (t *table) protect(r region) error {
	if err := r.check(); err != nil {
		return err
	}
	if i := t.find(r.name); i >= 0 {
		t.regions[i] = r
		return nil
	}
	if len(t.regions) == maxRegions {
		return fmt.Errorf("protect %q: more than %d regions", r.name, maxRegions)
	}
	t.regions = append(t.regions, r)
	return nil
}

func (t *table) forget(name string) {
	if i := t.find(name); i >= 0 {
		t.regions = slices.Delete(t.regions, i, i+1)
	}
}

func (t *table) find(name string) int {
	return slices.IndexFunc(t.regions, func(r region) bool { return r.name == name })
}

func (r *region) check() error {
	if err := validName(r.name); err != nil {
		return fmt.Errorf("protect %q: %w", r.name, err)
	}
	switch {
	case !r.elem.Valid():
		return fmt.Errorf("protect %q: unknown element type %d", r.name, uint8(r.elem))
	case r.size < 0 || r.size > maxBytes || r.address > maxBytes-uint64(r.size):
		return fmt.Errorf("protect %q: %d bytes at %#x are outside the address space", r.name, r.size, r.address)
	case r.size > 0 && r.address == 0:
		return fmt.Errorf("protect %q: %d bytes at address 0", r.name, r.size)
	}
	if r.part == nil {
		return nil
	}
	if err := r.checkPart(); err != nil {
		return fmt.Errorf("protect %q: %w", r.name, err)
	}
	return nil
}

func (r *region) checkPart() error {
	if err := r.part.Check(); err != nil {
		return err
	}
	cells := r.part.Cells()
	if cells == 0 && r.size == 0 {
		return nil
	}
	if cells == 0 || r.size == 0 || r.size%(cells*int64(r.elem.Size())) != 0 {
		return fmt.Errorf("%d bytes do not hold %d cells of %v", r.size, cells, r.elem)
	}
	r.part.Elem = r.size / cells
	return nil
}

// validName refuses names that a table, a path or a terminal could not show.
func validName(name string) error {
	if name == "" || len(name) > maxName {
		return fmt.Errorf("name of %d bytes (want 1 to %d)", len(name), maxName)
	}
	if !utf8.ValidString(name) {
		return errors.New("name is not UTF-8")
	}
	for _, c := range name {
		if c < ' ' || c == 0x7f {
			return errors.New("name has a control character")
		}
	}
	return nil
}

// A PROTECT message says how a region relates to other ranks' regions.
const (
	sharingLocal      = 0
	sharingReplicated = 1
	sharingGlobal     = 2
	sharingIndexed    = 3
)

// parseRegion reads a PROTECT message of a client of a version. A part's begins with its
// description.
func parseRegion(m message, version int) (region, error) {
	r := region{name: string(m.payload), elem: 255, address: uint64(m.a), size: m.b}
	if m.value < 255 {
		r.elem = zones.Elem(m.value)
	}
	switch m.c {
	case sharingLocal:
	case sharingReplicated:
		r.replicated = true
	case sharingGlobal:
		var err error
		if r.part, m.payload, err = parsePart(m.payload, version); err != nil {
			return r, fmt.Errorf("protect: %w", err)
		}
		r.name = string(m.payload)
	case sharingIndexed:
		if len(m.payload) < indexBytes {
			return r, errors.New("protect: a description of a list ends early")
		}
		number := func(i int) int64 { return number64(m.payload[8*i:]) }
		r.part = &global.Part{Axes: []global.Stretch{{Cells: number(0)}},
			Index: &global.Index{Own: number(1), Held: number(2), Low: number(3), High: number(4), Set: uint64(number(5)), Print: uint64(number(6))}}
		r.name = string(m.payload[indexBytes:])
	default:
		return r, fmt.Errorf("protect %q: unknown sharing %d", r.name, m.c)
	}
	return r, nil
}

// indexBytes is the length of the description of a list of cells.
const indexBytes = 7 * 8

// parsePart reads the description of a part, and returns what follows it. Clients of version 3
// tell halos of one side, padding, and how long the name of the array is that comes first.
func parsePart(b []byte, version int) (*global.Part, []byte, error) {
	numbers := 6
	if version >= 3 {
		numbers = 9
	}
	fixed, perAxis := int64(2*8), int64(numbers*8)
	if int64(len(b)) < fixed {
		return nil, nil, errors.New("a description ends early")
	}
	number := func(i int) int64 { return number64(b[8*i:]) }
	axes, order := number(0), number(1)
	if axes < 1 || axes > global.MaxAxes || int64(len(b)) < fixed+axes*perAxis {
		return nil, nil, fmt.Errorf("a description of %d axes in %d bytes", axes, len(b))
	}
	p := &global.Part{}
	for i := range int(axes) {
		at := 2 + numbers*i
		s := global.Stretch{Cells: number(at), First: number(at + 1), Count: number(at + 2), Halo: number(at + 3),
			Block: number(at + 4), Stride: number(at + 5)}
		if version >= 3 {
			s.Lower, s.Upper, s.Pad = number(at+6), number(at+7), number(at+8)
		}
		p.Axes = append(p.Axes, s)
	}
	switch order {
	case 0:
	case 1: // the first axis is contiguous in memory
		slices.Reverse(p.Axes)
	default:
		return nil, nil, fmt.Errorf("unknown order %d", order)
	}
	if b = b[fixed+axes*perAxis:]; version < 3 {
		return p, b, nil
	}
	if len(b) < 8 || number64(b) < 0 || number64(b) > min(maxName, int64(len(b)-8)) {
		return nil, nil, errors.New("a description ends early")
	}
	name := 8 + number64(b)
	p.Array = string(b[8:name])
	return p, b[name:], nil
}

func number64(b []byte) int64 { return int64(binary.LittleEndian.Uint64(b)) }
