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

// faulty returns a file of which one of the calls that an access to it makes fails.
func faulty(t *rapid.T, s scene, data []byte, access func(*fileview.File)) *memFile {
	whole := &memFile{data: slices.Clone(data)}
	access(mustFile(t, whole, s.view, s.opts))
	if r, ok := s.opts.Rule.(*whim); ok {
		r.next = 0 // it answers the same again
	}
	return &memFile{
		data:   slices.Clone(data),
		failAt: rapid.IntRange(1, max(1, len(whole.calls))).Draw(t, "failAt"),
		torn:   rapid.IntRange(0, 100).Draw(t, "torn"),
	}
}

// checkFailed fails if the fault of a file did not strike, or not in an error. An access to
// no bytes makes no call.
func checkFailed(t *rapid.T, m *memFile, bytes int, err error) {
	if struck := len(m.calls) == m.failAt; struck != (bytes > 0) || struck != (err != nil) {
		t.Fatalf("%d calls of %d bytes, the %dth fails: error %v", len(m.calls), bytes, m.failAt, err)
	}
	if err != nil {
		checkError(t, err, m.calls[len(m.calls)-1])
	}
}

// A failing call, torn or not, changes no byte of a hole and none beyond the
// bytes to write, and it is reported. Counted bytes have been written.
func TestFaultsLeaveHolesAlone(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := drawScene(t)
		s.n = min(s.n, len(s.offs)-s.viewOff)
		p := pattern(s.n, 0xff)
		m := faulty(t, s, s.file, func(f *fileview.File) { _, _ = f.WriteAt(p, int64(s.viewOff)) })
		n, err := mustFile(t, m, s.view, s.opts).WriteAt(p, int64(s.viewOff))
		checkFailed(t, m, s.n, err)
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
}

func TestFaultsOfReads(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := drawScene(t)
		s.n = min(s.n, len(s.offs)-s.viewOff)
		p := make([]byte, s.n)
		m := faulty(t, s, pattern(int(s.offs[len(s.offs)-1])+1, 0), func(f *fileview.File) { _, _ = f.ReadAt(p, int64(s.viewOff)) })
		n, err := mustFile(t, m, s.view, s.opts).ReadAt(p, int64(s.viewOff))
		checkFailed(t, m, s.n, err)
		for i, off := range s.offs[s.viewOff : s.viewOff+n] {
			if p[i] != m.data[off] {
				t.Fatalf("%d bytes read, and byte %d is not that at %d", n, i, off)
			}
		}
	})
}
