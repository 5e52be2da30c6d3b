package source

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"ckpt/iotrace"
	"ckpt/iotrace/dxt"
	"ckpt/iotrace/export"
	"ckpt/iotrace/iotracetest"
)

const straceText = "10 1700000000.0 open(\"/f\", O_RDONLY) = 3 <0.1>\n"

// TestAll writes a trace in all formats and opens them, by name and as a stream.
func TestAll(t *testing.T) {
	want := iotracetest.PerRank(2, 5, 1)
	dir := t.TempDir()
	for format, write := range map[iotrace.Format]func(io.Writer, *iotrace.Trace) error{
		iotrace.FormatEvents:  iotrace.WriteTrace,
		iotrace.FormatCSV:     export.WriteCSV,
		iotrace.FormatParquet: export.WriteParquet,
		iotrace.FormatDXT:     func(w io.Writer, t *iotrace.Trace) error { _, err := dxt.Write(w, t); return err },
		iotrace.FormatStrace:  func(w io.Writer, _ *iotrace.Trace) error { _, err := io.WriteString(w, straceText); return err },
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
				if len(got.Events) != 10 || cap(got.Events) > 10+100 {
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
			got, rep, err = Stream("-", iotest.HalfReader(&buf), iotrace.Options{Strict: true})
			check("stream", got, rep, err)
		}
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
		{"hello, world\n", ":1: this is something else; traces are", iotrace.ErrWrongFormat},
		{`{"traceEvents":[]}`, ":1: this is JSON; traces are", iotrace.ErrWrongFormat},
		{"3.41\x00\x00\x00\x00\x37\x35\x64\x00\x00\x00\x00\x00", ":1: this is a binary Darshan log (print it with darshan-dxt-parser)", iotrace.ErrWrongFormat},
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
