package supervisor

import (
	"slices"
	"testing"
	"time"

	"ckpt/coordinator/protocol"
	"ckpt/coordinator/protocol/channel"
)

// boundaries returns the first ones at which each of four ranks stops by itself.
func boundaries(t *testing.T, cfg Config) [][]int {
	t.Helper()
	cfg.Groups, cfg.Log = [][]int{{0}, {1}, {2}, {3}}, channel.Receiver
	all := make([][]int, 4)
	sc := newScript(t, cfg)
	sc.watch = func(a Action) {
		b, ok := a.Action.(protocol.Broadcast)
		if !ok {
			return
		}
		switch m := b.Message.(type) {
		case protocol.Start:
			all[a.Group] = append(all[a.Group], m.Boundary)
		case protocol.Resume:
			all[a.Group] = append(all[a.Group], m.Boundary)
		}
	}
	zero := vector(make([]uint64, 4), make([]uint64, 4))
	for r := range 4 {
		sc.dies(r) // it starts again, under the eyes of watch
		sc.ready(r)
		for k := range 3 {
			sc.checkpoint(r, 4*k+r+1, all[r][k], zero)
		}
	}
	return all
}

func TestStagger(t *testing.T) {
	every := protocol.Schedule{Every: 20}
	for name, c := range map[string]struct {
		cfg  Config
		want [][]int
	}{
		"none":   {Config{Schedule: every}, [][]int{{20, 40, 60, 80}, {20, 40, 60, 80}, {20, 40, 60, 80}, {20, 40, 60, 80}}},
		"spread": {Config{Schedule: every, Stagger: Spread}, [][]int{{20, 40, 60, 80}, {5, 25, 45, 65}, {10, 30, 50, 70}, {15, 35, 55, 75}}},
		"given":  {Config{Schedule: protocol.Schedule{At: []int{7, 8, 30, 31}}, Stagger: Spread}, [][]int{{7, 8, 30, 31}, {7, 8, 30, 31}, {7, 8, 30, 31}, {7, 8, 30, 31}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := boundaries(t, c.cfg)
			for g := range got {
				if !slices.Equal(got[g], c.want[g]) {
					t.Errorf("group %d stops at %v, want %v", g, got[g], c.want[g])
				}
			}
		})
	}
	random := boundaries(t, Config{Schedule: every, Stagger: Random, Seed: 3})
	if again := boundaries(t, Config{Schedule: every, Stagger: Random, Seed: 3}); !slices.EqualFunc(random, again, slices.Equal) {
		t.Errorf("the same seed gives %v and %v", random, again)
	}
	if slices.Equal(random[0], random[1]) && slices.Equal(random[1], random[2]) {
		t.Errorf("a random stagger gives all groups %v", random[0])
	}
}

// TestIntervals: groups that are spread take their first checkpoints by time one
// after the other.
func TestIntervals(t *testing.T) {
	sc := fourGroups(t, Config{Stagger: Spread, Schedule: protocol.Schedule{Interval: 40 * time.Second}})
	var order []string
	for range 4 {
		sc.got = nil
		at, _ := sc.s.Deadline()
		sc.take(sc.s.Step(at, Event{Job, protocol.Tick{}}))
		order = append(order, sc.got...)
		if want := time.Duration(len(order)) * 10 * time.Second; at < want || at > want+time.Second {
			t.Errorf("checkpoint %d begins at %v", len(order), at)
		}
	}
	if want := []string{"0: propose", "1: propose", "2: propose", "3: propose"}; !slices.Equal(order, want) {
		t.Errorf("%v", order)
	}
}

// TestRandomShift: with a random stagger, the first checkpoint by time comes within
// the first interval.
func TestRandomShift(t *testing.T) {
	for seed := range uint64(50) {
		s, err := New(Config{Groups: [][]int{{0}, {1}}, Log: channel.Receiver, Iterations: 1, Stagger: Random, Seed: seed,
			Schedule: protocol.Schedule{Interval: time.Minute}})
		if err != nil {
			t.Fatal(err)
		}
		for g := range 2 {
			if first := time.Minute + s.schedule(g).Shift; first <= 0 || first > time.Minute {
				t.Errorf("seed %d: the first checkpoint of group %d is due after %v", seed, g, first)
			}
		}
	}
}

// TestGate: while as many groups store as may, no other begins a checkpoint by its own
// clock, only to stand still.
func TestGate(t *testing.T) {
	sc := newScript(t, Config{Log: channel.Receiver, Storing: 1, Schedule: protocol.Schedule{Interval: 18 * time.Second}, Stagger: Spread})
	advance := func(to time.Duration) {
		for at, ok := sc.s.Deadline(); ok && at <= to; at, ok = sc.s.Deadline() {
			sc.now = at
			sc.step(Job, protocol.Tick{})
		}
	}
	advance(7 * time.Second) // that of group 0 is due after 6, of group 1 after 12
	sc.rank(0, protocol.Holding{Number: 1, Iter: 5})
	sc.rank(0, protocol.Stopped{Number: 1, Iter: 5})
	sc.want("0: propose", "0: stop-at", "0: drain to rank 0")
	advance(14 * time.Second)
	sc.want()
	sc.rank(0, protocol.Drained{Number: 1})
	sc.rank(0, protocol.Written{Number: 1})
	sc.got = nil
	sc.step(0, protocol.Committed{Number: 1, Vectors: []channel.Vector{zeros(3)}})
	sc.want("0: resume", "1: propose", "-1: collect before [1 0 0], remove []")
}

// TestBudgetIsShared: groups that wait for each other's messages stand still for every
// checkpoint of each, so that together they keep to the budget of the job.
func TestBudgetIsShared(t *testing.T) {
	sc := fourGroups(t, Config{Schedule: protocol.Schedule{Overhead: 0.2}, Cost: protocol.Cost{First: time.Second, FirstHigh: time.Second}})
	if at, ok := sc.s.Deadline(); !ok || at < 20*time.Second || at > 21*time.Second {
		t.Errorf("the first checkpoint of a second is due after %v, want 20s: each group has 5 %%", at)
	}
}

// fourGroups returns a job of four ranks, each a group, that compute.
func fourGroups(t *testing.T, cfg Config) *script {
	t.Helper()
	cfg.Groups, cfg.Log, cfg.Iterations, cfg.AutoRestart = [][]int{{0}, {1}, {2}, {3}}, channel.Receiver, 100, true
	cfg.Limits = protocol.Limits{Silence: time.Hour, Phase: time.Hour}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	sc := &script{t: t, s: s}
	sc.take(s.Begin(0))
	for r := range 4 {
		sc.ready(r)
	}
	return sc
}
