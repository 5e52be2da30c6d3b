package report

import (
	"slices"
	"testing"

	"ckpt/iotrace/analyze"
	"ckpt/iotrace/analyze/finding"
)

// TestInFiles: a finding about thousands of files does not seem to be about one.
func TestInFiles(t *testing.T) {
	for files, want := range map[int]string{0: "f", 1: "f", 2: "f and another file", 6357: "f and 6,356 other files"} {
		if got := inFiles(&finding.Finding{File: "f", Files: files}); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestFacts: beside the first facts, a page has what only events tell.
func TestFacts(t *testing.T) {
	r, c := &analyze.Report{}, 0.5
	r.BurstsTotal, r.Correlation.Write = 3, &c
	for _, want := range []Fact{{"period", "unknown: there are too few phases of I/O"}, {"size and time of writes", "r = 0.500"}} {
		if !slices.Contains(moreFacts(r), want) {
			t.Errorf("no %v in %v", want, moreFacts(r))
		}
	}
	r.Counted = true
	if len(moreFacts(r)) != 3 {
		t.Errorf("%v", moreFacts(r))
	}
}
