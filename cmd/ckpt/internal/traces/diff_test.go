package traces

import (
	"strings"
	"testing"

	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/iotrace/analyze"
)

// TestShowComparison: bytes have all their digits, and of many files the first are shown.
func TestShowComparison(t *testing.T) {
	differs := []analyze.Difference{{Quantity: "bytes_written", A: 266129022976, B: 52939622000}}
	c := &analyze.Comparison{Job: differs, OnlyA: []string{"a1", "a2", "a3"}, OnlyB: []string{"b1"}}
	for _, name := range []string{"same1", "same2", "file1", "file2", "file3"} {
		f := analyze.FileComparison{A: name, B: name, Differences: differs}
		if strings.HasPrefix(name, "same") {
			f.Differences = []analyze.Difference{{Quantity: "writes", A: 1, B: 1, Same: true}}
		}
		c.Files = append(c.Files, f)
	}
	var out strings.Builder
	if err := showComparison(&ui.Globals{Streams: ui.Streams{Out: &out}}, c, 1, false); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for _, want := range []string{"  266129022976  52939622000 ", "\npercentages are of B: at +100 %, A is twice as much\n", "\nfile1\n", "\nand 2 files more that differ; --files all shows them\n",
		"\nonly in A: a1\nonly in A: 2 files more\nonly in B: b1\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "pattern") {
		t.Errorf("there are none:\n%s", text)
	}
	if strings.Contains(text, "file2") || strings.Contains(text, "same") {
		t.Errorf("more than one file:\n%s", text)
	}
}
