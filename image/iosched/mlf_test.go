package iosched

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	block    = 32 << 10
	unitRate = 57e6 // of the disk of the thesis
	seek     = 9 * ms
)

func mlfOptions(change func(*MLFOptions)) Options {
	m := DefaultMLF()
	if change != nil {
		change(&m)
	}
	return Options{Rate: unitRate, MLF: &m}
}

func noWaits(m *MLFOptions) { m.ShiftWait, m.AggWait, m.IdleWait = 0, 0, 0 }

// ranges describes what was served, in order, in blocks.
func (s *sim) ranges(unit int64) string {
	var b strings.Builder
	for _, g := range s.order {
		fmt.Fprintf(&b, " %s%d-%d", g.Request.App, g.Offset/unit, g.End()/unit)
	}
	return strings.TrimSpace(b.String())
}

// TestShares has two synchronous readers that are to have the unit 3 to 2 (Lebre
// 2006, §5.1.4). A unit that never idles finds no request of the one that it has just
// served, and goes to the other each time.
func TestShares(t *testing.T) {
	for _, c := range []struct {
		idle     time.Duration
		services int
		a, b     int
		switches int
	}{
		{0, 40, 20, 20, 39},
		{3 * ms, 36, 22, 14, 14},
	} {
		o := mlfOptions(func(m *MLFOptions) {
			noWaits(m)
			m.IdleWait, m.QB, m.Grow = c.idle, 2*block, 1
		})
		o.Weight = func(user string) float64 { return map[string]float64{"a": 1.5, "b": 1}[user] }
		s := newSim(t, "mlf", o, seek)
		s.start(0, &reader{app: "a", file: "a", size: block, stride: block, count: 40, think: ms / 5},
			&reader{app: "b", file: "b", size: block, stride: block, count: 40, think: ms / 5})
		s.run()
		var n [2]int
		switches := 0
		for i, g := range s.order[:c.services] {
			n[g.Request.App[0]-'a']++
			if i > 0 && g.Request.App != s.order[i-1].Request.App {
				switches++
			}
		}
		if n != [2]int{c.a, c.b} || switches != c.switches {
			t.Errorf("idling %v: %d to %d with %d switches, want %d to %d with %d", c.idle, n[0], n[1], switches, c.a, c.b, c.switches)
		}
	}
}

// TestOffsetFirst is the example of the smallest offset first (Lebre 2006, §5.3.2).
func TestOffsetFirst(t *testing.T) {
	for _, c := range []struct {
		policy string
		order  string
		seeks  int
		agg    int
	}{
		{"fifo", "30-40 10-20 20-30 40-50", 3, 0},
		{"mlf", "10-20 20-30 30-40 40-50", 1, 3},
	} {
		s := newSim(t, c.policy, mlfOptions(noWaits), seek)
		s.unitRate = 10e3
		for i, offset := range []int64{30, 10, 20, 40} {
			at := time.Duration(i/2) * ms // the first two, and then the others
			s.at(at, func() { s.add(&Request{Rank: i, File: "f", Offset: offset, Bytes: 10}) })
		}
		s.run()
		stats := s.c.Stats()
		if got := s.ranges(1); got != c.order || seeks(stats) != c.seeks || stats.Files[0].Biggest != max(1, c.agg) {
			t.Errorf("%s: %s with %d seeks, biggest aggregate %d", c.policy, got, seeks(stats), stats.Files[0].Biggest)
		}
	}
}

// TestVirtualOrder: what is contiguous is served one after the other (§6.1).
func TestVirtualOrder(t *testing.T) {
	s := newSim(t, "mlf", mlfOptions(noWaits), seek)
	s.at(0, func() {
		for i, offset := range []int64{30, 20, 10} {
			s.add(&Request{Rank: i, File: "f", Offset: offset, Bytes: 10})
		}
	})
	s.run()
	if got := s.ranges(1); got != "10-20 20-30 30-40" {
		t.Errorf("served %s", got)
	}
	if f := s.c.Stats().Files[0]; f.Sum != 3 || f.Aggregates != 1 || f.Last != 3 {
		t.Errorf("counted %+v", f)
	}
}

// TestReadWaitsForWrites: a read does not overtake an older write of its file, even
// if the write is large and elsewhere in the file (§5.3.1, step 5).
func TestReadWaitsForWrites(t *testing.T) {
	for wait, want := range map[bool]string{true: "w100-110 r0-1", false: "r0-1 w100-110"} {
		s := newSim(t, "mlf", mlfOptions(func(m *MLFOptions) { noWaits(m); m.ReadsWait = wait }), seek)
		s.at(0, func() {
			s.add(&Request{App: "w", File: "f", Op: Write, Offset: 100 * block, Bytes: 10 * block})
			s.add(&Request{App: "r", File: "f", Offset: 0, Bytes: block})
		})
		s.run()
		if got := s.ranges(block); got != want {
			t.Errorf("waiting %v: served %s, want %s", wait, got, want)
		}
	}
	for _, policy := range Names() {
		s := newSim(t, policy, Options{Rate: unitRate}, seek)
		s.at(0, func() {
			s.add(&Request{App: "w", File: "f", Op: Write, Offset: 0, Bytes: 10 * block})
			s.add(&Request{App: "r", File: "f", Offset: 9 * block, Bytes: block})
			s.add(&Request{App: "x", File: "f", Op: Write, Offset: 9 * block, Bytes: 1})
		})
		s.run()
		if got := s.ranges(block); !strings.HasPrefix(got, "w0-") || !strings.HasSuffix(got, "r9-10 x9-9") {
			t.Errorf("%s: served %s", policy, got)
		}
	}
}

// TestQuanta follows the prose of the example in §5.3.1 (its Figure 5.9 is not in
// the text): A4 can be chosen first; then the virtual request of A1; then A3 and a new
// request of A4, of which A3 is older.
func TestQuanta(t *testing.T) {
	s := newSim(t, "mlf", mlfOptions(func(m *MLFOptions) { noWaits(m); m.Windows = false }), 0)
	add := func(app string, first, n int64) {
		s.add(&Request{App: app, Rank: int(first), File: app, Offset: first * block, Bytes: n * block})
	}
	s.at(0, func() {
		add("A1:", 0, 1)
		add("A1:", 1, 1)
		add("A2:", 0, 8)
		add("A3:", 0, 3)
		add("A4:", 0, 1)
	})
	s.at(ms/10, func() { add("A4:", 5, 1) })
	s.run()
	if got, want := s.ranges(block), "A4:0-1 A1:0-1 A1:1-2 A3:0-3 A4:5-6 A2:0-8"; got != want {
		t.Errorf("served %s, want %s", got, want)
	}
}

// TestShift is the process that is always late (Figure 5.10): without a wait it never
// is part of an aggregate, and each of 50 steps needs two seeks.
func TestShift(t *testing.T) {
	for _, c := range []struct {
		wait  time.Duration
		seeks int
	}{{0, 100}, {3 * ms, 1}} {
		s := newSim(t, "mlf", mlfOptions(func(m *MLFOptions) { noWaits(m); m.ShiftWait = c.wait }), seek)
		for rank := range 4 {
			at := time.Duration(0)
			if rank == 0 {
				at = ms / 2
			}
			s.start(at, &reader{app: "a", rank: rank, file: "f", offset: int64(rank) * block, size: block, stride: 4 * block, count: 50, think: ms / 10})
		}
		s.run()
		stats := s.c.Stats()
		if seeks(stats) != c.seeks {
			t.Errorf("waiting %v: %d seeks, want %d", c.wait, seeks(stats), c.seeks)
		}
		alone := slices.IndexFunc(s.order, func(g Grant) bool { return g.Request.Rank == 0 })
		t.Logf("waiting %v: first of rank 0 is service %d, %+v", c.wait, alone, stats.Files[0])
	}
}
