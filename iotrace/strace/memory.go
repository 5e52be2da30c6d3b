package strace

import (
	"bytes"
	"math"
	"slices"
	"strings"

	"ckpt/iotrace"
)

// A memory is what the tasks of a process share besides descriptors: the files mapped
// into it, and the requests of asynchronous I/O.
type memory struct {
	shared []mapping
	aio    map[string][]request // by the context as strace prints it
}

func newMemory() *memory { return &memory{} }

// fork copies a memory. Asynchronous requests stay with the parent.
func (m *memory) fork() *memory { return &memory{shared: slices.Clone(m.shared)} }

// A mapping is a file in memory, with which other processes and the file share bytes.
type mapping struct {
	file       *open
	from, size int64 // addresses
	offset     int64 // in the file
	written    bool  // the program may write to it
}

// maxMappings bounds the shared mappings of a process that are remembered for msync.
const maxMappings = 4096

// put adds a mapping in the place of those that it covers.
func (m *memory) put(n mapping) {
	m.drop(n.from, n.size)
	if len(m.shared) >= maxMappings {
		m.shared = slices.Delete(m.shared, 0, 1)
	}
	m.shared = append(m.shared, n)
}

func (m *memory) drop(from, size int64) {
	m.shared = slices.DeleteFunc(m.shared, func(o mapping) bool {
		return o.from < from+size && from < o.from+o.size
	})
}

func (m *memory) at(address int64) *mapping {
	for i := range m.shared {
		if o := &m.shared[i]; o.from <= address && address-o.from < o.size {
			return o
		}
	}
	return nil
}

func (c *call) mmap() bool {
	fd, _, ok := parseFD(c.arg(4))
	if !ok || fd == -1 || hasFlag(c.arg(3), "MAP_ANONYMOUS") {
		return ok // anonymous memory has no file, even with a descriptor
	}
	o, ok := c.file(4)
	if o == nil {
		return ok
	}
	n, ok := c.number(1)
	offset, ok2 := c.number(5)
	if !ok || !ok2 {
		return false
	}
	c.emit(iotrace.Mmap, o.name, offset, n)
	if c.err == nil {
		c.mapped(o, offset, n)
	}
	return true
}

// mapped notes what the program can read and write through a mapping: no call shows it.
func (c *call) mapped(o *open, offset, n int64) {
	protection, flags := c.arg(2), c.arg(3)
	written := hasFlag(protection, "PROT_WRITE")
	shared := hasFlag(flags, "MAP_SHARED") || hasFlag(flags, "MAP_SHARED_VALIDATE")
	if shared && c.value > 0 && n > 0 && n < math.MaxInt64-c.value {
		c.task.memory.put(mapping{o, c.value, n, offset, written})
	}
	switch {
	case inMemory(o.name), iotrace.SystemFile(o.name, shared && written):
		// MPI libraries map files of their session, which are no I/O of the job.
	case shared && written:
		c.im.unseen.add(sharedMapping, 1, n)
	case hasFlag(protection, "PROT_READ") && !hasFlag(protection, "PROT_EXEC") && !hasFlag(flags, "MAP_DENYWRITE"):
		c.im.unseen.add(readMapping, 1, n)
	}
}

// inMemory reports whether a file is on no disk.
func inMemory(name string) bool {
	return strings.HasPrefix(name, "/dev/") || strings.HasPrefix(name, "/memfd:") || strings.HasPrefix(name, "/SYSV")
}

// mremap moves a mapping, or changes its length.
func (c *call) mremap() bool {
	from, ok := c.pointer(0)
	n, ok2 := c.number(2)
	if !ok || !ok2 {
		return false
	}
	m := c.task.memory.at(from)
	if m == nil || c.value <= 0 || n <= 0 || n > math.MaxInt64-c.value {
		return true
	}
	moved := mapping{m.file, c.value, n, m.offset + from - m.from, m.written}
	if grown := n - m.size; grown > 0 && m.written && !inMemory(m.file.name) && !iotrace.SystemFile(m.file.name, true) {
		c.im.unseen.add(sharedMapping, 0, grown)
	}
	c.task.memory.drop(from, 1)
	c.task.memory.put(moved)
	return true
}

// msync writes back what was changed in memory.
func (c *call) msync() bool {
	from, ok := c.pointer(0)
	n, ok2 := c.number(1)
	if !ok || !ok2 || n < 0 {
		return false
	}
	m := c.task.memory.at(from)
	if m == nil {
		c.emit(iotrace.Sync, "", iotrace.None, n)
		return true
	}
	c.on(m.file, iotrace.Sync, m.offset+from-m.from, n)
	return true
}

// pointer reads an argument that is an address.
func (c *call) pointer(i int) (int64, bool) {
	hex, ok := bytes.CutPrefix(c.arg(i), []byte("0x"))
	if !ok {
		return 0, string(c.arg(i)) == "NULL"
	}
	return hexNumber(hex)
}
