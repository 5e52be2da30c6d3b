package dmtcp

import (
	"io"

	"ckpt/zones"
)

// A stackTop is the end of a stack's memory, with zeros where nothing is stored.
type stackTop struct {
	area AreaRecord
	base uint64 // address of mem[0]
	mem  []byte
}

func newStackTop(area *AreaRecord) *stackTop {
	n := min(area.End-area.Start, zones.StackTop)
	return &stackTop{area: *area, base: area.End - n, mem: make([]byte, n)}
}

// read reads the data of a run that lies in the window. It ignores runs of other areas
// with the name of a stack.
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
