package iotrace

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestSort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		starts := rapid.SliceOf(rapid.Int64Range(-3, 9)).Draw(t, "starts")
		var tr Trace
		for i, s := range starts {
			tr.Events = append(tr.Events, Event{Start: s, Bytes: int64(i)})
		}
		want := slices.Clone(tr.Events)
		slices.SortStableFunc(want, func(a, b Event) int { return cmp.Compare(a.Start, b.Start) })
		tr.Sort()
		if diff := gocmp.Diff(want, tr.Events); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestMergeErrors(t *testing.T) {
	a := &Trace{Origin: origin, Events: []Event{{Op: Open, Rank: 3, File: None, Peer: None}}}
	if _, err := Merge(a); err == nil || !strings.Contains(err.Error(), "rank 3 of 0") {
		t.Error(err)
	}
	if _, err := Merge(&Trace{Origin: origin}, &Trace{}); err == nil || !strings.Contains(err.Error(), "origin") {
		t.Error(err)
	}
	if _, err := Merge(&Trace{Origin: time.Unix(1, 0)}, &Trace{Origin: time.Unix(1<<33, 0)}); err == nil || !strings.Contains(err.Error(), "too far") {
		t.Error(err)
	}
	a.Events[0] = Event{Op: Open, Rank: None, File: None, Peer: None, Start: MaxTime + 1, End: MaxTime + 1}
	if _, err := Merge(a); err == nil || !strings.Contains(err.Error(), "out of range") {
		t.Error(err)
	}
	if tr, err := Merge(); err != nil || len(tr.Events) != 0 {
		t.Error(err)
	}
}

// TestMergeAmbiguous keeps ranks apart whose node cannot be told.
func TestMergeAmbiguous(t *testing.T) {
	one := func(r Rank) *Trace { return &Trace{Ranks: []Rank{r}} }
	tr, err := Merge(one(Rank{1, "a"}), one(Rank{1, "b"}), one(Rank{1, ""}), one(Rank{2, "a"}), one(Rank{2, ""}))
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff([]Rank{{1, "a"}, {1, "b"}, {1, ""}, {2, "a"}}, tr.Ranks); diff != "" {
		t.Error(diff)
	}
}
