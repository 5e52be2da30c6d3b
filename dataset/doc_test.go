package dataset

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// docs/WORKLOADS.md says what the package does: its example spec is valid, and
// its table of sizes is that of the golden file.
func TestDocument(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "docs", "WORKLOADS.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(doc), "```yaml\n")
	example, _, ok2 := strings.Cut(text, "```\n")
	if !ok || !ok2 {
		t.Fatal("no example")
	}
	w, err := ParseWorkload([]byte(example), "docs/WORKLOADS.md")
	if err != nil {
		t.Fatal(err)
	}
	inst, err := w.Instance("small", 4)
	if err != nil {
		t.Fatal(err)
	}
	// rows = 250: two fields of 252 x 1000 doubles, kappa of 250 x 1000, 1000
	// tracers, and the runtime constant.
	if want := int64(8*(2*252_000+250_000) + 4*1000 + 500_000); inst.DataBytes() != want {
		t.Errorf("the example has %d bytes, want %d", inst.DataBytes(), want)
	}
	golden, err := os.ReadFile(filepath.Join("testdata", "arrays.golden"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(golden), "MiB\n")
	if !ok {
		t.Fatal("no table in the golden file")
	}
	for row := range strings.Lines(table) {
		if strings.HasPrefix(row, "|") && !strings.Contains(string(doc), strings.TrimSpace(row)) {
			t.Errorf("docs/WORKLOADS.md lacks the row %s", row)
		}
	}
}
