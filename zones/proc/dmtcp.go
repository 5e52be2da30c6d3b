package proc

import (
	"strings"

	"ckpt/zones"
)

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
		// DMTCP searches it for contents. Steps that nobody has touched are full of zeros,
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
