package fileview_test

import (
	"errors"
	"io"
	"slices"
	"sync"

	"pgregory.net/rapid"

	"ckpt/image/plan/fileview"
)

// methods are the rules of the package.
var methods = []fileview.Method{
	fileview.Naive, fileview.ROMIO, fileview.Extent, fileview.ScanFile, fileview.PerformanceModel, fileview.Adaptive,
}

// errInjected is the fault of a memFile.
var errInjected = errors.New("injected")

// call is one call to a memFile.
type call struct {
	write  bool
	off, n int64
}

// memFile is a file in memory that keeps a record of its calls and can fail.
type memFile struct {
	mu    sync.Mutex
	data  []byte
	calls []call

	failAt int // the call that fails, from 1; 0 for none
	torn   int // bytes that the failing call moves nevertheless, at most
	// before is called at each call, without the mutex.
	before func(c call)
}

func (m *memFile) enter(write bool, off, n int64) (torn int, err error) {
	c := call{write, off, n}
	if m.before != nil {
		m.before(c)
	}
	m.mu.Lock()
	m.calls = append(m.calls, c)
	if len(m.calls) == m.failAt {
		return min(m.torn, int(n)), errInjected
	}
	return int(n), nil
}

func (m *memFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := m.enter(false, off, int64(len(p)))
	defer m.mu.Unlock()
	if off < int64(len(m.data)) {
		n = copy(p[:n], m.data[off:])
	} else {
		n = 0
	}
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return n, err
}

func (m *memFile) WriteAt(p []byte, off int64) (int, error) {
	n, err := m.enter(true, off, int64(len(p)))
	defer m.mu.Unlock()
	if n > 0 {
		if grow := off + int64(n) - int64(len(m.data)); grow > 0 {
			m.data = append(m.data, make([]byte, grow)...)
		}
		copy(m.data[off:], p[:n])
	}
	return n, err
}

// nullFile is an endless file of whatever is in memory, for counting.
type nullFile struct{}

func (nullFile) ReadAt(p []byte, _ int64) (int, error)  { return len(p), nil }
func (nullFile) WriteAt(p []byte, _ int64) (int, error) { return len(p), nil }

func mustView(t rapid.TB, initial int64, tuples []fileview.Tuple, repeat int64) *fileview.View {
	t.Helper()
	v, err := fileview.NewView(initial, tuples, repeat)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func mustFile(t rapid.TB, f fileview.ReadWriterAt, v *fileview.View, o fileview.Options) *fileview.File {
	t.Helper()
	file, err := fileview.NewFile(f, v, o)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// offsets is the model of a view: the file offset of each of its bytes, by
// walking over the tuples.
func offsets(initial int64, tuples []fileview.Tuple, repeat int) []int64 {
	var list []int64
	off := initial
	for range repeat {
		for _, t := range tuples {
			for range t.Size {
				list = append(list, off)
				off++
			}
			off += t.Hole
		}
	}
	return list
}

// pattern returns n bytes that differ from their neighbours and, by seed, from
// those of another pattern.
func pattern(n int, seed byte) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(i*7+i/251) ^ seed
	}
	return p
}

// overlaid returns the file that a write of p must leave: base with the bytes at
// offs replaced, as long as base or to the last byte written.
func overlaid(base, p []byte, offs []int64) []byte {
	file := slices.Clone(base)
	for i, b := range p {
		if grow := offs[i] + 1 - int64(len(file)); grow > 0 {
			file = append(file, make([]byte, grow)...)
		}
		file[offs[i]] = b
	}
	return file
}
