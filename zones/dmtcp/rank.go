package dmtcp

import (
	"io"

	"ckpt/zones"
)

// A stackTop is the last of a stack's memory; zeros where nothing is stored.
type stackTop struct {
	area AreaRecord
	base uint64 // address of mem[0]
	mem  []byte
}

func newStackTop(area *AreaRecord) *stackTop {
	n := min(area.End-area.Start, zones.StackTop)
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
