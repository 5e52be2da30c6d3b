package source

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/iotest"

	"ckpt/zones"
	"ckpt/zones/dmtcptest"
)

// readers are ways in which an image comes in.
var readers = []struct {
	name string
	open func(t *testing.T, b []byte) (io.Reader, int64)
}{
	{"file", func(_ *testing.T, b []byte) (io.Reader, int64) { return bytes.NewReader(b), int64(len(b)) }},
	{"file of unknown length", func(_ *testing.T, b []byte) (io.Reader, int64) { return bytes.NewReader(b), -1 }},
	{"pipe", func(_ *testing.T, b []byte) (io.Reader, int64) { return pipe(b), -1 }},
	{"pipe of known length", func(_ *testing.T, b []byte) (io.Reader, int64) { return pipe(b), int64(len(b)) }},
	{"slow pipe", func(_ *testing.T, b []byte) (io.Reader, int64) { return iotest.HalfReader(pipe(b)), -1 }},
	{"pipe with early EOF", func(_ *testing.T, b []byte) (io.Reader, int64) { return iotest.DataErrReader(pipe(b)), -1 }},
	{"gzip", func(t *testing.T, b []byte) (io.Reader, int64) {
		z := compressed(t, b)
		return bytes.NewReader(z), int64(len(z))
	}},
	{"gzip from a pipe", func(t *testing.T, b []byte) (io.Reader, int64) {
		return iotest.OneByteReader(pipe(compressed(t, b))), -1
	}},
}

// TestScan reads everything and puts it together again.
func TestScan(t *testing.T) {
	im := mixed()
	want := im.Bytes()
	if int64(len(want)) != im.Size() {
		t.Fatalf("image of %d bytes is to have %d", len(want), im.Size())
	}
	for _, r := range readers {
		t.Run(r.name, func(t *testing.T) {
			in, size := r.open(t, want)
			s, err := NewImageScanner("image", in, size)
			if err != nil {
				t.Fatal(err)
			}
			var got []byte
			var at []int64
			var kinds []RecordKind
			for {
				rec, err := s.Next()
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				if rec.Offset != int64(len(got)) {
					t.Fatalf("record at %d is to be at %d", rec.Offset, len(got))
				}
				at, kinds = append(at, rec.Offset), append(kinds, rec.Kind)
				got = append(got, rec.Raw...)
				data, err := io.ReadAll(s)
				if err != nil {
					t.Fatal(err)
				}
				if int64(len(data)) != rec.Data {
					t.Fatalf("record at %d has %d bytes, announced were %d", rec.Offset, len(data), rec.Data)
				}
				got = append(got, data...)
			}
			if !bytes.Equal(got, want) || s.Consumed() != int64(len(want)) {
				t.Errorf("%d bytes readImage, %d consumed, of %d; or they differ", len(got), s.Consumed(), len(want))
			}
			if want := append([]int64{0}, im.Headers()...); !slices.Equal(at, want) {
				t.Errorf("headers at %d, want %d", at, want)
			}
			if n := len(kinds); kinds[0] != FileHeader || kinds[1] != AreaHeader || kinds[n-2] != RunHeader || kinds[n-1] != EndMarker {
				t.Errorf("kinds %v", kinds)
			}
			if _, err := s.Next(); err != io.EOF {
				t.Errorf("after the end: %v", err)
			}
		})
	}
}

// TestSkip passes over data in all ways: some of it, all, none read.
func TestSkip(t *testing.T) {
	im := mixed()
	b := im.Bytes()
	for _, r := range readers {
		in, size := r.open(t, b)
		s, err := NewImageScanner("image", in, size)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for {
			rec, err := s.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", r.name, err)
			}
			if n > 0 && rec.Offset != im.Headers()[n-1] {
				t.Fatalf("%s: record %d at %d, want %d", r.name, n, rec.Offset, im.Headers()[n-1])
			}
			part := make([]byte, min(rec.Data, int64(n%4)*1000))
			if _, err := io.ReadFull(s, part); err != nil {
				t.Fatalf("%s: %v", r.name, err)
			}
			from := rec.Offset + int64(len(rec.Raw))
			if !bytes.Equal(part, b[from:from+int64(len(part))]) {
				t.Fatalf("%s: data of record %d differ", r.name, n)
			}
			n++
		}
		if n != 1+len(im.Headers()) || s.Consumed() != int64(len(b)) {
			t.Errorf("%s: %d records, %d bytes", r.name, n, s.Consumed())
		}
	}
}

// A seeker that is read is one that should have sought.
type seeker struct {
	*bytes.Reader
	read int
}

func (s *seeker) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	s.read += n
	return n, err
}

func TestSkipSeeks(t *testing.T) {
	im := mixed()
	im.Areas = append(im.Areas[:4:4], dmtcptest.Anonymous(0x7f0000000000, "", nil, dmtcptest.Touched(5000)))
	in := &seeker{Reader: bytes.NewReader(im.Bytes())}
	s, err := NewImageScanner("image", in, -1)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = s.Next()
	}
	if want := headerSize * (2 + len(im.Headers())); err != io.EOF || in.read != want {
		t.Errorf("%d bytes were readImage, want the %d of the headers; %v", in.read, want, err)
	}
}

// TestFiles reads files that can be sought in, from where they stand, and pipes,
// which have the method and fail.
func TestFiles(t *testing.T) {
	b := mixed().Bytes()
	name := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(name, append([]byte("before"), b...), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Seek(6, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	written := make(chan error, 1)
	go func() {
		_, err := w.Write(b)
		w.Close()
		written <- err
	}()
	for _, in := range []*os.File{f, r} {
		p, err := ReadImage(t.Context(), "image", in, -1)
		if err != nil || p.FileBytes != int64(len(b)) || p.Rank != 3 {
			t.Errorf("%+v, %v", p, err)
		}
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
}

func TestHeader(t *testing.T) {
	im := mixed()
	s, err := NewImageScanner("image", bytes.NewReader(im.Bytes()), -1)
	if err != nil {
		t.Fatal(err)
	}
	want := ImageHeader{
		ID:     UPID{0x7f0101, 0x66a00000, 43000, 1},
		Parent: UPID{0x7f0101, 0x66a00000, 41000, 1},
		Group:  UPID{0x7f0101, 0x669fffff, 40000, 1},
		Peers:  6, Name: "bt.A.4", Exe: "/opt/job/bin/bt.A.4",
	}
	if got := s.Header(); got != want {
		t.Errorf("header %+v, want %+v", got, want)
	}
	if got, want := "ckpt_bt.A.4_"+want.ID.String()+".dmtcp", im.FileName(); got != want {
		t.Errorf("file name %s, want %s", got, want)
	}
	im.PPID = dmtcptest.ID{}
	if s, err = NewImageScanner("image", bytes.NewReader(im.Bytes()), -1); err != nil || !s.Header().Root || s.Header().Parent != (UPID{}) {
		t.Errorf("header %+v of the root, %v", s.Header(), err)
	}
}

func TestAreaRecord(t *testing.T) {
	im := mixed()
	for i := range im.Areas {
		im.Areas[i].Device = uint64(i)<<32 | 7
	}
	s, err := NewImageScanner("image", bytes.NewReader(im.Bytes()), -1)
	if err != nil {
		t.Fatal(err)
	}
	var a *dmtcptest.Area
	areas, runs := 0, 0
	var next uint64
	for {
		rec, err := s.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if rec.Kind == FileHeader || rec.Kind == EndMarker {
			continue
		}
		want := AreaRecord{Properties: 4}
		zero := false
		if rec.Kind == AreaHeader {
			a = &im.Areas[areas]
			areas++
			runs, next = 0, a.Start
			want.Properties = 0
			if a.Runs != nil {
				want.Properties = 2
			}
			if a.Dropped {
				want.Properties, zero = 1, true
			}
			want.Start, want.End = a.Start, a.End
		} else {
			want.Start, want.End = next, next+uint64(a.Runs[runs].Pages)*zones.PageSize
			if zero = a.Runs[runs].Zero; zero {
				want.Properties |= 1
			}
			next = want.End
			runs++
		}
		want.Offset, want.Prot, want.Flags, want.Device = a.Offset, a.Prot, a.Flags, a.Device
		want.Inode, want.FileSize, want.Name = a.Inode, a.FileSize, a.Name
		if rec.Area != want || rec.Zero != zero {
			t.Errorf("record at %d: %+v, zero %t, want %+v, %t", rec.Offset, rec.Area, rec.Zero, want, zero)
		}
	}
	if areas != len(im.Areas) {
		t.Errorf("%d areas, want %d", areas, len(im.Areas))
	}
}

// TestReaderFails checks that an error of the reader is not mistaken for one of
// the image.
func TestReaderFails(t *testing.T) {
	b := mixed().Bytes()
	broken := errors.New("broken disk")
	for _, n := range []int{0, 1, 40, 5000, 20000, len(b) - 1, len(b)} {
		for _, in := range []io.Reader{
			io.MultiReader(bytes.NewReader(b[:n]), iotest.ErrReader(broken)),
			io.MultiReader(bytes.NewReader(compressed(t, b[:n])), iotest.ErrReader(broken)),
		} {
			if _, err := readAll(in, -1); !errors.Is(err, broken) {
				t.Errorf("after %d bytes: %v", n, err)
			}
		}
	}
}

func TestIsImage(t *testing.T) {
	b := mixed().Bytes()
	old := append([]byte("DMTCP_CHECKPOINT_IMAGE_v2.0\n"), make([]byte, 4096)...)
	for _, c := range []struct {
		name string
		head []byte
		want bool
	}{
		{"image", b[:512], true},
		{"beginning", b[:24], true},
		{"less", b[:23], false},
		{"nothing", nil, false},
		{"old", old, true},
		{"gzip", compressed(t, b)[:512], true},
		{"gzip of an old one", compressed(t, old), true},
		{"gzip of something else", compressed(t, b[100:]), false},
		{"gzip's magic alone", []byte{0x1f, 0x8b}, false},
		{"half", []byte{0x1f}, false},
		{"other", []byte("\x7fELF and so on, for as long as it takes"), false},
	} {
		if got := IsImage(c.head); got != c.want {
			t.Errorf("%s: %t, want %t", c.name, got, c.want)
		}
	}
}
