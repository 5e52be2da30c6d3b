package iosched_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ckpt/image/iosched"
)

// anyEvents passes events in any order to an Arbiter, right ones and wrong
// ones, and holds its actions against the mirror.
func anyEvents(t *rapid.T) {
	o := iosched.TurnOptions{
		Policy: rapid.SampledFrom(iosched.TurnPolicies()).Draw(t, "policy"),
		Window: 100 * ms, Lease: 400 * ms, Grace: 500 * ms, MaxWait: second, Linger: 2 * ms, Stall: 200 * ms,
		MaxConns: 7, MaxBursts: 3,
	}
	s := newSim(0, o)
	s.startController()
	for range rapid.IntRange(1, 120).Draw(t, "events") {
		until := s.now + time.Duration(rapid.IntRange(0, 150).Draw(t, "ms"))*ms
		for at, ok := s.ctl.a.Wake(); ok && at <= until; at, ok = s.ctl.a.Wake() {
			if at <= s.now && s.now > 0 {
				t.Fatalf("%v: the arbiter wants to wake at %v", s.now, at)
			}
			s.now = at
			feed(s, iosched.Tick{})
		}
		s.now = until
		feed(s, drawEvent(t))
		if len(s.faults) > 0 {
			t.Fatal(s.faults)
		}
	}
	checkStatus(t, s)
}

// feed passes an event on. A wrong one may only be a sign of life.
func feed(s *sim, e iosched.Event) {
	actions, err := s.ctl.a.Step(s.now, e)
	if err != nil {
		if c := connOf(e); s.ctl.conns[c] != nil {
			if _, joins := e.(iosched.Join); !joins {
				s.ctl.hear(c, s.now)
			}
		}
		e = iosched.Tick{}
	}
	s.ctl.see(s.now, e, actions)
}

func connOf(e iosched.Event) iosched.Conn {
	switch e := e.(type) {
	case iosched.Ask:
		return e.Conn
	case iosched.Progress:
		return e.Conn
	case iosched.Idle:
		return e.Conn
	case iosched.Release:
		return e.Conn
	case iosched.End:
		return e.Conn
	}
	return 0
}

func drawEvent(t *rapid.T) iosched.Event {
	c := iosched.Conn(rapid.IntRange(1, 8).Draw(t, "conn"))
	b := uint64(rapid.IntRange(1, 4).Draw(t, "burst"))
	n := rapid.Int64().Draw(t, "bytes")
	switch rapid.IntRange(0, 13).Draw(t, "event") {
	case 0, 1:
		return iosched.Join{Conn: c, App: fmt.Sprint(c % 4), User: fmt.Sprint(c % 2), Weight: float64(n % 3)}
	case 2, 3, 4:
		return iosched.Ask{Conn: c, Burst: b, File: fmt.Sprint(b % 3), Bytes: n}
	case 5, 6:
		return iosched.Progress{Conn: c, Burst: b, Bytes: n}
	case 7, 8:
		return iosched.Release{Conn: c, Burst: b, Turn: uint64(rapid.IntRange(0, 20).Draw(t, "turn"))}
	case 9, 10:
		return iosched.End{Conn: c, Burst: b}
	case 11:
		return iosched.Idle{Conn: c, Burst: b}
	case 12:
		return iosched.Leave{Conn: c}
	}
	return iosched.Alive{Conn: c}
}

// checkStatus compares the counts with the mirror.
func checkStatus(t *rapid.T, s *sim) {
	st := s.ctl.a.Status(s.now)
	bursts, granted, stragglers, conns := 0, 0, 0, 0
	for _, a := range st.Apps {
		if a.State == "left" {
			continue
		}
		bursts += a.Waiting + a.Granted
		granted += a.Granted
		conns += a.Connections
		if a.Waited < 0 || a.LongestWait > a.Waited+1e-9 || a.Remaining != nil && *a.Remaining < 0 || a.Bytes < 0 || a.Stretch != nil && *a.Stretch <= 0 {
			t.Errorf("status %+v", a)
		}
	}
	for _, r := range s.ctl.bursts {
		if r.granted {
			granted--
		}
		if r.straggler {
			stragglers++
		}
	}
	if bursts != len(s.ctl.bursts) || granted != 0 || stragglers != st.Stragglers || conns != len(s.ctl.conns) {
		t.Errorf("the status has %d bursts, %d more granted, %d stragglers, %d connections; the mirror %d, 0, %d, %d",
			bursts, granted, st.Stragglers, conns, len(s.ctl.bursts), stragglers, len(s.ctl.conns))
	}
}

func TestAnyEvents(t *testing.T) { rapid.Check(t, anyEvents) }

func FuzzEvents(f *testing.F) { f.Fuzz(rapid.MakeFuzz(anyEvents)) }

func drawBursts(t *rapid.T) (bursts []iosched.Expected, alone time.Duration) {
	for i := range rapid.IntRange(1, 8).Draw(t, "bursts") {
		b := iosched.Expected{
			App:     fmt.Sprint(i),
			User:    fmt.Sprint(rapid.IntRange(0, 2).Draw(t, "user")),
			Arrival: time.Duration(rapid.IntRange(0, 20000).Draw(t, "arrival")) * ms,
			Alone:   time.Duration(rapid.IntRange(1, 20000).Draw(t, "alone")) * ms,
		}
		b.Bytes = int64(b.Alone / 10) // 100 MB/s
		alone += b.Alone
		bursts = append(bursts, b)
	}
	return bursts, alone
}

// Turns change who is served when, not how long all take: the unit is never
// free while somebody waits.
func TestPredictIsWorkConserving(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bursts, _ := drawBursts(t)
		policy := rapid.SampledFrom(iosched.TurnPolicies()).Draw(t, "policy")
		flows, err := iosched.Predict(iosched.TurnOptions{Policy: policy}, iosched.Cost{}, bursts)
		if err != nil {
			t.Fatal(err)
		}
		var last time.Duration
		for i, f := range flows {
			last = max(last, f.Finish)
			if f.Flow < bursts[i].Alone-ms || f.Began < bursts[i].Arrival || f.Turns < 1 {
				t.Errorf("burst %d takes %v alone and %+v under %s", i, bursts[i].Alone, f, policy)
			}
		}
		if off := last - lastAlone(bursts); off > ms || off < -ms {
			t.Errorf("%s: the last burst ends at %v, %v from what the unit can do", policy, last, off)
		}
	})
}

// lastAlone is when a unit that is never free beside work has done all.
func lastAlone(bursts []iosched.Expected) (end time.Duration) {
	rest := append([]iosched.Expected(nil), bursts...)
	for len(rest) > 0 {
		first := 0
		for i, b := range rest {
			if b.Arrival < rest[first].Arrival {
				first = i
			}
		}
		end = max(end, rest[first].Arrival) + rest[first].Alone
		rest = append(rest[:first], rest[first+1:]...)
	}
	return end
}

// srpt has the least sum of flow times of all policies, but for what its
// reluctance to change costs.
func TestPredictSRPTIsBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bursts, _ := drawBursts(t)
		sum := func(policy string) (sum time.Duration) {
			flows, err := iosched.Predict(iosched.TurnOptions{Policy: policy, MaxWait: 1000 * time.Hour}, iosched.Cost{}, bursts)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range flows {
				sum += f.Flow
			}
			return sum
		}
		best := sum("srpt")
		for _, policy := range iosched.TurnPolicies() {
			if s := sum(policy); float64(best) > 1.1*float64(s) {
				t.Errorf("the sum of flow times is %v under srpt, %v under %s", best, s, policy)
			}
		}
	})
}

// A user with ten applications gets no more than a user with one: when the one
// is done, the ten have had no more than it, and one burst under way.
func TestPredictTenJobsOfOneUser(t *testing.T) {
	for _, length := range []time.Duration{5 * second, 10 * second, 30 * second} {
		bursts := []iosched.Expected{
			{App: "b", User: "v", Arrival: second, Alone: length, Bytes: int64(length / 10)},
			{App: "c", User: "w", Arrival: second, Alone: length, Bytes: int64(length / 10)},
		}
		for i := range 10 {
			bursts = append(bursts, iosched.Expected{App: fmt.Sprint("a", i), User: "u", Alone: 10 * second, Bytes: 1e9})
		}
		o := iosched.TurnOptions{MaxWait: time.Hour}
		flows, err := iosched.Predict(o, iosched.Cost{}, bursts)
		if err != nil {
			t.Fatal(err)
		}
		// u has the first second alone; then at most as much as each other,
		// and what one window and the reluctance to change add.
		if limit := second + 3*length + 2*second + length/10; max(flows[0].Finish, flows[1].Finish) > limit {
			t.Errorf("bursts of %v beside ten of 10 s end at %v and %v, want %v", length, flows[0].Finish, flows[1].Finish, limit)
		}
	}
}
