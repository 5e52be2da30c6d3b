package zones

import (
	"bytes"
	"fmt"
	"path"
	"strconv"
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
	Source string `json:"source"` // file or /proc/PID
	Format string `json:"format"`
	Name   string `json:"process"`              // of the program, without directories
	Exe    string `json:"executable,omitempty"` // its path; empty if not known
	PID    int    `json:"pid"`                  // 0 if not known; under DMTCP the virtual one
	Host   string `json:"host,omitempty"`       // the node within its checkpoint; empty if not known
	Group  string `json:"-"`                    // the checkpoint or tree that the process is part of
	Peers  int    `json:"-"`                    // processes in that group; 0 if not known
	Role   Role   `json:"role"`
	Rank   int    `json:"-"` // of the MPI job; -1 if not known
	// JobRanks is the number of ranks of the MPI job, NodeRanks of those on the node, as
	// the launcher told the process; 0 if not known.
	JobRanks  int    `json:"-"`
	NodeRanks int    `json:"-"`
	MPI       string `json:"mpi,omitempty"` // mpich, openmpi; empty if no such library is mapped

	// FileBytes is the length of the image or core file, 0 for a live process.
	// Unpacked is its length after decompression.
	FileBytes int64 `json:"file_bytes"`
	Unpacked  int64 `json:"-"`
	// Overhead is the size of everything in the image beside its areas: file headers
	// and the end marker.
	Overhead int64  `json:"overhead_bytes"`
	Areas    []Area `json:"areas"`
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

// Accelerator returns the device file of a GPU that the process has mapped (CUDA, ROCm,
// Intel), or "": what the memory of the device holds is in no image of the process.
func (p *Process) Accelerator() string {
	for i := range p.Areas {
		for _, device := range []string{"/dev/nvidia", "/dev/kfd", "/dev/dri/render", "/dev/accel/"} {
			if strings.HasPrefix(p.Areas[i].Name, device) {
				return p.Areas[i].Name
			}
		}
	}
	return ""
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

// rankVariables hold the rank of a process in the MPI job, the most trustworthy first.
// The process manager of an MPI implementation knows better than a batch system, which
// also sets its variable, to 0, in scripts and everything that they start. CKPT_RANK is
// set in ckpt's own jobs, but not in their coordinator.
var rankVariables = []string{"CKPT_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID"}

// jobVariables hold the number of ranks of the MPI job, nodeVariables those on the node.
// Batch systems set them for all that they start, so they mean something in ranks only.
var (
	jobVariables  = []string{"PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"}
	nodeVariables = []string{"MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE"}
)

// RankOf returns the rank of a process from its environment, as NAME=VALUE, or -1.
func RankOf(env []string) int { return inEnvironment(env, rankVariables, -1) }

// JobOf returns the number of ranks of the MPI job, and of those on the node, from the
// environment of a rank. They are 0 if unknown.
func JobOf(env []string) (job, node int) {
	return inEnvironment(env, jobVariables, 0), inEnvironment(env, nodeVariables, 0)
}

func inEnvironment(env, names []string, unknown int) int {
	for _, name := range names {
		for _, e := range env {
			if value, ok := strings.CutPrefix(e, name+"="); ok {
				if n, ok := parseRank(value); ok {
					return n
				}
			}
		}
	}
	return unknown
}

// StackTop is how many bytes of the top of a stack RankOnStack needs: the kernel puts
// the environment there when a program starts.
const StackTop = 256 << 10

// RankOnStack is RankOf for the memory at the upper end of a stack, where the
// variables are strings that end in a NUL. The last occurrence wins: copies that a
// program made lie further down than the environment.
func RankOnStack(top []byte) int { return onStack(top, rankVariables, -1) }

// JobOnStack is JobOf for the memory at the upper end of a stack.
func JobOnStack(top []byte) (job, node int) {
	return onStack(top, jobVariables, 0), onStack(top, nodeVariables, 0)
}

func onStack(top []byte, names []string, unknown int) int {
	for _, name := range names {
		pattern := append(append([]byte{0}, name...), '=')
		for rest := top; ; {
			i := bytes.LastIndex(rest, pattern)
			if i < 0 {
				break
			}
			value := top[i+len(pattern):]
			if n := bytes.IndexByte(value[:min(len(value), maxRankDigits+1)], 0); n > 0 {
				if rank, ok := parseRank(string(value[:n])); ok {
					return rank
				}
			}
			rest = rest[:i]
		}
	}
	return unknown
}

// maxRankDigits is more than any job needs.
const maxRankDigits = 7

func parseRank(s string) (int, bool) {
	n, err := strconv.ParseUint(s, 10, 31)
	return int(n), err == nil
}
