package source

import (
	"debug/elf"
	"path"
	"slices"
	"strings"

	"ckpt/zones"
)

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
