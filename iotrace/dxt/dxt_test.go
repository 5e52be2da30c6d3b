package dxt

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"ckpt/iotrace"
	"ckpt/iotrace/iotracetest"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestRead(t *testing.T) {
	f, err := os.Open(filepath.Join("testdata", "3.1.5-lustre.txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got, rep, err := Read(f, iotrace.Options{Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	ev := func(op iotrace.Op, m iotrace.Module, rank int32, off, n int64, start, end int64) iotrace.Event {
		return iotrace.Event{Op: op, Module: m, Rank: rank, Peer: iotrace.None, Offset: off, Bytes: n, Start: start * tick, End: end * tick}
	}
	want := &iotrace.Trace{
		Job: "./ior -a MPIIO -w -r", Source: "darshan", Origin: time.Date(2017, 1, 31, 16, 26, 39, 0, time.UTC),
		Ranks: []iotrace.Rank{{Rank: 0, Node: "nid00011"}, {Rank: 1, Node: "nid00012"}},
		Files: []string{"/scratch/a b, c/test.out"},
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

// TestIdentity passes texts of all versions through a Log.
func TestIdentity(t *testing.T) {
	for name, text := range iotracetest.Files(t, "*.txt") {
		if g := passOn(t, text); verbatim(g) > 0 {
			t.Errorf("%s: %d segments had to be kept as they are", name, verbatim(g))
		}
	}
	passOn(t, []byte(strings.ReplaceAll(sample, "\n", "\r\n")))
	// Lines that Darshan would not print so pass as well.
	odd := strings.NewReplacer(" X_POSIX       0  write        0", "X_POSIX 0 write 0", "12.3456", "12.3456789").Replace(sample)
	if g := passOn(t, []byte(odd)); verbatim(g) == 0 {
		t.Error("odd lines went unnoticed")
	}
}

type fataler interface {
	Helper()
	Fatal(...any)
}

// passOn reads a text and checks that it comes out as it was.
func passOn(t fataler, text []byte) *Log {
	t.Helper()
	g, err := ReadLog(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	n, err := g.WriteTo(&out)
	if err != nil || n != int64(out.Len()) {
		t.Fatal(n, err)
	}
	if diff := cmp.Diff(string(text), out.String()); diff != "" {
		t.Fatal(diff)
	}
	return g
}

func verbatim(g *Log) (n int) {
	for _, p := range g.parts {
		for _, s := range p.segments {
			if s.verbatim {
				n++
			}
		}
	}
	return n
}

const sample = `# darshan log version: 3.41
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
func TestErrors(t *testing.T) {
	with := func(old, new string) string {
		if !strings.Contains(sample, old) {
			t.Fatalf("no %q", old)
		}
		return strings.Replace(sample, old, new, 1)
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
		{sample[:len(sample)-1], "line 13: the last line has no end", iotrace.ErrTruncated},
		{sample[:strings.LastIndex(sample, " X_POSIX")], "line 12: the record of line 6 announces 2 writes and 1 reads; 2 and 0 are there", iotrace.ErrTruncated},
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
		{first + sample, "line 1: this is not Darshan", iotrace.ErrWrongFormat},
		{"# DXT, file_id: 1, file_name: /f\nx\n" + strings.Repeat("y", 2<<20), "line 2: this is not a segment", nil},
		{"# darshan log version:\n" + first, "line 2: a segment in front of the first record", nil},
		{"# darshan log version:\n" + strings.Repeat("y", 2<<20), "line 2: the line is longer", nil},
	} {
		_, _, err := Read(strings.NewReader(c.text), iotrace.Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) || c.kind != nil && !errors.Is(err, c.kind) {
			t.Errorf("%.60q: %v\nwant %s", c.text, err, c.want)
		}
		if _, again := ReadLog(strings.NewReader(c.text)); again == nil || err == nil || again.Error() != err.Error() {
			t.Errorf("%v, as a log %v", err, again)
		}
	}
}

// TestCRLF reads a text that went through Windows.
func TestCRLF(t *testing.T) {
	want, _, err := Read(strings.NewReader(sample), iotrace.Options{Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	got, _, err := Read(strings.NewReader(strings.ReplaceAll(sample, "\n", "\r\n")), iotrace.Options{Strict: true})
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

// TestOriginWithinSecond writes events of jobs that do not begin with a second,
// which the format has no place for: they stay where they are.
func TestOriginWithinSecond(t *testing.T) {
	for start, want := range map[int64]int64{0: 1000, 5e8: 1000, -7e8: 1000, -95e7: 999, -19e8: 999, -2e9: 998} {
		tr := &iotrace.Trace{Origin: time.Unix(1000, 9e8).UTC(), Ranks: []iotrace.Rank{{}}, Files: []string{"/f"},
			Events: []iotrace.Event{{Op: iotrace.Write, Peer: iotrace.None, Bytes: 1, Start: start, End: start + 1e9}}}
		var b bytes.Buffer
		if _, err := Write(&b, tr); err != nil {
			t.Fatal(err)
		}
		got, _, err := Read(&b, iotrace.Options{})
		if err != nil {
			t.Fatal(err)
		}
		at := got.Origin.Add(time.Duration(got.Events[0].Start))
		if got.Origin.Unix() != want || !at.Equal(tr.Origin.Add(time.Duration(start))) {
			t.Errorf("%d ns: the job begins at %v, the event at %v", start, got.Origin, at)
		}
	}
}

// TestBeforeOrigin writes events that begin before the origin: the job begins
// earlier in the text.
func TestBeforeOrigin(t *testing.T) {
	tr := &iotrace.Trace{Origin: time.Unix(1000, 0).UTC(), Ranks: []iotrace.Rank{{}}, Files: []string{"/f"},
		Events: []iotrace.Event{{Op: iotrace.Write, Peer: iotrace.None, Start: -1.5e9, End: 2e9}}}
	var text bytes.Buffer
	if _, err := Write(&text, tr); err != nil {
		t.Fatal(err)
	}
	got, _, err := Read(&text, iotrace.Options{Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	if e := got.Events[0]; got.Origin.Unix() != 998 || e.Start != 5e8 || e.End != 4e9 {
		t.Error(got.Origin, e)
	}
}

func TestLenient(t *testing.T) {
	text := strings.Replace(sample, "write        1             100", "write        1              -9", 1)
	tr, rep, err := Read(strings.NewReader(text[:len(text)-1]), iotrace.Options{Lenient: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(tr.Events) != 1 || rep.Unknown != 1 || rep.Notes[0].Line != 12 || rep.Notes[0].Reason != "offset -9 is negative" || !errors.Is(rep.Cut, iotrace.ErrTruncated) {
		t.Errorf("%v, %+v", tr.Events, rep)
	}
	// Only that segment is left out: of the record, and of those behind it.
	tr, rep, err = Read(strings.NewReader(text+sample[strings.Index(sample, "# DXT"):]), iotrace.Options{Lenient: true})
	if err != nil || len(tr.Events) != 2+3 || rep.Unknown != 1 || rep.Cut != nil {
		t.Errorf("%v, %+v, %v", tr.Events, rep, err)
	}
	// So it is with a record that lacks a line, and one whose counts are wrong.
	without := strings.Replace(sample, "# DXT, write_count: 2", "# DXT, write_count: 3", 1)
	tr, rep, err = Read(strings.NewReader(without+sample[strings.Index(sample, "# DXT"):]), iotrace.Options{Lenient: true})
	if err != nil || len(tr.Events) != 3+3 || rep.Unknown != 1 || rep.Notes[0].Line != 6 || rep.Cut != nil {
		t.Errorf("%v, %+v, %v", tr.Events, rep, err)
	}
	cut := strings.LastIndex(sample, " X_POSIX")
	tr, rep, err = Read(strings.NewReader(sample[:cut]), iotrace.Options{Lenient: true})
	if err != nil || len(tr.Events) != 2 || !errors.Is(rep.Cut, iotrace.ErrTruncated) {
		t.Errorf("%v, %v, %v", tr.Events, rep, err)
	}
	broken := errors.New("broken")
	if _, _, err := Read(io.MultiReader(strings.NewReader(sample), failing{broken}), iotrace.Options{Lenient: true}); !errors.Is(err, broken) {
		t.Error(err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error)  { return 0, f.err }
func (f failing) Write([]byte) (int, error) { return 0, f.err }

// TestMerged reads columns without blanks between them, as Darshan prints large
// numbers.
func TestMerged(t *testing.T) {
	s := segment{write: true, index: 0, offset: 1234567890123456, length: 1000000000000000}
	var got segment
	s.start, s.end = 12345.6e9, 1234567.8901e9
	l := s.append(nil, layouts[0])
	if want := " X_POSIX       0  write        012345678901234561000000000000000  12345.60001234567.8901"; string(l) != want {
		t.Errorf("%q\n%q", l, want)
	}
	if reason := got.parse(l, false); reason != "" || got.offset != s.offset || got.length != s.length || got.end != s.end {
		t.Errorf("%s %+v", reason, got)
	}
	// Numbers that exceed their columns are kept apart.
	s.start = 1234567890 * 1e9
	s.end = s.start
	l = s.append(nil, layouts[0])
	if want := " X_POSIX       0  write        0 1234567890123456 1000000000000000 1234567890.0000 1234567890.0000"; string(l) != want {
		t.Errorf("%q\n%q", l, want)
	}
	if reason := got.parse(l, false); reason != "" || got.offset != s.offset || got.start != s.start {
		t.Errorf("%s %+v", reason, got)
	}
}

// anyTrace draws reads and writes, and some other events, at times that DXT can
// hold.
func anyTrace() *rapid.Generator[*iotrace.Trace] {
	return rapid.Custom(func(t *rapid.T) *iotrace.Trace {
		tr := &iotrace.Trace{Job: rapid.StringMatching(`[a-z ]{1,9}[a-z]`).Draw(t, "job"), Source: rapid.SampledFrom([]string{"darshan", "ckpt"}).Draw(t, "source"), Origin: time.Unix(rapid.Int64Range(1, 1<<33).Draw(t, "start"), 0).UTC()}
		tr.Job = strings.TrimSpace(tr.Job)
		tr.Ranks = rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) iotrace.Rank {
			return iotrace.Rank{Rank: rapid.OneOf(rapid.IntRange(0, 9), rapid.Int()).Draw(t, "rank"), Node: rapid.SampledFrom([]string{"", "n0", "a, b"}).Draw(t, "node")}
		}), 1, 4, rapid.ID[iotrace.Rank]).Draw(t, "ranks")
		tr.Files = rapid.SliceOfNDistinct(rapid.StringMatching(`[ -~]{1,12}`), 1, 4, rapid.ID[string]).Draw(t, "files")
		at := int64(0)
		for range rapid.IntRange(0, 30).Draw(t, "events") {
			e := iotrace.Event{
				Op:     rapid.SampledFrom([]iotrace.Op{iotrace.Read, iotrace.Write, iotrace.Write, iotrace.Open, iotrace.Sync}).Draw(t, "op"),
				Module: iotrace.Module(rapid.IntRange(0, 1).Draw(t, "module")),
				Rank:   int32(rapid.IntRange(0, len(tr.Ranks)-1).Draw(t, "rank")),
				File:   int32(rapid.IntRange(0, len(tr.Files)-1).Draw(t, "file")),
				Peer:   iotrace.None,
				Offset: rapid.OneOf(rapid.Int64Range(-1, 1<<40), rapid.Int64Range(-1, math.MaxInt64)).Draw(t, "offset"),
				Bytes:  rapid.OneOf(rapid.Int64Range(0, 1<<20), rapid.Int64Range(0, math.MaxInt64)).Draw(t, "bytes"),
			}
			e.Bytes = min(e.Bytes, math.MaxInt64-max(e.Offset, 0))
			at += rapid.Int64Range(0, 1e9).Draw(t, "step")
			e.Start = at
			e.End = at + rapid.OneOf(rapid.Int64Range(0, 1e9), rapid.Int64Range(0, 1e17)).Draw(t, "length")
			tr.Events = append(tr.Events, e)
		}
		return tr
	})
}

// TestExport writes traces, reads them, and writes them again.
func TestExport(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := anyTrace().Draw(t, "trace")
		var text bytes.Buffer
		left, err := Write(&text, want)
		if err != nil {
			t.Fatal(err)
		}
		passOn(t, text.Bytes())
		got, _, err := Read(bytes.NewReader(text.Bytes()), iotrace.Options{Strict: true})
		if err != nil {
			t.Fatalf("%v\n%s", err, text.String())
		}
		if err := iotracetest.Valid(got); err != nil {
			t.Fatal(err)
		}
		if int(left)+len(got.Events) != len(want.Events) || got.Job != want.Job || !got.Origin.Equal(want.Origin) {
			t.Fatalf("%d and %d of %d events, job %q, origin %v", left, len(got.Events), len(want.Events), got.Job, got.Origin)
		}
		if diff := cmp.Diff(content(want), content(got)); diff != "" {
			t.Fatal(diff)
		}
		var again bytes.Buffer
		// Read again, it is the same but for processes that did nothing.
		if _, err := Write(&again, got); err != nil {
			t.Fatal(err)
		}
		withoutRanks := regexp.MustCompile(`# nprocs: \d+\n`)
		if diff := cmp.Diff(withoutRanks.ReplaceAllString(text.String(), ""), withoutRanks.ReplaceAllString(again.String(), "")); diff != "" {
			t.Fatal(diff)
		}
		again.Reset()
		back := &iotrace.Trace{Job: want.Job, Source: want.Source, Origin: want.Origin, Ranks: want.Ranks, Files: want.Files, Events: got.Events}
		for i := range back.Events {
			e := &back.Events[i]
			e.Rank = indexOf(want.Ranks, got.Ranks[e.Rank])
			e.File = indexOf(want.Files, got.Files[e.File])
		}
		if _, err := Write(&again, back); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(afterHead(text.String()), afterHead(again.String())); diff != "" {
			t.Fatal(diff)
		}
	})
}

func afterHead(s string) string {
	_, s, _ = strings.Cut(s, "\n\n")
	return s
}

func indexOf[T comparable](list []T, x T) int32 {
	for i := range list {
		if list[i] == x {
			return int32(i)
		}
	}
	return -1
}

// content is what DXT keeps of a trace, in an order of its own.
func content(t *iotrace.Trace) map[string]int {
	out := make(map[string]int)
	for _, e := range t.Events {
		if e.Op.Data() {
			out[fmt.Sprintf("%v %v %v %q %d %d %d %d", e.Op, e.Module, t.Ranks[e.Rank], t.Files[e.File], e.Offset, e.Bytes, round(e.Start), round(e.End))]++
		}
	}
	return out
}

// TestGolden checks what is written byte by byte.
func TestGolden(t *testing.T) {
	tr := &iotrace.Trace{Job: "bt.A.4\nx", Source: "ckpt", Origin: time.Date(2026, 10, 5, 9, 0, 0, 5e8, time.UTC),
		Ranks: []iotrace.Rank{{Rank: 0, Node: "n0"}, {Rank: 1, Node: "n1"}}, Files: []string{"/store/a", "/store/b\nc"}}
	for i := range 12 {
		e := iotrace.Event{Op: iotrace.Write, Rank: int32(i % 2), File: int32(i / 6), Peer: iotrace.None, Offset: int64(i) << 20, Bytes: 1 << 20, Start: int64(i) * 1e6, End: int64(i)*1e6 + 12345678}
		switch i {
		case 3, 4:
			e.Op = iotrace.Read
		case 5:
			e.Op, e.Offset = iotrace.Sync, iotrace.None
		case 7:
			e.Module, e.Offset = iotrace.MPIIO, iotrace.None
		case 8:
			e.Rank = iotrace.None
		case 9:
			e.File = iotrace.None
		}
		tr.Events = append(tr.Events, e)
	}
	var text bytes.Buffer
	left, err := Write(&text, tr)
	if err != nil || left != 2 {
		t.Fatal(left, err)
	}
	iotracetest.SameAs(t, "golden.txt", text.Bytes(), *update)
	broken := errors.New("broken")
	if _, err := Write(failing{broken}, tr); !errors.Is(err, broken) {
		t.Error(err)
	}
	g := passOn(t, text.Bytes())
	if _, err := g.WriteTo(failing{broken}); !errors.Is(err, broken) {
		t.Error(err)
	}
}

// TestNoRecords reads a text that has nothing behind its head.
func TestNoRecords(t *testing.T) {
	head, _, _ := strings.Cut(sample, "\n# DXT, file_id")
	tr, _, err := Read(strings.NewReader(head), iotrace.Options{Strict: true})
	if err != nil || len(tr.Warnings) != 1 || tr.Warnings[0].Code != "no-records" {
		t.Errorf("%+v, %v", tr, err)
	}
	if tr, _, err = Read(strings.NewReader(sample), iotrace.Options{}); err != nil || len(tr.Warnings) != 0 {
		t.Errorf("%+v, %v", tr, err)
	}
}
