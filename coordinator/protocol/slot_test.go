package protocol

import (
	"strings"
	"testing"
)

// TestPostponed: a checkpoint without a slot waits, with its ranks, longer than a
// rank may be silent about its progress, and is taken then.
func TestPostponed(t *testing.T) {
	s := newScript(t, Schedule{Every: 10})
	s.write(1, 10)
	s.event(Postponed{Number: 1})
	s.want("drain 1", "write 1")
	if p := s.co.Phase(); !strings.Contains(p, "waiting") {
		t.Errorf("the phase is %q", p)
	}
	s.at(9)
	s.want()
	s.event(Ordered{Number: 1})
	s.at(18)
	s.want()
	s.all(Captured{Number: 1})
	s.want("resume 2")
	s.all(Written{Number: 1})
	s.want("commit 1")
	if got := s.cp.Coordination.Seconds(); got < 9 {
		t.Errorf("the wait of 9 s is not part of the coordination, which took %v s", got)
	}
}

// TestPostponedForEver: if no slot becomes free, the checkpoint is aborted, nobody is declared
// dead, and the ranks compute.
func TestPostponedForEver(t *testing.T) {
	s := newScript(t, Schedule{Every: 10})
	s.write(1, 10)
	s.event(Postponed{Number: 1})
	s.want("drain 1", "write 1")
	s.at(12)
	s.want("lost 1", "abort 1")
	s.all(Aborted{Number: 1})
	s.want("discard 1", "resume 2")
}

// TestPostponedStop: a stop without a checkpoint does not wait for a slot.
func TestPostponedStop(t *testing.T) {
	s := newScript(t, Schedule{Every: 10})
	s.write(1, 10)
	s.event(Postponed{Number: 1})
	s.want("drain 1", "write 1")
	s.event(Requested{Request{ID: 7, Stop: true, Now: true}})
	s.want("answer 7: 0", "quit 0", "stopped")
}
