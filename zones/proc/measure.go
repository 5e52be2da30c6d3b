package proc

import (
	"fmt"
	"strings"

	"ckpt/zones"
)

// A Measure decides which bytes of a live process count as stored.
type Measure int

// The measures.
const (
	// DMTCP counts the size of an image of DMTCP 5.0 before compression, without the
	// libraries and buffers that DMTCP itself brings into a process (some 22 MiB).
	// dmtcp.go has the rules.
	DMTCP Measure = iota
	// CRIU counts the pages that CRIU dumps: private pages whose contents differ from
	// the file, and used shared memory outside of files. It leaves out the
	// descriptions that CRIU keeps beside the pages, a few hundred bytes per area.
	// Processes that share a segment each count it; CRIU stores it once.
	CRIU
	// Virtual counts the address space, reserved or used.
	Virtual
	// Resident counts the bytes in memory or swap.
	Resident
	// Dirty counts the bytes written since they were mapped or read: the least that
	// must be stored if all files stay as they are.
	Dirty
)

var measureNames = [...]string{"dmtcp", "criu", "virtual", "resident", "dirty"}

// ParseMeasure returns the measure with a name.
func ParseMeasure(name string) (Measure, error) {
	for m, s := range measureNames {
		if s == name {
			return Measure(m), nil
		}
	}
	return 0, fmt.Errorf("measure %q is unknown (want %s)", name, strings.Join(measureNames[:], ", "))
}

// Apply sets, from the other fields, the stored bytes of the areas and the process,
// and the areas that a checkpoint keeps beside the image. If fields are unknown,
// memory outside of files counts as touched throughout, unless it is inaccessible and
// thus only reserved.
//
// Read does the same with facts of a live process: the length of the files behind the
// areas, and the positions of the touched pages. Without them, DMTCP's headers may
// come out 4 KiB per area too large or small, read-only file mappings are counted up
// to their last page, and [heap] and [stack] include the empty steps of 1 MiB between
// their pages. A saved text does not have the Runs: they count as one, and memory
// touched in patches lacks 8 KiB for each patch.
// steps of 1 MiB between their pages. A saved text does not tell the Runs: they
// count as one, and memory that is touched in patches lacks 8 KiB for each.
func (m Measure) Apply(p *zones.Process) { m.apply(p, nil) }

// apply uses the facts of each area, if any.
func (m Measure) apply(p *zones.Process, known []facts) {
	p.Overhead = 0
	if m == DMTCP {
		p.Overhead = dmtcpFile
	}
	mapped := make(segments)
	for i := range p.Areas {
		a := &p.Areas[i]
		f := facts{fileSize: -1}
		if known != nil {
			f = known[i]
		}
		a.Stored, a.Companion = 0, false
		if kernel(a) {
			continue // checkpointers do not store it: the kernel maps its own again
		}
		switch m {
		case DMTCP:
			a.Stored, a.Companion = dmtcp(a, f)
		case CRIU:
			if !mapped.again(a) {
				a.Stored = criu(a)
			}
		case Virtual:
			a.Stored = a.Bytes()
		case Resident:
			a.Stored = orWhole(a, a.Resident)
		case Dirty:
			a.Stored = orWhole(a, a.Dirty)
		}
	}
}

// criu returns the bytes of pages that CRIU dumps for an area.
func criu(a *zones.Area) int64 {
	switch {
	case !a.Shared:
		return orWhole(a, a.Occupied)
	case inMemory(a):
		return orWhole(a, a.Resident)
	}
	return 0 // the file must exist on restart
}

// orWhole returns n or, if n is unknown, the whole area if its contents may be nowhere
// else.
func orWhole(a *zones.Area, n int64) int64 {
	switch {
	case n >= 0:
		return n
	case inMemory(a) && a.Prot != 0:
		return a.Bytes()
	}
	return 0
}

// segments holds the pieces of shared memory seen in a process, which may map one
// twice.
type segments map[struct{ device, inode, offset uint64 }]bool

// again reports whether the area maps a known segment.
func (s segments) again(a *zones.Area) bool {
	if !a.Shared || a.Inode == 0 {
		return false
	}
	key := struct{ device, inode, offset uint64 }{a.Device, a.Inode, a.Offset}
	seen := s[key]
	s[key] = true
	return seen
}
