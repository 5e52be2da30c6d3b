package iotrace

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestMergeParts merges all that is in neither events nor tables.
func TestMergeParts(t *testing.T) {
	counters := func(rank, file int32, first int64) Counters {
		c := Counters{Rank: rank, File: file, Opens: 1}
		for _, at := range c.times() {
			*at = None
		}
		c.FirstOpen = first
		return c
	}
	a := &Trace{Origin: origin, Ranks: []Rank{{Rank: 0}}, Files: []string{"/a", "/b"}, Runtime: 3 * time.Second,
		Counters: []Counters{counters(0, 1, 5)}, Renames: []Renaming{{From: 0, To: 1, At: 20}},
		Striping: []Striping{{File: 0, Size: 1, Count: 2, End: 9}, {File: 0, Size: 2, Start: 9, End: None}},
		Warnings: []Warning{{Code: "c", Text: "t", Count: 1, Bytes: 10, Files: []WarnedFile{{1, 1, 10}}}}, Properties: []Property{{"p", "1"}}}
	b := &Trace{Origin: origin.Add(10), Ranks: []Rank{{Rank: 1}, {Rank: 0}}, Files: []string{"/b", "/c"}, Runtime: 3 * time.Second,
		Counters: []Counters{counters(0, 0, 5), counters(None, None, None)}, Renames: []Renaming{{From: 0, To: 1, At: 9}},
		Striping: []Striping{{File: 1, Size: 3, Count: 4}, {File: 0, Size: 5, Count: 6}},
		Warnings: []Warning{{Code: "c", Text: "u"}, {Code: "c", Text: "t", Count: 2, Bytes: 20, Files: []WarnedFile{{0, 1, 5}, {1, 1, 15}}}}, Properties: []Property{{"p", "1"}, {"p", "2"}}}
	got, err := Merge(a, b)
	if err != nil {
		t.Fatal(err)
	}
	want := &Trace{Origin: origin, Ranks: []Rank{{Rank: 0}, {Rank: 1}}, Files: []string{"/a", "/b", "/c"}, Runtime: 3*time.Second + 10, Events: []Event{},
		Counters:   []Counters{counters(0, 1, 5), counters(1, 1, 15), counters(None, None, None)},
		Renames:    []Renaming{{From: 1, To: 2, At: 19}, {From: 0, To: 1, At: 20}},
		Striping:   []Striping{{File: 0, Size: 1, Count: 2, End: 9}, {File: 0, Size: 2, Start: 9, End: None}, {File: 2, Size: 3, Count: 4}, {File: 1, Size: 5, Count: 6}},
		Warnings:   []Warning{{"c", "t", 3, 30, []WarnedFile{{1, 2, 15}, {2, 1, 15}}}, {Code: "c", Text: "u"}},
		Properties: []Property{{"p", "1"}, {"p", "2"}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	b.Striping[0].File = 2
	if _, err := Merge(a, b); err == nil {
		t.Error("a striping of no file")
	}
}
