package iosched

import (
	"testing"
	"time"
)

// policyOf returns an mlf with a change, to look inside.
func policyOf(t *testing.T, change func(*MLFOptions)) *mlf {
	t.Helper()
	p, err := New("mlf", mlfOptions(change))
	if err != nil {
		t.Fatal(err)
	}
	return p.(*mlf)
}

func (s *sim) addBlocks(app, file string, op Op, first, n int64) {
	s.add(&Request{App: app, Rank: int(first), File: file, Op: op, Offset: first * block, Bytes: n * block})
}

// TestSumOfQuanta: a virtual request has the quanta of its parts together (§5.3.1,
// step 3), and a read that was held has grown meanwhile.
func TestSumOfQuanta(t *testing.T) {
	p := policyOf(t, nil)
	var seq uint64
	add := func(op Op, first, n int64) *Request {
		seq++
		r := &Request{File: "f", Op: op, Seq: seq, Offset: first * block, Bytes: n * block}
		p.Add(0, r)
		return r
	}
	only := func(op Op) *entry { return p.files["f"].queues[op].entries.from(key{}).item }
	add(Read, 0, 4)
	p.choice = 1
	add(Read, 6, 4)
	p.choice = 3
	add(Read, 4, 2)
	if e := only(Read); e.count != 3 || e.quantum != 5*block || e.ripe != 3+5 {
		t.Errorf("%d parts with a quantum of %d blocks, ripe at choice %d; want 3, 5, 8", e.count, e.quantum/block, e.ripe)
	}

	p = policyOf(t, nil)
	w := add(Write, 100, 1)
	add(Read, 0, 8)
	p.choice = 3
	grants, _ := p.Next(0)
	if len(grants) != 1 || grants[0].Request != w {
		t.Fatalf("granted %v, want the write", grants)
	}
	p.Done(0, 0, grants[0])
	if e := only(Read); e.quantum != 4*block || e.ripe != 8 {
		t.Errorf("the read has a quantum of %d blocks, ripe at choice %d; want 4, 8", e.quantum/block, e.ripe)
	}
}

// TestLongestAggregate: contiguous requests beyond the limit are another virtual one.
func TestLongestAggregate(t *testing.T) {
	for aggregate, want := range map[bool]int{true: 4, false: 1} {
		s := newSim(t, "mlf", mlfOptions(func(m *MLFOptions) { m.MaxAgg, m.Aggregate = 4*block, aggregate }), seek)
		s.at(0, func() {
			for i := range int64(10) {
				s.addBlocks("", "f", Read, i, 1)
			}
		})
		s.run()
		if f := s.c.Stats().Files[0]; f.Biggest != want {
			t.Errorf("aggregates %v: the biggest has %d requests, want %d", aggregate, f.Biggest, want)
		}
	}
}

// TestPipeline: writes of an aggregate are delivered together, or one by one, the
// oldest of those that are left deciding about its age (§6.2.4).
func TestPipeline(t *testing.T) {
	for pipeline, want := range map[bool]int{true: 3, false: 1} {
		p := policyOf(t, func(m *MLFOptions) { noWaits(m); m.PipelineWrites = pipeline })
		for i := range 3 {
			p.Add(0, &Request{File: "f", Op: Write, Seq: uint64(3 - i), Offset: int64(i) * block, Bytes: block})
		}
		grants, _ := p.Next(0)
		if len(grants) != want || grants[0].Offset != 0 || p.Len() != 3-want {
			t.Errorf("pipeline %v: granted %v", pipeline, grants)
		}
		if q := p.files["f"].queues[Write]; !pipeline && q.entries.from(key{}).item.oldest != 1 {
			t.Error("the rest does not have the age of its oldest request")
		}
	}
}

// TestEarlierWrites: a read waits for all older writes, not for the first of them.
func TestEarlierWrites(t *testing.T) {
	s := newSim(t, "mlf", mlfOptions(noWaits), seek)
	s.at(0, func() {
		s.addBlocks("v", "f", Write, 100, 1)
		s.addBlocks("w", "f", Write, 200, 10)
		s.addBlocks("r", "f", Read, 0, 1)
	})
	s.run()
	if got := s.ranges(block); got != "v100-101 w200-210 r0-1" {
		t.Errorf("served %s", got)
	}
}

// TestSmallestOffset is without windows: the smallest offset goes first, or the
// oldest request.
func TestSmallestOffset(t *testing.T) {
	for first, want := range map[bool]string{true: "a1-2 a3-4 b0-1", false: "a3-4 a1-2 b0-1"} {
		s := newSim(t, "mlf", mlfOptions(func(m *MLFOptions) { noWaits(m); m.Windows, m.OffsetFirst = false, first }), seek)
		s.at(0, func() {
			s.addBlocks("a", "f", Read, 3, 1)
			s.addBlocks("a", "f", Read, 1, 1)
			s.addBlocks("b", "g", Read, 0, 1)
		})
		s.run()
		if got := s.ranges(block); got != want {
			t.Errorf("offset first %v: served %s, want %s", first, got, want)
		}
	}
}

// TestOneJump: when all requests are overdue, one in each deadline goes first for its
// age; the others keep the order of offsets.
func TestOneJump(t *testing.T) {
	s := newSim(t, "mlf", mlfOptions(noWaits), seek)
	s.at(0, func() {
		for i := range int64(300) {
			s.addBlocks("", "f", Read, (i*7%300)*2, 1)
		}
	})
	s.run()
	back := 0
	for i, g := range s.order[1:] {
		if g.Offset < s.order[i].Offset {
			back++
		}
	}
	if most := int(s.now / (500 * ms)); back == 0 || back > most {
		t.Errorf("it went back %d times in %v, want 1 to %d", back, s.now, most)
	}
}

// TestDeadline has a large request wait beside small ones whose quanta suffice sooner.
func TestDeadline(t *testing.T) {
	wait := func(deadline time.Duration) (at time.Duration) {
		s := newSim(t, "mlf", mlfOptions(func(m *MLFOptions) { noWaits(m); m.Windows, m.Aggregate, m.Deadline = false, false, deadline }), 0)
		s.begin = func(g Grant, began time.Duration) {
			if g.Request.App == "large" {
				at = began
			}
		}
		for rank := range 2 {
			s.start(0, &reader{app: "small", rank: rank, file: "f", offset: int64(rank) << 20, size: block, stride: block, count: 100, think: ms / 100})
		}
		s.at(0, func() { s.addBlocks("large", "g", Read, 0, 60) })
		s.run()
		return at
	}
	never, soon := wait(0), wait(10*ms)
	if choices := int(never / moving(block)); choices < 58 || choices > 61 {
		t.Errorf("without a deadline it waited for %d choices, want as many as it has blocks", choices)
	}
	if soon < 10*ms || soon > 10*ms+3*moving(block) {
		t.Errorf("with a deadline of 10 ms it waited for %v", soon)
	}
}

// TestBetter has the last of four processes be late: a wait makes the aggregates
// longer.
func TestBetter(t *testing.T) {
	var biggest [2]FileStats
	for i, wait := range []time.Duration{0, 2 * ms} {
		s := newSim(t, "mlf", mlfOptions(func(m *MLFOptions) { noWaits(m); m.Windows, m.AggWait = false, wait }), seek)
		for rank := range 4 {
			think := ms / 10
			if rank == 3 {
				think = ms
			}
			s.start(0, &reader{app: "a", rank: rank, file: "f", offset: int64(rank) * block, size: block, stride: 4 * block, count: 50, think: think})
		}
		s.run()
		biggest[i] = s.c.Stats().Files[0]
	}
	if a, b := biggest[0], biggest[1]; a.Better != 0 || b.Better < 40 || b.Better > 50 || b.Sum != 4*b.Aggregates || a.Sum >= 4*a.Aggregates || b.Idle == 0 {
		t.Errorf("without a wait %+v, with one %+v", a, b)
	}
}

// TestWindowSizes: a window that was used grows up to what the unit moves in the
// longest one, others shrink.
func TestWindowSizes(t *testing.T) {
	longest := unitRate / 2
	for _, c := range []struct {
		quantum, used, want float64
	}{
		{block, block, 2 * block},
		{8 * block, 7 * block, 16 * block},
		{8 * block, 4 * block, 8 * block},
		{8 * block, block, 4 * block},
		{1000 * block, block, block},
		{block, 0, block},
		{longest - 1, longest, longest},
	} {
		p := policyOf(t, nil)
		p.Add(0, &Request{File: "f", Seq: 9, Bytes: block})
		q := p.files["f"].queues[Read]
		q.quantum = int64(c.quantum)
		p.begin(0, q)
		p.window.used = int64(c.used)
		p.close()
		if q.quantum != int64(c.want) || q.closed != 9 {
			t.Errorf("a window of %v, used %v: the next is %v, want %v", c.quantum, c.used, q.quantum, c.want)
		}
	}
}
