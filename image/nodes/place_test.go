package nodes

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func drawTopology(t *rapid.T) Topology {
	nodes := rapid.IntRange(1, 14).Draw(t, "nodes")
	var top Topology
	for n := range nodes {
		for range rapid.IntRange(0, 3).Draw(t, "ranks") {
			top.NodeOf = append(top.NodeOf, n)
		}
	}
	if len(top.NodeOf) == 0 {
		top.NodeOf = []int{0}
	}
	if rapid.Bool().Draw(t, "cyclic") { // ranks in another order than the nodes
		slices.Reverse(top.NodeOf)
	}
	if rapid.Bool().Draw(t, "domains") {
		top.Domains = rapid.SliceOfN(rapid.IntRange(0, 6), nodes, nodes).Draw(t, "domain")
	}
	return top
}

func drawScheme(t *rapid.T) Scheme {
	text := rapid.SampledFrom([]string{"partner", "partner:2", "partner:3", "xor:2", "xor:3", "xor:4", "rs:2+1", "rs:2+2", "rs:4+2", "rs:1+3"}).Draw(t, "scheme")
	s, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestPlacesSurvive loses every node, and every failure domain, of a topology that
// fits: each rank's file is then still somewhere.
func TestPlacesSurvive(t *testing.T) {
	fitted := 0
	rapid.Check(t, func(t *rapid.T) {
		top, s := drawTopology(t), drawScheme(t)
		if s.Fits(top) != nil {
			return
		}
		fitted++
		losses := map[string]func(node int) bool{}
		for _, n := range top.nodes() {
			losses[fmt.Sprint("node ", n)] = func(node int) bool { return node == n }
			losses[fmt.Sprint("domain ", top.domain(n))] = func(node int) bool { return top.domain(node) == top.domain(n) }
		}
		sets := s.Sets(top)
		for what, lost := range losses {
			for rank := range top.NodeOf {
				if !survives(s, top, sets, rank, lost) {
					t.Fatalf("%s in %v: without %s, rank %d is lost", s, top, what, rank)
				}
			}
		}
	})
	if fitted == 0 {
		t.Error("no topology fitted")
	}
}

func survives(s Scheme, top Topology, sets []Set, rank int, lost func(int) bool) bool {
	if !lost(top.NodeOf[rank]) {
		return true
	}
	if !s.Coded() {
		return slices.ContainsFunc(s.Partners(top, rank), func(n int) bool { return !lost(n) })
	}
	set, _, ok := SetOf(sets, rank)
	if !ok {
		return false
	}
	n := 0
	for _, node := range set.Nodes {
		if lost(node) {
			n++
		}
	}
	return n <= set.Parity
}

func TestSets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		top, s := drawTopology(t), drawScheme(t)
		if !s.Coded() || s.Fits(top) != nil {
			return
		}
		seen := make(map[int]int)
		for i, set := range s.Sets(top) {
			if err := set.Check(); err != nil || set.ID != i || len(set.Nodes) < s.Nodes() || set.Parity != s.parity {
				t.Fatalf("set %+v of %s: %v", set, s, err)
			}
			nodes := slices.Clone(set.Nodes)
			slices.Sort(nodes)
			if len(slices.Compact(nodes)) != len(set.Nodes) {
				t.Fatalf("set %+v has a node twice", set)
			}
			for p, rank := range set.Members {
				if rank < 0 {
					continue
				}
				seen[rank]++
				if top.NodeOf[rank] != set.Nodes[p] {
					t.Fatalf("set %+v: rank %d is on node %d", set, rank, top.NodeOf[rank])
				}
			}
		}
		for rank := range top.NodeOf {
			if seen[rank] != 1 {
				t.Fatalf("rank %d is in %d sets", rank, seen[rank])
			}
		}
	})
}

// TestPartnersAreShared has every node keep copies of as many nodes as any other, where
// no domain has more than half of them.
func TestPartnersAreShared(t *testing.T) {
	for _, c := range []struct {
		scheme  string
		domains []int
		want    [][]int // by node
	}{
		{"partner", nil, [][]int{{1}, {2}, {3}, {0}}},
		{"partner:2", nil, [][]int{{1, 2}, {2, 3}, {3, 0}, {0, 1}}},
		{"partner", []int{0, 0, 1, 1}, [][]int{{2}, {3}, {0}, {1}}},
		{"partner", []int{0, 1, 0, 1}, [][]int{{1}, {0}, {3}, {2}}},
		{"partner:2", []int{0, 0, 1, 1}, [][]int{{2, 3}, {3, 2}, {0, 1}, {1, 0}}},
		{"partner:2", []int{0, 0, 1, 2}, [][]int{{2, 3}, {3, 2}, {0, 3}, {1, 2}}},
	} {
		s := parse(t, c.scheme)
		top := Topology{NodeOf: []int{0, 1, 2, 3}, Domains: c.domains}
		for rank, want := range c.want {
			if got := s.Partners(top, rank); !slices.Equal(got, want) {
				t.Errorf("%s in %v: copies of node %d are on %v, want %v", s, c.domains, rank, got, want)
			}
		}
	}
}

// TestLayout compares the formulas with a table of rows.
func TestLayout(t *testing.T) {
	for n := 2; n <= 9; n++ {
		for m := 1; m < n; m++ {
			l := layout{n, m, UnitBytes}
			data, parity := make([]int64, n), make([]int64, n)
			for row := range int64(3*n + 1) {
				for p := range n {
					if place := l.place(row, p); place < m {
						if l.holder(row, place) != p || l.rowAt(p, parity[p]) != row || l.parityUnit(p, row) != parity[p] {
							t.Fatalf("n=%d m=%d: parity unit %d of position %d is not in row %d", n, m, parity[p], p, row)
						}
						parity[p]++
					} else {
						if l.rowOf(p, data[p]) != row || l.dataUnit(p, row) != data[p] {
							t.Fatalf("n=%d m=%d: unit %d of member %d is not in row %d", n, m, data[p], p, row)
						}
						data[p]++
					}
				}
			}
		}
	}
}
