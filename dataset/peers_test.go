package dataset

import (
	"slices"
	"strings"
	"testing"
)

// withMessage is the minimal spec with one kind of message.
func withMessage(fields string) string {
	return minimal + "messages:\n  - {to: x, count: 4, bytes: 8, " + fields + "}\n"
}

func TestPeers(t *testing.T) {
	for _, c := range []struct {
		peers string
		np    int
		want  [][]int // by rank
	}{
		{"{grid: [2, 2], steps: [[1, 0], [0, -1]]}", 4, [][]int{{1}, {}, {3, 0}, {1}}},
		{"{grid: [p], wrap: true, steps: [[1], [-1]]}", 3, [][]int{{1, 2}, {2, 0}, {0, 1}}},
		{"{grid: [2, 2], wrap: true, steps: [[-3, 2]]}", 4, [][]int{{1}, {0}, {3}, {2}}},
		{"{grid: [p], wrap: true, steps: [[1]]}", 1, [][]int{{}}},
		{"{doubling: 4}", 8, [][]int{{1, 2}, {0, 3}, {3, 0}, {2, 1}, {5, 6}, {4, 7}, {7, 4}, {6, 5}}},
		{"{transpose: [2, 2]}", 4, [][]int{{}, {2}, {1}, {}}},
		{"{transpose: [1, 2]}", 2, [][]int{{}, {}}},
		{"{transpose: [2, 4]}", 8, [][]int{{}, {}, {4}, {5}, {2}, {3}, {}, {}}},
		{"{rank: 1}", 3, [][]int{{1}, {}, {1}}},
		{"{rank: 7}", 2, [][]int{{}, {}}},
		{"{tree: true}", 6, [][]int{{1, 2, 4}, {0}, {0, 3}, {2}, {0, 5}, {4}}},
		{"{all: true}", 3, [][]int{{1, 2}, {0, 2}, {0, 1}}},
	} {
		w, err := ParseWorkload([]byte(withMessage("peers: "+c.peers)), "peers.yaml")
		if err != nil {
			t.Fatal(c.peers, err)
		}
		inst, err := w.Instance("only", c.np)
		if err != nil {
			t.Fatal(c.peers, err)
		}
		got := make([][]int, c.np)
		for from, to := range inst.Messages[0].Pairs() {
			got[from] = append(got[from], to)
		}
		for r := range got {
			if !slices.Equal(got[r], c.want[r]) {
				t.Errorf("%s of %d: rank %d sends to %v, want %v", c.peers, c.np, r, got[r], c.want[r])
			}
		}
	}
}

func TestBadPeers(t *testing.T) {
	for fields, text := range map[string]string{
		"peers: {}":                                  "0 patterns: want one of grid",
		"peers: {tree: true, all: true}":             "2 patterns",
		"peers: {rank: 0, steps: [[1]]}":             "belong to a grid",
		"peers: {grid: [p]}":                         "1 to 100 steps",
		"peers: {grid: [p], steps: [[1, 0]]}":        "step [1 0] on a grid of 1 sides",
		"peers: {grid: [2, 3], steps: [[1, 0]]}":     "a grid of [2 3] ranks does not hold 4",
		"peers: {grid: [5, p], steps: [[1, 0]]}":     "a side of 5 ranks of 4",
		"peers: {grid: [q], steps: [[1]]}":           `parameter "q" is not defined`,
		"peers: {grid: ['1+'], steps: [[1]]}":        `expression "1+"`,
		"peers: {doubling: 3}":                       "want a power of two",
		"peers: {transpose: [2]}":                    "want rows and columns",
		"peers: {rank: -1}":                          "want a rank from 0",
		"peers: {tree: true}, mean: 0-1":             "not between 0 and 2^62",
		"peers: {tree: true}, each: '('":             `line 11: expression "("`,
		"peers: {somewhere: true}":                   "field somewhere not found",
		"peers: {grid: ['box(p, 3)'], steps: [[1]]}": "side of a box, the longest first: 3: want 0 to 2",
	} {
		w, err := ParseWorkload([]byte(withMessage(fields)), "bad.yaml")
		if err == nil {
			_, err = w.Instance("only", 4)
		}
		wantError(t, err, BadSpec, text, "")
		if err != nil && !strings.Contains(err.Error(), "messages") && !strings.Contains(err.Error(), "line 11") {
			t.Errorf("%s: %v does not say where", fields, err)
		}
	}
}

// A spec of earlier versions has no patterns.
func TestUnknownPeers(t *testing.T) {
	w, err := ParseWorkload([]byte(withMessage("any_source: true")), "old.yaml")
	if err != nil {
		t.Fatal(err)
	}
	inst, err := w.Instance("only", 4)
	if err != nil {
		t.Fatal(err)
	}
	m := inst.Messages[0]
	for range m.Pairs() {
		t.Fatal("pairs without a pattern")
	}
	if m.Known() || m.Each != 0 || m.Mean != 8 || !m.AnySource {
		t.Errorf("%+v", m)
	}
}
