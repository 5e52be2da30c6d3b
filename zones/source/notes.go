package source

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"math/bits"
	"path"
	"slices"
	"strings"

	"ckpt/zones"
)

// notes holds the contents of the notes. Addresses are 0 if unknown.
type notes struct {
	pid     int
	program string // its name, cut to 15 bytes by the kernel
	sp      uint64 // stack pointer of the first thread
	files   []mapped

	// From the auxiliary vector.
	entry      uint64 // where the program starts
	headers    uint64 // its program headers
	random     uint64 // 16 random bytes on the main stack
	invocation uint64 // the name it was executed by, above the environment
	vdso       uint64

	status, info, auxv, file bool // seen
}

// mapped is a file behind a range of addresses.
type mapped struct {
	start, end, offset uint64
	name               string
}

// readNotes reads all notes. It skips notes of other origins and notes without
// information on memory.
func (c *core) readNotes() error {
	total := int64(0)
	for _, at := range c.noteAt {
		if at.length > maxNotes-total {
			return c.fail(at.offset, "notes of more than %d MiB", maxNotes>>20)
		}
		total += at.length
		b := make([]byte, at.length)
		if err := c.read(b, at.offset); err != nil {
			return err
		}
		for offset := at.offset; len(b) > 0; {
			n, err := c.addNote(b, offset)
			if err != nil {
				return err
			}
			b, offset = b[n:], offset+int64(n)
		}
	}
	return nil
}

// addNote reads the note at the start of b and returns its length. Name and contents
// are padded to four bytes, also in 64-bit cores.
func (c *core) addNote(b []byte, offset int64) (int, error) {
	const head = 12
	if len(b) < head {
		return 0, c.fail(offset, "a note of %d bytes, less than its header", len(b))
	}
	le := binary.LittleEndian
	nameLen, descLen := uint64(le.Uint32(b)), uint64(le.Uint32(b[4:]))
	kind := elf.NType(le.Uint32(b[8:]))
	pad := func(n uint64) uint64 { return (n + 3) &^ 3 }
	from := head + pad(nameLen)
	if from+descLen > uint64(len(b)) {
		return 0, c.fail(offset, "a note of %d bytes, where %d are left", from+descLen, len(b))
	}
	name := bytes.TrimRight(b[head:head+nameLen], "\x00")
	desc := b[from : from+descLen]
	if string(name) == "CORE" {
		if err := c.take(kind, desc, offset+int64(from)); err != nil {
			return 0, err
		}
	}
	// The padding of the last note may be missing.
	return int(min(from+pad(descLen), uint64(len(b)))), nil
}

const ntAuxv, ntFile = elf.NType(6), elf.NType(0x46494c45)

// take uses the first note of each kind.
func (c *core) take(kind elf.NType, desc []byte, offset int64) error {
	n := &c.notes
	switch {
	case kind == elf.NT_PRSTATUS && !n.status:
		n.status = true
		return c.takeStatus(desc, offset)
	case kind == elf.NT_PRPSINFO && !n.info:
		n.info = true
		return c.takeInfo(desc, offset)
	case kind == ntAuxv && !n.auxv:
		n.auxv = true
		return c.takeAuxv(desc, offset)
	case kind == ntFile && !n.file:
		n.file = true
		return c.takeFiles(desc, offset)
	}
	return nil
}

// takeStatus reads struct elf_prstatus: signals, the pid at 32, times, and the
// registers of the machine at 112.
func (c *core) takeStatus(desc []byte, offset int64) error {
	const pid, registers = 32, 112
	sp := 0 // the index of the stack pointer
	switch c.machine {
	case elf.EM_X86_64:
		sp = 19
	case elf.EM_AARCH64:
		sp = 31
	case elf.EM_RISCV:
		sp = 2
	case elf.EM_PPC64:
		sp = 1
	}
	if len(desc) < registers+8*(sp+1) {
		return c.fail(offset, "state of a thread in %d bytes", len(desc))
	}
	if c.notes.pid == 0 {
		c.notes.pid = max(0, int(int32(binary.LittleEndian.Uint32(desc[pid:]))))
	}
	if sp > 0 {
		c.notes.sp = binary.LittleEndian.Uint64(desc[registers+8*sp:])
	}
	return nil
}

// takeInfo reads struct elf_prpsinfo: the pid at 24, 16 bytes of name at 40.
// The pid there is the process, in NT_PRSTATUS a thread.
func (c *core) takeInfo(desc []byte, offset int64) error {
	const pid, name, length = 24, 40, 16
	if len(desc) < name+length {
		return c.fail(offset, "state of the process in %d bytes", len(desc))
	}
	c.notes.pid = max(0, int(int32(binary.LittleEndian.Uint32(desc[pid:]))))
	program, _, _ := bytes.Cut(desc[name:name+length], []byte{0})
	c.notes.program = string(program)
	return nil
}

// takeAuxv reads pairs of a number and a value (getauxval(3)).
func (c *core) takeAuxv(desc []byte, offset int64) error {
	if len(desc)%16 != 0 {
		return c.fail(offset, "auxiliary vector of %d bytes", len(desc))
	}
	n := &c.notes
	for ; len(desc) > 0; desc = desc[16:] {
		value := binary.LittleEndian.Uint64(desc[8:])
		switch binary.LittleEndian.Uint64(desc) {
		case 3: // AT_PHDR
			n.headers = value
		case 9: // AT_ENTRY
			n.entry = value
		case 25: // AT_RANDOM
			n.random = value
		case 31: // AT_EXECFN
			n.invocation = value
		case 33: // AT_SYSINFO_EHDR
			n.vdso = value
		}
	}
	return nil
}

// takeFiles reads NT_FILE: the number of mappings, the unit of their offsets;
// start, end and offset of each; then their names, each ended by a zero.
func (c *core) takeFiles(desc []byte, offset int64) error {
	const head, entry = 16, 24
	if len(desc) < head {
		return c.fail(offset, "list of files in %d bytes", len(desc))
	}
	le := binary.LittleEndian
	count, unit := le.Uint64(desc), le.Uint64(desc[8:])
	if count > uint64(len(desc)-head)/entry || count > maxAreas {
		return c.fail(offset, "list of %d files in %d bytes", count, len(desc))
	}
	entries, names := desc[head:head+count*entry], desc[head+count*entry:]
	files := make([]mapped, 0, count)
	for at := offset + head; len(entries) > 0; entries, at = entries[entry:], at+entry {
		m := mapped{start: le.Uint64(entries), end: le.Uint64(entries[8:])}
		high, low := bits.Mul64(le.Uint64(entries[16:]), unit)
		name, rest, ok := bytes.Cut(names, []byte{0})
		switch {
		case m.end <= m.start:
			return c.fail(at, "file mapped from %#x to %#x", m.start, m.end)
		case high != 0:
			return c.fail(at, "offset in a file beyond 2⁶⁴")
		case !ok:
			return c.fail(at, "the name of the file at %#x is missing", m.start)
		}
		m.offset, names = low, rest
		if k := len(files); k > 0 && files[k-1].name == string(name) {
			m.name = files[k-1].name
		} else {
			m.name = string(name)
		}
		files = append(files, m)
	}
	slices.SortFunc(files, func(a, b mapped) int {
		if a.start < b.start {
			return -1
		}
		return 1
	})
	for i := 1; i < len(files); i++ {
		if files[i].start < files[i-1].end {
			return c.fail(offset, "two files are mapped at %#x", files[i].start)
		}
	}
	c.notes.files = files
	return nil
}

// divide turns segments into areas, each with its file. A segment may cover several
// mappings, because writers of cores join neighbours; it is divided at the borders of
// the mappings. Each part gets its share of the contents, which begin at the start of
// the segment.
func (c *core) divide() error {
	files := c.notes.files
	for _, s := range c.segments {
		for start := s.start; start < s.end; {
			for len(files) > 0 && files[0].end <= start {
				files = files[1:]
			}
			a := zones.Area{Start: start, End: s.end, Prot: s.prot, Resident: -1, Dirty: -1, Occupied: -1}
			if len(files) > 0 {
				if f := files[0]; f.start <= start {
					a.End = min(a.End, f.end)
					a.Name, a.Offset = f.name, f.offset+(start-f.start)
				} else {
					a.End = min(a.End, f.start)
				}
			}
			if len(c.areas) == maxAreas {
				return c.fail(s.header, "more than %d areas", maxAreas)
			}
			a.Shared = shared(a.Name)
			before := int64(start - s.start)
			a.Stored = min(max(s.at.length-before, 0), a.Bytes())
			c.areas = append(c.areas, a)
			c.contents = append(c.contents, s.at.offset+before)
			start = a.End
		}
	}
	return nil
}

// shared recognises memory that processes share by the name of its file. Core files do
// not record how a file was mapped, but these files serve no other purpose. Other
// files may have been mapped either way.
func shared(name string) bool {
	for _, prefix := range []string{"/dev/shm/", "/SYSV", "/memfd:"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return name == "/dev/zero (deleted)" // Linux's name for MAP_SHARED|MAP_ANONYMOUS
}

// find returns the index of the area with an address, or -1.
func (c *core) find(addr uint64) int {
	low, high := 0, len(c.areas)
	for low < high {
		if mid := (low + high) / 2; c.areas[mid].End <= addr {
			low = mid + 1
		} else {
			high = mid
		}
	}
	if low < len(c.areas) && addr >= c.areas[low].Start {
		return low
	}
	return -1
}

// executable returns the path of the program from the list of files: the file with the
// program's entry point or its headers, otherwise the first file with the name of the
// process.
func (c *core) executable() string {
	n := &c.notes
	for _, addr := range []uint64{n.entry, n.headers} {
		for _, f := range n.files {
			if f.start <= addr && addr < f.end {
				return f.name
			}
		}
	}
	for _, f := range n.files {
		const cut = 15 // bytes of the name that the kernel keeps
		a := zones.Area{Name: f.name}
		base := path.Base(a.File())
		if n.program != "" && base[:min(len(base), cut)] == n.program {
			return f.name
		}
	}
	return ""
}

// nameAreas gives areas the names of /proc/PID/maps, and returns the index of the
// stack, or -1. Existing names stay.
func (c *core) nameAreas(exe string) (stack int) {
	name := func(i int, name string) bool {
		if i < 0 || c.areas[i].Name != "" {
			return false
		}
		c.areas[i].Name = name
		return true
	}
	if i := c.find(c.notes.vdso); c.notes.vdso != 0 && name(i, "[vdso]") {
		// The kernel maps its variables directly below, read-only, in a few pages.
		const most = 64 << 10
		for bottom := c.areas[i].Start - most; i > 0; i-- {
			a := &c.areas[i-1]
			if a.End != c.areas[i].Start || a.Prot != zones.Read || a.Start < bottom || !name(i-1, "[vvar]") {
				break
			}
		}
	}
	if c.machine == elf.EM_X86_64 {
		name(c.find(0xffffffffff600000), "[vsyscall]")
	}
	name(c.heap(exe), "[heap]")
	// The first thread in the file is the one that crashed. Its stack may be anywhere
	// in anonymous memory. Values that the kernel put on the main stack at the start
	// identify the main stack; the stack pointer counts only if a core lacks them.
	for _, addr := range []uint64{c.notes.invocation, c.notes.random, c.notes.sp} {
		if i := c.find(addr); addr != 0 && name(i, "[stack]") {
			return i
		}
	}
	return -1
}

// maxGap is the largest random distance between the program and its heap: 1 GiB, or 32
// MiB on x86-64 before Linux 6.9 (arch_randomize_brk). Memory further away is
// something else, such as the heap of Go programs at 0xc000000000.
const maxGap = 1 << 30

// heap returns the index of the heap, or -1 if it is uncertain. Core files do not mark
// it. It follows the program: its mappings, then without a gap its uninitialized data,
// then after a gap the heap, readable and writable. The kernel maps nothing else there
// unless a program asks for the address. Without randomization there is no gap and the
// heap cannot be told from that data; both belong to the program.
func (c *core) heap(exe string) int {
	of := func(a zones.Area) bool { return a.Name == exe }
	i := slices.IndexFunc(c.areas, of)
	if exe == "" || i < 0 {
		return -1
	}
	for i+1 < len(c.areas) && of(c.areas[i+1]) {
		i++
	}
	if i+1 < len(c.areas) && c.areas[i+1].Name == "" && c.areas[i+1].Start == c.areas[i].End {
		i++
	}
	if i+1 == len(c.areas) {
		return -1
	}
	a, gap := &c.areas[i+1], c.areas[i+1].Start-c.areas[i].End
	if a.Name == "" && a.Prot == zones.Read|zones.Write && gap > 0 && gap <= maxGap {
		return i + 1
	}
	return -1
}
