package source

import (
	"bytes"
	"cmp"
	"context"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"path"
	"slices"

	"ckpt/zones"
)

// isCore reports whether a file that begins with head is a core file of any machine.
// It needs 18 bytes.
func isCore(head []byte) bool {
	if len(head) < 18 || string(head[:4]) != elf.ELFMAG {
		return false
	}
	var order binary.ByteOrder = binary.LittleEndian
	if elf.Data(head[elf.EI_DATA]) == elf.ELFDATA2MSB {
		order = binary.BigEndian
	}
	return elf.Type(order.Uint16(head[16:])) == elf.ET_CORE
}

// readCore reads the areas of a process from its core file r of the given size: an ELF file
// of type ET_CORE (elf(5), core(5)), as the kernel or gcore writes it.
//
//	ELF header        64 bytes; where the program headers are and how many
//	program headers   56 bytes each: PT_NOTE, then one PT_LOAD an area
//	notes             name, type, contents:
//	                  NT_PRSTATUS  registers of a thread, the crashed one first
//	                  NT_PRPSINFO  pid, name of the program
//	                  NT_AUXV      what the kernel told the program at its start
//	                  NT_FILE      files behind areas: addresses, offset, path
//	contents          of the areas; often less than the area is long: the
//	                  kernel leaves out what files hold (coredump_filter)
//
// A core says less than /proc: areas have their file and their protection, but not
// the kind of mapping and the kernel's own names. Names are restored where they are
// certain ([stack], [heap], [vdso], [vsyscall]). Resident, Dirty and Occupied are unknown.
//
// Files are not trusted: contradictions and references beyond the end of the file are
// *zones.FormatError values with the offset, and memory is allocated only for contents
// that exist.
func readCore(ctx context.Context, name string, r io.ReaderAt, size int64) (*zones.Process, error) {
	c := &core{ctx: ctx, name: name, r: r, size: size}
	if err := c.readHeaders(); err != nil {
		return nil, err
	}
	if err := c.readNotes(); err != nil {
		return nil, err
	}
	if err := c.divide(); err != nil {
		return nil, err
	}
	p := &zones.Process{
		Source: name, Format: zones.FormatCore, Name: c.notes.program, PID: c.notes.pid,
		Rank: -1, FileBytes: size, Unpacked: size, Overhead: size,
	}
	exe := c.executable()
	if exe != "" {
		a := zones.Area{Name: exe}
		p.Exe = a.File()
		p.Name = path.Base(p.Exe)
	}
	stack := c.nameAreas(exe)
	if stack >= 0 {
		if err := c.rank(p, stack); err != nil {
			return nil, err
		}
	}
	zeros, err := c.leaveZeros()
	if err != nil {
		return nil, err
	}
	p.Overhead -= zeros
	p.Areas = c.areas
	for i := range p.Areas {
		p.Overhead -= p.Areas[i].Stored
	}
	return p, nil
}

// leaveZeros takes the pages of zeros out of the anonymous areas, and returns their bytes:
// no image of DMTCP stores them. The kernel leaves memory that was never used out of a core.
// gdb writes it as zeros, reserves without any access included, which look readable.
func (c *core) leaveZeros() (zeros int64, err error) {
	const chunk = 1 << 20
	b := make([]byte, chunk)
	for i := range c.areas {
		a := &c.areas[i]
		if a.Name != "" && a.Name != "[heap]" && a.Name != "[stack]" {
			continue
		}
		used := int64(0)
		for at := int64(0); at < a.Stored; at += chunk {
			part := b[:min(chunk, a.Stored-at)]
			if err := c.read(part, c.contents[i]+at); err != nil {
				return 0, err
			}
			for len(part) > 0 {
				n := min(pageBytes, len(part))
				if !bytes.Equal(part[:n], allZeros[:n]) {
					used += int64(n)
				}
				part = part[n:]
			}
		}
		zeros += a.Stored - used
		a.Stored = used
	}
	return zeros, nil
}

const pageBytes = 4096

var allZeros [pageBytes]byte

// A core is a core file in progress.
type core struct {
	ctx  context.Context
	name string
	r    io.ReaderAt
	size int64

	machine  elf.Machine
	segments []segment // by address
	noteAt   []extent  // segments of notes
	notes    notes
	areas    []zones.Area // by address
	contents []int64      // offset of each area's contents in the file
}

// A segment is an area in the program headers.
type segment struct {
	start, end uint64
	prot       zones.Prot
	at         extent
	header     int64 // offset of its program header
}

// An extent is a range of bytes of the file.
type extent struct{ offset, length int64 }

func (c *core) fail(offset int64, format string, args ...any) error {
	return &zones.FormatError{File: c.name, Offset: offset, Reason: fmt.Sprintf(format, args...)}
}

// read fills b from the file. Callers have checked the range against the size; a file
// that is shorter than its size is a format error too.
func (c *core) read(b []byte, offset int64) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	n, err := c.r.ReadAt(b, offset)
	switch {
	case n == len(b):
		return nil
	case err == io.EOF:
		return c.fail(offset+int64(n), "the file ends here, before its size of %d bytes", c.size)
	default:
		return fmt.Errorf("%s: %w", c.name, err)
	}
}

// inFile reports whether n bytes at an offset lie in the file.
func (c *core) inFile(offset, n uint64) bool {
	size := uint64(c.size)
	return offset <= size && n <= size-offset
}

// rank reads the rank, and the number of ranks, from the environment, which lies at the
// upper end of the stack.
func (c *core) rank(p *zones.Process, stack int) error {
	a := &c.areas[stack]
	if a.Stored < a.Bytes() {
		return nil // the upper end is missing
	}
	b := make([]byte, min(a.Stored, zones.StackTop))
	if err := c.read(b, c.contents[stack]+a.Stored-int64(len(b))); err != nil {
		return err
	}
	p.Rank = zones.RankOnStack(b)
	p.JobRanks, p.NodeRanks = zones.JobOnStack(b)
	return nil
}

// Sizes of the structures of 64-bit ELF. Package debug/elf defines their fields. Its
// own reader does not fit: it counts program headers in 16 bits and reports no offset
// of a wrong one.
const (
	fileHeader    = 64
	programHeader = 56
	sectionHeader = 64
)

const (
	// maxAreas bounds the number of areas. Linux allows a process 65,530 of them
	// unless vm.max_map_count was raised.
	maxAreas = 1 << 20
	// maxSpace is well above any address space (2⁵⁷ bytes), and keeps sums of sizes
	// from overflowing.
	maxSpace = 1 << 60
	// maxNotes bounds the notes in bytes: about 4 KiB for a thread, and the paths of
	// the files.
	maxNotes = 64 << 20
)

// readHeaders reads the headers and checks their ranges.
func (c *core) readHeaders() error {
	b := make([]byte, fileHeader)
	if c.size < fileHeader {
		return c.fail(0, "%d bytes are too few for an ELF file", c.size)
	}
	if err := c.read(b, 0); err != nil {
		return err
	}
	if !isCore(b) {
		return c.fail(0, "not an ELF core file")
	}
	class, data := elf.Class(b[elf.EI_CLASS]), elf.Data(b[elf.EI_DATA])
	if class != elf.ELFCLASS64 || data != elf.ELFDATA2LSB {
		return &zones.FormatError{File: c.name, Offset: elf.EI_CLASS, Unsupported: true,
			Reason: "core of another kind of machine (" + class.String() + ", " + data.String() + "); 64-bit little-endian ones are read"}
	}
	var h elf.Header64
	if err := decode(b, &h); err != nil {
		return err
	}
	c.machine = elf.Machine(h.Machine)
	count, err := c.countHeaders(&h)
	switch {
	case err != nil:
		return err
	case count == 0:
		return c.fail(56, "no program headers")
	case int(h.Phentsize) != programHeader:
		return c.fail(54, "program headers of %d bytes instead of %d", h.Phentsize, programHeader)
	case count > maxAreas:
		return c.fail(56, "%d program headers; more than %d areas are not read", count, maxAreas)
	case !c.inFile(h.Phoff, uint64(count*programHeader)):
		return c.fail(32, "truncated core: %d program headers at offset %d reach beyond its end at %d", count, h.Phoff, c.size)
	}
	if err := c.readSegments(int64(h.Phoff), count); err != nil {
		return err
	}
	return c.checkSegments()
}

// decode fills in a structure of ELF.
func decode(b []byte, structure any) error {
	_, err := binary.Decode(b, binary.LittleEndian, structure)
	return err
}

// countHeaders returns the number of program headers. If it does not fit into
// 16 bits it is in the first section header, which core files lack otherwise.
func (c *core) countHeaders(h *elf.Header64) (int, error) {
	const extended = 0xffff // PN_XNUM
	if h.Phnum != extended {
		return int(h.Phnum), nil
	}
	if !c.inFile(h.Shoff, sectionHeader) {
		return 0, c.fail(40, "truncated core: the section header at offset %d, with the number of areas, is beyond its end at %d", h.Shoff, c.size)
	}
	b := make([]byte, sectionHeader)
	if err := c.read(b, int64(h.Shoff)); err != nil {
		return 0, err
	}
	var section elf.Section64
	err := decode(b, &section)
	return int(section.Info), err
}

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

func (c *core) addSegment(b []byte, at int64, space *uint64) error {
	var h elf.Prog64
	if err := decode(b, &h); err != nil {
		return err
	}
	kind := elf.ProgType(h.Type)
	if kind != elf.PT_LOAD && kind != elf.PT_NOTE {
		return nil
	}
	if h.Filesz > 0 && !c.inFile(h.Off, h.Filesz) {
		return c.fail(at, "truncated core: %d bytes at offset %d reach beyond its end at %d", h.Filesz, h.Off, c.size)
	}
	where := extent{int64(h.Off), int64(h.Filesz)}
	if kind == elf.PT_NOTE {
		if h.Filesz > 0 {
			c.noteAt = append(c.noteAt, where)
		}
		return nil
	}
	switch {
	case h.Filesz > h.Memsz:
		return c.fail(at, "area of %d bytes with contents of %d", h.Memsz, h.Filesz)
	case h.Memsz == 0:
		return nil
	case h.Vaddr+h.Memsz < h.Vaddr:
		return c.fail(at, "area of %d bytes at %#x reaches beyond the last address", h.Memsz, h.Vaddr)
	case h.Memsz > maxSpace-*space:
		return c.fail(at, "areas larger than any address space")
	}
	*space += h.Memsz
	c.segments = append(c.segments, segment{h.Vaddr, h.Vaddr + h.Memsz, prot(elf.ProgFlag(h.Flags)), where, at})
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

// checkSegments sorts the segments and checks that their addresses and their contents
// do not overlap.
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
