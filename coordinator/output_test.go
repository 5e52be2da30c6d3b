package coordinator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ckpt/image"
	"ckpt/image/vfs"
)

// TestCutOutput cuts the last line of the file of outputs and runs the job again,
// twice: what was cut comes once more, and all lines of the file are whole.
func TestCutOutput(t *testing.T) {
	for _, mode := range []Spec{{Mode: Coordinated}, {Mode: Uncoordinated}} {
		t.Run(mode.Mode, func(t *testing.T) {
			s := job(t, "ring.S.4", 1)
			s.Mode, s.Iterations, s.Residuals, s.Schedule.Every = mode.Mode, 20, 2, 4
			stop := Options{Store: t.TempDir(), Job: "job", Failures: []Failure{{Rank: 0, Node: -1, Iter: 11}}}
			rec := &recorder{t: t}
			stop.Observer = rec
			if _, err := Launch(t.Context(), s, stop); err == nil {
				t.Fatal("the job did not fail")
			}
			path := filepath.Join(stop.Store, "jobs", "job", outputName)
			cut, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, cut[:len(cut)-20], 0o600); err != nil {
				t.Fatal(err)
			}
			again := &recorder{t: t}
			stop.Observer = again
			if _, err := Restart(t.Context(), RestartOptions{Options: stop}); err == nil {
				t.Fatal("the job did not fail again")
			}
			stop.Failures = nil
			if _, err := Restart(t.Context(), RestartOptions{Options: stop}); err != nil {
				t.Fatal(err)
			}
			checkOutputs(t, &s, slices.Concat(eventsOf[*OutputEvent](rec)[:bytes.Count(cut, []byte("\n"))-1], eventsOf[*OutputEvent](again)))
			whole, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.SplitAfter(string(whole), "\n")
			for i, line := range lines[:len(lines)-1] {
				var ev OutputEvent
				if err := json.Unmarshal([]byte(line), &ev); err != nil || ev.Index != uint64(i+1) {
					t.Errorf("line %d is %q, %v", i+1, line, err)
				}
			}
			if len(lines)-1 != s.Iterations/s.Residuals {
				t.Errorf("%d lines, want %d", len(lines)-1, s.Iterations/s.Residuals)
			}
		})
	}
}

// TestLongLines reads lines that are longer than any buffer.
func TestLongLines(t *testing.T) {
	store, err := image.CreateStore(vfs.OS{}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	j, err := store.CreateJob("job", []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer j.Unlock()
	long := strings.Repeat("x", 200<<10)
	out := fmt.Sprintf("%s\n%s\n", encode(OutputEvent{Type: "output", Index: 1, Text: long}), encode(OutputEvent{Type: "output", Index: 2}))
	if err := os.WriteFile(filepath.Join(j.Dir(), outputName), []byte(out+`{"type":"output","index":3}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if last, end, err := printed(j, 1); err != nil || last[0] != 2 || end != int64(len(out)) {
		t.Errorf("last output %v, end %d, %v; want 2, %d", last, end, err, len(out))
	}
	told := fmt.Sprintf("{\"type\":\"failure\",\"reason\":%q}\n%s\n", long, encode(CheckpointEvent{Type: "checkpoint", Number: 7}))
	if err := os.WriteFile(filepath.Join(j.Dir(), historyName), []byte(told), 0o600); err != nil {
		t.Fatal(err)
	}
	if h := ReadHistory(j); h[7].Number != 7 {
		t.Errorf("the history has %v, want checkpoint 7", h)
	}
}
