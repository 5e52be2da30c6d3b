package iosched_test

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"ckpt/image/iosched"
	"ckpt/internal/testkit"
)

var (
	schedules = flag.Int("schedules", 0, "seeded schedules of TestSchedules (default 200, at night 1000)")
	firstSeed = flag.Uint64("first-seed", 1, "seed of the first schedule")
)

// TestSchedules runs clients that think, move bytes, die, stop and return,
// under a controller that dies and hangs. No client waits for ever, every burst
// moves all its bytes once, and one application has the turn at a time. 200 schedules
// reach each policy 33 times and all cases; there are 1000 at night.
func TestSchedules(t *testing.T) {
	n := *schedules
	if n == 0 {
		n = 80
		if testkit.Nightly() {
			n = 1000
		}
	}
	var sum counts
	for i := range n {
		seed := *firstSeed + uint64(i)
		s, c := schedule(seed)
		if len(s.faults) > 0 {
			t.Fatalf("seed %d, policy %s: %v", seed, s.o.Policy, s.faults)
		}
		sum.add(c)
	}
	t.Logf("%+v", sum)
	if sum.Evictions == 0 || sum.Kills == 0 || sum.Restarts == 0 || sum.Stops == 0 || sum.Revokes == 0 {
		t.Errorf("the schedules do not reach all cases: %+v", sum)
	}
}

type counts struct {
	Bursts, Kills, Stops, Restarts, Events int
	Evictions, Revokes, Windows            int64
}

func (c *counts) add(d counts) {
	c.Bursts += d.Bursts
	c.Kills += d.Kills
	c.Stops += d.Stops
	c.Restarts += d.Restarts
	c.Events += d.Events
	c.Evictions += d.Evictions
	c.Revokes += d.Revokes
	c.Windows += d.Windows
}

// schedule draws a world from a seed, and runs it to its end.
func schedule(seed uint64) (*sim, counts) {
	policies := iosched.TurnPolicies()
	o := iosched.TurnOptions{
		Policy: policies[seed%uint64(len(policies))],
		Window: 200 * ms, Lease: 2 * time.Second, Grace: 4 * time.Second,
		MaxWait: 10 * time.Second, Linger: 2 * ms, Stall: time.Second,
	}
	s := newSim(seed, o)
	s.disk.seek = s.between(0, 10*ms)
	s.startController()
	var c counts
	total := time.Duration(0)
	for app := range 1 + s.rng.IntN(6) {
		total += s.drawApp(app)
	}
	horizon := 5*time.Second + total
	c.Kills, c.Stops, c.Restarts = s.drawFaults(horizon)
	limit := 10*horizon + time.Hour
	s.run(limit)
	for _, x := range s.clients {
		c.Bursts += x.bursts
		if !x.finished() {
			s.fault("%s waits for ever: %d bursts left, link %t, granted %t", x.app, len(x.jobs), x.link != nil, x.granted)
		}
	}
	c.Events = s.events
	if s.ctl != nil {
		st := s.ctl.a.Status(s.now)
		c.Evictions, c.Revokes, c.Windows = st.Evictions, st.Revocations, st.Windows
	}
	return s, c
}

// drawApp draws an application, and returns how long its bursts take alone.
func (s *sim) drawApp(app int) (alone time.Duration) {
	name, user := fmt.Sprintf("app%d", app), fmt.Sprintf("user%d", s.rng.IntN(3))
	bursts, unknown := 1+s.rng.IntN(5), s.rng.IntN(4) == 0
	size := int64(1) << (14 + s.rng.IntN(15))
	shared, meet := s.rng.IntN(2) == 0, s.rng.IntN(3) == 0
	for rank := range 1 + s.rng.IntN(6) {
		c := &client{s: s, app: name, user: user}
		for b := range bursts {
			j := job{think: s.between(0, 3*time.Second), bytes: size + s.rng.Int64N(size), unknown: unknown, op: 1 << (16 + s.rng.IntN(10)), meet: meet, quiet: s.rng.IntN(2) == 0}
			if b > 0 && s.rng.IntN(3) == 0 {
				j.think = s.between(0, 5*ms)
			}
			j.file = fmt.Sprintf("%s.%d", name, rank)
			if shared {
				j.file = name
			}
			c.jobs = append(c.jobs, j)
			alone += time.Duration(float64(j.bytes)/s.disk.rate*1e9) + s.disk.seek + j.think
		}
		s.clients = append(s.clients, c)
		s.after(s.between(0, 500*ms), c.start)
	}
	return alone
}

// drawFaults draws deaths and stops of clients and of the controller.
func (s *sim) drawFaults(horizon time.Duration) (kills, stops, restarts int) {
	for _, c := range s.clients {
		switch s.rng.IntN(12) {
		case 0:
			kills++
			hostLives := s.rng.IntN(2) == 0
			s.after(s.between(0, horizon), func() { c.kill(hostLives) })
		case 1:
			stops++
			s.after(s.between(0, horizon), func() { c.stop(0) })
		case 2, 3:
			stops++
			d := s.between(ms, 10*time.Second)
			s.after(s.between(0, horizon), func() { c.stop(d) })
		}
	}
	for s.rng.IntN(3) == 0 {
		restarts++
		at, down := s.between(0, horizon), s.between(0, 5*time.Second)
		s.after(at, s.killController)
		s.after(at+down, func() {
			if s.ctl == nil {
				s.startController()
			}
		})
	}
	if s.rng.IntN(4) == 0 {
		at, hangs := s.between(0, horizon), s.between(0, 8*time.Second)
		s.after(at, func() {
			if ctl := s.ctl; ctl != nil {
				ctl.hung = true
				s.after(hangs, func() {
					if s.ctl == ctl {
						ctl.resume()
					}
				})
			}
		})
	}
	return kills, stops, restarts
}

// The same events at the same times have the same actions.
func TestSameSeedSameActions(t *testing.T) {
	for seed := range uint64(12) {
		a, _ := schedule(seed)
		b, _ := schedule(seed)
		if a.actions != b.actions || a.now != b.now {
			t.Errorf("seed %d has %x at %v and %x at %v", seed, a.actions, a.now, b.actions, b.now)
		}
	}
}
