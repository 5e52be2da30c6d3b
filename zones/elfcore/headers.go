package elfcore

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"slices"

	"ckpt/zones"
)

// Sizes of the structures of 64-bit ELF.
const (
	fileHeader    = 64
	programHeader = 56
	sectionHeader = 64
)

const (
	// maxAreas bounds the areas; Linux allows a process 65,530 of them unless
	// vm.max_map_count was raised.
	maxAreas = 1 << 20
	// maxSpace is well above any address space (2⁵⁷ bytes), and keeps sums of
	// sizes from overflowing.
	maxSpace = 1 << 60
	// maxNotes bounds the notes in bytes: 4 KiB or so a thread, and the paths
	// of the files.
	maxNotes = 64 << 20
)

// readHeaders reads where everything is, and checks that it can be there.
func (c *core) readHeaders() error {
	h := make([]byte, fileHeader)
	if c.size < fileHeader {
		return c.fail(0, "%d bytes are too few for an ELF file", c.size)
	}
	if err := c.read(h, 0); err != nil {
		return err
	}
	if !IsCore(h) {
		return c.fail(0, "not an ELF core file")
	}
	class, data := elf.Class(h[elf.EI_CLASS]), elf.Data(h[elf.EI_DATA])
	if class != elf.ELFCLASS64 || data != elf.ELFDATA2LSB {
		return &zones.FormatError{File: c.name, Offset: elf.EI_CLASS, Unsupported: true,
			Reason: "core of another kind of machine (" + class.String() + ", " + data.String() + "); 64-bit little-endian ones are read"}
	}
	le := binary.LittleEndian
	c.machine = elf.Machine(le.Uint16(h[18:]))
	headers, size := le.Uint64(h[32:]), le.Uint16(h[54:])
	count, err := c.countHeaders(uint64(le.Uint16(h[56:])), le.Uint64(h[40:]))
	if err != nil {
		return err
	}
	switch {
	case count == 0:
		return c.fail(56, "no program headers")
	case size != programHeader:
		return c.fail(54, "program headers of %d bytes instead of %d", size, programHeader)
	case count > maxAreas:
		return c.fail(56, "%d program headers; more than %d areas are not read", count, maxAreas)
	case !c.inFile(headers, count*programHeader):
		return c.fail(32, "truncated core: %d program headers at offset %d reach beyond its end at %d", count, headers, c.size)
	}
	if err := c.readSegments(int64(headers), int(count)); err != nil {
		return err
	}
	return c.checkSegments()
}

// countHeaders returns the number of program headers. If it does not fit into
// 16 bits it is in the first section header, which core files lack otherwise.
func (c *core) countHeaders(count, sections uint64) (uint64, error) {
	const extended = 0xffff // PN_XNUM
	if count != extended {
		return count, nil
	}
	if !c.inFile(sections, sectionHeader) {
		return 0, c.fail(40, "truncated core: the section header at offset %d, with the number of areas, is beyond its end at %d", sections, c.size)
	}
	b := make([]byte, sectionHeader)
	if err := c.read(b, int64(sections)); err != nil {
		return 0, err
	}
	return uint64(binary.LittleEndian.Uint32(b[44:])), nil // sh_info
}

// readSegments reads the program headers.
func (c *core) readSegments(at int64, count int) error {
	var space uint64
	chunk := make([]byte, programHeader*min(count, 1024))
	for count > 0 {
		b := chunk[:programHeader*min(count, 1024)]
		if err := c.read(b, at); err != nil {
			return err
		}
		for ; len(b) > 0; b = b[programHeader:] {
			if err := c.addSegment(b[:programHeader], at, &space); err != nil {
				return err
			}
			at += programHeader
			count--
		}
	}
	return nil
}

func (c *core) addSegment(h []byte, at int64, space *uint64) error {
	le := binary.LittleEndian
	kind, flags := elf.ProgType(le.Uint32(h)), elf.ProgFlag(le.Uint32(h[4:]))
	offset, addr, length, size := le.Uint64(h[8:]), le.Uint64(h[16:]), le.Uint64(h[32:]), le.Uint64(h[40:])
	if kind != elf.PT_LOAD && kind != elf.PT_NOTE {
		return nil
	}
	if length > 0 && !c.inFile(offset, length) {
		return c.fail(at, "truncated core: %d bytes at offset %d reach beyond its end at %d", length, offset, c.size)
	}
	where := extent{int64(offset), int64(length)}
	if kind == elf.PT_NOTE {
		if length > 0 {
			c.noteAt = append(c.noteAt, where)
		}
		return nil
	}
	switch {
	case length > size:
		return c.fail(at, "area of %d bytes with contents of %d", size, length)
	case size == 0:
		return nil
	case addr+size < addr:
		return c.fail(at, "area of %d bytes at %#x reaches beyond the last address", size, addr)
	case size > maxSpace-*space:
		return c.fail(at, "areas larger than any address space")
	}
	*space += size
	c.segments = append(c.segments, segment{addr, addr + size, prot(flags), where, at})
	return nil
}

func prot(flags elf.ProgFlag) zones.Prot {
	var p zones.Prot
	if flags&elf.PF_R != 0 {
		p |= zones.Read
	}
	if flags&elf.PF_W != 0 {
		p |= zones.Write
	}
	if flags&elf.PF_X != 0 {
		p |= zones.Exec
	}
	return p
}

// checkSegments sorts the segments and makes sure that none claims the
// addresses, or the bytes of the file, of another.
func (c *core) checkSegments() error {
	slices.SortFunc(c.segments, func(a, b segment) int { return cmp.Compare(a.at.offset, b.at.offset) })
	var end int64
	for _, s := range c.segments {
		if s.at.length == 0 {
			continue
		}
		if s.at.offset < end {
			return c.fail(s.header, "contents at offset %d are those of another area too", s.at.offset)
		}
		end = s.at.offset + s.at.length
	}
	slices.SortFunc(c.segments, func(a, b segment) int { return cmp.Compare(a.start, b.start) })
	for i := 1; i < len(c.segments); i++ {
		if s := c.segments[i]; s.start < c.segments[i-1].end {
			return c.fail(s.header, "area at %#x overlaps another", s.start)
		}
	}
	if len(c.segments) == 0 {
		return c.fail(56, "no area of memory in it")
	}
	return nil
}
