package protocol_test

import (
	"reflect"
	"testing"
	"time"

	"ckpt/coordinator/protocol"
	"ckpt/coordinator/protocol/supervisor"
	"ckpt/internal/testkit"
)

// TestOneGroup runs the simulated schedules of the coordinator with a supervisor
// of one group beside it: whatever happens, both want the same to be done, in
// the same order and at the same time.
func TestOneGroup(t *testing.T) {
	n := 1000
	if testkit.Nightly() {
		n = 10000
	}
	compared := 0
	for seed := range n {
		var s *supervisor.Supervisor
		setUp := func(cfg protocol.Config) {
			var err error
			s, err = supervisor.New(supervisor.Config{Groups: [][]int{cfg.Ranks}, Iterations: cfg.Iterations, Schedule: cfg.Schedule,
				Limits: cfg.Limits, AutoRestart: cfg.AutoRestart, Async: cfg.Async, InFlight: cfg.InFlight, Cost: cfg.Cost, From: cfg.From, Next: cfg.Next})
			if err != nil {
				t.Fatal(err)
			}
		}
		protocol.Watch(t, uint64(seed), setUp, func(now time.Duration, ev protocol.Event, want []protocol.Action) {
			var got []supervisor.Action
			if ev == nil {
				got = s.Begin(now)
			} else {
				got = s.Step(now, supervisor.Event{Event: ev})
			}
			if len(got) != len(want) {
				t.Fatalf("seed %d at %v: after %+v the supervisor does\n%+v\nthe coordinator\n%+v", seed, now, ev, got, want)
			}
			for i := range got {
				if !reflect.DeepEqual(got[i].Action, want[i]) {
					t.Fatalf("seed %d at %v: action %d after %+v is\n%+v\nwant\n%+v", seed, now, i, ev, got[i].Action, want[i])
				}
				compared++
			}
		})
	}
	t.Logf("%d schedules, %d actions", n, compared)
}
