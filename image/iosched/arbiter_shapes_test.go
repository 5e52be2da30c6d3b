package iosched_test

import (
	"fmt"
	"testing"
	"time"

	"ckpt/image/iosched"
)

// A mix is what runs on one disk of 100 MB/s that seeks for 10 ms.
type mix []struct {
	app, user    string
	ranks, times int
	start        time.Duration
	bytes, op    int64
}

// play runs a mix under a policy.
func play(t *testing.T, policy string, m mix) *sim {
	t.Helper()
	s := newSim(1, iosched.TurnOptions{Policy: policy, Window: 500 * ms, Lease: 5 * second, Grace: 10 * second, MaxWait: time.Minute, Linger: 2 * ms, Stall: second})
	s.disk.seek = 10 * ms
	s.startController()
	for _, x := range m {
		for rank := range x.ranks {
			c := &client{s: s, app: x.app, user: x.user}
			for range x.times {
				c.jobs = append(c.jobs, job{think: x.start, file: fmt.Sprint(x.app, rank), bytes: x.bytes, op: x.op})
				x.start = 0
			}
			s.clients = append(s.clients, c)
			s.after(0, c.start)
		}
	}
	s.run(24 * time.Hour)
	if len(s.faults) > 0 {
		t.Fatalf("policy %s: %v", policy, s.faults)
	}
	return s
}

// flow returns from the first start to the last end of the bursts of an
// application.
func (s *sim) flow(app string) time.Duration {
	first, last := s.finish(app), time.Duration(0)
	for _, c := range s.clients {
		if c.app == app {
			first = min(first, c.starts[0])
			last = max(last, c.finishes[len(c.finishes)-1])
		}
	}
	return last - first
}

func (s *sim) finish(app string) (last time.Duration) {
	for _, c := range s.clients {
		if app == "" || c.app == app {
			last = max(last, c.finishes[len(c.finishes)-1])
		}
	}
	return last
}

func TestTwoEqualBursts(t *testing.T) {
	for _, user := range []string{"u", "v"} {
		m := mix{
			{"a", "u", 8, 1, 0, 128 << 20, 4 << 20},
			{"b", user, 8, 1, 5 * ms, 128 << 20, 4 << 20},
		}
		side, turns := play(t, "none", m), play(t, "wsjf", m)
		mean := float64(turns.flow("a")+turns.flow("b")) / float64(side.flow("a")+side.flow("b"))
		total := float64(turns.finish("")) / float64(side.finish(""))
		if mean > 0.76 || total > 1.01 {
			t.Errorf("users u, %s: mean flow time %.3f and total %.3f of side by side, want 0.75 and 1", user, mean, total)
		}
	}
}

func TestSmallReaderBesideACheckpoint(t *testing.T) {
	reader := mix{{"reader", "u", 1, 1, second, 20 << 20, 1 << 20}}
	both := append(mix{{"big", "u", 4, 1, 0, 1 << 30, 4 << 20}}, reader...)
	alone := play(t, "none", reader).flow("reader")
	side, turns := play(t, "none", both), play(t, "wsjf", both)
	if was, is := float64(side.flow("reader"))/float64(alone), float64(turns.flow("reader"))/float64(alone); is > was/2 {
		t.Errorf("the reader's stretch is %.1f, side by side %.1f, want at most half", is, was)
	}
	if total := float64(turns.finish("")) / float64(side.finish("")); total > 1.01 {
		t.Errorf("both take %.3f of side by side", total)
	}
}

func TestAloneNothingIsLost(t *testing.T) {
	m := mix{{"a", "u", 8, 5, 0, 32 << 20, 1 << 20}}
	without, with := play(t, "none", m).finish(""), play(t, "wsjf", m).finish("")
	if lost := float64(with)/float64(without) - 1; lost > 0.005 {
		t.Errorf("a job alone loses %.4f of its time", lost)
	}
}

// While three users always want the unit, each has a third, though one has ten
// applications and another has long bursts.
func TestUsersShareAlike(t *testing.T) {
	m := mix{
		{"long", "v", 1, 1000, 0, 400 << 20, 4 << 20},
		{"middle", "w", 2, 1000, 0, 100 << 20, 4 << 20},
	}
	for i := range 10 {
		m = append(m, mix{{fmt.Sprint("many", i), "u", 1, 1000, 0, 50 << 20, 4 << 20}}...)
	}
	s := newSim(1, iosched.TurnOptions{Policy: "wsjf", Window: 500 * ms, Lease: 5 * second, Grace: 10 * second, MaxWait: time.Minute, Linger: 2 * ms, Stall: second})
	s.disk.seek = 10 * ms
	s.startController()
	for _, x := range m {
		for rank := range x.ranks {
			c := &client{s: s, app: x.app, user: x.user}
			for range x.times {
				c.jobs = append(c.jobs, job{file: fmt.Sprint(rank), bytes: x.bytes, op: x.op})
			}
			s.clients = append(s.clients, c)
			s.after(0, c.start)
		}
	}
	s.after(600*second, func() { s.clients = nil }) // All are done then.
	s.run(time.Hour)
	if len(s.faults) > 0 {
		t.Fatal(s.faults)
	}
	held := map[string]float64{}
	for _, a := range s.ctl.a.Status(s.now).Apps {
		held[a.User] += a.Held / s.now.Seconds()
		if a.LongestWait > 60+12*1 {
			t.Errorf("%s has waited %.1f s", a.App, a.LongestWait)
		}
	}
	for user, part := range held {
		if part < 0.28 || part > 0.38 {
			t.Errorf("user %s had the unit for %.3f of the time, want a third: %v", user, part, held)
		}
	}
}
