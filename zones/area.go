package zones

import (
	"encoding/json"
	"fmt"
	"strings"
)

// A Class is the class of an area of a process's memory: one of the four zones, or a
// class outside of them.
type Class uint8

// The classes beyond the zones.
const (
	// Kernel marks pages that the kernel maps into every process (vdso, vvar,
	// vsyscall). Checkpointers do not store them.
	Kernel = Class(numZones) + iota
	// Runtime marks the areas that a checkpointer adds to a process: its libraries,
	// its allocator, its reserved memory.
	Runtime
	numClasses
)

// ClassOf returns the class of the areas of zone z.
func ClassOf(z Zone) Class { return Class(z) }

// Zone returns the zone of the class; ok is false for Kernel and Runtime.
func (c Class) Zone() (z Zone, ok bool) { return Zone(c), c < Class(numZones) }

func (c Class) String() string {
	switch c {
	case Kernel:
		return "kernel"
	case Runtime:
		return "runtime"
	}
	return Zone(c).String()
}

// MarshalText writes the name of the class.
func (c Class) MarshalText() ([]byte, error) {
	if c >= numClasses {
		return nil, fmt.Errorf("class %d is unknown", uint8(c))
	}
	return []byte(c.String()), nil
}

// UnmarshalText reads the name of a class.
func (c *Class) UnmarshalText(text []byte) error {
	for i := range numClasses {
		if i.String() == string(text) {
			*c = i
			return nil
		}
	}
	return fmt.Errorf("%q is neither a zone (library, data, shared, iobuffer) nor kernel or runtime", text)
}

// An Area is a range of a process's address space with one mapping: a line of
// /proc/PID/maps, a record of a checkpoint image, a segment of a core file. Sizes are
// in bytes.
type Area struct {
	Start, End uint64
	Prot       Prot
	Shared     bool   // MAP_SHARED
	Name       string // as in /proc/PID/maps; empty if anonymous
	Offset     uint64 // in the file behind it
	Device     uint64 // major<<32 | minor of that file, or 0
	Inode      uint64

	// Stored is the size of the area in the checkpoint image, headers included. For a
	// process it is the size that an image would need.
	Stored int64
	// Runs is the number of ranges of touched pages, or 0 if unknown.
	Runs int
	// Resident is the part in memory or swap. Dirty is the part written since it was
	// mapped or read. Occupied is the part with contents of its own: touched, not the
	// page of zeros, and different from the file. They are -1 if unknown.
	Resident, Dirty, Occupied int64
	// Companion is set if the checkpoint stores the contents in a file beside the
	// images, once for all processes that map it.
	Companion bool

	Class Class // set by Rules.Classify
}

// Bytes returns the length of the address range.
func (a *Area) Bytes() int64 { return int64(a.End - a.Start) }

// Deleted reports whether the file behind the area has been removed.
func (a *Area) Deleted() bool { return strings.HasSuffix(a.Name, deletedMark) }

// File returns the name without the mark of a removed file.
func (a *Area) File() string { return strings.TrimSuffix(a.Name, deletedMark) }

const deletedMark = " (deleted)"

// MarshalJSON writes the fields of docs/CLI.md. Addresses are numbers. As multiples of
// the page size they survive readers that use doubles.
func (a Area) MarshalJSON() ([]byte, error) {
	known := func(n int64) *int64 {
		if n < 0 {
			return nil
		}
		return &n
	}
	return json.Marshal(struct {
		Start     uint64 `json:"start"`
		End       uint64 `json:"end"`
		Bytes     int64  `json:"bytes"`
		Stored    int64  `json:"stored_bytes"`
		Prot      Prot   `json:"prot"`
		Shared    bool   `json:"shared_mapping"`
		Name      string `json:"name"`
		Class     Class  `json:"zone"`
		Runs      int    `json:"touched_ranges,omitempty"`
		Resident  *int64 `json:"resident_bytes,omitempty"`
		Dirty     *int64 `json:"dirty_bytes,omitempty"`
		Occupied  *int64 `json:"occupied_bytes,omitempty"`
		Companion bool   `json:"companion,omitempty"`
	}{a.Start, a.End, a.Bytes(), a.Stored, a.Prot, a.Shared, a.Name, a.Class, a.Runs,
		known(a.Resident), known(a.Dirty), known(a.Occupied), a.Companion})
}

// Prot is the set of permissions of an area: read 1, write 2, execute 4.
type Prot uint8

// The bits of Prot, as in mmap(2).
const (
	Read Prot = 1 << iota
	Write
	Exec
)

// String formats it like /proc/PID/maps: rw-.
func (p Prot) String() string {
	b := []byte("---")
	for i, c := range []byte("rwx") {
		if p&(1<<i) != 0 {
			b[i] = c
		}
	}
	return string(b)
}

// MarshalText writes String.
func (p Prot) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// ParseProt reads the first three letters of a permission like rw-p.
func ParseProt(s string) (Prot, error) {
	var p Prot
	if len(s) >= 3 {
		for i, c := range []byte("rwx") {
			switch s[i] {
			case c:
				p |= 1 << i
			case '-':
			default:
				return 0, fmt.Errorf("%q is not a permission like rw-p", s)
			}
		}
		return p, nil
	}
	return 0, fmt.Errorf("%q is not a permission like rw-p", s)
}
