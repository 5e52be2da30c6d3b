package iosched

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// TestTable51 holds the policies to the example of the thesis (Lebre 2006, §5.1.3,
// Table 5.1): jobs of 50, 5 and 20 s that come at 0, 10 and 15 s.
//
// The thesis prints ΣF = 165 for FIFO; 50 + 45 + 60 is 155. It prints 75/12/42 for
// round robin, which is what ideal sharing of the unit gives, cut off; with a quantum
// of one second the second job ends at 11, as a job that comes while another has the
// unit goes before that one's next turn.
func TestTable51(t *testing.T) {
	for _, c := range []struct {
		policy  string
		flow    [3]float64
		stretch [3]float64
		max     float64
		sum     float64
		within  float64
	}{
		{"fifo", [3]float64{50, 45, 60}, [3]float64{1, 9, 3}, 60, 155, 0},
		{"srpt", [3]float64{75, 5, 20}, [3]float64{1.5, 1, 1}, 75, 100, 0},
		{"rr", [3]float64{75, 12, 42}, [3]float64{1.5, 2.4, 2.1}, 75, 129, 1},
		{"rr", [3]float64{75, 11, 42}, [3]float64{1.5, 2.2, 2.1}, 75, 128, 0}, // by our tie rule, exactly
	} {
		t.Run(fmt.Sprintf("%s within %v", c.policy, c.within), func(t *testing.T) {
			s := newSim(t, c.policy, Options{Rate: 1, Quantum: 1}, 0)
			for i, job := range []struct {
				at    time.Duration
				bytes int64
			}{{0, 50}, {10 * time.Second, 5}, {15 * time.Second, 20}} {
				s.at(job.at, func() {
					s.add(&Request{App: fmt.Sprint("A", i+1), File: fmt.Sprint(i), Bytes: job.bytes})
				})
			}
			s.run()
			stats := s.c.Stats()
			var longest, sum time.Duration
			for i, a := range stats.Apps {
				longest, sum = max(longest, a.Flow()), sum+a.Flow()
				near(t, a.App+": flow time", a.Flow().Seconds(), c.flow[i], c.within)
				near(t, a.App+": stretch", a.Flow().Seconds()/a.Service.Seconds(), c.stretch[i], c.within/a.Service.Seconds()+1e-9)
			}
			near(t, "max F", longest.Seconds(), c.max, 0)
			near(t, "ΣF", sum.Seconds(), c.sum, c.within)
		})
	}
}

func near(t *testing.T, what string, got, want, within float64) {
	t.Helper()
	if math.Abs(got-want) > within {
		t.Errorf("%s: %v, want %v within %v", what, got, want, within)
	}
}

// TestTwoServers is the example of two applications on two servers (Lebre 2006,
// Figures 5.4 and 5.5): what one server's order does depends on the other's.
func TestTwoServers(t *testing.T) {
	work := [2][2]int64{{10, 5}, {5, 5}} // of A1 and A2 on each server
	for _, c := range []struct {
		name   string
		first  [2]int // who comes first to each server
		ends   [2]float64
		policy string
	}{
		{"A1 first on server 1", [2]int{0, 1}, [2]float64{10, 15}, "fifo"},
		{"A2 first on server 1 as well", [2]int{1, 1}, [2]float64{15, 5}, "fifo"}, // A2 -10, A1 +5
		{"A1 first on both", [2]int{0, 0}, [2]float64{10, 15}, "fifo"},
		{"A2 first on server 1 only", [2]int{1, 0}, [2]float64{15, 10}, "fifo"},
		{"srpt", [2]int{0, 1}, [2]float64{15, 5}, "srpt"},
	} {
		var ends [2]float64
		for server := range work {
			s := newSim(t, c.policy, Options{Rate: 1}, 0)
			s.at(0, func() {
				for i := range 2 {
					who := (c.first[server] + i) % 2
					s.add(&Request{App: fmt.Sprint("A", who+1), File: fmt.Sprint(who), Bytes: work[server][who]})
				}
			})
			s.run()
			for i, a := range s.c.Stats().Apps {
				ends[i] = max(ends[i], a.End.Seconds())
			}
		}
		if ends != c.ends {
			t.Errorf("%s: A1 and A2 end at %v, want %v", c.name, ends, c.ends)
		}
	}
}
