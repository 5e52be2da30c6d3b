package pfs

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"ckpt/image/iosched"
	"ckpt/image/plan"
)

// TestSchedulerTime holds times of operations that do not wait.
func TestSchedulerTime(t *testing.T) {
	const mib = 1 << 20
	for _, test := range []struct {
		what, more string
		read       bool
		bytes      int64
		want       float64
	}{
		{"a write", "", false, 100 * mib, 1},
		{"a read", "", true, 100 * mib, 1},
		{"one request under way", "in_flight: 1\nhost: {latency: 2ms}", false, 10 * mib, 0.12},
		{"a read with latency", "in_flight: 1\nhost: {latency: 2ms}", true, 10 * mib, 0.12},
		{"a router on the way back", "in_flight: 1\nrouters: {count: 1, rate: 104857600B/s}", true, 10 * mib, 0.2},
		{"a processor of a server", "in_flight: 1\nservers: {per_request: 1ms}", false, 10 * mib, 0.11},
		{"a cache", "servers: {write_behind: true, cache: 1GiB, cache_rate: 1GiB/s}", false, 100 * mib, 100. / 1024},
		{"a full cache", "servers: {write_behind: true, cache: 40MiB, cache_rate: 0}", false, 100 * mib, 0.6},
	} {
		sim := NewSim(read(t, test.more), Options{Scheduler: &Scheduler{Policy: "fifo"}})
		f, c := sim.File(FileSpec{StripeSize: mib, StripeCount: 1}), sim.Client(0)
		near(t, test.what, finish(t, sim, func(done func()) {
			if test.read {
				c.Read(f, 0, test.bytes, done)
			} else {
				c.Write(f, 0, test.bytes, done)
			}
		}), test.want)
		s := sim.Units()[0]
		if got := s.Files[0]; got.Bytes != test.bytes || got.Requests != int(test.bytes/mib) || got.Seeks != 1 || s.Policy != "fifo" {
			t.Errorf("%s: %+v", test.what, got)
		}
	}
}

// TestSchedulerDelay delays each request, and requests of several processes at once.
func TestSchedulerDelay(t *testing.T) {
	const mib = 1 << 20
	sim := NewSim(read(t, "in_flight: 1"), Options{Scheduler: &Scheduler{Policy: "fifo", PerRequest: 0.005}})
	f := sim.File(FileSpec{StripeSize: mib, StripeCount: 1})
	a, b := sim.Client(0), sim.Client(1)
	a.Write(f, 0, 10*mib, func() {})
	near(t, "two writers", finish(t, sim, func(done func()) { b.Write(f, 10*mib, 10*mib, done) }), 0.205)
}

// TestDrain waits for a cache under a scheduler, as it does without.
func TestDrain(t *testing.T) {
	const mib = 1 << 20
	for _, s := range []*Scheduler{nil, {Policy: "fifo"}} {
		sim := NewSim(read(t, "servers: {write_behind: true, cache: 1GiB}"), Options{Scheduler: s})
		f, c := sim.File(FileSpec{StripeSize: mib, StripeCount: 1}), sim.Client(0)
		answered := 0.0
		near(t, "drained", finish(t, sim, func(done func()) {
			c.Write(f, 0, 100*mib, func() {
				answered = sim.Now()
				c.Drain(0.5, done)
			})
		}), 1.5)
		if answered > 0.01 {
			t.Errorf("%+v: answered after %v s, though there is a cache", s, answered)
		}
	}
}

// TestDescribedScheduler takes the scheduler of the description, unless options have
// another or none.
func TestDescribedScheduler(t *testing.T) {
	s := read(t, "scheduler: {policy: fifo, per_request: 1ms}\nin_flight: 1")
	p := mustPlan(t, sources(2, 1, 4<<20), plan.Settings{Layout: plan.Shared, Strategy: plan.Individual, StripeCount: 1, P1: true})
	for _, test := range []struct {
		option *Scheduler
		units  int
		want   float64
	}{
		{nil, 1, 0.081},
		{&Scheduler{}, 0, 0.08},
		{&Scheduler{Policy: "fifo"}, 1, 0.08},
	} {
		r, err := Run(context.Background(), s, []Job{{Plan: p, App: "bt"}}, Options{Scheduler: test.option})
		if err != nil {
			t.Fatal(err)
		}
		near(t, "seconds", r.Jobs[0].Seconds, test.want)
		if len(r.Units) != test.units || test.units > 0 && r.Units[0].Apps[0].App != "bt" {
			t.Errorf("%+v: units %+v", test.option, r.Units)
		}
	}
	if _, err := Run(context.Background(), s, []Job{{Plan: p}}, Options{Scheduler: &Scheduler{Policy: "lifo"}}); err == nil || !strings.Contains(err.Error(), `unknown policy "lifo"`) {
		t.Error(err)
	}
}

// TestEveryPolicy has jobs under each policy write and read what they are to, the same
// each time.
func TestEveryPolicy(t *testing.T) {
	for _, name := range iosched.Names() {
		for _, more := range []string{"", "servers: {write_behind: true, cache: 3MiB}", "in_flight: 1\nhost: {latency: 1ms, dirty: 2MiB}"} {
			s := read(t, more)
			s.Targets.Seek = 0.01
			var jobs []Job
			for i := range 4 {
				p := mustPlan(t, sources(3, 1, 5<<20+4096), plan.Settings{Layout: plan.Shared, Strategy: plan.Individual, StripeCount: 3, P1: true})
				jobs = append(jobs, Job{Plan: p, Sync: i%2 == 0, Read: i == 3, Start: float64(i) / 100})
			}
			run := func() *Result {
				r, err := Run(context.Background(), s, jobs, Options{Scheduler: &Scheduler{Policy: name, Quantum: 300_000}})
				if err != nil {
					t.Fatal(err)
				}
				return r
			}
			r, bytes := run(), int64(0)
			for _, u := range r.Units {
				for _, f := range u.Files {
					bytes += f.Bytes
				}
			}
			for _, j := range r.Jobs {
				bytes -= j.Bytes
				if j.Seconds <= 0 {
					t.Errorf("%s: %+v", name, j)
				}
			}
			if bytes != 0 {
				t.Errorf("%s %s: %d bytes more were served than moved", name, more, bytes)
			}
			if !reflect.DeepEqual(r, run()) {
				t.Errorf("%s %s: another result", name, more)
			}
		}
	}
}

// TestSchedulerInterrupted ends a simulation under a scheduler early.
func TestSchedulerInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	p := mustPlan(t, sources(4, 1, 1<<20), plan.Settings{Layout: plan.PerRank, P1: true})
	if _, err := Run(ctx, read(t, ""), []Job{{Plan: p}}, Options{Scheduler: &Scheduler{Policy: "fifo"}}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestOneInFlight has a process wait for each answer.
func TestOneInFlight(t *testing.T) {
	sim := NewSim(read(t, "in_flight: 1\nhost: {latency: 10ms}"), Options{})
	f, c := sim.File(FileSpec{StripeSize: 1 << 20, StripeCount: 1}), sim.Client(0)
	near(t, "ten requests", finish(t, sim, func(done func()) { c.Write(f, 0, 10<<20, done) }), 10*0.02)
}

// TestLateClock waits for a process at a time that is too late for the clock of the
// scheduler.
func TestLateClock(t *testing.T) {
	sim := NewSim(read(t, "in_flight: 1\nhost: {latency: 1ms}"), Options{Scheduler: &Scheduler{Policy: "mlf"}})
	f := sim.File(FileSpec{StripeSize: 1 << 20, StripeCount: 1})
	left := 2
	for rank := range 2 {
		c, next := sim.Process(rank, Process{App: "a", Rank: rank}), int64(rank)
		var step func()
		step = func() {
			if next > 100 {
				left--
				return
			}
			c.Read(f, next*3<<20, 2<<20, step)
			next += 2
		}
		sim.At(2e9+float64(rank), step)
	}
	steps := 0
	sim.wait(func() bool { steps++; return left == 0 || steps > 100_000 })
	if s := sim.Units()[0].Files[0]; left > 0 || s.Shift == 0 {
		t.Errorf("%d processes are not done after %d steps: %+v", left, steps, s)
	}
}
