package export

import (
	"bytes"
	"io"
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
		Renames: []iotrace.Renaming{{From: 0, To: 1, At: 3}}, Striping: []iotrace.Striping{{File: 0, Size: 4, Count: 1, OSTs: []int64{2}, End: iotrace.None}}}
	for i := range odd {
		want.Events = append(want.Events, iotrace.Event{Op: iotrace.Write, File: int32(i), Peer: iotrace.None, Bytes: 1, Start: int64(i), End: int64(i)})
	}
	plain := *want
	plain.Striping = nil
	for _, c := range []struct {
		format string
		want   *iotrace.Trace
		write  func(io.Writer, *iotrace.Trace) error
		read   func(io.Reader, iotrace.Options) (*iotrace.Trace, *iotrace.Report, error)
	}{{"JSON lines", want, WriteJSON, ReadJSON}, {"CSV", &plain, WriteCSV, ReadCSV}} {
		var b bytes.Buffer
		if err := c.write(&b, c.want); err != nil {
			t.Fatal(err)
		}
		if !utf8.Valid(b.Bytes()) {
			t.Errorf("%s is no UTF-8:\n%q", c.format, b.Bytes())
		}
		got, _, err := c.read(&b, iotrace.Options{})
		if err != nil {
			t.Fatal(c.format, err)
		}
		if diff := cmp.Diff(c.want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: %s", c.format, diff)
		}
	}
}
