package export

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"ckpt/iotrace"
	"ckpt/iotrace/iotracetest"
)

// TestJSONBack reads what was written. Names that nothing uses are lost.
func TestJSONBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := iotracetest.Any().Draw(t, "trace")
		want.Warnings = []iotrace.Warning{{Code: "c", Text: "t", Count: 2}}
		var first, second bytes.Buffer
		if err := WriteJSON(&first, want); err != nil {
			t.Fatal(err)
		}
		got, _, err := ReadJSON(bytes.NewReader(first.Bytes()), iotrace.Options{Strict: true})
		if err != nil {
			t.Fatalf("%v\n%s", err, first.String())
		}
		got.Ranks, got.Files = append(got.Ranks, make([]iotrace.Rank, len(want.Ranks)-len(got.Ranks))...), append(got.Files, make([]string, len(want.Files)-len(got.Files))...)
		if err := WriteJSON(&second, got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(first.String(), second.String()); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestJSONErrors(t *testing.T) {
	const good = `{"type":"event","op":"write","rank":3,"file":"/f","offset":5,"bytes":7,"start_ns":1,"end_ns":2}` + "\n"
	pretty := strings.ReplaceAll(strings.ReplaceAll(good, ",", ",\n  "), ":", ": ")
	if got, _, err := ReadJSON(strings.NewReader(pretty+good), iotrace.Options{}); err != nil || len(got.Events) != 2 {
		t.Error(err)
	}
	for bad, want := range map[string]string{
		good[:50]: "line 2: the last line has no end",
		"x":       "line 2: invalid JSON",
		`{"type":"event","op":"wrote","start_ns":1,"end_ns":2}`:              "line 2: the operation",
		`{"type":"event","op":"write","start_ns":1}`:                         "line 2: invalid end",
		`{"type":"event","op":"write","start_ns":3,"end_ns":2}`:              "line 2: ends 1 ns before",
		`{"type":"event","op":"write","start_ns":1.5,"end_ns":2}`:            "line 2: invalid start",
		`{"type":"event","op":"write","start_ns":1,"end_ns":2,"offset":-1}`:  "line 2: the offset",
		`{"type":"event","op":"write","start_ns":1,"end_ns":2,"module":"x"}`: "line 2: unknown module",
		`{"type":"event","op":{},"start_ns":1,"end_ns":2}`:                   "line 2: op is neither",
		`{"type":"other"}`: "line 2: type",
		"[1]":              "line 2: the line is no object",
		`{"type":"trace","origin":"1960-01-01T00:00:00Z"}`: "line 2: invalid origin",
	} {
		_, _, err := ReadJSON(strings.NewReader(good+bad), iotrace.Options{})
		var fe *iotrace.FormatError
		if !errors.As(err, &fe) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", bad, err)
		}
		got, rep, err := ReadJSON(strings.NewReader(good+bad), iotrace.Options{Lenient: true})
		if err != nil || len(got.Events) != 1 || rep.Cut == nil && rep.Unknown != 1 {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// TestJSONLenient leaves broken objects out, and nothing else.
func TestJSONLenient(t *testing.T) {
	const good = `{"type":"event","op":"write","file":"/f","bytes":7,"start_ns":1,"end_ns":2}` + "\n"
	pretty := strings.ReplaceAll(good, ",", ",\n  ")
	for _, broken := range []string{
		good[:30] + "\n",                  // cut in a string
		good[:34] + "\n",                  // cut behind it: open
		good[40:],                         // the end of one
		"\x00\x00\x00\n",                  // zeros in place of text
		strings.Replace(good, ",", "", 1), // a comma is missing
		pretty[:40] + "\n",
	} {
		got, rep, err := ReadJSON(strings.NewReader(good+broken+good+pretty+broken+good), iotrace.Options{Lenient: true})
		if err != nil || rep.Cut != nil {
			t.Errorf("%q: %v %v", broken, err, rep.Cut)
			continue
		}
		if len(got.Events) != 4 || rep.Unknown < 2 || rep.Notes[0].Line != 2 {
			t.Errorf("%q: %d events, %d left out, %v", broken, len(got.Events), rep.Unknown, rep.Notes)
		}
	}
	got, rep, err := ReadJSON(strings.NewReader(good+good[:50]), iotrace.Options{Lenient: true})
	if err != nil || len(got.Events) != 1 || !errors.Is(rep.Cut, iotrace.ErrTruncated) {
		t.Error(got, rep, err)
	}
}

// TestJSONOthers reads what pandas and Python's json write.
func TestJSONOthers(t *testing.T) {
	for _, l := range []string{
		`{"type":"event","op":"write","module":null,"create":null,"rank":3.0,"node":null,"file":"\u002ff","offset":5.0,"bytes":7,"start_ns":1,"end_ns":2}`,
		`{"type": "event", "op": "write", "rank": 3, "file": "/f", "offset": 5, "bytes": 7, "start_ns": 1, "end_ns": 2, "note": [{"a": "}"}]}`,
		`{"end_ns":2,"type":"event","op":"write","rank":3,"file":"/f","offset":5,"bytes":7,"start_ns":1}` + "\r",
	} {
		got, _, err := ReadJSON(strings.NewReader(l+"\n"), iotrace.Options{})
		if err != nil {
			t.Errorf("%s: %v", l, err)
			continue
		}
		want := iotrace.Event{Op: iotrace.Write, Peer: iotrace.None, Offset: 5, Bytes: 7, Start: 1, End: 2}
		if len(got.Events) != 1 || got.Events[0] != want || got.Ranks[0] != (iotrace.Rank{Rank: 3}) || got.Files[0] != "/f" {
			t.Errorf("%s: %+v", l, got)
		}
	}
}

// FuzzJSONScan compares the scanner with encoding/json on all lines that it takes.
func FuzzJSONScan(f *testing.F) {
	var buf bytes.Buffer
	if err := WriteJSON(&buf, iotracetest.Golden()); err != nil {
		f.Fatal(err)
	}
	n := 0
	for l := range bytes.Lines(buf.Bytes()) {
		if l = bytes.TrimSuffix(l, []byte("\n")); n%20 == 1 {
			f.Add(l)
		}
		if n++; n > 1 && !scanObject(l, make([][]byte, numFields)) {
			f.Errorf("our own line is not taken: %s", l)
		}
	}
	f.Add([]byte(`{"rank": -0,"create":true , "file":"" }`))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, want := make([][]byte, numFields), make([][]byte, numFields)
		if bytes.IndexByte(b, '\n') >= 0 || !scanObject(b, got) {
			return
		}
		d := json.NewDecoder(bytes.NewReader(b))
		if _, reason, err := decodeObject(d, want); err != nil || reason != "" {
			t.Fatalf("%q: %s %v", b, reason, err)
		}
		for i := range want {
			if string(got[i]) != string(want[i]) {
				t.Errorf("%q: %s is %q, not %q", b, fieldNames[i], got[i], want[i])
			}
		}
		if _, _, err := decodeObject(d, want); err != io.EOF {
			t.Errorf("%q: there is more: %v", b, err)
		}
	})
}

// FuzzJSON reads arbitrary bytes. Accepted texts are valid.
func FuzzJSON(f *testing.F) {
	var buf bytes.Buffer
	if err := WriteJSON(&buf, iotracetest.Golden()); err != nil {
		f.Fatal(err)
	}
	f.Add(buf.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		got, _, err := ReadJSON(bytes.NewReader(b), iotrace.Options{Lenient: true})
		if err != nil {
			return
		}
		if err := iotracetest.Valid(got); err != nil {
			t.Fatal(err)
		}
	})
}
