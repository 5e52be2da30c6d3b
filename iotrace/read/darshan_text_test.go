package read

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ckpt/iotrace"
	"ckpt/iotrace/iotracetest"
)

func TestReadText(t *testing.T) {
	f, err := os.Open(filepath.Join("testdata", "3.1.5-lustre.dxt"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got, rep, err := DarshanText(f, iotrace.Options{Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	ev := func(op iotrace.Op, m iotrace.Module, rank int32, off, n int64, start, end int64) iotrace.Event {
		return iotrace.Event{Op: op, Module: m, Rank: rank, Peer: iotrace.None, Offset: off, Bytes: n, Start: start * 1e5, End: end * 1e5}
	}
	want := &iotrace.Trace{
		Job: "./ior -a MPIIO -w -r", Source: "darshan", Origin: time.Date(2017, 1, 31, 16, 26, 39, 0, time.UTC),
		Ranks:      []iotrace.Rank{{Rank: 0, Node: "nid00011"}, {Rank: 1, Node: "nid00012"}},
		Files:      []string{"/scratch/a b, c/test.out"},
		Properties: []iotrace.Property{{Name: "user", Value: "1000"}, {Name: "job", Value: "25016"}, {Name: "processes", Value: "2"}},
		Events: []iotrace.Event{
			ev(iotrace.Write, iotrace.MPIIO, 0, iotrace.None, 4194304, 119, 212),
			ev(iotrace.Write, iotrace.POSIX, 0, 0, 1048576, 120, 131),
			ev(iotrace.Write, iotrace.POSIX, 1, 4194304, 1048576, 125, 140),
			ev(iotrace.Write, iotrace.POSIX, 0, 1048576, 1048576, 131, 150),
			ev(iotrace.Write, iotrace.POSIX, 0, 2097152, 2097152, 150, 211),
			ev(iotrace.Read, iotrace.MPIIO, 0, iotrace.None, 512, 999, 1001),
			ev(iotrace.Read, iotrace.POSIX, 0, 512, 512, 1000, 1000),
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(&iotrace.Report{Lines: 61}, rep); diff != "" {
		t.Error(diff)
	}
	if err := iotracetest.Valid(got); err != nil {
		t.Error(err)
	}
}

const textSample = `# darshan log version: 3.41
# exe: prog
# start_time: 1700000000
# nprocs: 1

# DXT, file_id: 1, file_name: /f
# DXT, rank: 0, hostname: n
# DXT, write_count: 2, read_count: 1
# DXT, mnt_pt: /, fs_type: ext4
# Module    Rank  Wt/Rd  Segment          Offset       Length    Start(s)      End(s)
 X_POSIX       0  write        0               0             100      0.0000      0.0001
 X_POSIX       0  write        1             100             100      0.0002     12.3456
 X_POSIX       0   read        0               0             200     13.0000     13.5000
`

// TestErrors reads texts that something is wrong with.
func TestTextErrors(t *testing.T) {
	with := func(old, new string) string {
		if !strings.Contains(textSample, old) {
			t.Fatalf("no %q", old)
		}
		return strings.Replace(textSample, old, new, 1)
	}
	const first = " X_POSIX       0  write        0               0             100      0.0000      0.0001\n"
	for _, c := range []struct {
		text, want string
		kind       error
	}{
		{"", "line 1: this is an empty file, not Darshan DXT text", iotrace.ErrWrongFormat},
		{"1 close(3) = 0\n", "line 1: this is output of strace, not Darshan DXT text", iotrace.ErrWrongFormat},
		{"hello\n", "line 1: this is not Darshan DXT text", iotrace.ErrWrongFormat},
		{"# darshan log version: 3.41\n" + strings.Repeat("# x\n", 2000) + "# description of columns:\n", "counters that darshan-parser prints", iotrace.ErrWrongFormat},
		{"# darshan log version: 3.41\n" + strings.Repeat("# x\n", 2000) + "POSIX\t0\t9\tPOSIX_OPENS\t1\t/f\t/\text4\n", "counters that darshan-parser prints", iotrace.ErrWrongFormat},
		{"# darshan log version: 3.41\n\n# no DXT module data available for this Darshan log.\n", "line 3: the log has no DXT data", nil},
		{textSample[:len(textSample)-1], "line 13: the last line has no end", iotrace.ErrTruncated},
		{textSample[:strings.LastIndex(textSample, " X_POSIX")], "line 12: the record of line 6 announces 2 writes and 1 reads; 2 and 0 are there", iotrace.ErrTruncated},
		{with(first, ""), "line 11: the segment is not the next one of its record", nil},
		{with("write        1", "write        2"), "line 12: the segment is not the next", nil},
		{with("read_count: 1", "read_count: 2"), "announces 2 writes and 2 reads", iotrace.ErrTruncated},
		{with("X_POSIX       0  write        1", "X_POSIX       1  write        1"), "line 12: the segment is of another rank", nil},
		{with("X_POSIX ", "X_STDIO "), "line 11: this is not a segment", nil},
		{with(" write        0", " wrote        0"), "neither write nor read", nil},
		{with("POSIX       0 ", "POSIX       x "), "invalid rank", nil},
		{with("write        0", "write       -1"), "number of the segment", nil},
		{with("            100             100", "             -1             100"), "line 12: offset -1 is negative", nil},
		{with("0.0002", "-0.002"), "line 12: the start is negative", nil},
		{with("            100             100", "             -2             100"), "line 12: offset -2 is negative", nil},
		{with("            100             100", "9223372036854775807             100"), "end beyond what a file can hold", nil},
		{with("            100             100", "9223372036854775808             100"), "invalid offset", nil},
		{with("100             100", "100            -100"), "length -100 is negative", nil},
		{with("100             100", "100             1x0"), "invalid length", nil},
		{with("12.3456", " 0.0001"), "line 12: ends 100000 ns before it starts", nil},
		{with("12.3456", "x.3456"), "invalid end", nil},
		{with("0.0002", "0.0b02"), "invalid start", nil},
		{with("# DXT, file_id: 1, file_name: /f\n", ""), "line 6: the line is outside of a record", nil},
		{with("file_name: /f", "file_name: "), "no file name", nil},
		{with("rank: 0, host", "rank: x, host"), "line 7: invalid rank", nil},
		{with("write_count: 2", "write_count: -2"), "line 8: invalid counts", nil},
		{with("1700000000", "-5"), "line 3: invalid start time", nil},
		{first + textSample, "line 1: this is not Darshan", iotrace.ErrWrongFormat},
		{"# DXT, file_id: 1, file_name: /f\nx\n" + strings.Repeat("y", 2<<20), "line 2: this is not a segment", nil},
		{"# darshan log version:\n" + first, "line 2: a segment in front of the first record", nil},
		{"# darshan log version:\n" + strings.Repeat("y", 2<<20), "line 2: the line is longer", nil},
	} {
		_, _, err := DarshanText(strings.NewReader(c.text), iotrace.Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) || c.kind != nil && !errors.Is(err, c.kind) {
			t.Errorf("%.60q: %v\nwant %s", c.text, err, c.want)
		}
	}
}

// TestCRLF reads a text that went through Windows.
func TestCRLF(t *testing.T) {
	want, _, err := DarshanText(strings.NewReader(textSample), iotrace.Options{Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	got, _, err := DarshanText(strings.NewReader(strings.ReplaceAll(textSample, "\n", "\r\n")), iotrace.Options{Strict: true})
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

func TestTextLenient(t *testing.T) {
	text := strings.Replace(textSample, "write        1             100", "write        1              -9", 1)
	tr, rep, err := DarshanText(strings.NewReader(text[:len(text)-1]), iotrace.Options{Lenient: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(tr.Events) != 1 || rep.Unknown != 1 || rep.Notes[0].Line != 12 || rep.Notes[0].Reason != "offset -9 is negative" || !errors.Is(rep.Cut, iotrace.ErrTruncated) {
		t.Errorf("%v, %+v", tr.Events, rep)
	}
	// Only that segment is left out: of the record, and of those behind it.
	tr, rep, err = DarshanText(strings.NewReader(text+textSample[strings.Index(textSample, "# DXT"):]), iotrace.Options{Lenient: true})
	if err != nil || len(tr.Events) != 2+3 || rep.Unknown != 1 || rep.Cut != nil {
		t.Errorf("%v, %+v, %v", tr.Events, rep, err)
	}
	// So it is with a record that lacks a line, and one whose counts are wrong.
	without := strings.Replace(textSample, "# DXT, write_count: 2", "# DXT, write_count: 3", 1)
	tr, rep, err = DarshanText(strings.NewReader(without+textSample[strings.Index(textSample, "# DXT"):]), iotrace.Options{Lenient: true})
	if err != nil || len(tr.Events) != 3+3 || rep.Unknown != 1 || rep.Notes[0].Line != 6 || rep.Cut != nil {
		t.Errorf("%v, %+v, %v", tr.Events, rep, err)
	}
	cut := strings.LastIndex(textSample, " X_POSIX")
	tr, rep, err = DarshanText(strings.NewReader(textSample[:cut]), iotrace.Options{Lenient: true})
	if err != nil || len(tr.Events) != 2 || !errors.Is(rep.Cut, iotrace.ErrTruncated) {
		t.Errorf("%v, %v, %v", tr.Events, rep, err)
	}
	broken := errors.New("broken")
	if _, _, err := DarshanText(io.MultiReader(strings.NewReader(textSample), failingLog{broken}), iotrace.Options{Lenient: true}); !errors.Is(err, broken) {
		t.Error(err)
	}
}

type failingLog struct{ err error }

func (f failingLog) Read([]byte) (int, error) { return 0, f.err }

// TestMerged reads columns without blanks between them, as Darshan prints large
// numbers, and with blanks where numbers exceed their columns.
func TestMerged(t *testing.T) {
	want := segment{write: true, offset: 1234567890123456, length: 1000000000000000,
		start: 12345.6e9, end: 1234567.8901e9}
	for _, l := range []string{
		" X_POSIX       0  write        012345678901234561000000000000000  12345.60001234567.8901",
		" X_POSIX       0  write        0 1234567890123456 1000000000000000 12345.6000 1234567.8901",
		" X_POSIX       0  write        01234567890123456 1000000000000000 12345.6000 1234567.8901",
	} {
		var got segment
		reason := got.parse([]byte(l), false)
		got.rest = nil
		if reason != "" || !reflect.DeepEqual(got, want) {
			if !strings.Contains(l, "write        01234567890123456 ") {
				t.Errorf("%q: %s %+v", l, reason, got)
			}
		} else if strings.Contains(l, "write        01234567890123456 ") {
			t.Errorf("%q was read", l)
		}
	}
	noOffset, short := segment{}, "  X_MPIIO 1234567   read1000000000000000000000  12345.60001234567.8901"
	if reason := noOffset.parse([]byte(short), true); reason == "" {
		t.Errorf("%q was read", short)
	}
	short = " X_MPIIO 1234567   read1000000001000000000000  12345.60001234567.8901"
	if reason := noOffset.parse([]byte(short), true); reason != "" || noOffset.length != 1e12 || noOffset.index != 1e8 {
		t.Errorf("%q: %s %+v", short, reason, noOffset)
	}
}

// TestVersions reads texts of all versions, and one that ckpt itself wrote.
func TestTextVersions(t *testing.T) {
	want := map[string]int{"3.1.5-lustre": 7, "3.6-threads": 0, "golden": 10}
	for name, text := range iotracetest.Files(t, "*.dxt") {
		tr, rep, err := DarshanText(bytes.NewReader(text), iotrace.Options{Strict: true})
		if err != nil || rep.Unknown > 0 {
			t.Fatalf("%s: %v", name, err)
		}
		base := strings.TrimSuffix(filepath.Base(name), ".dxt")
		if n := want[base]; n > 0 && len(tr.Events) != n || len(tr.Events) == 0 {
			t.Errorf("%s: %d events, want %d", name, len(tr.Events), n)
		}
		if base == "golden" && (tr.Source != "ckpt" || len(tr.Ranks) != 3) {
			t.Errorf("source %q, ranks %v", tr.Source, tr.Ranks)
		}
	}
}

// TestNoRecords reads a text that has nothing behind its head.
func TestTextNoRecords(t *testing.T) {
	head, _, _ := strings.Cut(textSample, "\n# DXT, file_id")
	tr, _, err := DarshanText(strings.NewReader(head), iotrace.Options{Strict: true})
	if err != nil || len(tr.Warnings) != 1 || tr.Warnings[0].Code != "no-records" {
		t.Errorf("%+v, %v", tr, err)
	}
	if tr, _, err = DarshanText(strings.NewReader(textSample), iotrace.Options{}); err != nil || len(tr.Warnings) != 0 {
		t.Errorf("%+v, %v", tr, err)
	}
}

// FuzzDXT reads arbitrary bytes as a text of darshan-dxt-parser.
func FuzzDXT(f *testing.F) {
	for _, b := range iotracetest.Files(f, "*.dxt") {
		f.Add(b)
		f.Add(b[:len(b)*2/3])
	}
	f.Add([]byte(textSample))
	f.Fuzz(func(t *testing.T, b []byte) {
		tr, rep, err := DarshanText(bytes.NewReader(b), iotrace.Options{})
		if err != nil {
			var fe *iotrace.FormatError
			if !errors.As(err, &fe) || fe.Line < 1 {
				t.Fatal(err)
			}
			tr, rep, err = DarshanText(bytes.NewReader(b), iotrace.Options{Lenient: true})
			if err == nil && rep.Unknown == 0 && rep.Cut == nil && !bytes.Contains(b, []byte("segment")) {
				// Only the numbers of segments are let pass without a word.
				if _, _, err := DarshanText(bytes.NewReader(b), iotrace.Options{}); err.(*iotrace.FormatError).Reason != "the segment is not the next one of its record" {
					t.Fatal("lenient says nothing")
				}
			}
		} else if rep.Unknown != 0 || rep.Cut != nil {
			t.Fatalf("%+v", rep)
		}
		if err == nil {
			if err := iotracetest.Valid(tr); err != nil {
				t.Fatal(err)
			}
		}
	})
}
