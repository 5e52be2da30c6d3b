package source

import (
	"fmt"
	"slices"
	"strings"

	"ckpt/zones"
)

// A Measure decides which bytes of a live process count as stored.
type Measure int

// The measures.
const (
	// DMTCP counts the size of an image of DMTCP 5.0 before compression, without the
	// libraries and buffers that DMTCP itself brings into a process (some 22 MiB).
	// checkpoint.go has the rules.
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
// ReadLive does the same with facts of a live process: the length of the files behind the
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

// The image format of DMTCP 5.0, from its src/writeckpt.cpp and the sizes of its
// images.
const (
	dmtcpHeader = 4096                        // of an area, and of each range within one
	dmtcpFile   = 2*dmtcpHeader + dmtcpHeader // header of the file, twice, and the end marker
)

// dmtcp returns the size of an area in an image of DMTCP, headers included, and
// whether DMTCP stores its contents in a file beside the image.
func dmtcp(a *zones.Area, f facts) (stored int64, companion bool) {
	size := a.Bytes()
	file := inFile(a) && !f.missing
	switch {
	case nscd(a.Name):
		// DMTCP replaces the cache of the name service by empty memory, so that the C
		// library asks the daemon of the machine where the process restarts.
		return dmtcpHeader, false
	case file && a.Shared && device(a.Name), strings.HasPrefix(a.Name, "/dev/infiniband/uverbs"):
		// Memory of the hardware: the driver must be opened again.
		return 0, false
	case file && a.Shared:
		// DMTCP unmaps it before it writes the image. One of the processes that map it
		// saves the file.
		return 0, true
	case file:
		// DMTCP stores the file whole, even untouched pages of text, because it may be
		// missing on restart. It cannot read pages beyond the end of the file. It does
		// not limit writable mappings by the file.
		return dmtcpHeader + cut(a, f.fileSize), false
	case ownShared(a):
		// DMTCP searches it for contents. Untouched steps are full of zeros,
		// and today's MPI libraries reserve far more than they touch.
	case a.Shared, !absentIsZero(a.Name):
		// Segments whose file was removed: MPICH's, System V's, upgraded libraries. Pages that this process has not touched may have
		// contents from another process or the file; only reading would show the steps
		// of zeros, which are rare. One process, chosen at the checkpoint, stores the
		// contents of a System V segment; so the sum over processes is an upper bound.
		return 2*dmtcpHeader + size, false
	}
	l := f.layout
	if l == nil {
		guess := assume(size, orWhole(a, a.Occupied), a.Runs)
		l = &guess
	}
	if nameless(a.Name) {
		// A header for the area and for each range, touched or untouched.
		return dmtcpHeader*int64(1+l.runs+l.gaps) + l.touched, false
	}
	// [heap], [stack] and memory that a program has named ([anon:malloc]): the same
	// with steps of 1 MiB instead of pages. A step with touched pages full of zeros
	// costs nothing, which cannot be seen from outside.
	return dmtcpHeader*int64(1+l.stepRecords) + l.stepData, false
}

// cut returns the part of a mapping that DMTCP reads from its file.
func cut(a *zones.Area, fileSize int64) int64 {
	size := a.Bytes()
	if a.Prot&zones.Write != 0 || fileSize < 0 || uint64(fileSize) <= a.Offset {
		return size
	}
	return min(size, fileSize-int64(a.Offset))
}

func nscd(name string) bool {
	for _, dir := range []string{"/run/nscd", "/var/run/nscd", "/var/cache/nscd", "/var/db/nscd", "/ram/var/run/nscd"} {
		if strings.HasPrefix(name, dir) {
			return true
		}
	}
	return false
}

// kernelNames are the areas that the kernel maps into every process.
var kernelNames = []string{
	"[vdso]", "[vvar]", "[vvar_vclock]", "[vsyscall]", "[vectors]", "[sigpage]", "[uprobes]", "[timens]",
}

func kernel(a *zones.Area) bool { return slices.Contains(kernelNames, a.Name) }

// nameless reports whether DMTCP treats an area as plain anonymous memory. It skips
// areas with other names, such as anon_inode:[io_uring].
func nameless(name string) bool {
	return name == "" || !strings.ContainsRune("/[(", rune(name[0]))
}

// absentIsZero reports whether untouched pages of the private area read as zeros,
// because no file is behind them.
func absentIsZero(name string) bool {
	return nameless(name) || name[0] == '[' || name == "//anon" || strings.HasPrefix(name, "/anon_hugepage")
}

// ownShared reports whether the area is shared anonymous memory (MAP_SHARED and
// MAP_ANONYMOUS), to which Linux gives this name. Only the process that mapped it and its
// children have it; a rank is started by exec, which ends such mappings.
func ownShared(a *zones.Area) bool { return strings.HasPrefix(a.Name, "/dev/zero (deleted)") }

// inMemory reports whether the contents of an area are only in memory and swap, and in
// no file that could be opened again. Linux gives shared anonymous memory the name
// /dev/zero (deleted).
func inMemory(a *zones.Area) bool {
	return absentIsZero(a.Name) || a.Deleted() || !strings.HasPrefix(a.Name, "/") || strings.HasPrefix(a.Name, "/SYSV")
}

// inFile reports whether an existing file is behind the area.
func inFile(a *zones.Area) bool { return !inMemory(a) }

// device reports whether the file is a device, whose memory belongs to the hardware.
// /dev/shm and similar directories hold files.
func device(name string) bool {
	if !strings.HasPrefix(name, "/dev/") {
		return false
	}
	for _, dir := range []string{"/dev/shm/", "/dev/hugepages/", "/dev/mqueue/"} {
		if strings.HasPrefix(name, dir) {
			return false
		}
	}
	return true
}

// A layout is the distribution of touched pages in an area. It determines the size of
// an area in an image of DMTCP, where every range of pages with contents, and every
// range between them, is a record with a header.
//
// DMTCP knows two granules. It asks the kernel for the touched pages of
// anonymous memory that has no name; it searches memory with a name ([heap],
// [stack]) for contents in steps of 1 MiB (mtcp_write_anonymous_pages in
// src/writeckpt.cpp of DMTCP 5.0).
type layout struct {
	touched int64 // bytes of touched pages
	runs    int   // ranges of touched pages
	gaps    int   // ranges of untouched ones

	stepData    int64 // bytes stored if searched in steps
	stepRecords int   // ranges of full or empty steps
}

// step is the unit of DMTCP's search.
const step = 1 << 20

// A tracer builds the layout of the area [start, end) from its ranges of touched
// pages, in ascending order.
type tracer struct {
	layout
	start, end uint64
	at         uint64 // end of the last range
	next       uint64 // first undecided step
	full       bool   // whether the step before it is full
}

func newTracer(start, end uint64) *tracer {
	return &tracer{start: start, end: end, at: start}
}

func (t *tracer) add(from, to uint64) {
	from, to = max(from, t.at), min(to, t.end)
	if from >= to {
		return
	}
	t.touched += int64(to - from)
	if from > t.at {
		t.gaps++
	}
	if from > t.at || t.runs == 0 {
		t.runs++
	}
	t.at = to

	first, last := (from-t.start)/step, (to-1-t.start)/step
	if first > t.next {
		t.stepRecords++
		t.next, t.full = first, false
	}
	if last >= t.next {
		if !t.full {
			t.stepRecords++
			t.full = true
		}
		t.stepData += int64(min(t.end, t.start+(last+1)*step) - (t.start + t.next*step))
		t.next = last + 1
	}
}

// done returns the layout. Everything behind the last range is untouched.
func (t *tracer) done() layout {
	if t.at < t.end {
		t.gaps++
	}
	size := t.end - t.start
	left := size - min(size, t.next*step)
	switch {
	case left == 0:
	case left < step && (t.full || t.next == 0):
		// DMTCP stores less than a step unseen if a record would begin with it.
		t.stepRecords++
		t.stepData += int64(left)
	default:
		t.stepRecords++
	}
	return t.layout
}

// assume returns the layout of an area from the number of touched bytes, and perhaps
// of ranges. Touched pages begin at its start, and there are as many gaps as ranges;
// the true number may differ by one.
func assume(size, touched int64, runs int) layout {
	t := newTracer(0, uint64(size))
	if touched > 0 {
		t.add(0, uint64(touched))
	}
	l := t.done()
	if runs > 1 && touched < size {
		l.runs, l.gaps = runs, runs
	}
	return l
}
