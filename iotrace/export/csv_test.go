package export

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"ckpt/iotrace"
	"ckpt/iotrace/iotracetest"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestCSV(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := iotracetest.Any().Draw(t, "trace")
		var buf bytes.Buffer
		if err := WriteCSV(&buf, want); err != nil {
			t.Fatal(err)
		}
		text := buf.String()
		got, rep, err := ReadCSV(iotest.HalfReader(strings.NewReader(text)), iotrace.Options{Strict: true})
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("%s\n%s", diff, text)
		}
		if rep.Lines != int64(strings.Count(text, "\n")) || rep.Unknown != 0 || rep.Cut != nil {
			t.Fatalf("%+v", rep)
		}
	})
}

func TestCSVGolden(t *testing.T) {
	var buf bytes.Buffer
	if err := WriteCSV(&buf, iotracetest.Golden()); err != nil {
		t.Fatal(err)
	}
	iotracetest.SameAs(t, "golden.csv", buf.Bytes(), *update)
}

// TestCSVForeign reads a CSV that another program has made.
func TestCSVForeign(t *testing.T) {
	text := csvColumns + "\r\nwrite,POSIX,,,7,n0,\"/a,\"\"b\"\"\",,,0,0,0,10,5,9\r\n\nread,MPIIO,data,,8,,/c,7,n0,2,1,,3,1,2\n"
	tr, _, err := ReadCSV(strings.NewReader(text), iotrace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := &iotrace.Trace{
		Ranks: []iotrace.Rank{{Rank: 7, Node: "n0"}, {Rank: 8}},
		Files: []string{`/a,"b"`, "/c"},
		Events: []iotrace.Event{
			{Op: iotrace.Read, Module: iotrace.MPIIO, Zone: 2, Rank: 1, File: 1, Peer: 0, Checkpoint: 2, Round: 1, Offset: iotrace.None, Bytes: 3, Start: 1, End: 2},
			{Op: iotrace.Write, Rank: 0, File: 0, Peer: iotrace.None, Bytes: 10, Start: 5, End: 9},
		},
	}
	if diff := cmp.Diff(want, tr); diff != "" {
		t.Error(diff)
	}
}

const csvSample = "#ckpt-trace,1\n#job,j\n#source,s\n#origin,2026-10-20T12:00:00Z\n#rank,3,n\n#file,/f\n" + csvColumns + "\n" +
	"write,POSIX,data,,3,n,/f,,,1,0,0,100,5,9\n" +
	"close,POSIX,,1,3,n,/f,,,1,0,,0,9,9\n" +
	"#end,2\n"

func TestCSVErrors(t *testing.T) {
	with := func(old, new string) string {
		if !strings.Contains(csvSample, old) {
			t.Fatalf("no %q", old)
		}
		return strings.Replace(csvSample, old, new, 1)
	}
	row := func(new string) string { return with("write,POSIX,data,,3,n,/f,,,1,0,0,100,5,9", new) }
	for _, c := range []struct {
		text, want string
		kind       error
	}{
		{"", "line 1: this is an empty file, not a CSV trace of ckpt", iotrace.ErrWrongFormat},
		{"# darshan log version: 3.41\n", "line 1: this is Darshan DXT text, not a CSV trace of ckpt", iotrace.ErrWrongFormat},
		{"1 close(3) = 0\n", "line 1: this is output of strace, not a CSV trace of ckpt", iotrace.ErrWrongFormat},
		{"a,b,c\n1,2,3\n", "line 1: this is not a CSV trace of ckpt", iotrace.ErrWrongFormat},
		{csvSample[:len(csvSample)-1], "line 10: the last line has no end", iotrace.ErrTruncated},
		{with("#end,2\n", ""), "line 9: the end is not there", iotrace.ErrTruncated},
		{csvSample[:40], "line 4: the last line has no end", iotrace.ErrTruncated},
		{csvSample[:strings.Index(csvSample, "op,")], "line 6: the names of the columns are not there", iotrace.ErrTruncated},
		{with("#end,2", "#end,3"), "line 10: the number of events", nil},
		{csvSample + "x\n", "line 11: there is more behind the end", nil},
		{with("trace,1", "trace,2"), "line 1: version 2 is not known", nil},
		{with("#job,j", "#bob,j"), "line 2: unknown line that begins with #", nil},
		{with("#job,j", "#job,j,k"), "line 2: unknown line that begins with #", nil},
		{with("#job,j", "#end,0"), "line 2: #end is not in its place", nil},
		{with("#end,2", "#job,2"), "line 10: #job is not in its place", nil},
		{with("#job,j", "#ckpt-trace,1"), "line 2: #ckpt-trace is not in its place", nil},
		{with("2026-10-20T", "2026-13-20T"), "line 4: invalid origin", nil},
		{with("#rank,3,n", "#rank,3,n\n#rank,3,n"), "line 6: the rank is listed twice", nil},
		{with("#rank,3", "#rank,x"), "line 5: invalid rank", nil},
		{with("#file,/f", "#file,/f\n#file,/f"), "line 7: the file is listed twice", nil},
		{with("#file,/f", "#file,"), "line 6: the file has no name", nil},
		{with("op,module,zone", "op,op,zone"), "line 7: column op is there twice", nil},
		{with(",end_ns", ",end"), "line 7: column end_ns is missing", nil},
		{row("write,POSIX"), "line 8: the line has not as many fields", nil},
		{row("wrote,POSIX,data,,3,n,/f,,,1,0,0,100,5,9"), "line 8: the operation is unknown", nil},
		{row("write,POSIY,data,,3,n,/f,,,1,0,0,100,5,9"), "line 8: unknown module", nil},
		{row("write,POSIX,5x,,3,n,/f,,,1,0,0,100,5,9"), "line 8: the zone", nil},
		{row("write,POSIX,data,2,3,n,/f,,,1,0,0,100,5,9"), "line 8: create", nil},
		{row("write,POSIX,data,,x,n,/f,,,1,0,0,100,5,9"), "line 8: invalid rank", nil},
		{row("write,POSIX,data,,,n,/f,,,1,0,0,100,5,9"), "line 8: invalid rank", nil},
		{row("write,POSIX,data,,3,n,/f,x,,1,0,0,100,5,9"), "line 8: invalid peer", nil},
		{row("write,POSIX,data,,3,n,/f,,,-1,0,0,100,5,9"), "line 8: invalid checkpoint", nil},
		{row("write,POSIX,data,,3,n,/f,,,1,2147483648,0,100,5,9"), "line 8: invalid round", nil},
		{row("write,POSIX,data,,3,n,/f,,,1,0,-1,100,5,9"), "line 8: the offset is negative", nil},
		{row("write,POSIX,data,,3,n,/f,,,1,0,9223372036854775808,100,5,9"), "line 8: invalid offset", nil},
		{row("write,POSIX,data,,3,n,/f,,,1,0,9223372036854775807,100,5,9"), "line 8: 100 bytes at offset 9223372036854775807 end beyond", nil},
		{row("write,POSIX,data,,3,n,/f,,,1,0,0,x,5,9"), "line 8: invalid bytes", nil},
		{row("write,POSIX,data,,3,n,/f,,,1,0,0,-100,5,9"), "line 8: length -100 is negative", nil},
		{row("write,POSIX,data,,3,n,/f,,,1,0,0,100,,9"), "line 8: invalid start", nil},
		{row("write,POSIX,data,,3,n,/f,,,1,0,0,100,5,"), "line 8: invalid end", nil},
		{row("write,POSIX,data,,3,n,/f,,,1,0,0,100,5,4"), "line 8: ends 1 ns before it starts", nil},
		{row(`write,POSIX,data,,3,n,"/f"x,,,1,0,0,100,5,9`), "line 8: a quote is in the wrong place", nil},
		{row(`write,POSIX,data,,3,n,x"/f",,,1,0,0,100,5,9`), "line 8: a quote is in the wrong place", nil},
		{row(`write,POSIX,data,,3,n,"/f,,,1,0,0,100,5,9`), "line 10: the record from line 8 on has no end", iotrace.ErrTruncated},
		{row(`write,"` + strings.Repeat("x\n", 600_000) + `"`), "the record from line 8 on is longer than", nil},
	} {
		_, _, err := ReadCSV(strings.NewReader(c.text), iotrace.Options{})
		var fe *iotrace.FormatError
		if !errors.As(err, &fe) || !strings.HasPrefix(err.Error(), c.want) && !strings.Contains(err.Error(), "longer") || c.kind != nil && !errors.Is(err, c.kind) {
			t.Errorf("%.300q: %v\nwant %s", c.text, err, c.want)
		}
	}
}

func TestCSVLenient(t *testing.T) {
	text := strings.Replace(csvSample, "write,POSIX", "wrote,POSIX", 1)
	tr, rep, err := ReadCSV(strings.NewReader(text), iotrace.Options{Lenient: true})
	if err != nil || len(tr.Events) != 1 || rep.Unknown != 1 || rep.Notes[0] != (iotrace.Note{Line: 8, Text: "wrote,POSIX,data,,3,n,/f,,,1,0,0,100,5,9", Reason: "the operation is unknown"}) || rep.Cut != nil {
		t.Errorf("%v, %+v", err, rep)
	}
	tr, rep, err = ReadCSV(strings.NewReader(csvSample[:len(csvSample)-10]), iotrace.Options{Lenient: true})
	if err != nil || len(tr.Events) != 1 || !errors.Is(rep.Cut, iotrace.ErrTruncated) {
		t.Errorf("%v, %+v", err, rep)
	}
	if _, _, err := ReadCSV(strings.NewReader(csvSample[:40]), iotrace.Options{Lenient: true}); err == nil {
		t.Error("a trace without columns")
	}
	broken := errors.New("broken")
	if _, _, err := ReadCSV(io.MultiReader(strings.NewReader(csvSample), iotest.ErrReader(broken)), iotrace.Options{Lenient: true}); !errors.Is(err, broken) {
		t.Error(err)
	}
}

// TestCSVRows reads rows that other programs have written anew: in another order, with
// fewer and more columns, quotes, fractions and Windows line ends.
func TestCSVRows(t *testing.T) {
	text := "\ufeff\"\",\"end_ns\",\"file\",\"op\",\"rank\",\"offset\",\"start_ns\",\"bytes\",\"create\"\r\n" +
		"\"7\",\"30.0\",\"/b\",\"write\",\"1.0\",\"NaN\",\"2e1\",\"4096.0\",\"False\"\r\n" +
		"3,12,/a,open,,,10,0,True\r\n"
	got, _, err := ReadCSV(strings.NewReader(text), iotrace.Options{Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	want := &iotrace.Trace{Ranks: []iotrace.Rank{{Rank: 1}}, Files: []string{"/b", "/a"}, Events: []iotrace.Event{
		{Op: iotrace.Open, Create: true, Rank: iotrace.None, File: 1, Peer: iotrace.None, Offset: iotrace.None, Start: 10, End: 12},
		{Op: iotrace.Write, Rank: 0, File: 0, Peer: iotrace.None, Offset: iotrace.None, Bytes: 4096, Start: 20, End: 30}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, half := range []string{"1.5", "1e300", "x"} {
		if _, _, err := ReadCSV(strings.NewReader(strings.Replace(text, "4096.0", half, 1)), iotrace.Options{}); err == nil {
			t.Errorf("%s bytes", half)
		}
	}
	var buf bytes.Buffer
	if err := WriteRows(&buf, iotracetest.Golden()); err != nil {
		t.Fatal(err)
	}
	rows, _, err := ReadCSV(&buf, iotrace.Options{Strict: true})
	if err != nil || len(rows.Events) != len(iotracetest.Golden().Events) {
		t.Error(err)
	}
}

// limited fails after some bytes.
type limited struct{ left int }

func (l *limited) Write(p []byte) (int, error) {
	if l.left -= len(p); l.left < 0 {
		return 0, io.ErrClosedPipe
	}
	return len(p), nil
}

// TestWriteErrors lets writing fail at any place.
func TestWriteErrors(t *testing.T) {
	tr := iotracetest.PerRank(4, 300, 2)
	for name, write := range writers {
		var buf bytes.Buffer
		if err := write(&buf, tr); err != nil {
			t.Fatal(err)
		}
		for n := 0; n < buf.Len(); n += 1 + buf.Len()/9 {
			if err := write(&limited{n}, tr); !errors.Is(err, io.ErrClosedPipe) {
				t.Errorf("%s, %d of %d bytes: %v", name, n, buf.Len(), err)
			}
		}
	}
}

var writers = map[string]func(io.Writer, *iotrace.Trace) error{"csv": WriteCSV, "parquet": WriteParquet, "chrome": WriteChrome}

// TestEmpty writes a trace of nothing.
func TestEmpty(t *testing.T) {
	for name, write := range writers {
		var buf bytes.Buffer
		if err := write(&buf, &iotrace.Trace{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var got *iotrace.Trace
		var err error
		switch name {
		case "csv":
			got, _, err = ReadCSV(&buf, iotrace.Options{})
		case "parquet":
			got, _, err = ReadParquet(bytes.NewReader(buf.Bytes()), int64(buf.Len()), iotrace.Options{})
		default:
			continue
		}
		if err != nil || cmp.Diff(&iotrace.Trace{}, got, cmpopts.EquateEmpty()) != "" {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// FuzzCSV reads arbitrary bytes as CSV. Accepted texts are valid, and stay the same
// after being written again.
func FuzzCSV(f *testing.F) {
	f.Add([]byte(csvSample))
	f.Add([]byte(csvColumns + "\r\nwrite,POSIX,,,7,n0,\"/a,\"\"b\"\"\",,,0,0,0,10,5,9\r\n\n"))
	var buf bytes.Buffer
	if err := WriteCSV(&buf, iotracetest.Golden()); err != nil {
		f.Fatal(err)
	}
	f.Add(buf.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		tr, rep, err := ReadCSV(bytes.NewReader(b), iotrace.Options{Lenient: true})
		var fe *iotrace.FormatError
		if err != nil {
			if !errors.As(err, &fe) || fe.Line < 1 {
				t.Fatal(err)
			}
			return
		}
		if err := iotracetest.Valid(tr); err != nil {
			t.Fatal(err)
		}
		if _, _, err := ReadCSV(bytes.NewReader(b), iotrace.Options{}); (err == nil) != (rep.Cut == nil && rep.Unknown == 0) {
			t.Fatalf("%v; lenient %+v", err, rep)
		}
		var buf bytes.Buffer
		if err := WriteCSV(&buf, tr); err != nil {
			t.Fatal(err)
		}
		again, _, err := ReadCSV(&buf, iotrace.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tr, again, cmpopts.EquateEmpty()); diff != "" {
			t.Fatal(diff)
		}
	})
}

// Spreadsheets, R and pandas write the same rows in their own forms.
func TestCSVOfOthers(t *testing.T) {
	const plain = "op,rank,node,file,offset,bytes,start_ns,end_ns\n" +
		"open,3,,/f,,0,1234567000,1234567100\n" +
		"write,3,,/f,0,4096,1234567200,1234568000\n"
	want, _, err := ReadCSV(strings.NewReader(plain), iotrace.Options{})
	if err != nil || len(want.Events) != 2 {
		t.Fatal(want, err)
	}
	semicolons := strings.ReplaceAll(plain, ",", ";")
	for name, text := range map[string]string{
		"semicolons":      semicolons,
		"tabs":            strings.ReplaceAll(plain, ",", "\t"),
		"sep=;":           "sep=;\r\n" + strings.ReplaceAll(semicolons, "\n", "\r\n"),
		"BOM and sep=;":   "\ufeffsep=;\n" + semicolons,
		"exponents":       strings.ReplaceAll(strings.ReplaceAll(plain, "4096", "4.096E+03"), "1234567000", "1.234567e9"),
		"fractions":       strings.ReplaceAll(plain, "4096", "4096.0"),
		"decimal commas":  strings.ReplaceAll(semicolons, "4096", "4096,0"),
		"thousands":       strings.NewReplacer("1234567", "1.234.567.", "1234568", "1.234.568.").Replace(semicolons),
		"quoted":          strings.ReplaceAll(plain, "1234567000", "\"1,234,567,000\""),
		"NA":              strings.ReplaceAll(strings.ReplaceAll(plain, "/f,,0", "/f,NA,0"), "3,,", "3,NA,"),
		"NaN":             strings.ReplaceAll(plain, "/f,,0", "/f,NaN,0"),
		"index of pandas": ",op,rank,node,file,offset,bytes,start_ns,end_ns\n0,open,3,,/f,,0,1234567000,1234567100\n1,write,3,,/f,0,4096,1234567200,1234568000\n",
	} {
		if f := iotrace.Detect([]byte(text)); f != iotrace.FormatCSV {
			t.Errorf("%s: seen as %v", name, f)
		}
		got, _, err := ReadCSV(strings.NewReader(text), iotrace.Options{})
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	for text, want := range map[string]string{
		strings.ReplaceAll(semicolons, "4096", "4.096"):          "invalid bytes: 4.096 may be thousands or a fraction",
		strings.ReplaceAll(plain, "4096", "\"4,096\""):           "invalid bytes: 4,096 may be thousands or a fraction",
		strings.ReplaceAll(plain, "1234567000", "1.7012345E+18"): "invalid start: 1.7012345E+18 has lost digits",
		strings.ReplaceAll(plain, "4096", "4096.5"):              "invalid bytes",
	} {
		if _, _, err := ReadCSV(strings.NewReader(text), iotrace.Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
