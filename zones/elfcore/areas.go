package elfcore

import (
	"debug/elf"
	"path"
	"slices"
	"strings"

	"ckpt/zones"
)

// divide makes the areas: the segments, each with the file that is behind it.
// Where a segment covers more than a mapping of one file, as where a writer of
// cores joined neighbours, it is divided along the mappings. The contents are
// those of the start of a segment, so that each part has its own.
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

// shared tells memory that is shared between processes by the name of its file:
// core files do not say how a file was mapped, but those are made for nothing
// else. Other files may have been mapped either way.
func shared(name string) bool {
	for _, prefix := range []string{"/dev/shm/", "/SYSV", "/memfd:"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return name == "/dev/zero (deleted)" // what Linux calls MAP_SHARED|MAP_ANONYMOUS
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

// executable returns the path of the program as the list of files has it: the
// file where the program starts, or where its headers are; failing that, the
// first with the name of the process.
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
		const cut = 15 // bytes that the kernel keeps of the name
		a := zones.Area{Name: f.name}
		base := path.Base(a.File())
		if n.program != "" && base[:min(len(base), cut)] == n.program {
			return f.name
		}
	}
	return ""
}

// nameAreas gives areas the names that /proc/PID/maps would show, and returns
// the index of the stack, or -1. An area that has a name keeps it.
func (c *core) nameAreas(exe string) (stack int) {
	name := func(i int, name string) bool {
		if i < 0 || c.areas[i].Name != "" {
			return false
		}
		c.areas[i].Name = name
		return true
	}
	if i := c.find(c.notes.vdso); c.notes.vdso != 0 && name(i, "[vdso]") {
		// The kernel maps its variables directly below, read-only; a few pages.
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
	// The first thread in the file is the one that crashed, which may have a
	// stack of its own somewhere in anonymous memory. What the kernel put on
	// the main stack at the start says which that is; the stack pointer counts
	// only where a core lacks it.
	for _, addr := range []uint64{c.notes.invocation, c.notes.random, c.notes.sp} {
		if i := c.find(addr); addr != 0 && name(i, "[stack]") {
			return i
		}
	}
	return -1
}

// maxGap is the most by which the kernel moves the start of the heap away from
// the program, at random: 1 GiB, or 32 MiB on x86-64 before Linux 6.9
// (arch_randomize_brk). Anything further off is other memory, like the heap of
// Go programs at 0xc000000000.
const maxGap = 1 << 30

// heap returns the index of the heap, or -1 if it is not certain. Core files do
// not say where it is. It follows the program: behind its mappings comes the
// memory of its uninitialized data, without a gap, then after a gap the heap,
// readable and writable. The kernel maps nothing else there unless it is told
// an address. Without randomization there is no gap and the heap cannot be
// told from that data; both are the program's.
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
