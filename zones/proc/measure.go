package proc

import (
	"fmt"
	"strings"

	"ckpt/zones"
)

// A Measure is what is counted as the stored bytes of a live process.
type Measure int

// The measures.
const (
	// DMTCP counts what an image of DMTCP 5.0 would hold, before compression,
	// without the libraries and buffers that DMTCP itself brings into a process
	// (some 22 MiB). See dmtcp.go for its rules.
	DMTCP Measure = iota
	// CRIU counts the pages that CRIU dumps: private ones with contents of
	// their own, not those that the file behind them holds as well; memory
	// that is shared and in no file, as far as it is in use. It leaves out
	// the descriptions that CRIU keeps beside the pages, a few hundred bytes an
	// area. Processes that share a segment each count it; CRIU stores it once.
	CRIU
	// Virtual counts the address space, reserved or used.
	Virtual
	// Resident counts what is in memory or swap.
	Resident
	// Dirty counts what was written since it was mapped or read in: the least
	// that has to be stored if all files stay as they are.
	Dirty
)

var measureNames = [...]string{"dmtcp", "criu", "virtual", "resident", "dirty"}

func (m Measure) String() string {
	if m < 0 || int(m) >= len(measureNames) {
		return fmt.Sprintf("measure(%d)", int(m))
	}
	return measureNames[m]
}

// ParseMeasure returns the measure of a name that String gives.
func ParseMeasure(name string) (Measure, error) {
	for m, s := range measureNames {
		if s == name {
			return Measure(m), nil
		}
	}
	return 0, fmt.Errorf("measure %q is unknown (want %s)", name, strings.Join(measureNames[:], ", "))
}

// Apply sets what the areas and the process count as stored, and which areas a
// checkpoint keeps beside the image, from their other fields. Where these are
// not known, memory that is in no file counts as touched throughout, unless it
// cannot be accessed and is thus no more than reserved.
//
// Read does the same with what only a live process can tell: the length of the
// files behind the areas, and where the touched pages lie. By the fields alone
// DMTCP's headers come out as much as 4 KiB an area too large or small, read-only
// file mappings up to their last page, and [heap] and [stack] by the empty
// steps of 1 MiB between their pages. A saved text does not tell the Runs: they
// count as one, and memory that is touched in patches lacks 8 KiB for each.
func (m Measure) Apply(p *zones.Process) { m.apply(p, nil) }

// apply takes the facts of each area, or none.
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
			continue // no checkpointer stores it: the kernel maps its own again
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

// criu returns the bytes of pages that CRIU writes for an area.
func criu(a *zones.Area) int64 {
	switch {
	case !a.Shared:
		return orWhole(a, a.Occupied)
	case inMemory(a):
		return orWhole(a, a.Resident)
	}
	return 0 // the file is expected to be there on restart
}

// orWhole returns n, or if it is not known, the whole area if its contents may
// be nowhere else.
func orWhole(a *zones.Area, n int64) int64 {
	switch {
	case n >= 0:
		return n
	case inMemory(a) && a.Prot != 0:
		return a.Bytes()
	}
	return 0
}

// segments are the pieces of shared memory seen in a process, which may have
// mapped one twice.
type segments map[struct{ device, inode, offset uint64 }]bool

// again reports whether the area maps a segment that was seen before.
func (s segments) again(a *zones.Area) bool {
	if !a.Shared || a.Inode == 0 {
		return false
	}
	key := struct{ device, inode, offset uint64 }{a.Device, a.Inode, a.Offset}
	seen := s[key]
	s[key] = true
	return seen
}
