package dmtcp

import (
	"bytes"
	"io"
	"strconv"
)

// stackWindow is how much of the stack's top is searched for the environment.
// The kernel puts it there when a program starts: above the frames of main, the
// arguments, then the variables as NUL-terminated strings.
const stackWindow = 256 << 10

// The variables that tell a process its rank, the most trustworthy first: a
// process manager of an MPI implementation knows better than a batch system,
// whose tasks may be launchers.
var rankVariables = []string{"PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID"}

// A stackTop is the last of a stack's memory; zeros where nothing is stored.
type stackTop struct {
	area AreaRecord
	base uint64 // address of mem[0]
	mem  []byte
}

func newStackTop(area *AreaRecord) *stackTop {
	n := min(area.End-area.Start, stackWindow)
	return &stackTop{area: *area, base: area.End - n, mem: make([]byte, n)}
}

// read takes the data of a run, as far as it lies in the window. Runs of another
// area that is named like the first are left alone.
func (t *stackTop) read(s *Scanner, run *AreaRecord) error {
	if run.Start < t.area.Start || run.End > t.area.End || run.End <= t.base {
		return nil
	}
	from := max(run.Start, t.base)
	if err := s.discard(int64(from - run.Start)); err != nil {
		return err
	}
	_, err := io.ReadFull(s, t.mem[from-t.base:run.End-t.base])
	return err
}

// rank returns the number that the first of the variables has that is set, and
// -1 if none is. If there are several strings of one variable, copies that a
// program made of it are further down than the environment, which thus wins.
func (t *stackTop) rank() int {
	for _, name := range rankVariables {
		pattern := append(append([]byte{0}, name...), '=')
		for mem := t.mem; ; {
			i := bytes.LastIndex(mem, pattern)
			if i < 0 {
				break
			}
			value := t.mem[i+len(pattern):]
			if n := bytes.IndexByte(value[:min(len(value), 8)], 0); n > 0 {
				if rank, err := strconv.ParseUint(string(value[:n]), 10, 32); err == nil {
					return int(rank)
				}
			}
			mem = mem[:i]
		}
	}
	return -1
}
