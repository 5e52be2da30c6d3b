package iosched

import (
	"strings"
	"testing"
	"time"
)

// TestCosts says which application srpt and wsjf serve first.
func TestCosts(t *testing.T) {
	weight := func(user string) float64 { return map[string]float64{"heavy": 3}[user] }
	three := func(s *sim, user string) {
		for _, app := range []string{"a", "b", "c"} {
			s.add(&Request{App: app, User: user, File: app, Bytes: 4 * block})
		}
	}
	one := func(s *sim) { s.add(&Request{App: "v", User: "v", File: "v", Bytes: 10 * block}) }
	for _, c := range []struct {
		name, policy, first string
		add                 func(s *sim)
	}{
		{"a user's applications share what it may have", "wsjf", "v", func(s *sim) { three(s, "u"); one(s) }},
		{"a user with three shares", "wsjf", "a", func(s *sim) { three(s, "heavy"); one(s) }},
		{"srpt knows no users", "srpt", "a", func(s *sim) { one(s); three(s, "u") }},
		{"a burst counts that has not come yet", "srpt", "b", burstOf},
		{"a burst counts that has not come yet", "wsjf", "b", burstOf},
	} {
		s := newSim(t, c.policy, Options{Rate: unitRate, Weight: weight}, 0)
		s.at(0, func() { c.add(s) })
		s.run()
		if got := s.order[0].Request.App; got != c.first {
			t.Errorf("%s, %s: %s goes first, want %s", c.policy, c.name, got, c.first)
		}
	}
}

func burstOf(s *sim) {
	s.add(&Request{App: "a", File: "a", Bytes: block, Burst: 100 * block})
	s.add(&Request{App: "b", File: "b", Bytes: 2 * block})
}

// TestUnknownLength: wsjf expects an application to move as much again as it has, and
// forgets that after a pause.
func TestUnknownLength(t *testing.T) {
	for pause, want := range map[time.Duration]string{0: "b a", 11 * time.Second: "a b"} {
		s := newSim(t, "wsjf", Options{Rate: unitRate, IdleWait: -1}, 0)
		s.at(0, func() { s.add(&Request{App: "a", File: "a", Bytes: 96 * block}) })
		s.at(time.Second+pause, func() {
			s.add(&Request{App: "a", File: "a", Bytes: block})
			s.add(&Request{App: "b", File: "b", Bytes: 2 * block})
		})
		s.run()
		var order []string
		for _, g := range s.order {
			if g.Request.Bytes < 96*block {
				order = append(order, g.Request.App)
			}
		}
		if got := strings.Join(order, " "); got != want {
			t.Errorf("after %v: %s, want %s", pause, got, want)
		}
	}
}

// TestIdleForSynchronous has two processes read a file each, one request after the
// other. Idling, wsjf ends one before it begins the other.
func TestIdleForSynchronous(t *testing.T) {
	for idle, want := range map[time.Duration]int{-1: 39, 0: 1} {
		s := newSim(t, "wsjf", Options{Rate: unitRate, Quantum: 100 * block, IdleWait: idle}, seek)
		for _, app := range []string{"a", "b"} {
			s.start(0, &reader{app: app, file: app, size: block, stride: block, count: 20, think: ms})
		}
		s.run()
		switches := 0
		for i, g := range s.order[1:] {
			if g.Request.App != s.order[i].Request.App {
				switches++
			}
		}
		if stats := s.c.Stats(); switches != want || (stats.Idle > 0) != (idle == 0) {
			t.Errorf("idling %v: %d switches, want %d; idle for %v", idle, switches, want, stats.Idle)
		}
	}
}
