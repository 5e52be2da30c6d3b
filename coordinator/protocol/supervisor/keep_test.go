package supervisor

import (
	"testing"

	"ckpt/coordinator/protocol"
	"ckpt/coordinator/protocol/channel"
)

// TestKeepSpare: with Keep 2, a group keeps the checkpoint before its newest, and
// goes back to it when the newest is damaged.
func TestKeepSpare(t *testing.T) {
	sc := newScript(t, Config{Log: channel.Receiver, Schedule: protocol.Schedule{Every: 10}, Keep: 2})
	zero := vector(make([]uint64, 3), make([]uint64, 3))
	var collected []string
	sc.watch = func(a Action) {
		if _, ok := a.Action.(protocol.Collect); ok {
			collected = append(collected, describe(a.Action))
		}
	}
	for k, number := range []int{2, 5, 8} {
		sc.checkpoint(1, number, 10*(k+1), zero)
	}
	want := []string{"collect before [0 2 0], remove []", "collect before [0 5 0], remove [2]"}
	if len(collected) != 2 || collected[0] != want[0] || collected[1] != want[1] {
		t.Errorf("%q, want %q", collected, want)
	}
	sc.dies(1)
	sc.got = nil
	sc.step(1, protocol.Unusable{Incarnation: sc.s.groups[1].incarnation, Damaged: true, Reason: "rot"})
	sc.want("-1: recovery of [1]: [1] from [5], 1 ranks", "1: spawn 3 from 5")
}

// TestCollectedOnce: the ranks hear what a checkpoint covers when it is taken, and not
// again with the next one of another group.
func TestCollectedOnce(t *testing.T) {
	sc := newScript(t, Config{Log: channel.Sender, Schedule: protocol.Schedule{Every: 10}})
	sc.checkpoint(1, 2, 10, vector([]uint64{3, 0, 3}, []uint64{2, 0, 5}))
	sc.checkpoint(0, 1, 10, vector([]uint64{0, 3, 3}, []uint64{0, 3, 4}))
	if got := sc.got[len(sc.got)-2:]; got[0] != "1: collected 0:3 to rank 1" || got[1] != "2: collected 0:4 to rank 2" {
		t.Errorf("%q", got)
	}
}

// TestCollectedToNewProcess: a process that is new hears what checkpoints cover that
// were taken before its time, also before that of the coordinator.
func TestCollectedToNewProcess(t *testing.T) {
	s, err := New(Config{Groups: [][]int{{0}, {1}}, Log: channel.Sender, Iterations: 100, AutoRestart: true, Incarnation: 7, Base: []int{0, 2},
		Known: []Stored{{Group: 1, Number: 2, Iter: 10, Vectors: []channel.Vector{vector([]uint64{4, 0}, []uint64{5, 0})}}}})
	if err != nil {
		t.Fatal(err)
	}
	sc := &script{t: t, s: s}
	sc.take(s.Begin(0))
	sc.got = nil
	sc.ready(0)
	sc.want("0: collected 1:5 to rank 0", "0: start")
}

// TestCommitWithoutVectors: a checkpoint that no line could be found with ends the
// job, and does not count as taken.
func TestCommitWithoutVectors(t *testing.T) {
	sc := newScript(t, Config{Log: channel.Receiver, Schedule: protocol.Schedule{Every: 10}})
	sc.rank(1, protocol.Stopped{Number: 2, Iter: 10})
	sc.rank(1, protocol.Drained{Number: 2})
	sc.rank(1, protocol.Written{Number: 2})
	sc.got = nil
	sc.step(1, protocol.Committed{Number: 2})
	if n := len(sc.got); n == 0 || sc.got[n-1] != "-1: failed" {
		t.Errorf("%q", sc.got)
	}
}

// TestFromScratch: when no checkpoint is left and logs have been cut, the job restarts from scratch.
// That it is doing so is durable before anything is removed, and ends when all
// groups begin.
func TestFromScratch(t *testing.T) {
	sc := newScript(t, Config{Log: channel.Receiver, Schedule: protocol.Schedule{Every: 10}})
	sc.checkpoint(1, 2, 10, zeros(3))
	sc.dies(1)
	sc.got = nil
	sc.step(1, protocol.Unusable{Incarnation: sc.s.groups[1].incarnation, Damaged: true, Reason: "rot"})
	sc.want("-1: recovery of [1]: [0 1 2] from [0 0 0], 3 ranks", "-1: collect before [-1 -1 -1], remove []",
		"0: forget after 0", "1: forget after 0", "2: forget after 0",
		"0: spawn 2 from 0", "1: spawn 3 from 0", "2: spawn 2 from 0", "-1: collect before [0 0 0], remove []")
}
