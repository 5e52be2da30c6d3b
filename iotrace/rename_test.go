package iotrace_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ckpt/iotrace"
)

func TestFollowRenames(t *testing.T) {
	const tmp, x, old, other = 0, 1, 2, 3
	type event struct {
		op   iotrace.Op
		file int32
		at   int64
	}
	for _, c := range []struct {
		what    string
		renames []iotrace.Renaming
		events  []event
		want    string
	}{
		{"none", nil, []event{{iotrace.Write, tmp, 1}}, "tmp"},
		{"a file that is renamed", []iotrace.Renaming{{From: tmp, To: x, At: 5}},
			[]event{{iotrace.Open, tmp, 1}, {iotrace.Write, tmp, 2}, {iotrace.Rename, tmp, 5}}, "x x x"},
		{"its number is used on", []iotrace.Renaming{{From: tmp, To: x, At: 5}},
			[]event{{iotrace.Open, tmp, 1}, {iotrace.Write, tmp, 7}, {iotrace.Close, tmp, 8}}, "x x x"},
		{"a new file of the old name", []iotrace.Renaming{{From: tmp, To: x, At: 5}},
			[]event{{iotrace.Open, tmp, 1}, {iotrace.Open, tmp, 7}, {iotrace.Close, tmp, 8}}, "x tmp tmp"},
		{"again and again", []iotrace.Renaming{{From: tmp, To: x, At: 5}, {From: tmp, To: other, At: 10}},
			[]event{{iotrace.Open, tmp, 1}, {iotrace.Open, tmp, 7}, {iotrace.Write, tmp, 8}, {iotrace.Open, x, 11}}, "x other other x"},
		{"a chain", []iotrace.Renaming{{From: tmp, To: x, At: 5}, {From: x, To: old, At: 9}, {From: tmp, To: x, At: 10}},
			[]event{{iotrace.Open, tmp, 1}, {iotrace.Open, tmp, 6}, {iotrace.Write, tmp, 7}, {iotrace.Open, x, 11}}, "old x x x"},
		{"an exchange", []iotrace.Renaming{{From: x, To: old, At: 5}, {From: old, To: x, At: 5}},
			[]event{{iotrace.Open, x, 1}, {iotrace.Open, old, 2}, {iotrace.Open, x, 6}}, "old x x"},
		{"no opens in the trace", []iotrace.Renaming{{From: tmp, To: x, At: 5}, {From: tmp, To: other, At: 9}},
			[]event{{iotrace.Write, tmp, 4}, {iotrace.Write, tmp, 6}, {iotrace.Write, tmp, 10}}, "x other tmp"},
		{"one name at the same time", []iotrace.Renaming{{From: tmp, To: x, At: 5}, {From: other, To: x, At: 6}},
			[]event{{iotrace.Open, tmp, 1}, {iotrace.Open, other, 2}, {iotrace.Write, other, 3}, {iotrace.Rename, tmp, 5}, {iotrace.Rename, other, 6}, {iotrace.Open, x, 7}}, "tmp other other tmp other x"},
		{"one name after the other", []iotrace.Renaming{{From: tmp, To: x, At: 5}, {From: other, To: x, At: 9}},
			[]event{{iotrace.Open, tmp, 1}, {iotrace.Write, tmp, 2}, {iotrace.Open, other, 6}, {iotrace.Rename, other, 9}}, "x x x x"},
		{"a file that was replaced, and is used on", []iotrace.Renaming{{From: tmp, To: x, At: 5}, {From: x, To: old, At: 9}},
			[]event{{iotrace.Open, x, 1}, {iotrace.Open, tmp, 2}, {iotrace.Write, x, 6}, {iotrace.Write, x, 10}, {iotrace.Write, tmp, 10}}, "x old x x old"},
		{"a file that was removed, and is used on", []iotrace.Renaming{{From: tmp, To: x, At: 9}},
			[]event{{iotrace.Open, tmp, 1}, {iotrace.Unlink, tmp, 3}, {iotrace.Write, tmp, 4}, {iotrace.Rename, tmp, 9}}, "tmp tmp tmp x"},
		{"a name that is taken after the rename", []iotrace.Renaming{{From: tmp, To: x, At: 5}, {From: other, To: tmp, At: 7}},
			[]event{{iotrace.Open, tmp, 1}, {iotrace.Open, other, 2}, {iotrace.Write, tmp, 8}}, "x tmp x"},
		{"to itself", []iotrace.Renaming{{From: x, To: x, At: 5}}, []event{{iotrace.Open, x, 1}}, "x"},
	} {
		t.Run(c.what, func(t *testing.T) {
			tr := &iotrace.Trace{Files: []string{"tmp", "x", "old", "other"}, Renames: c.renames}
			for _, e := range c.events {
				tr.Events = append(tr.Events, iotrace.Event{Op: e.op, File: e.file, Start: e.at, End: e.at})
			}
			tr.FollowRenames()
			got := ""
			for i, e := range tr.Events {
				if i > 0 {
					got += " "
				}
				got += fmt.Sprint(tr.Files[e.File])
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTargets(t *testing.T) {
	tr := &iotrace.Trace{Renames: []iotrace.Renaming{{From: 0, To: 1, At: 5}, {From: 1, To: 0, At: 5}, {From: 1, To: 2, At: 7}, {From: 2, To: 2, At: 8}}}
	for _, e := range []struct {
		op   iotrace.Op
		file int32
		at   int64
	}{{iotrace.Rename, 0, 5}, {iotrace.Rename, 0, 7}, {iotrace.Open, 1, 7}, {iotrace.Rename, 1, 7}, {iotrace.Rename, 2, 8}} {
		tr.Events = append(tr.Events, iotrace.Event{Op: e.op, File: e.file, End: e.at})
	}
	if diff := cmp.Diff(map[int]iotrace.Target{0: {File: 1, Exchange: true}, 3: {File: 2}, 4: {File: 2}}, tr.Targets()); diff != "" {
		t.Error(diff)
	}
}
