package read

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"

	"ckpt/iotrace"
	"ckpt/iotrace/export"
	"ckpt/iotrace/iotracetest"
)

const straceText = "10 1700000000.0 open(\"/f\", O_RDONLY) = 3 <0.1>\n"

const dxtText = `# darshan log version: 3.41
# exe: prog

# DXT, file_id: 1, file_name: /f
# DXT, rank: 0, hostname: n
# DXT, write_count: 2, read_count: 0
# Module    Rank  Wt/Rd  Segment          Offset       Length    Start(s)      End(s)
 X_POSIX       0  write        0               0             100      0.0000      0.0001
 X_POSIX       0  write        1             100             100      0.0002     12.3456
`

func writes(text string) func(io.Writer, *iotrace.Trace) error {
	return func(w io.Writer, _ *iotrace.Trace) error { _, err := io.WriteString(w, text); return err }
}

// TestAll writes a trace in all formats and opens them, by name and as a stream.
func TestAll(t *testing.T) {
	want := iotracetest.PerRank(2, 5, 1)
	dir := t.TempDir()
	for format, write := range map[iotrace.Format]func(io.Writer, *iotrace.Trace) error{
		iotrace.FormatEvents:  iotrace.WriteTrace,
		iotrace.FormatCSV:     export.WriteCSV,
		iotrace.FormatParquet: export.WriteParquet,
		iotrace.FormatDXT:     writes(dxtText),
		iotrace.FormatStrace:  writes(straceText),
	} {
		var buf bytes.Buffer
		if err := write(&buf, want); err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, "trace")
		if err := os.WriteFile(name, buf.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		check := func(how string, got *iotrace.Trace, rep *iotrace.Report, err error) {
			t.Helper()
			if err != nil || rep.Format != format {
				t.Errorf("%s, %v: %v, %v", how, format, rep.Format, err)
				return
			}
			if err := iotracetest.Valid(got); err != nil {
				t.Error(err)
			}
			switch format {
			case iotrace.FormatStrace:
				if len(got.Events) != 1 {
					t.Errorf("%s: %v", how, got.Events)
				}
			case iotrace.FormatDXT:
				if len(got.Events) != 2 || cap(got.Events) > 2+100 {
					t.Errorf("%s: %d events, room for %d", how, len(got.Events), cap(got.Events))
				}
			default:
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s, %v: %s", how, format, diff)
				}
			}
		}
		got, rep, err := File(name, iotrace.Options{Strict: true})
		check("file", got, rep, err)
		if format != iotrace.FormatParquet {
			checkPacked(t, format, buf.Bytes(), check)
			got, rep, err = Stream("-", iotest.HalfReader(&buf), iotrace.Options{Strict: true})
			check("stream", got, rep, err)
		}
	}
}

// checkPacked reads a trace that is packed, by any name and as a stream.
func checkPacked(t *testing.T, format iotrace.Format, b []byte, check func(string, *iotrace.Trace, *iotrace.Report, error)) {
	t.Helper()
	var gz, xzed, zst bytes.Buffer
	x, err := xz.NewWriter(&xzed)
	if err != nil {
		t.Fatal(err)
	}
	z, err := zstd.NewWriter(&zst)
	if err != nil {
		t.Fatal(err)
	}
	for how, p := range map[string]struct {
		w    io.WriteCloser
		into *bytes.Buffer
	}{"gzip": {gzip.NewWriter(&gz), &gz}, "xz": {x, &xzed}, "zstd": {z, &zst}} {
		_, err := p.w.Write(b)
		if err := errors.Join(err, p.w.Close()); err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(t.TempDir(), "packed")
		if err := os.WriteFile(name, p.into.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		told := int64(0)
		got, rep, err := File(name, iotrace.Options{Strict: true, Progress: func(n int64) { told = n }})
		if told != int64(p.into.Len()) {
			t.Errorf("%s of %v: progress of %d bytes of %d", how, format, told, p.into.Len())
		}
		if format != iotrace.FormatDXT {
			check(how, got, rep, err)
		}
		got, rep, err = Stream("-", iotest.HalfReader(bytes.NewReader(p.into.Bytes())), iotrace.Options{Strict: true})
		check(how+" stream", got, rep, err)
		// A cut file has what is in front.
		b := p.into.Bytes()[:p.into.Len()-10]
		if _, _, err := Stream("-", bytes.NewReader(b), iotrace.Options{}); err == nil {
			t.Errorf("%s of %v: a cut file is whole", how, format)
		}
		got, rep, err = Stream("-", bytes.NewReader(b), iotrace.Options{Lenient: true})
		if how != "zstd" && (err != nil || rep.Cut == nil || len(got.Events) == 0) {
			t.Errorf("%s of %v, cut: %v", how, format, err)
		}
	}
}

// TestBomb reads a small file that becomes a large one, in little memory.
func TestBomb(t *testing.T) {
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	io.WriteString(w, straceText)
	zeros := make([]byte, 1<<20)
	for range 256 {
		if _, err := w.Write(zeros); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, _, err := Stream("-", &buf, iotrace.Options{Lenient: true}); err != nil {
		t.Error(err)
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 32<<20 {
		t.Errorf("%d MiB", used>>20)
	}
}

func TestErrors(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "trace")
	if _, _, err := File(name, iotrace.Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if _, _, err := File(dir, iotrace.Options{}); err == nil {
		t.Error("a directory is a trace")
	}
	for _, c := range []struct {
		text, want string
		kind       error
	}{
		{"", ":1: this is an empty file; traces are", iotrace.ErrWrongFormat},
		{"hello, world\n", ":1: this is no trace; traces are", iotrace.ErrWrongFormat},
		{`{"traceEvents":[]}`, ":1: this JSON has neither rows with op", iotrace.ErrWrongFormat},
		{"3.41\x00\x00\x00\x00\x37\x35\x64\x00\x00\x00\x00\x00", ": offset 16: the header has 16 of 1328 bytes", iotrace.ErrTruncated},
		{straceText + "10 1600000000.0 sync() = 0\n", ":2: the clock runs backwards", nil},
		{straceText[:30], ":1: the last line has no end", iotrace.ErrTruncated},
		{"#ckpt-trace,1\n", ":1: the names of the columns are not there", iotrace.ErrTruncated},
		{"# darshan log version: 3\nx\n", ":2: a segment in front", nil},
		{"\x89CKTR\r\n\x1a", ": offset 8: the file ends in", iotrace.ErrTruncated},
		{"PAR1", ": offset 0: damaged Parquet", nil},
	} {
		if err := os.WriteFile(name, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, rep, err := File(name, iotrace.Options{})
		if err == nil || !strings.HasPrefix(err.Error(), name+c.want) || c.kind != nil && !errors.Is(err, c.kind) || rep == nil {
			t.Errorf("%q: %v", c.text, err)
		}
	}
	broken := errors.New("broken")
	if _, _, err := Stream("-", iotest.ErrReader(broken), iotrace.Options{}); !errors.Is(err, broken) || err.Error() != "-: broken" {
		t.Error(err)
	}
	if _, _, err := Stream("-", strings.NewReader("PAR1"), iotrace.Options{}); err == nil || !strings.HasPrefix(err.Error(), "-:1: this is a Parquet file") {
		t.Error(err)
	}
}

// TestPipe opens what is no regular file by its name.
func TestPipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	done := make(chan error, 1)
	go func() {
		_, err := io.WriteString(w, straceText)
		done <- errors.Join(err, w.Close())
	}()
	tr, _, err := File("/dev/fd/"+strconv.Itoa(int(r.Fd())), iotrace.Options{})
	if err := errors.Join(err, <-done); err != nil || len(tr.Events) != 1 {
		t.Error(tr, err)
	}
}

// TestDarshan reads logs from files and pipes, and names the version of old ones, which
// gzip has packed.
func TestDarshan(t *testing.T) {
	const name = "testdata/dxt.darshan"
	a, rep, err := File(name, iotrace.Options{})
	if err != nil || rep.Format != iotrace.FormatDarshan || len(a.Counters) == 0 || len(a.Events) == 0 {
		t.Fatalf("%+v, %v", rep, err)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	s, rep, err := Stream("-", bytes.NewReader(b), iotrace.Options{})
	if err != nil || rep.Format != iotrace.FormatDarshan || len(s.Counters) != len(a.Counters) || len(s.Events) != len(a.Events) {
		t.Errorf("%+v, %v", rep, err)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	z.Write([]byte("2.06\x00\x00\x00\x00\x37\x35\x64\x00\x00\x00\x00\x00"))
	z.Close()
	old := filepath.Join(t.TempDir(), "old.darshan.gz")
	if err := os.WriteFile(old, packed.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := File(old, iotrace.Options{}); !errors.Is(err, iotrace.ErrWrongFormat) || !strings.Contains(err.Error(), "log of Darshan 2.06") {
		t.Error(err)
	}
}
