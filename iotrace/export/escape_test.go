package export

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"ckpt/iotrace"
)

// odd are names that differ in bytes that are no UTF-8, and others that look like them.
var odd = []string{"x-\xff.dat", "x-\xfe.dat", `x-\xff.dat`, `x-\x5cxff.dat`, `back\slash\x.dat`, "ä\uFFFD.dat"}

func TestEscape(t *testing.T) {
	want := []string{`x-\xff.dat`, `x-\xfe.dat`, `x-\x5cxff.dat`, `x-\x5cx5cxff.dat`, `back\slash\x.dat`, "ä\uFFFD.dat"}
	for i, name := range odd {
		if got := escaped(name); got != want[i] {
			t.Errorf("%q: got %s, want %s", name, got, want[i])
		}
	}
	piece := rapid.SampledFrom([]string{`\`, "x", "f", "5", "c", "\xff", "\xc3", "ä", `\x80`})
	rapid.Check(t, func(t *rapid.T) {
		name := strings.Join(rapid.SliceOf(piece).Draw(t, "pieces"), "")
		text := escaped(name)
		if !utf8.ValidString(text) || unescaped(text) != name {
			t.Fatalf("%q becomes %q, and that %q", name, text, unescaped(text))
		}
	})
}

// TestOddNames writes and reads names that are no UTF-8.
func TestOddNames(t *testing.T) {
	want := &iotrace.Trace{Job: "j\xff", Source: "s", Ranks: []iotrace.Rank{{Rank: 0, Node: "n\xff"}}, Files: odd,
		Renames: []iotrace.Renaming{{From: 0, To: 1, At: 3}}}
	for i := range odd {
		want.Events = append(want.Events, iotrace.Event{Op: iotrace.Write, File: int32(i), Peer: iotrace.None, Bytes: 1, Start: int64(i), End: int64(i)})
	}
	var b bytes.Buffer
	if err := WriteCSV(&b, want); err != nil {
		t.Fatal(err)
	}
	if !utf8.Valid(b.Bytes()) {
		t.Errorf("no UTF-8:\n%q", b.Bytes())
	}
	got, _, err := ReadCSV(&b, iotrace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
}
