package fileview_test

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"ckpt/image/plan/fileview"
)

// checkError fails if err does not say what failed and where.
func checkError(t *rapid.T, err error, c call) {
	var e *fileview.Error
	if !errors.As(err, &e) || !errors.Is(err, errInjected) {
		t.Fatalf("error %v", err)
	}
	if e.Offset != c.off || e.Len != c.n || c.write != (e.Op == "write") {
		t.Fatalf("%+v failed, the error is %+v", c, e)
	}
}

// A failing call, torn or not, changes no byte of a hole and none beyond the
// bytes to write, and it is reported. Counted bytes have been written.
func TestFaultsLeaveHolesAlone(t *testing.T) {
	t.Parallel()
	hits := 0
	rapid.Check(t, func(t *rapid.T) {
		s := drawScene(t)
		s.n = min(s.n, len(s.offs)-s.viewOff)
		m := &memFile{
			data:   slices.Clone(s.file),
			failAt: rapid.IntRange(1, 6).Draw(t, "failAt"),
			torn:   rapid.IntRange(0, 100).Draw(t, "torn"),
		}
		f := mustFile(t, m, s.view, s.opts)
		p := pattern(s.n, 0xff)
		n, err := f.WriteAt(p, int64(s.viewOff))
		if failed := len(m.calls) >= m.failAt; failed != (err != nil) {
			t.Fatalf("%d calls, the %dth fails: error %v", len(m.calls), m.failAt, err)
		}
		if err != nil {
			hits++
			checkError(t, err, m.calls[len(m.calls)-1])
		}
		offs := s.offs[s.viewOff : s.viewOff+s.n]
		before, after := overlaid(s.file, nil, nil), overlaid(s.file, p, offs)
		if len(m.data) > len(after) {
			t.Fatalf("the file has %d bytes, %d were to be written", len(m.data), len(after))
		}
		for i, b := range m.data {
			old := byte(0)
			if i < len(before) {
				old = before[i]
			}
			if b != old && b != after[i] {
				t.Fatalf("byte %d is %d, was %d, should become %d", i, b, old, after[i])
			}
			if !slices.Contains(offs, int64(i)) && b != old {
				t.Fatalf("byte %d of a hole is %d, was %d", i, b, old)
			}
		}
		for i, off := range offs[:n] {
			if m.data[off] != p[i] {
				t.Fatalf("%d bytes written, and byte %d at %d is not", n, i, off)
			}
		}
	})
	if hits < 10 {
		t.Errorf("only %d faults hit", hits)
	}
}

func TestFaultsOfReads(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := drawScene(t)
		s.n = min(s.n, len(s.offs)-s.viewOff)
		m := &memFile{
			data:   pattern(int(s.offs[len(s.offs)-1])+1, 0),
			failAt: rapid.IntRange(1, 6).Draw(t, "failAt"),
			torn:   rapid.IntRange(0, 100).Draw(t, "torn"),
		}
		f := mustFile(t, m, s.view, s.opts)
		p := make([]byte, s.n)
		n, err := f.ReadAt(p, int64(s.viewOff))
		if failed := len(m.calls) >= m.failAt; failed != (err != nil) {
			t.Fatalf("%d calls, the %dth fails: %d of %d bytes, error %v", len(m.calls), m.failAt, n, s.n, err)
		}
		if err != nil {
			checkError(t, err, m.calls[len(m.calls)-1])
		}
		for i, off := range s.offs[s.viewOff : s.viewOff+n] {
			if p[i] != m.data[off] {
				t.Fatalf("%d bytes read, and byte %d is not that at %d", n, i, off)
			}
		}
	})
}
