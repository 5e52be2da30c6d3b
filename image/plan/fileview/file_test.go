package fileview_test

import (
	"bytes"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"ckpt/image/plan/fileview"
)

// A read ends where the file or the view does, with the bytes that there are.
func TestReadAtEnd(t *testing.T) {
	t.Parallel()
	file := pattern(100, 0)
	v := mustView(t, 10, []fileview.Tuple{{Size: 10, Hole: 20}}, 4) // 10-20 40-50 70-80 100-110
	for _, m := range methods {
		for _, c := range []struct {
			name   string
			length int
			off, n int64
			want   int
			eof    bool
		}{
			{"all there", 100, 0, 30, 30, false},
			{"to the last byte", 80, 0, 30, 30, false},
			{"within a block", 75, 0, 30, 25, true},
			{"within a hole", 60, 0, 30, 20, true},
			{"at the begin of a block", 70, 0, 30, 20, true},
			{"before the view", 5, 0, 30, 0, true},
			{"empty", 0, 0, 30, 0, true},
			{"the rest of the view", 100, 25, 100, 5, true},
			{"at the end of the view", 100, 40, 1, 0, true},
			{"beyond the view", 100, math.MaxInt64, 1, 0, true},
			{"nothing", 0, 7, 0, 0, false},
		} {
			f := mustFile(t, &memFile{data: file[:c.length]}, v, fileview.Options{
				Rule:   m,
				Buffer: 64,
				Device: fileview.Device{Bandwidth: 1 << 20, Latency: time.Second, Stripe: 32},
			})
			n, err := f.ReadAt(make([]byte, c.n), c.off)
			if n != c.want || c.eof != (err == io.EOF) || !c.eof && err != nil {
				t.Errorf("%v, %s: ReadAt = %d, %v; want %d, EOF %v", m, c.name, n, err, c.want, c.eof)
			}
		}
	}
}

// A file grows to the last byte written, with zeros in new holes, and what it
// had stays.
func TestWriteAtGrows(t *testing.T) {
	t.Parallel()
	v := mustView(t, 4, []fileview.Tuple{{Size: 4, Hole: 4}}, fileview.Forever)
	for _, m := range methods {
		for _, c := range []struct{ before, after string }{
			{"", "\x00\x00\x00\x00abcd\x00\x00\x00\x00efgh\x00\x00\x00\x00ij"},
			{"0123456789", "0123abcd89\x00\x00efgh\x00\x00\x00\x00ij"},
			{"0123456789abcdefghijklmnopqrst", "0123abcd89abefghghijijmnopqrst"},
		} {
			file := &memFile{data: []byte(c.before)}
			f := mustFile(t, file, v, fileview.Options{
				Rule: m, Buffer: 11, Device: fileview.Device{Bandwidth: 1 << 20, Latency: time.Second},
			})
			if n, err := f.WriteAt([]byte("abcdefghij"), 0); n != 10 || err != nil {
				t.Fatal(n, err)
			}
			if string(file.data) != c.after {
				t.Errorf("%v: %q became %q, want %q", m, c.before, file.data, c.after)
			}
		}
	}
}

// answers is a file that gives the same answer to every call.
type answers struct {
	n   int
	err error
}

func (a answers) ReadAt(p []byte, _ int64) (int, error)  { return min(a.n, len(p)), a.err }
func (a answers) WriteAt(p []byte, _ int64) (int, error) { return min(a.n, len(p)), a.err }

// refusing is a Locker that has no lock to give.
type refusing struct{ err error }

func (r refusing) LockRange(int64, int64) (func(), error) { return nil, r.err }

func TestErrors(t *testing.T) {
	t.Parallel()
	v := mustView(t, 100, []fileview.Tuple{{Size: 4, Hole: 4}}, 3)
	do := func(file fileview.ReadWriterAt, l fileview.Locker) *fileview.File {
		return mustFile(t, file, v, fileview.Options{Rule: fileview.Extent, Locker: l})
	}
	p := make([]byte, 8)
	_, shortRead := do(answers{n: 3}, nil).ReadAt(p, 1)
	nWrite, plainShort := do(answers{n: 3}, nil).WriteAt(p[:4], 8)
	_, rewrite := do(answers{n: 3}, nil).WriteAt(p, 0)
	_, lock := do(answers{n: 100}, refusing{errInjected}).WriteAt(p, 0)
	_, beyond := do(answers{n: 100}, nil).WriteAt(p, 5)
	_, far := do(answers{n: 100}, nil).WriteAt(p, math.MaxInt64)
	_, negRead := do(answers{n: 100}, nil).ReadAt(p, -1)
	_, negWrite := do(answers{n: 100}, nil).WriteAt(p, -1)
	for _, c := range []struct {
		err  error
		want string
	}{
		{shortRead, "read 16 bytes at offset 101 (view offset 1): short read without an error"},
		{plainShort, "write 4 bytes at offset 116 (view offset 8): short write"},
		{rewrite, "read before write 12 bytes at offset 100 (view offset 0): short read without an error"},
		{lock, "lock 12 bytes at offset 100 (view offset 0): injected"},
		{beyond, "write 8 bytes at view offset 5: the view ends before that"},
		{far, "write 8 bytes at view offset 9223372036854775807: the view ends before that"},
		{negRead, "read 8 bytes at view offset -1: the offset is negative"},
		{negWrite, "write 8 bytes at view offset -1: the offset is negative"},
	} {
		var e *fileview.Error
		if c.err == nil || c.err.Error() != c.want || !errors.As(c.err, &e) {
			t.Errorf("got %v, want %s", c.err, c.want)
		}
	}
	if nWrite != 3 {
		t.Errorf("3 of 4 bytes written, counted %d", nWrite)
	}
	if !errors.Is(lock, errInjected) || !errors.Is(plainShort, io.ErrShortWrite) {
		t.Errorf("the cause is lost: %v, %v", lock, plainShort)
	}
}

// A file that fails with what looks like its end must not have its holes
// overwritten with zeros.
func TestOnlyTheEndOfTheFileIsZeros(t *testing.T) {
	t.Parallel()
	v := mustView(t, 0, []fileview.Tuple{{Size: 4, Hole: 4}}, 3)
	for _, cause := range []error{io.ErrUnexpectedEOF, errors.Join(io.EOF), nil} {
		f := mustFile(t, answers{n: 6, err: cause}, v, fileview.Options{Rule: fileview.Extent})
		if _, err := f.WriteAt(make([]byte, 8), 0); err == nil {
			t.Errorf("read error %v: written", cause)
		}
		if s := f.Stats(); s.Writes != 0 {
			t.Errorf("read error %v: %+v", cause, s)
		}
	}
}

func TestOptionsRefused(t *testing.T) {
	t.Parallel()
	v := mustView(t, 0, []fileview.Tuple{{Size: 1}}, 1)
	for _, c := range []struct {
		opts fileview.Options
		want string
	}{
		{fileview.Options{Buffer: -1}, "buffer of -1 bytes"},
		{fileview.Options{Buffer: 1<<30 + 1}, "buffer of"},
		{fileview.Options{Device: fileview.Device{Bandwidth: -1}}, "bandwidth -1"},
		{fileview.Options{Device: fileview.Device{Bandwidth: math.NaN()}}, "bandwidth NaN"},
		{fileview.Options{Device: fileview.Device{Bandwidth: math.Inf(1)}}, "bandwidth +Inf"},
		{fileview.Options{Device: fileview.Device{Latency: -1}}, "latency -1ns"},
		{fileview.Options{Device: fileview.Device{Stripe: -1}}, "stripe of -1"},
		{fileview.Options{Device: fileview.Device{Block: math.MaxInt64}}, "block of"},
	} {
		if _, err := fileview.NewFile(nullFile{}, v, c.opts); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want one with %q", c.opts, err, c.want)
		}
	}
	// The largest settings at the largest offsets overflow nowhere.
	v = mustView(t, math.MaxInt64-8, []fileview.Tuple{{Size: 2, Hole: 1}, {Size: 3, Hole: 1}}, 1)
	for _, m := range methods {
		for _, unit := range []int64{0, 1, 1 << 20, 1 << 40} {
			f := mustFile(t, nullFile{}, v, fileview.Options{
				Rule: m, Buffer: 1 << 30, Device: fileview.Device{Bandwidth: 1e18, Latency: math.MaxInt64, Stripe: unit, Block: unit},
			})
			for _, a := range []fileview.Access{fileview.Read, fileview.Write} {
				if s := f.Plan(a, 0, math.MaxInt64); s.Useful != 5 || s.Read < 0 || s.Reads+s.Writes > 3 {
					t.Errorf("%v %v, unit %d: %+v", m, a, unit, s)
				} else if m == fileview.ScanFile && unit <= 1 && s.Reads != 1 {
					t.Errorf("%v %v, unit %d: more than one access: %+v", m, a, unit, s)
				}
			}
		}
	}
	f := mustFile(t, nullFile{}, v, fileview.Options{Rule: always{Take: math.MaxInt64, Fill: math.MaxInt64}})
	if s := f.Plan(fileview.Read, 0, 5); s.Read != 8 {
		t.Errorf("read of %d bytes, there are 8 up to the largest offset", s.Read)
	}
}

// inPlace is a file that remembers the memory it was given.
type inPlace struct{ at *byte }

func (f *inPlace) ReadAt(p []byte, _ int64) (int, error)  { f.at = &p[0]; return len(p), nil }
func (f *inPlace) WriteAt(p []byte, _ int64) (int, error) { f.at = &p[0]; return len(p), nil }

// Blocks without a hole are not copied.
func TestPlainAccessIsInPlace(t *testing.T) {
	t.Parallel()
	file := &inPlace{}
	f := mustFile(t, file, mustView(t, 0, []fileview.Tuple{{Size: 4}, {Size: 4, Hole: 4}}, 2), fileview.Options{Rule: fileview.Extent})
	p := make([]byte, 16)
	if _, err := f.ReadAt(p[:8], 0); err != nil || file.at != &p[0] {
		t.Errorf("read through a buffer, %v", err)
	}
	if _, err := f.WriteAt(p[8:], 8); err != nil || file.at != &p[8] {
		t.Errorf("written through a buffer, %v", err)
	}
	if _, err := f.ReadAt(p, 0); err != nil || file.at == &p[0] {
		t.Errorf("read with the holes in place, %v", err)
	}
}

// The bytes that are read are those of the blocks, not of the buffer: two reads
// of one File do not mix.
func TestBufferIsNotShared(t *testing.T) {
	t.Parallel()
	file := &memFile{data: pattern(4096, 0)}
	tuples := []fileview.Tuple{{Size: 3, Hole: 2}}
	f := mustFile(t, file, mustView(t, 0, tuples, 800), fileview.Options{Rule: fileview.ROMIO, Buffer: 64})
	offs := offsets(0, tuples, 800)
	done := make(chan error)
	for i := range 8 {
		go func() {
			p, want := make([]byte, 100), make([]byte, 100)
			for j := range 200 {
				from := (i*317 + j*29) % (len(offs) - 100)
				for k := range want {
					want[k] = file.data[offs[from+k]]
				}
				if _, err := f.ReadAt(p, int64(from)); err != nil {
					done <- err
					return
				}
				if !bytes.Equal(p, want) {
					done <- errors.New("bytes of another read")
					return
				}
			}
			done <- nil
		}()
	}
	for range 8 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
