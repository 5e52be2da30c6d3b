package zones

import (
	"fmt"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The formats that processes are read from.
const (
	FormatCkpt  = "ckpt"    // an image of our own
	FormatDMTCP = "dmtcp"   // an image of DMTCP
	FormatProc  = "proc"    // a live process
	FormatSmaps = "smaps"   // the text of /proc/PID/smaps or maps
	FormatCore  = "elfcore" // a core file
)

// A Role is the part that a process plays in a parallel job.
type Role string

// The roles.
const (
	RoleRank     Role = "rank"     // runs the application
	RoleLauncher Role = "launcher" // starts or serves ranks: mpiexec, its proxies, shells
	RoleOther    Role = "other"    // runs beside ranks
)

// A Process is the memory of one process, read from an image, a core file or
// the kernel.
type Process struct {
	Source string // file or /proc/PID
	Format string
	Name   string // of the program, without directories
	Exe    string // its path; empty if not known
	PID    int    // 0 if not known; under DMTCP the virtual one
	Host   string // names the node within its checkpoint; empty if not known
	Group  string // names the checkpoint or tree that the process is part of
	Peers  int    // processes in that group; 0 if not known
	Role   Role
	Rank   int // of the MPI job; -1 if not known
	// JobRanks is the number of ranks of the MPI job, NodeRanks of those on the node, as
	// the launcher told the process; 0 if not known.
	JobRanks, NodeRanks int
	MPI                 string // mpich, openmpi; empty if no such library is mapped

	// FileBytes is the length of the image or core file, 0 for a live process.
	// Unpacked is its length after decompression.
	FileBytes, Unpacked int64
	// Overhead is the size of everything in the image beside its areas: file headers
	// and the end marker.
	Overhead int64
	Areas    []Area
}

// Sizes returns the stored bytes by zone.
func (p *Process) Sizes() Sizes {
	var s Sizes
	for i := range p.Areas {
		if z, ok := p.Areas[i].Class.Zone(); ok {
			s.Add(z, p.Areas[i].Stored)
		}
	}
	return s
}

// Stored returns the stored bytes of the areas of a class.
func (p *Process) Stored(c Class) int64 {
	var n int64
	for i := range p.Areas {
		if p.Areas[i].Class == c {
			n += p.Areas[i].Stored
		}
	}
	return n
}

// Companion returns the bytes of shared memory that a checkpoint keeps in files
// beside the image.
func (p *Process) Companion() int64 {
	var n int64
	for i := range p.Areas {
		if p.Areas[i].Companion {
			n += p.Areas[i].Bytes()
		}
	}
	return n
}

// Image returns the length of an uncompressed image of the process: its areas and the
// overhead of the format.
func (p *Process) Image() int64 {
	n := p.Overhead
	for i := range p.Areas {
		n += p.Areas[i].Stored
	}
	return n
}

// baseName returns the last element of a path, without the mark of a removed file.
func baseName(name string) string {
	a := Area{Name: name}
	return path.Base(a.File())
}

// A FormatError is a violation of a file format, with its place.
type FormatError struct {
	File   string
	Offset int64 // in the file, after decompression
	Line   int64 // of a text, from 1; 0 for other files
	Reason string
	// Unsupported is set if the file may be sound, but of a version that is not
	// supported.
	Unsupported bool
}

func (e *FormatError) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("%s: line %d: %s", e.File, e.Line, e.Reason)
	}
	return fmt.Sprintf("%s: at offset %d: %s", e.File, e.Offset, e.Reason)
}

// Printable returns a name from an image as text for terminals and JSON: bytes that
// are not UTF-8 and control characters become question marks.
func Printable(name string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || unicode.IsControl(r) {
			return '?'
		}
		return r
	}, name)
}
