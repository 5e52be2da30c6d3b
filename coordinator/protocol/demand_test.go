package protocol

import "testing"

// TestDemand: one checkpoint serves all ranks that demand one at the same boundary.
func TestDemand(t *testing.T) {
	s := newScript(t, Schedule{})
	s.rank(0, Demand{Iter: 7})
	s.want("propose 1")
	s.rank(1, Demand{Iter: 7})
	s.all(Holding{Number: 1, Iter: 7})
	s.want("stop-at 1")
	s.write(1, 7)
	s.want("drain 1", "write 1")
	s.all(Captured{Number: 1})
	s.want("resume 2")
	s.rank(0, Demand{Iter: 9}) // waits for the checkpoint behind
	s.all(Written{Number: 1})
	s.want("commit 1")
	s.event(Committed{Number: 1})
	s.want("taken 1 pause 0s", "propose 2")
}

// TestLoneDemand: a rank that demands a checkpoint where the others did not is let on.
func TestLoneDemand(t *testing.T) {
	s := newScript(t, Schedule{Every: 10})
	s.rank(1, Stopped{Number: 1, Iter: 10})
	s.rank(0, Demand{Iter: 8})
	s.want("stop-at 1")
	s.rank(0, Stopped{Number: 1, Iter: 10})
	s.want("drain 1")

	s = newScript(t, Schedule{})
	s.rank(1, Done{})
	s.rank(0, Demand{Iter: 8})
	s.want("lost 1", "abort 1")
	s.all(Aborted{Number: 1})
	s.want("discard 1", "resume 2")
}
