package read

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"os/exec"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"

	"ckpt/internal/testkit"
	"ckpt/iotrace"
)

// helloBZ is "hello\n", packed by bzip2 1.0.8, which Go cannot pack for.
const helloBZ = "BZh91AY&SY\xc1\xc0\x80\xe2\x00\x00\x01\x41\x00\x00\x10\x02\x44\xa0\x00\x30\xcd\x00\xc3\x46\x29\x97\x17\x72\x45\x38\x50\x90\xc1\xc0\x80\xe2"

func pack(t testing.TB, how, text string) []byte {
	t.Helper()
	var buf bytes.Buffer
	var w io.WriteCloser
	var err error
	switch how {
	case "gzip":
		w = gzip.NewWriter(&buf)
	case "xz":
		w, err = xz.NewWriter(&buf)
	case "zstd":
		w, err = zstd.NewWriter(&buf)
	}
	if err == nil {
		_, err = io.WriteString(w, text)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestFormats(t *testing.T) {
	text := strings.Repeat("hello, world\n", 10_000)
	for _, how := range []string{"gzip", "xz", "zstd"} {
		b := pack(t, how, text)
		// Two packed files in a row are one, as for the programs.
		r := unpack(iotest.HalfReader(bytes.NewReader(append(bytes.Clone(b), b...))))
		got, err := io.ReadAll(r)
		if err != nil || string(got) != text+text || r.format != how || r.in.n != int64(2*len(b)) {
			t.Errorf("%s: %d bytes of %d, %v", how, len(got), r.in.n, err)
		}
		r.Close()
	}
	if got, err := io.ReadAll(unpack(strings.NewReader(helloBZ))); err != nil || string(got) != "hello\n" {
		t.Errorf("%q, %v", got, err)
	}
	for _, plain := range []string{"", "x", "hello", "BZh9", "\x1f\x8b"} {
		r := unpack(strings.NewReader(plain))
		if got, err := io.ReadAll(r); err != nil || string(got) != plain || r.format != "" {
			t.Errorf("%q: %q, %v", plain, got, err)
		}
	}
}

// TestPrograms unpacks what the programs pack with their strongest settings.
func TestPrograms(t *testing.T) {
	text := strings.Repeat("1 open 2 close\n", 1000)
	for _, args := range [][]string{{"gzip", "-9"}, {"bzip2", "-9"}, {"xz", "-9e"}, {"zstd", "-q", "--ultra", "-22"}} {
		if testkit.Left(t, args[0], args[0]) {
			continue
		}
		c := exec.Command(args[0], append(args[1:], "-c")...)
		c.Stdin = strings.NewReader(text)
		b, err := c.Output()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(unpack(bytes.NewReader(b))); err != nil || string(got) != text {
			t.Errorf("%v: %d bytes, %v", args, len(got), err)
		}
	}
}

// TestDamage cuts and changes packed files.
func TestDamage(t *testing.T) {
	text := strings.Repeat("hello, world\n", 1000)
	for _, how := range []string{"gzip", "xz", "zstd"} {
		b := pack(t, how, text)
		for n := 10; n < len(b); n++ {
			r := unpack(bytes.NewReader(b[:n]))
			got, err := io.ReadAll(r)
			var fe *iotrace.FormatError
			if !errors.As(err, &fe) || !strings.HasPrefix(text, string(got)) || fe.Offset > int64(n) {
				t.Fatalf("%s cut at %d: %d bytes, %v", how, n, len(got), err)
			}
			r.Close()
		}
		b[len(b)/2] ^= 0x10
		var fe *iotrace.FormatError
		if _, err := io.ReadAll(unpack(bytes.NewReader(b))); !errors.As(err, &fe) {
			t.Errorf("%s changed: %v", how, err)
		}
	}
	// The bytes in front of the cut are not lost.
	b := pack(t, "xz", text)
	if got, err := io.ReadAll(unpack(bytes.NewReader(b[:len(b)*3/4]))); !errors.Is(err, iotrace.ErrTruncated) || len(got) == 0 {
		t.Errorf("xz cut: %d bytes, %v", len(got), err)
	}
	broken := errors.New("broken")
	b = pack(t, "gzip", text)
	if _, err := io.ReadAll(unpack(io.MultiReader(bytes.NewReader(b[:30]), iotest.ErrReader(broken)))); !errors.Is(err, broken) {
		t.Error(err)
	}
}

// TestMemory refuses files that ask for much memory.
func TestMemory(t *testing.T) {
	b := pack(t, "xz", "hello")
	i := bytes.Index(b, []byte{0x21, 1})
	b[i+2] = 40                    // 4 GiB
	block := b[12:][:int(b[12])*4] // its header, behind which its checksum is
	binary.LittleEndian.PutUint32(b[12+len(block):], crc32.ChecksumIEEE(block))
	if _, err := io.ReadAll(unpack(bytes.NewReader(b))); err == nil || !strings.Contains(err.Error(), "of memory") {
		t.Error(err)
	}
	b = []byte{0x28, 0xb5, 0x2f, 0xfd, 0, 0xff, 0, 0, 0, 0, 0}
	if _, err := io.ReadAll(unpack(bytes.NewReader(b))); err == nil {
		t.Error("a window of 4 TiB")
	}
}

func FuzzUnpack(f *testing.F) {
	for _, how := range []string{"gzip", "xz", "zstd"} {
		f.Add(pack(f, how, "hello, world\n"))
	}
	f.Add([]byte(helloBZ))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := unpack(bytes.NewReader(b))
		defer r.Close()
		var fe *iotrace.FormatError
		if _, err := io.Copy(io.Discard, io.LimitReader(r, 1<<20)); err != nil && !errors.As(err, &fe) {
			t.Fatal(err)
		}
	})
}
