package source

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"ckpt/zones"
)

// maxNames bounds the names of an image, in bytes; repeating the last name is free.
const maxNames = 64 << 20

// ReadImage reads an image and returns its process. name, r and size are as for NewScanner.
// Stored of an area counts its header, the headers of its runs, and data; with
// Overhead they add up to Unpacked.
//
// Rank comes from the environment on the stack, or is -1. Occupied is known for areas
// that are cut into runs; Resident and Dirty are unknown.
func ReadImage(ctx context.Context, name string, r io.Reader, size int64) (*zones.Process, error) {
	s, err := NewImageScanner(name, r, size)
	if err != nil {
		return nil, err
	}
	s.in.stop = ctx.Err
	h := s.Header()
	b := builder{p: &zones.Process{
		Source: name,
		Format: zones.FormatDMTCP,
		Name:   h.Name,
		Exe:    h.Exe,
		PID:    int(h.ID.PID),
		Host:   strconv.FormatUint(h.ID.Host, 16),
		Group:  fmt.Sprintf("%v#%d", h.Group, h.Group.Generation),
		Peers:  h.Peers,
		Rank:   -1,
	}}
	for {
		rec, err := s.Next()
		if err == io.EOF {
			break
		}
		if err == nil {
			err = b.add(s, rec)
		}
		if err != nil {
			return nil, err
		}
	}
	if b.stack != nil {
		b.p.Rank = zones.RankOnStack(b.stack.mem)
		b.p.JobRanks, b.p.NodeRanks = zones.JobOnStack(b.stack.mem)
	}
	b.p.Unpacked, b.p.FileBytes = s.in.pos, s.in.file.n
	return b.p, nil
}

// A builder turns records into a process.
type builder struct {
	p     *zones.Process
	last  AreaRecord
	names int    // bytes
	run   uint64 // end of the last occupied run
	stack *stackTop
}

func (b *builder) add(s *ImageScanner, rec ImageRecord) error {
	switch rec.Kind {
	case FileHeader, EndMarker:
		b.p.Overhead += int64(len(rec.Raw))
		return nil
	case AreaHeader:
		if f := b.area(&rec.Area); f != nil {
			return s.bad(rec.Offset, f)
		}
	}
	a := &b.p.Areas[len(b.p.Areas)-1]
	a.Stored += int64(len(rec.Raw)) + rec.Data
	if rec.Kind == AreaHeader || rec.Zero {
		return nil
	}
	a.Occupied += rec.Data
	if rec.Area.Start != b.run || a.Runs == 0 {
		a.Runs++ // two adjacent runs are one range
	}
	b.run = rec.Area.End
	if a.Name == "[stack]" {
		if b.stack == nil {
			b.stack = newStackTop(&b.last)
		}
		return b.stack.read(s, &rec.Area)
	}
	return nil
}

func (b *builder) area(r *AreaRecord) *flaw {
	if r.Name != b.last.Name {
		b.names += len(r.Name)
	}
	if len(b.p.Areas) == maxAreas || b.names > maxNames {
		return flawed(0, "there are more areas, or longer names, than a process can have")
	}
	b.last = *r
	occupied := int64(0)
	if r.Properties == 0 {
		occupied = -1
	}
	b.p.Areas = append(b.p.Areas, zones.Area{
		Start:    r.Start,
		End:      r.End,
		Prot:     r.Prot,
		Shared:   r.Flags&mapShared != 0,
		Name:     r.Name,
		Offset:   r.Offset,
		Device:   r.Device,
		Inode:    r.Inode,
		Resident: -1,
		Dirty:    -1,
		Occupied: occupied,
	})
	return nil
}

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
func (t *stackTop) read(s *ImageScanner, run *AreaRecord) error {
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
