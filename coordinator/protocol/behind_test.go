package protocol

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestResumeBeforeWritten(t *testing.T) {
	s := newScript(t, Schedule{Overhead: 0.1})
	s.at(14).want()
	s.at(15).want("propose 1") // 1 s is predicted, and half as much again in reserve
	s.all(Holding{Number: 1, Iter: 4})
	s.at(16).rank(0, Stopped{Number: 1, Iter: 4})
	s.at(17).rank(1, Stopped{Number: 1, Iter: 4})
	s.at(18).all(Drained{Number: 1})
	s.want("stop-at 1", "drain 1", "write 1")
	s.rank(0, Captured{Number: 1})
	s.rank(0, Captured{Number: 1})
	s.want()
	s.at(19).rank(1, Written{Number: 1})
	s.want("resume 2")
	s.rank(1, Captured{Number: 1}) // late, and of no use
	s.at(25).rank(0, Written{Number: 1})
	s.want("commit 1")
	want := Checkpoint{Number: 1, Iter: 4, Bodies: [][]byte{[]byte("written 0"), []byte("written 1")},
		Waited: []time.Duration{2 * time.Second, time.Second}, Stopped: []time.Duration{16 * time.Second, 17 * time.Second},
		Coordination: 3 * time.Second, Writing: 7 * time.Second, Resumed: 19 * time.Second}
	if diff := cmp.Diff(want, s.cp); diff != "" {
		t.Error(diff)
	}
	s.at(26).event(Committed{Number: 1})
	s.want("taken 1 pause 3s")
	// Paid with 3 s, another such pause and half of it are allowed for after 75 s of
	// computing: 16 until the first stop, and 59 since the ranks were resumed.
	s.at(77).want()
	s.at(78).want("propose 2")
}

func TestHoldAtNextBoundary(t *testing.T) {
	s := newScript(t, Schedule{Every: 10})
	s.write(1, 10)
	s.all(Captured{Number: 1})
	s.want("drain 1", "write 1", "resume 2")
	s.all(Stopped{Number: 2, Iter: 20})
	s.ask(7, false)
	s.all(Written{Number: 1})
	s.want("commit 1")
	s.event(Committed{Number: 1})
	s.want("taken 1 pause 0s", "drain 2")
	s.all(Drained{Number: 2})
	s.all(Written{Number: 2})
	s.want("write 2", "resume 3", "commit 2")
	s.event(CommitFailed{Number: 2, Reason: "full"})
	s.want("lost 2", "propose 3") // asked for while holding
}

// TestHoldEnds: a write that makes no progress is aborted when somebody waits
// for it, and a rank that goes on writing nevertheless is killed.
func TestHoldEnds(t *testing.T) {
	s := newScript(t, Schedule{Every: 10})
	s.write(1, 10)
	s.all(Captured{Number: 1})
	s.rank(0, Written{Number: 1})
	s.want("drain 1", "write 1", "resume 2")
	s.at(100).want() // nobody waits
	s.all(Stopped{Number: 2, Iter: 20})
	s.at(108).rank(1, Beat{Iter: 20, Progress: 20 + 4096})
	s.at(117).want() // it writes
	s.at(121).want("lost 1", "abort 1")
	s.rank(0, Aborted{Number: 1})
	s.at(127).want()
	s.at(134).want("kill 1", "lost 2", "spawn from 0")
	s.all(Ready{})
	s.want("start 3")
}

func TestHoldEndsAborted(t *testing.T) {
	s := newScript(t, Schedule{Every: 10})
	s.write(1, 10)
	s.all(Captured{Number: 1})
	s.all(Stopped{Number: 2, Iter: 20})
	s.rank(0, WriteFailed{Number: 1, Text: "i/o"})
	s.want("drain 1", "write 1", "resume 2", "lost 1", "abort 1")
	s.rank(1, Written{Number: 1}) // crossed the abort
	s.rank(1, WriteFailed{Number: 1})
	s.all(Aborted{Number: 1})
	s.want("discard 1", "drain 2")
}

// TestWaitsForBehind: each of those who wait for the one behind start its clock;
// computing is no progress of it.
func TestWaitsForBehind(t *testing.T) {
	for name, wait := range map[string]func(*script){
		"request": func(s *script) { s.ask(1, false) },
		"stop":    func(s *script) { s.ask(1, true) },
		"end":     func(s *script) { s.all(Done{}) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t, Schedule{At: []int{10}})
			s.write(1, 10)
			s.all(Captured{Number: 1})
			s.at(50).want("drain 1", "write 1", "resume 2")
			wait(s)
			for i := range 9 {
				s.at(51 + float64(i)).all(Beat{Iter: 11 + i, Progress: uint64(11 + i)})
			}
			s.want()
			s.at(64).want("lost 1", "abort 1")
		})
	}
	t.Run("its own request", func(t *testing.T) {
		s := newScript(t, Schedule{})
		s.ask(1, false)
		s.all(Holding{Number: 1, Iter: 3})
		s.write(1, 3)
		s.all(Captured{Number: 1})
		s.at(9).want("propose 1", "stop-at 1", "drain 1", "write 1", "resume 2")
		s.at(13).want("lost 1", "answer 1: 0 checkpoint 1 was aborted: rank 0: made no progress for 10s while writing its image behind the computation", "abort 1")
	})
	t.Run("interval", func(t *testing.T) {
		s := newScript(t, Schedule{Interval: 30 * time.Second})
		s.at(30).all(Holding{Number: 1, Iter: 3})
		s.write(1, 3)
		s.all(Captured{Number: 1})
		s.at(69).want("propose 1", "stop-at 1", "drain 1", "write 1", "resume 2")
		if at, ok := s.co.Deadline(); !ok || at <= s.now {
			t.Errorf("next look at %v, %v: at once", at, ok)
		}
		s.at(74).want("lost 1", "abort 1")
		s.all(Aborted{Number: 1})
		s.at(103).want("discard 1")
		s.at(104).want("propose 2")
	})
}

func TestStopWaitsForBehind(t *testing.T) {
	s := newScript(t, Schedule{Every: 10})
	s.write(1, 10)
	s.all(Captured{Number: 1})
	s.ask(1, true)
	s.want("drain 1", "write 1", "resume 2")
	s.all(Written{Number: 1})
	s.event(Committed{Number: 1})
	s.want("commit 1", "taken 1 pause 0s", "propose 2")
	s.all(Holding{Number: 2, Iter: 15})
	s.write(2, 15)
	s.all(Captured{Number: 2}) // what they computed on would be lost
	s.at(3).all(Written{Number: 2})
	s.want("stop-at 2", "drain 2", "write 2", "commit 2")
	if s.cp.Resumed != 0 || s.cp.Writing != 3*time.Second {
		t.Errorf("resumed %v, writing %v; want 0 and 3s", s.cp.Resumed, s.cp.Writing)
	}
	s.event(Committed{Number: 2})
	s.want("taken 2 pause 3s", "answer 1: 2", "quit 0", "stopped")
}

func TestStopNowDiscardsBehind(t *testing.T) {
	s := newScript(t, Schedule{})
	s.ask(1, false)
	s.all(Holding{Number: 1, Iter: 3})
	s.write(1, 3)
	s.all(Captured{Number: 1})
	s.want("propose 1", "stop-at 1", "drain 1", "write 1", "resume 2")
	s.event(Requested{Request{ID: 2, Stop: true, Now: true}})
	s.want("answer 2: 0", "quit 0", "discard 1", "answer 1: 0 the job has ended", "stopped")
}

func TestStopNowWaitsForCommit(t *testing.T) {
	s := newScript(t, Schedule{Every: 10})
	s.write(1, 10)
	s.all(Written{Number: 1})
	s.event(Requested{Request{ID: 2, Stop: true, Now: true}})
	s.want("drain 1", "write 1", "resume 2", "commit 1")
	s.event(Committed{Number: 1})
	s.want("taken 1 pause 0s", "answer 2: 0", "quit 0", "stopped")
}

// TestDeathLosesBoth: the one behind and the one for which the ranks stop.
func TestDeathLosesBoth(t *testing.T) {
	s := newScript(t, Schedule{Every: 10})
	s.write(1, 10)
	s.all(Captured{Number: 1})
	s.rank(1, Stopped{Number: 2, Iter: 20})
	s.want("drain 1", "write 1", "resume 2")
	s.event(RankLost{Incarnation: 1, Cause: "was killed"})
	s.want("lost 1", "lost 2", "spawn from 0")
	s.all(Ready{})
	s.want("start 3")
}

func TestDeathWhileCommittingBehind(t *testing.T) {
	s := newScript(t, Schedule{Every: 10})
	s.write(1, 10)
	s.all(Written{Number: 1})
	s.all(Stopped{Number: 2, Iter: 20})
	s.want("drain 1", "write 1", "resume 2", "commit 1")
	s.event(RankLost{Incarnation: 1, Cause: "was killed"})
	s.want()
	s.event(Committed{Number: 1})
	s.want("taken 1 pause 0s", "lost 2", "spawn from 1")
}

func TestEndWaitsForBehind(t *testing.T) {
	for _, test := range []struct {
		name string
		do   func(*script)
		want []string
	}{
		{"committed", func(s *script) {
			s.all(Written{Number: 1})
			s.event(Committed{Number: 1})
		}, []string{"commit 1", "taken 1 pause 0s", "quit 0", "completed"}},
		{"commit failed", func(s *script) {
			s.all(Written{Number: 1})
			s.event(CommitFailed{Number: 1})
		}, []string{"commit 1", "lost 1", "quit 0", "completed"}},
		{"no space after all", func(s *script) {
			s.event(CommitFailed{Number: 1})
			s.all(Aborted{Number: 1})
		}, []string{"lost 1", "abort 1", "discard 1", "quit 0", "completed"}},
		{"death", func(s *script) { s.event(RankLost{Incarnation: 1, Cause: "was killed"}) },
			[]string{"lost 1", "quit 0", "discard 1", "completed"}},
		{"stuck", func(s *script) { s.at(30) },
			[]string{"lost 1", "abort 1", "kill 0", "quit 0", "discard 1", "completed"}},
		{"stop now", func(s *script) { s.event(Requested{Request{ID: 3, Stop: true, Now: true}}) },
			[]string{"quit 0", "discard 1", "answer 3: 0", "completed"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newScript(t, Schedule{At: []int{90}})
			s.write(1, 90)
			s.all(Captured{Number: 1})
			s.all(Done{})
			s.want("drain 1", "write 1", "resume 2")
			test.do(s)
			s.want(test.want...)
		})
	}
}

// TestSleepHarmsNobody: while the coordinator did not run, no clock did.
func TestSleepHarmsNobody(t *testing.T) {
	s := newScript(t, Schedule{Every: 10})
	s.co.cfg.Limits.Silence = 10 * time.Second
	s.write(1, 10)
	s.all(Captured{Number: 1})
	s.want("drain 1", "write 1", "resume 2")
	s.at(50).all(Stopped{Number: 2, Iter: 20})
	s.at(55).want()
	s.now += time.Hour
	s.event(Tick{})
	s.at(3655 + 3).want()
	s.at(3655+9).want("lost 1", "abort 1")
}

// inFlight is newScript with up to n checkpoints in flight.
func inFlight(t *testing.T, n int, s Schedule) *script {
	sc := newScript(t, s)
	sc.co.cfg.InFlight = n
	return sc
}

// TestCopiesWait: copies are written in their order, one at a time, and the ranks compute until
// there are too many.
func TestCopiesWait(t *testing.T) {
	s := inFlight(t, 2, Schedule{Every: 10})
	s.write(1, 10)
	s.all(Captured{Number: 1})
	s.want("drain 1", "capture 1", "resume 2", "write 1")
	s.write(2, 20)
	s.all(Captured{Number: 2})
	s.want("drain 2", "capture 2", "resume 3")
	s.at(5).all(Stopped{Number: 3, Iter: 30})
	s.want()
	s.at(7).all(Written{Number: 1})
	s.event(Committed{Number: 1})
	s.want("commit 1", "taken 1 pause 0s", "write 2", "drain 3")
	s.all(Drained{Number: 3})
	s.rank(0, Captured{Number: 3})
	s.rank(1, captureFailed(3))
	s.want("capture 3", "lost 3", "abort 3")
	s.all(Aborted{Number: 3})
	s.want("discard 3", "resume 4")
	s.all(Done{})
	s.rank(0, WriteFailed{Number: 2, Text: "i/o"})
	s.all(Aborted{Number: 2})
	s.want("lost 2", "abort 2", "discard 2", "quit 0", "completed")
}

// captureFailed is the answer of a rank that cannot copy its memory.
func captureFailed(number int) Message {
	return WriteFailed{Number: number, Text: "out of memory"}
}

// TestDeathLosesCopies: all that is in flight, but the one that is being committed.
func TestDeathLosesCopies(t *testing.T) {
	s := inFlight(t, 3, Schedule{Every: 10})
	for n := 1; n <= 3; n++ {
		s.write(n, 10*n)
		s.all(Captured{Number: n})
	}
	s.all(Written{Number: 1})
	s.got = nil
	s.event(RankLost{Incarnation: 1, Cause: "was killed"})
	s.want()
	s.event(Committed{Number: 1})
	s.want("taken 1 pause 0s", "lost 2", "lost 3", "spawn from 1")
}

// TestStopWaitsForCopies: the ranks compute until the copies are written, and write the last
// checkpoint themselves.
func TestStopWaitsForCopies(t *testing.T) {
	s := inFlight(t, 3, Schedule{Every: 10})
	for n := 1; n <= 2; n++ {
		s.write(n, 10*n)
		s.all(Captured{Number: n})
	}
	s.got = nil
	s.ask(1, true)
	for n := 1; n <= 2; n++ {
		s.all(Written{Number: n})
		s.event(Committed{Number: n})
	}
	s.want("commit 1", "taken 1 pause 0s", "write 2", "commit 2", "taken 2 pause 0s", "propose 3")
	s.all(Holding{Number: 3, Iter: 25})
	s.write(3, 25)
	s.all(Written{Number: 3})
	s.event(Committed{Number: 3})
	s.want("stop-at 3", "drain 3", "write 3", "commit 3", "taken 3 pause 0s", "answer 1: 3", "quit 0", "stopped")
}

// TestCopyWaitsForSlot: no rank waits for a slot of the nodes while its copy does, until the ranks
// stand still for want of another.
func TestCopyWaitsForSlot(t *testing.T) {
	s := inFlight(t, 2, Schedule{Every: 10})
	s.write(1, 10)
	s.all(Captured{Number: 1})
	s.event(Postponed{Number: 1})
	s.want("drain 1", "capture 1", "resume 2", "write 1")
	s.at(30).event(Ordered{Number: 1})
	s.at(35).all(Written{Number: 1})
	s.want("commit 1")
	if s.cp.Writing != 5*time.Second {
		t.Errorf("writing took %v, want 5s", s.cp.Writing)
	}
	s.event(Committed{Number: 1})
	s.want("taken 1 pause 0s")
	s.write(2, 20)
	s.all(Captured{Number: 2})
	s.event(Postponed{Number: 2})
	s.write(3, 30)
	s.all(Captured{Number: 3})
	s.at(60).want("drain 2", "capture 2", "resume 3", "write 2", "drain 3", "capture 3", "resume 4")
	s.all(Stopped{Number: 4, Iter: 40})
	s.at(72).want("lost 2", "abort 2")
}
