package mpi

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"ckpt/zones"
)

// Memory is the list of the regions of one rank: what a checkpoint of it has to hold. Regions
// live outside the Go heap, so they have page-aligned addresses, their size is exactly what was
// asked for, and the collector leaves them alone.
//
// A Memory is used by one goroutine at a time.
type Memory struct {
	regions []zones.Region
	mapped  [][]byte // what Close unmaps; the shared segment is not ours
}

func NewMemory() *Memory { return &Memory{} }

// Alloc maps bytes of zeroed anonymous memory and adds them as a region. The slice is bytes long;
// its capacity reaches to the end of the last page. Names are unique within a Memory, because a
// restart finds regions by name.
func (m *Memory) Alloc(name string, z zones.Zone, elem zones.Elem, bytes int64) ([]byte, error) {
	fail := func(err error) ([]byte, error) {
		return nil, fmt.Errorf("region %q of %d bytes: %w", name, bytes, err)
	}
	switch {
	case !z.Valid():
		return fail(fmt.Errorf("%v is not a zone", z))
	case !elem.Valid():
		return fail(fmt.Errorf("%v is not an element type", elem))
	case bytes < 0 || zones.PageRound(bytes) < bytes:
		return fail(errors.New("size is out of range"))
	}
	if err := m.nameFree(name); err != nil {
		return fail(err)
	}
	mem := []byte{}
	if bytes > 0 { // an array may be empty in some ranks; mmap of nothing is an error
		var err error
		mem, err = unix.Mmap(-1, 0, int(zones.PageRound(bytes)), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err != nil {
			return fail(fmt.Errorf("map: %w", err))
		}
		m.mapped = append(m.mapped, mem)
	}
	m.regions = append(m.regions, zones.Region{Name: name, Zone: z, Elem: elem, Size: bytes, Mem: mem})
	return mem[:bytes], nil
}

// MapTouched maps anonymous memory that is no region, and touches every page of it, so that no
// later use has to wait for the kernel.
func MapTouched(bytes int64) ([]byte, error) {
	mem, err := unix.Mmap(-1, 0, int(zones.PageRound(bytes)), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, err
	}
	_ = unix.Madvise(mem, unix.MADV_HUGEPAGE) // fewer faults, where there are huge pages
	for i := 0; i < len(mem); i += zones.PageSize {
		mem[i] = 0
	}
	return mem, nil
}

// MapLibrary maps the file at path read-only and adds it to the library zone. The file must not
// shrink while it is mapped: that is how executables and shared objects are treated everywhere
// (they are replaced, not rewritten).
func (m *Memory) MapLibrary(name, path string) error {
	fail := func(err error) error { return fmt.Errorf("library region %q from %s: %w", name, path, err) }
	if err := m.nameFree(name); err != nil {
		return fail(err)
	}
	f, err := os.Open(path)
	if err != nil {
		return fail(err)
	}
	defer f.Close() // read only; the mapping outlives the descriptor
	info, err := f.Stat()
	if err != nil {
		return fail(err)
	}
	if !info.Mode().IsRegular() || info.Size() == 0 {
		return fail(errors.New("not a regular file with content"))
	}
	// The kernel fills the last page with zeros past the end of the file.
	size := min(info.Size(), zones.PageRound(loaded(f, info.Size())))
	mem, err := unix.Mmap(int(f.Fd()), 0, int(zones.PageRound(size)), unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		return fail(fmt.Errorf("map: %w", err))
	}
	m.mapped = append(m.mapped, mem)
	m.regions = append(m.regions, zones.Region{Name: name, Zone: zones.Library, Elem: zones.Bytes, Size: size, Mem: mem})
	return nil
}

// loaded returns how much of a binary a process has in memory: up to the end of its last loaded
// segment. Symbols and debug information lie behind, and no checkpointer sees them. Other files
// count whole.
func loaded(f *os.File, size int64) int64 {
	binary, err := elf.NewFile(f)
	if err != nil {
		return size
	}
	end := int64(0)
	for _, p := range binary.Progs {
		if p.Type == elf.PT_LOAD {
			end = max(end, int64(p.Off+p.Filesz))
		}
	}
	if end <= 0 || end > size {
		return size
	}
	return end
}

// AddShared adds the segment of the rank's node. The segment stays the caller's to close.
func (m *Memory) AddShared(seg *Segment) { m.regions = append(m.regions, seg.Region()) }

// Regions returns the regions in the order in which they were added.
func (m *Memory) Regions() []zones.Region { return append([]zones.Region(nil), m.regions...) }

// Sizes returns the bytes per zone, as asked for (not rounded to pages).
func (m *Memory) Sizes() zones.Sizes {
	var s zones.Sizes
	for _, r := range m.regions {
		s.Add(r.Zone, r.Size)
	}
	return s
}

// Close unmaps what Alloc and MapLibrary mapped. The slices must not be used afterwards. Closing
// twice is harmless.
func (m *Memory) Close() error {
	var errs []error
	for _, mem := range m.mapped {
		if err := unix.Munmap(mem); err != nil {
			errs = append(errs, fmt.Errorf("unmap: %w", err))
		}
	}
	m.mapped, m.regions = nil, nil
	return errors.Join(errs...)
}

func (m *Memory) nameFree(name string) error {
	for _, r := range m.regions {
		if r.Name == name {
			return errors.New("the name is taken")
		}
	}
	return nil
}
