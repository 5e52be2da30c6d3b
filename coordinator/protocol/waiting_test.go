package protocol

import (
	"fmt"
	"testing"
	"time"
)

// waitingScript has rank 0 stand at the boundary of checkpoint 1, which rank 1 does not
// reach.
func waitingScript(t *testing.T, lim Limits) *script {
	lim.Silence, lim.Restarts = time.Hour, 5
	s := &script{t: t, co: newLone(Config{Ranks: ranks(2), Schedule: Schedule{Every: 10}, AutoRestart: true, Limits: lim})}
	s.take(s.co.Begin(0))
	s.all(Ready{})
	s.got = nil
	s.rank(0, Stopped{Number: 1, Iter: 10})
	s.acts = nil
	return s
}

// told lists the notices that a checkpoint waits.
func (s *script) told() (told []string) {
	for _, a := range s.acts {
		if r, ok := a.(Report); ok && r.Notice.Kind == Waiting {
			told = append(told, fmt.Sprintf("checkpoint %d, rank %d at %d", r.Notice.Checkpoint, r.Notice.Rank, r.Notice.Iter))
		}
	}
	return told
}

// TestWaiting tells the user once which rank a checkpoint waits for, and aborts the
// checkpoint later: the job goes on.
func TestWaiting(t *testing.T) {
	s := waitingScript(t, Limits{Phase: 5 * time.Minute})
	s.rank(1, Beat{Iter: 7, Progress: 7})
	s.at(200)
	if told := s.told(); len(told) != 1 || told[0] != "checkpoint 1, rank 1 at 7" {
		t.Errorf("told %q", told)
	}
	s.want()
	s.at(310).want("lost 1", "abort 1")
}

// TestPatienceOfRanks declares a rank dead that keeps the others waiting, if that is asked
// for.
func TestPatienceOfRanks(t *testing.T) {
	s := waitingScript(t, Limits{Phase: 5 * time.Minute, Patience: time.Minute})
	s.at(80).want("kill 1", "lost 1", "spawn from 0")
}

// TestLongIterations waits longer where iterations take longer.
func TestLongIterations(t *testing.T) {
	s := &script{t: t, co: newLone(Config{Ranks: ranks(2), Schedule: Schedule{Every: 3}, AutoRestart: true,
		Limits: Limits{Silence: time.Hour, Phase: 5 * time.Minute, Restarts: 5}})}
	s.take(s.co.Begin(0))
	s.all(Ready{})
	for i := range 3 {
		s.at(float64(i) * 600)
		s.rank(1, Beat{Iter: i, Progress: uint64(i)})
	}
	s.rank(0, Stopped{Number: 1, Iter: 3})
	s.got, s.acts = nil, nil
	s.at(1200 + 1000)
	s.want()
	s.rank(1, Stopped{Number: 1, Iter: 3})
	s.want("drain 1")
}
