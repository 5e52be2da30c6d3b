package report

import (
	"slices"
	"testing"

	"ckpt/iotrace/analyze"
	"ckpt/iotrace/analyze/finding"
	"ckpt/iotrace/analyze/pattern"
)

// TestInFiles: a finding about thousands of files does not seem to be about one.
func TestInFiles(t *testing.T) {
	for files, want := range map[int]string{0: "f", 1: "f", 2: "f and another file", 6357: "f and 6,356 other files"} {
		if got := inFiles(&finding.Finding{File: "f", Files: files}); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestFacts: the page begins with the run, and says of writes and reads what differs.
func TestFacts(t *testing.T) {
	r := &analyze.Report{Runtime: 780}
	r.Writes, r.Reads, r.Syncs, r.SyncTime = 1, 1, 4, 2
	r.WriteSpatial, r.ReadSpatial, r.Spatial, r.Detail = pattern.SequentialAccess, pattern.RandomAccess, pattern.SequentialAccess, pattern.Contiguous
	has := func(want fact) bool { return slices.Contains(facts(r), want) }
	for _, want := range []fact{{"run", secondsText(780)}, {"syncs, sum", "4 in " + secondsText(2)}, {"spatial pattern", "writes sequential, reads random"}} {
		if !has(want) {
			t.Errorf("no %v in %v", want, facts(r))
		}
	}
	r.ReadSpatial, r.Runtime, r.SyncTime = r.WriteSpatial, 0, 0
	if !has(fact{"spatial pattern", "sequential (contiguous)"}) || !has(fact{"syncs", "4"}) || has(fact{"run", secondsText(0)}) {
		t.Errorf("%v", facts(r))
	}
}
