package job

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLongLines reads lines that are longer than any buffer.
func TestLongLines(t *testing.T) {
	j := makeJob(t)
	long := strings.Repeat("x", 200<<10)
	out := fmt.Sprintf("%s\n%s\n", Encode(OutputEvent{Type: "output", Index: 1, Text: long}), Encode(OutputEvent{Type: "output", Index: 2}))
	if err := os.WriteFile(filepath.Join(j.Dir(), outputName), []byte(out+`{"type":"output","index":3}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if last, o, err := OpenOutput(j, 1); err != nil || last[0] != 2 || o.end != int64(len(out)) {
		t.Errorf("last output %v, end %d, %v; want 2, %d", last, o.end, err, len(out))
	}
	told := fmt.Sprintf("{\"type\":\"failure\",\"reason\":%q}\n%s\n", long, Encode(CheckpointEvent{Type: "checkpoint", Number: 7}))
	if err := os.WriteFile(filepath.Join(j.Dir(), journalName), []byte(told), 0o600); err != nil {
		t.Fatal(err)
	}
	if h := ReadEvents(j, 0); h[7].Number != 7 {
		t.Errorf("the history has %v, want checkpoint 7", h)
	}
}
