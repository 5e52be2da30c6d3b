package proc

import (
	"strings"

	"ckpt/zones"
)

// What DMTCP 5.0 writes, from its src/writeckpt.cpp and the sizes of its images.
const (
	dmtcpHeader = 4096                        // of an area, and of each range within one
	dmtcpFile   = 2*dmtcpHeader + dmtcpHeader // header of the file, twice, and the end marker
)

// dmtcp returns what an image of DMTCP holds for an area, headers included, and
// whether DMTCP keeps its contents in a file beside the image.
func dmtcp(a *zones.Area, f facts) (stored int64, companion bool) {
	size := a.Bytes()
	file := inFile(a) && !f.missing
	switch {
	case nscd(a.Name):
		// The cache of the name service: replaced by empty memory, so that the
		// C library asks the daemon of the machine where the process restarts.
		return dmtcpHeader, false
	case file && a.Shared && device(a.Name), strings.HasPrefix(a.Name, "/dev/infiniband/uverbs"):
		// Memory of the hardware; the driver has to be opened again.
		return 0, false
	case file && a.Shared:
		// Unmapped before the image is written; one process of all that map it
		// saves the file.
		return 0, true
	case file:
		// Stored whole, untouched pages of text too: the file may not be there
		// on restart. Pages beyond the end of the file cannot be read; a
		// mapping that may be written is not measured by the file at all.
		return dmtcpHeader + cut(a, f.fileSize), false
	case a.Shared, !absentIsZero(a.Name):
		// Segments whose file was removed: MPICH's, System V's, shared anonymous
		// memory, libraries that were upgraded. What this process has not
		// touched another may have written, or the file holds: only reading
		// it would tell which steps are zeros, and they are rare. Of System V
		// segments just one process keeps the contents, which one being decided
		// at the checkpoint; their sum over processes is thus a bound.
		return 2*dmtcpHeader + size, false
	}
	l := f.layout
	if l == nil {
		guess := assume(size, orWhole(a, a.Occupied), a.Runs)
		l = &guess
	}
	if nameless(a.Name) {
		// A header for the area and one for each range, of touched pages and
		// of untouched ones alike.
		return dmtcpHeader*int64(1+l.runs+l.gaps) + l.touched, false
	}
	// [heap], [stack] and memory that a program has named ([anon:malloc]): the
	// same with steps of 1 MiB instead of pages. A step whose pages were touched
	// but hold zeros costs nothing, which cannot be seen from outside.
	return dmtcpHeader*int64(1+l.stepRecords) + l.stepData, false
}

// cut returns how much of a mapping DMTCP takes from its file.
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
