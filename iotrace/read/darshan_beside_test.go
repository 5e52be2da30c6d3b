package read

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"ckpt/iotrace"
	"ckpt/iotrace/export"
)

// TestBeside: the file beside a CSV says what its rows do not, of chosen rows as well; a
// warning must not get lost on the way through another program.
func TestBeside(t *testing.T) {
	tr := &iotrace.Trace{Job: "ior", Source: "strace", Origin: time.Unix(1700000000, 0).UTC(), Runtime: 90 * time.Second,
		Ranks: []iotrace.Rank{{Rank: 0, Node: "a"}, {Rank: 1, Node: "b"}}, Files: []string{"unused", "f", "g"},
		Properties: []iotrace.Property{{Name: "job", Value: "77"}},
		Warnings:   []iotrace.Warning{{Code: "io_uring", Text: "missing", Count: 5, Files: []iotrace.WarnedFile{{File: 2, Count: 4}, {File: 0, Count: 1}}}},
		Events: []iotrace.Event{{Op: iotrace.Write, File: 1, Peer: iotrace.None, Bytes: 7, End: 5},
			{Op: iotrace.Write, File: 2, Peer: iotrace.None, Bytes: 9, Start: 6, End: 9}}}
	name := filepath.Join(t.TempDir(), "t.csv")
	write := func(name string, from func(*bytes.Buffer) error) {
		t.Helper()
		var buf bytes.Buffer
		if err := from(&buf); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, buf.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(name, func(b *bytes.Buffer) error { return export.WriteRows(b, tr) })
	write(name+".meta.json", func(b *bytes.Buffer) error { return export.WriteMeta(b, tr) })
	got, _, err := File(name, iotrace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := *tr
	want.Files = []string{"f", "g"}
	want.Warnings = []iotrace.Warning{{Code: "io_uring", Text: "missing", Count: 5, Files: []iotrace.WarnedFile{{File: 1, Count: 4}}}}
	want.Events = append([]iotrace.Event{}, tr.Events...)
	want.Events[0].File, want.Events[1].File = 0, 1
	if diff := cmp.Diff(&want, got); diff != "" {
		t.Error(diff)
	}
	// Of chosen rows neither the run time nor idle ranks are known.
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(whole), "\n")
	write(name, func(b *bytes.Buffer) error { _, err := b.WriteString(lines[0] + lines[1]); return err })
	got, _, err = File(name, iotrace.Options{})
	if err != nil || got.Runtime != 0 || len(got.Ranks) != 1 || got.Job != "ior" || len(got.Warnings) != 1 || len(got.Warnings[0].Files) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	// A file of that name that is something else.
	for _, bad := range []string{"", "{", `{"run_time_s": -1}`, `{"run_time_s": 1e300}`, "[]"} {
		write(name+".meta.json", func(b *bytes.Buffer) error { _, err := b.WriteString(bad); return err })
		if _, _, err := File(name, iotrace.Options{}); err == nil || !strings.Contains(err.Error(), "t.csv.meta.json: ") {
			t.Errorf("%q: %v", bad, err)
		}
		if _, _, err := File(name, iotrace.Options{Lenient: true}); err != nil {
			t.Errorf("%q, lenient: %v", bad, err)
		}
	}
}
