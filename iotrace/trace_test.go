package iotrace

import (
	"cmp"
	"math"
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

func TestValidate(t *testing.T) {
	ok := func() *Trace {
		return &Trace{
			Ranks: []Rank{{Rank: 0, Node: "a"}, {Rank: 0, Node: "b"}},
			Files: []string{"/f"},
			Events: []Event{
				{Op: Open, Rank: 0, File: 0, Peer: None, Offset: None},
				{Op: Write, Rank: 1, File: None, Peer: 1, Offset: math.MaxInt64 - 1, Bytes: 1, Start: 5, End: 5},
			},
		}
	}
	if err := ok().Validate(); err != nil {
		t.Fatal(err)
	}
	for want, damage := range map[string]func(*Trace){
		"year":                       func(t *Trace) { t.Origin = time.Unix(-1e9, 0) },
		"is there twice":             func(t *Trace) { t.Files = append(t.Files, "/f") },
		"has no name":                func(t *Trace) { t.Files = append(t.Files, "") },
		`node "a" is there twice`:    func(t *Trace) { t.Ranks[1].Node = "a" },
		"event 1: op(0)":             func(t *Trace) { t.Events[1].Op = 0 },
		"module(2) is unknown":       func(t *Trace) { t.Events[0].Module = 2 },
		"rank 2 of 2":                func(t *Trace) { t.Events[0].Rank = 2 },
		"rank -2 of 2":               func(t *Trace) { t.Events[0].Rank = -2 },
		"file 1 of 1":                func(t *Trace) { t.Events[0].File = 1 },
		"peer 2 of 2":                func(t *Trace) { t.Events[0].Peer = 2 },
		"checkpoint -1":              func(t *Trace) { t.Events[0].Checkpoint = -1 },
		"round -1":                   func(t *Trace) { t.Events[0].Round = -1 },
		"offset -2 is negative":      func(t *Trace) { t.Events[0].Offset = -2 },
		"length -1 is negative":      func(t *Trace) { t.Events[0].Bytes = -1 },
		"beyond what a file":         func(t *Trace) { t.Events[1].Bytes = 2 },
		"out of range":               func(t *Trace) { t.Events[1].End = MaxTime + 1 },
		"ends 1 ns before":           func(t *Trace) { t.Events[1].End = 4 },
		"starts 6 ns before the one": func(t *Trace) { t.Events[0].Start, t.Events[0].End = 11, 11 },
	} {
		tr := ok()
		damage(tr)
		if err := tr.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
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
