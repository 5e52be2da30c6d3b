package iosched

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestRepeatable runs the same load twice.
func TestRepeatable(t *testing.T) {
	for _, policy := range Names() {
		run := func() (order []string) {
			s := newSim(t, policy, Options{Rate: unitRate}, seek)
			rnd := rand.New(rand.NewPCG(7, 8))
			for i := range 4 {
				for rank := range 3 {
					s.start(0, &reader{app: fmt.Sprint(i), rank: rank, file: fmt.Sprint(i / 2), op: Op(i % 2), offset: rnd.Int64N(10) * block, size: block, stride: 3 * block, count: 20, think: ms, jitter: rnd})
				}
			}
			s.run()
			for _, g := range s.order {
				order = append(order, fmt.Sprint(g.Request.App, g.Request.Rank, g.Offset, g.Bytes))
			}
			return order
		}
		if first, again := run(), run(); !slices.Equal(first, again) {
			t.Errorf("%s: the second run differs", policy)
		}
	}
}

// TestAllocations has a request that comes again and again cost no memory.
func TestAllocations(t *testing.T) {
	for _, policy := range Names() {
		p, err := New(policy, Options{Rate: unitRate, Quantum: block})
		if err != nil {
			t.Fatal(err)
		}
		c := NewController("disk", p)
		requests := make([]Request, 64)
		now := time.Duration(0)
		add := func(i int, r *Request) {
			r.App, r.File, r.Rank, r.Offset, r.Bytes = "a", "f", i%4, int64(i)*block, block
			if err := c.Add(now, r); err != nil {
				t.Fatal(err)
			}
		}
		for i := range requests {
			add(i, &requests[i])
		}
		i := 0
		step := func() {
			grants, wake := c.Next(now)
			now = max(now, wake)
			for _, g := range grants {
				now += ms
				c.Done(now-ms, now, g)
			}
			for _, g := range grants {
				i++
				add(i%1000, g.Request)
			}
		}
		for range 1000 {
			step()
		}
		if n := testing.AllocsPerRun(1000, step); n >= 1 {
			t.Errorf("%s: %v allocations for each choice", policy, n)
		}
	}
}

// FuzzMachine is TestMachine on inputs that the fuzzer finds.
func FuzzMachine(f *testing.F) {
	f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) {
		m := newMachine(t, rapid.SampledFrom(Names()).Draw(t, "policy"))
		t.Repeat(m.actions())
		m.finish()
	}))
}

func TestRefused(t *testing.T) {
	if _, err := New("lifo", Options{}); err == nil || err.Error() != `unknown policy "lifo" (want deadline, fifo, mlf, offset, rr, srpt, wsjf)` {
		t.Errorf("New: %v", err)
	}
	for _, change := range []func(*MLFOptions){
		func(m *MLFOptions) { m.QB = 0 },
		func(m *MLFOptions) { m.MaxAgg = -1 },
		func(m *MLFOptions) { m.WindowMax = 0 },
		func(m *MLFOptions) { m.Grow = 0.5 },
		func(m *MLFOptions) { m.Shrink = 0 },
		func(m *MLFOptions) { m.IdleWait = -1 },
	} {
		if _, err := New("mlf", mlfOptions(change)); err == nil {
			t.Error("mlf took options that make no sense")
		}
	}
	if _, err := New("deadline", Options{Deadline: &DeadlineOptions{}}); err == nil {
		t.Error("deadline took batches of no request")
	}
	p, err := New("fifo", Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := NewController("a", p)
	r := &Request{File: "f", Bytes: 1}
	if err := c.Add(0, r); err != nil {
		t.Fatal(err)
	}
	for _, r := range []*Request{r, {}, {Bytes: -1}, {Bytes: 1, Offset: -1}, {Bytes: 2, Offset: 1<<63 - 1}, {Bytes: 1, Op: 7}} {
		if err := c.Add(0, r); err == nil {
			t.Errorf("the controller took %+v", r)
		}
	}
}
