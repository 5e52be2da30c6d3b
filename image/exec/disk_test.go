package exec_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"

	"ckpt/image/plan"
	"ckpt/internal/vfs"
)

// A disk keeps files in memory, counts how often each page is written and by
// whom, and complains about what must not be.
type disk struct {
	plan   *plan.Plan
	direct bool
	before func(file int, offset, n int64) error // if not nil, called first by every write

	mu      sync.Mutex
	files   []*tape
	opened  map[[2]int]bool // file and rank
	problem error           // the first one
}

type tape struct {
	data    []byte
	written []int
	writers []map[int]bool // of each stripe
}

// poison is what nobody has written.
const poison = 0xEE

func newDisk(p *plan.Plan, direct bool) *disk {
	d := &disk{plan: p, direct: direct, opened: make(map[[2]int]bool)}
	for _, f := range p.Files {
		t := &tape{
			data:    bytes.Repeat([]byte{poison}, int(f.Bytes)),
			written: make([]int, f.Bytes/page),
			writers: make([]map[int]bool, (f.Bytes+p.Settings.StripeSize-1)/p.Settings.StripeSize),
		}
		for i := range t.writers {
			t.writers[i] = make(map[int]bool)
		}
		d.files = append(d.files, t)
	}
	return d
}

// everybody is the rank in whose name All opens files.
const everybody = -1

// open is how one rank opens files.
func (d *disk) open(rank int) func(int) (io.WriterAt, error) {
	return func(file int) (io.WriterAt, error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.opened[[2]int{file, rank}] {
			d.complain("rank %d opens file %d again", rank, file)
		}
		d.opened[[2]int{file, rank}] = true
		return &handle{disk: d, number: file, rank: rank}, nil
	}
}

// complain takes d.mu for granted.
func (d *disk) complain(format string, args ...any) {
	if d.problem == nil {
		d.problem = fmt.Errorf(format, args...)
	}
}

var _ vfs.File = (*handle)(nil)

type handle struct {
	vfs.Plain // what the package has no business to call
	disk      *disk
	number    int
	rank      int
}

func (h *handle) WriteAt(b []byte, offset int64) (int, error) {
	d := h.disk
	if d.before != nil {
		if err := d.before(h.number, offset, int64(len(b))); err != nil {
			return 0, err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	t := d.files[h.number]
	end := offset + int64(len(b))
	switch {
	case offset < 0 || offset%page != 0 || len(b)%page != 0 || len(b) == 0:
		d.complain("write of %d bytes at %d: not in pages", len(b), offset)
	case end > int64(len(t.data)):
		d.complain("write of %d bytes at %d: the file has %d", len(b), offset, len(t.data))
	case int64(len(b)) > d.plan.Settings.Buffer:
		d.complain("write of %d bytes at %d: more than the buffer", len(b), offset)
	case d.direct && !aligned(b):
		d.complain("write of %d bytes at %d: memory at %p", len(b), offset, b)
	default:
		copy(t.data[offset:], b)
		for at := offset; at < end; at += page {
			t.written[at/page]++
			t.writers[at/d.plan.Settings.StripeSize][h.rank] = true
		}
		return len(b), nil
	}
	return 0, errors.New("refused")
}

// check says whether all pieces are at their places, and were written once, and
// nothing else was.
func (d *disk) check(j *job) error {
	if d.problem != nil {
		return d.problem
	}
	expected := make([][]int, len(d.files))
	for f := range expected {
		expected[f] = make([]int, len(d.files[f].written))
	}
	for _, s := range j.sources {
		file, offsets := d.plan.Places(s.Rank)
		for i, piece := range s.Pieces {
			at := offsets[i]
			if !bytes.Equal(d.files[file].data[at:at+piece.Bytes], j.of(s.Rank, piece.Key)) {
				return fmt.Errorf("rank %d piece %d: other bytes at %d of file %d", s.Rank, i, at, file)
			}
			for k := at / page; k < (at+piece.Bytes)/page; k++ {
				expected[file][k]++
			}
		}
	}
	for f, t := range d.files {
		for k, n := range t.written {
			if n != expected[f][k] {
				return fmt.Errorf("file %d page %d: written %d times, belongs to %d pieces", f, k, n, expected[f][k])
			}
		}
	}
	return nil
}

// checkStripes says whether each stripe of the shared file has one writer.
func (d *disk) checkStripes() error {
	if d.plan.Settings.Layout != plan.Shared || d.plan.Settings.Strategy == plan.Individual {
		return nil
	}
	for i, writers := range d.files[0].writers {
		if len(writers) > 1 {
			return fmt.Errorf("stripe %d: written by %v", i, writers)
		}
	}
	return nil
}
