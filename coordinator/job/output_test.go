package job

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ckpt/internal/durable"
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
	if err := os.WriteFile(filepath.Join(j.Dir(), JournalName), []byte(told), 0o600); err != nil {
		t.Fatal(err)
	}
	if h := ReadEvents(j, 0); h[7].Number != 7 {
		t.Errorf("the history has %v, want checkpoint 7", h)
	}
}

// TestTornOutput: a last line of which a crash has kept a block from the disk had not been put
// out. A line that is not as it was written for another reason is damage.
func TestTornOutput(t *testing.T) {
	j := makeJob(t)
	path := filepath.Join(j.Dir(), outputName)
	first, last := lineOf(OutputEvent{Type: "output", Index: 1}), lineOf(OutputEvent{Type: "output", Index: 2, Text: strings.Repeat("x", 2000)})
	torn := bytes.Clone(last)
	copy(torn[1024-len(first):], bytes.Repeat([]byte{' '}, 512))
	flipped := bytes.Clone(last)
	flipped[1000] ^= 1
	for _, c := range []struct {
		name  string
		lines [][]byte
		last  uint64 // 0: damage
	}{
		{"whole", [][]byte{first, last}, 2},
		{"torn", [][]byte{first, torn}, 1},
		{"cut", [][]byte{first, last[:1000]}, 1},
		{"without its end", [][]byte{first, last[:len(last)-1]}, 2},
		{"flipped", [][]byte{first, flipped}, 0},
		{"torn before another", [][]byte{first, torn, lineOf(OutputEvent{Type: "output", Index: 3})}, 0},
	} {
		if err := os.WriteFile(path, append(bytes.Join(c.lines, nil), "   "...), 0o600); err != nil {
			t.Fatal(err)
		}
		got, _, err := OpenOutput(j, 1)
		damage := (*durable.DamageError)(nil)
		if c.last == 0 && (!errors.As(err, &damage) || damage.Offset != int64(len(first))) || c.last > 0 && (err != nil || got[0] != c.last) {
			t.Errorf("%s: last %v, %v", c.name, got, err)
		}
	}
}
