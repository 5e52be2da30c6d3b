package supervisor

import (
	"testing"
	"time"

	"ckpt/coordinator/protocol"
	"ckpt/coordinator/protocol/channel"
)

func zeros(n int) channel.Vector { return vector(make([]uint64, n), make([]uint64, n)) }

// TestFenceOfEarlierRecovery: what a survivor said in an earlier recovery is no answer
// in a later one.
func TestFenceOfEarlierRecovery(t *testing.T) {
	sc := newScript(t, Config{Log: channel.None})
	sc.dies(0)
	sc.fenced(1, 1, zeros(3))
	sc.fenced(2, 1, zeros(3))
	sc.ready(0)
	sc.got = nil
	sc.dies(0)
	sc.want("1: fence", "2: fence")
	sc.fenced(2, 2, zeros(3))
	sc.fenced(1, 1, zeros(3))
	sc.want()
	sc.fenced(1, 2, zeros(3))
	sc.want("0: forget after 0", "-1: recovery of [0]: [0] from [0], 1 ranks", "0: spawn 3 from 0", "1: unfence 0:3", "2: unfence 0:3")
}

// TestExaminedOfEarlierRecovery: so it is with what a log held.
func TestExaminedOfEarlierRecovery(t *testing.T) {
	sc := newScript(t, Config{Log: channel.Optimistic, Groups: [][]int{{0}, {1}}})
	examined := func(round int) {
		sc.step(Job, protocol.Examined{Round: round, Rank: 0, States: map[int][]channel.Vector{0: nil}})
	}
	sc.dies(0)
	sc.fenced(1, 1, zeros(2))
	examined(1)
	sc.ready(0)
	sc.got = nil
	sc.dies(0)
	sc.fenced(1, 2, zeros(2))
	sc.want("1: fence")
	examined(1)
	sc.want()
	examined(2)
	sc.want("0: forget after 0", "-1: recovery of [0]: [0] from [0], 1 ranks", "0: spawn 3 from 0", "1: unfence 0:3")
}

// TestFenceOfOtherJob: a survivor whose vector is of another number of ranks goes back
// as well.
func TestFenceOfOtherJob(t *testing.T) {
	sc := newScript(t, Config{Log: channel.None, Groups: [][]int{{0}, {1}}})
	sc.dies(0)
	sc.got = nil
	sc.rank(1, protocol.Fenced{Round: 1, Vector: zeros(3)})
	sc.want("0: forget after 0", "1: forget after 0", "-1: recovery of [0 1]: [0 1] from [0 0], 2 ranks", "0: spawn 2 from 0", "1: spawn 2 from 0")
}

// TestFenceDeadline: the caller is told when the answers are due, and the survivors
// have until then and no longer.
func TestFenceDeadline(t *testing.T) {
	sc := newScript(t, Config{Log: channel.None, Groups: [][]int{{0}, {1}}})
	sc.dies(0)
	due := sc.now + 10*time.Second
	sc.got = nil
	at, ok := sc.s.Deadline()
	for ; ok && at < due; at, ok = sc.s.Deadline() { // the failed group has deadlines of its own
		sc.take(sc.s.Step(at, Event{Job, protocol.Tick{}}))
	}
	sc.want()
	if !ok || at != due {
		t.Fatalf("deadline %v, %v, want %v", at, ok, due)
	}
	sc.take(sc.s.Step(due, Event{Job, protocol.Tick{}}))
	sc.want("0: forget after 0", "1: forget after 0", "-1: recovery of [0 1]: [0 1] from [0 0], 2 ranks", "0: spawn 2 from 0", "1: spawn 2 from 0")
}
