package iotracetest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ckpt/iotrace"
)

// Files returns the contents of the files in testdata that match a pattern.
func Files(t testing.TB, pattern string) map[string][]byte {
	t.Helper()
	names, err := filepath.Glob(filepath.Join("testdata", pattern))
	if err != nil || len(names) == 0 {
		t.Fatalf("no files %s: %v", pattern, err)
	}
	files := make(map[string][]byte)
	for _, name := range names {
		if files[name], err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// SameAs compares what was made with a file in testdata, or writes that file.
func SameAs(t testing.TB, name string, got []byte, update bool) {
	t.Helper()
	name = filepath.Join("testdata", name)
	if update {
		if err := os.WriteFile(name, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s: %s", name, diff)
	}
}

// Valid returns the first thing that is wrong with a trace: an event is impossible
// or out of order, or a table names something twice or not at all.
func Valid(t *iotrace.Trace) error {
	for i := 1; i < len(t.Events); i++ {
		if before, e := t.Events[i-1], t.Events[i]; e.Start < before.Start {
			return fmt.Errorf("event %d: %s starts %d ns before the one in front of it", i, e.Op, before.Start-e.Start)
		}
	}
	// The writer checks the events, and the reader checks the tables.
	var file bytes.Buffer
	if err := iotrace.WriteTrace(&file, t); err != nil {
		return err
	}
	_, err := iotrace.ReadTrace(&file)
	return err
}

// ProcessorTime is what the process has used so far, in ns: a better measure
// than the clock where others use the machine.
func ProcessorTime() int64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
