package export

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"ckpt/iotrace"
	"ckpt/iotrace/iotracetest"
)

// ofOthers reads a file that another program wrote.
func ofOthers(t *testing.T, name string) (*iotrace.Trace, *iotrace.Report) {
	b, err := os.ReadFile(filepath.Join("testdata", "others", name))
	if err != nil {
		t.Fatal(err)
	}
	var tr *iotrace.Trace
	var rep *iotrace.Report
	switch f := iotrace.Detect(b[:min(len(b), iotrace.HeadBytes)]); f {
	case iotrace.FormatCSV:
		tr, rep, err = ReadCSV(bytes.NewReader(b), iotrace.Options{})
	case iotrace.FormatJSON:
		tr, rep, err = ReadJSON(bytes.NewReader(b), iotrace.Options{})
	case iotrace.FormatParquet:
		tr, rep, err = ReadParquet(bytes.NewReader(b), int64(len(b)), iotrace.Options{})
	default:
		t.Fatalf("%s: seen as %v", name, f)
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return tr, rep
}

// TestOthers reads what DuckDB 1.5.6, polars (nodejs-polars 0.25) and pandas 1.5.3 have made
// of CSV and Parquet of ckpt: the same rows.
func TestOthers(t *testing.T) {
	names, err := filepath.Glob("testdata/others/[dp][uoa][cln]*") // duck, polars, pandas
	if err != nil || len(names) < 13 {
		t.Fatal(names, err)
	}
	want, err := os.ReadFile("testdata/others/base.csv")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		tr, rep := ofOthers(t, filepath.Base(name))
		var got bytes.Buffer
		if err := WriteRows(&got, tr); err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(string(want), got.String()); diff != "" || rep.Unknown > 0 || len(rep.Others) > 0 {
			t.Errorf("%s: %v %s", name, rep, diff)
		}
	}
}

// TestRecorder reads the columns of recorder2parquet, which has no offsets and rounds times
// to single precision.
func TestRecorder(t *testing.T) {
	got, rep := ofOthers(t, "recorder.parquet")
	want, _ := ofOthers(t, "base.csv")
	if len(got.Events) != len(want.Events) || rep.Others["MPI_Barrier"] != 1 || len(got.Warnings) != 1 || got.Warnings[0].Count != 28 {
		t.Fatalf("%d events, %v, %v", len(got.Events), rep.Others, got.Warnings)
	}
	if got.Events[0].Op != iotrace.Open || got.Events[2].Bytes != 64 || got.Events[2].Offset != iotrace.None || got.Events[33].Module != iotrace.STDIO {
		t.Errorf("%+v", got.Events)
	}
	for i, e := range got.Events {
		if d := e.Start - want.Events[i].Start; d > 100 || d < -100 {
			t.Errorf("event %d begins %d ns late", i, d)
		}
	}
}

func TestDFTracer(t *testing.T) {
	got, rep := ofOthers(t, "dftracer.pfw")
	event := func(op iotrace.Op, m iotrace.Module, rank, file int32, off, n, start, end int64) iotrace.Event {
		return iotrace.Event{Op: op, Module: m, Rank: rank, File: file, Peer: iotrace.None, Offset: off, Bytes: n, Start: start, End: end}
	}
	want := []iotrace.Event{
		event(iotrace.Open, iotrace.POSIX, 0, 0, iotrace.None, 0, 0, 30e3),
		event(iotrace.Read, iotrace.POSIX, 0, 0, iotrace.None, 65536, 100e3, 150e3),
		event(iotrace.Read, iotrace.POSIX, 1, 0, 8192, 1000, 300e3, 340e3),
		event(iotrace.Read, iotrace.STDIO, 1, 1, iotrace.None, 4096, 400e3, 440e3),
	}
	if diff := gocmp.Diff(want, got.Events); diff != "" {
		t.Error(diff)
	}
	if diff := gocmp.Diff([]iotrace.Rank{{Rank: 812, Node: "node7"}, {Rank: 5, Node: "node7"}}, got.Ranks); diff != "" {
		t.Error(diff)
	}
	if got.Files[0] != `/data/img "1".npz` || got.Files[1] != "/data/late.bin" || got.Origin.UnixNano() != 1700000000000100*1000 {
		t.Error(got.Files, got.Origin)
	}
	if rep.Failed != 1 || rep.Others["mkdir"] != 1 || len(got.Warnings) != 1 || got.Warnings[0].Count != 2 {
		t.Error(rep, got.Warnings)
	}
	// Nanoseconds, as newer versions may have, names in each event, as older ones do, and
	// commas behind the lines, as the format wants.
	const other = `[{"name":"CM","ph":"M","pid":1,"args":{"name":"time_metric","value":"NS"}},
{"name":"write","cat":"POSIX","pid":"1","tid":"1","ts":5000,"dur":7,"ph":"X","args":{"hostname":"n","fname":"/f","size":10,"offset":3}},
]`
	tr, _, err := ReadJSON(strings.NewReader(other), iotrace.Options{})
	if err != nil || len(tr.Events) != 1 {
		t.Fatal(tr, err)
	}
	if diff := gocmp.Diff(event(iotrace.Write, iotrace.POSIX, 0, 0, 3, 10, 5000, 5007), tr.Events[0]); diff != "" || tr.Ranks[0] != (iotrace.Rank{Rank: 1, Node: "n"}) {
		t.Error(diff, tr.Ranks)
	}
}

// TestProcessesOfNodes: two nodes have a process of the same number, with ranks of their own
// or none; a name of a node in each event is its name, even if it looks like a hash.
func TestProcessesOfNodes(t *testing.T) {
	text := "[\n"
	for i, hash := range []string{"a1", "b2"} {
		text += fmt.Sprintf(`{"name":"HH","ph":"M","pid":7,"args":{"name":"node%d","value":"%s"}}`+"\n", i, hash)
		text += fmt.Sprintf(`{"name":"PR","ph":"M","pid":7,"args":{"hhash":"%s","name":"rank","value":"%d"}}`+"\n", hash, 5+i)
		for _, pid := range []int{7, 8} {
			text += fmt.Sprintf(`{"name":"write","cat":"POSIX","ph":"X","pid":%d,"ts":1,"dur":1,"args":{"hhash":"%s","hostname":"long%d","fname":"/f","ret":5}}`+"\n", pid, hash, i)
		}
	}
	text += `{"name":"write","cat":"POSIX","ph":"X","pid":9,"ts":1,"dur":1,"args":{"hostname":"beef","fname":"/f","ret":5}}` + "\n"
	tr, _, err := ReadJSON(strings.NewReader(text), iotrace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := []iotrace.Rank{{Rank: 5, Node: "node0"}, {Rank: 6, Node: "node1"}, {Rank: 8, Node: "node0"}, {Rank: 8, Node: "node1"}, {Rank: 9, Node: "beef"}}
	got := slices.SortedFunc(slices.Values(tr.Ranks), func(a, b iotrace.Rank) int {
		return cmp.Or(a.Rank-b.Rank, strings.Compare(a.Node, b.Node))
	})
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestCalledTimes: times come as a program writes doubles.
func TestCalledTimes(t *testing.T) {
	for text, want := range map[string]int64{
		`1.25`: 1250, `"1.25"`: 1250, `-0.5`: -500, `-3.25`: -3250, `2e3`: 2e6, `1.5E-1`: 150, `-25e-2`: -250,
		`1.7000000000001e15`: 1_700_000_000_000_100_000, `0.0004`: 0, `1e-400000000`: 0, `0e0`: 0,
	} {
		got, ok := (&calls{unit: 1000}).time(json.RawMessage(text))
		if !ok || got != want {
			t.Errorf("%s: %d ns, %v, want %d", text, got, ok, want)
		}
	}
	for _, text := range []string{`null`, ``, `""`, `1e400000000`, `1e30`, `"NaN"`, `-9e18`, `9e18`, `"1.x"`, `99999999999999999999`} {
		if got, ok := (&calls{unit: 1000}).time(json.RawMessage(text)); ok {
			t.Errorf("%s: %d ns", text, got)
		}
	}
}

// TestLongFirstLine: a line is one however long it is.
func TestLongFirstLine(t *testing.T) {
	const row = `{"op":"write","start_ns":1,"end_ns":2,"bytes":3,"file":"%s"}` + "\n"
	text := fmt.Sprintf(row+row, "/"+strings.Repeat("long/", 2*iotrace.HeadBytes/5), "/f")
	tr, _, err := ReadJSON(strings.NewReader(text), iotrace.Options{})
	if err != nil || len(tr.Events) != 2 || len(tr.Files) != 2 {
		t.Error(tr, err)
	}
}

// TestChromeBack reads what WriteChrome writes: the events, with times on its grid.
func TestChromeBack(t *testing.T) {
	for _, want := range []*iotrace.Trace{iotracetest.PerRank(4, 30, 2), iotracetest.Golden()} {
		var b bytes.Buffer
		if err := WriteChrome(&b, want); err != nil {
			t.Fatal(err)
		}
		got, _, err := ReadJSON(&b, iotrace.Options{})
		if err != nil || len(got.Events) != len(want.Events) || got.Job != want.Job || got.Source != want.Source {
			t.Fatal(len(got.Events), len(want.Events), err)
		}
		sum := func(tr *iotrace.Trace) map[string]int64 {
			m := make(map[string]int64)
			for _, e := range tr.Events {
				name := ""
				if e.File != iotrace.None {
					name = tr.Files[e.File]
				}
				if e.Rank != iotrace.None {
					name += " " + tr.Ranks[e.Rank].Node
				}
				m[e.Op.String()+" "+name] += e.Bytes + 3*e.Offset + int64(e.Checkpoint)
			}
			return m
		}
		if diff := gocmp.Diff(sum(want), sum(got)); diff != "" {
			t.Error(diff)
		}
	}
}

// TestJSONRows: the lines that WriteJSONRows writes are the rows of a CSV.
func TestJSONRows(t *testing.T) {
	want := iotracetest.PerRank(4, 30, 2)
	var rows, lines bytes.Buffer
	if err := WriteRows(&rows, want); err != nil {
		t.Fatal(err)
	}
	if err := WriteJSONRows(&lines, want); err != nil {
		t.Fatal(err)
	}
	a, _, err := ReadCSV(&rows, iotrace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b, _, err := ReadJSON(&lines, iotrace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(a, b, cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
}

func TestJSONErrors(t *testing.T) {
	const row = `{"op":"write","start_ns":1,"end_ns":2,"bytes":3}` + "\n"
	for text, want := range map[string]string{
		"{}":                               "the row has no column op",
		`[{"name":"x","ph":"B","ts":1}]`:   "has neither rows",
		row + `{"op":"write","start_ns":1`: "the last line has no end",
		row + "{]\n":                       "line 2: the line is no object",
		"[\n\n{\"op\":\"write\",\n\"start_ns\":1,\"end_ns\":2},\n{\"op\":\"write\"}]": "object 2: invalid start",
		"[\n{\n\"op\":\"write\",\n\"start_ns\":]":                                     "object 1: damaged: ",
		row + `{"op":"write","end_ns":2}` + "\n":                                      "line 2: invalid start",
		row + `{"opp":"write"}` + "\n":                                                "line 2: the row has no column op",
		`[` + "\n " + strings.TrimSpace(row) + "," + "\n":                             "",
		"[\n  {\n \"op\": \"write\", \"start_ns\": 1":                                 "the JSON ends early",
		`{"name":"write","cat":"POSIX","ph":"X","ts":1,"dur":1,"args":{}}`:            "neither ret nor size",
		`{"name":"write","cat":"POSIX","ph":"X","ts":1,"args":{"ret":5}}`:             "no duration",
	} {
		_, _, err := ReadJSON(strings.NewReader(text), iotrace.Options{})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	tr, rep, err := ReadJSON(strings.NewReader(row+"{]\n"+row), iotrace.Options{Lenient: true})
	if err != nil || len(tr.Events) != 2 || rep.Unknown != 1 {
		t.Error(tr, rep, err)
	}
}

func FuzzReadJSON(f *testing.F) {
	b, err := os.ReadFile("testdata/others/dftracer.pfw")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"traceEvents":[{"ph":"X"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, lenient := range []bool{false, true} {
			if tr, _, err := ReadJSON(bytes.NewReader(b), iotrace.Options{Lenient: lenient}); err == nil {
				var out bytes.Buffer
				if err := iotrace.WriteTrace(&out, tr); err != nil {
					t.Error(err)
				}
			}
		}
	})
}

// TestNoOffsets: a table without offsets says so, whatever wrote it.
func TestNoOffsets(t *testing.T) {
	const csv = "op,start_ns,end_ns,bytes%s\nwrite,1,2,3%s\nopen,1,2,0%s\n"
	for text, want := range map[string]int64{
		fmt.Sprintf(csv, "", "", ""):                                                                       1,
		fmt.Sprintf(csv, ",offset", ",", ","):                                                              0, // at a position that moves
		fmt.Sprintf(csv, ",offset", ",7", ","):                                                             0,
		`{"op":"write","start_ns":1,"end_ns":2,"bytes":3}` + "\n":                                          1,
		`{"op":"write","start_ns":1,"end_ns":2,"bytes":3,"offset":0}` + "\n":                               0,
		`{"name":"write","cat":"POSIX","ph":"X","ts":1,"dur":1,"args":{"ret":5,"fname":"/f"}}`:             1,
		`{"name":"pwrite","cat":"POSIX","ph":"X","ts":1,"dur":1,"args":{"ret":5,"fname":"/f","offset":0}}`: 0,
	} {
		read := ReadCSV
		if text[0] == '{' {
			read = ReadJSON
		}
		tr, _, err := read(strings.NewReader(text), iotrace.Options{})
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		var n int64
		for _, w := range tr.Warnings {
			n += w.Count
		}
		if n != want {
			t.Errorf("%s: %d operations without an offset, want %d", text, n, want)
		}
	}
}
