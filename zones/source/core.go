package source

import (
	"context"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"path"

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
// A core says less than /proc: areas have their file and their protection, but neither
// the kind of mapping nor the kernel's own names. Names are restored where they are
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
	p.Areas = c.areas
	for i := range p.Areas {
		p.Overhead -= p.Areas[i].Stored
	}
	return p, nil
}

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

// fail returns a format error with an offset.
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
