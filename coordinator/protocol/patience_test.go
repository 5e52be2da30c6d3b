package protocol

import (
	"slices"
	"testing"
	"time"
)

// restartWithin starts the incarnation that the script waits for, and has rank 0 fall
// silent at iteration iter. It returns how long the spawn was put off, the backing off that was
// reported before, and after how long the silence was acted upon.
func (s *script) restartWithin(iter int) (delay time.Duration, told *Notice, silent time.Duration) {
	for _, a := range s.acts {
		switch a := a.(type) {
		case Spawn:
			delay = a.Delay
		case Report:
			if a.Notice.Kind == BackingOff {
				told = &a.Notice
			}
		}
	}
	s.acts = nil
	s.all(Hello{})
	s.all(Ready{})
	s.rank(0, Beat{Iter: iter, Progress: uint64(iter)})
	began := s.now
	for !slices.ContainsFunc(s.acts, func(a Action) bool { _, kills := a.(Kill); return kills }) {
		s.now += time.Second
		s.rank(1, Beat{Iter: iter, Progress: uint64(iter)})
	}
	return delay, told, s.now - began
}

// TestPatience restarts a job again and again. Each restart that gets no further than
// the one before it is put off for twice as long and waits twice as long for signs of
// life, within bounds. One that gets further, or to a checkpoint, is not.
func TestPatience(t *testing.T) {
	const silence = 8 * time.Second
	s := &script{t: t, co: newLone(Config{Ranks: ranks(2), Iterations: 1000, Schedule: Schedule{Every: 500}, AutoRestart: true,
		Limits: Limits{Silence: silence, Phase: 32 * silence, Restarts: 100}})}
	s.take(s.co.Begin(0))
	for i, c := range []struct{ iter, stuck int }{
		{50, 0}, {50, 0}, {50, 1}, {40, 2}, {50, 3}, {50, 4}, {51, 5}, {51, 0}, {51, 1},
	} {
		delay, told, silent := s.restartWithin(c.iter)
		factor := min(16, 1<<c.stuck)
		if want := silence * time.Duration(factor); silent < want || silent > want+3*time.Second {
			t.Errorf("restart %d: silent for %v, want %v", i, silent, want)
		}
		if want := s.delayAfter(c.stuck); delay != want || (told != nil) != (c.stuck > 0) {
			t.Fatalf("restart %d: put off for %v, want %v; told %+v", i, delay, want, told)
		}
		if told != nil && (told.Stuck != c.stuck || told.Pause != delay || told.Silence != silence*time.Duration(factor)) {
			t.Errorf("restart %d: told %+v", i, told)
		}
	}
	s.all(Hello{})
	s.all(Ready{})
	s.write(s.co.next, 500)
	s.all(Written{Number: s.co.next})
	s.event(Committed{Number: s.cp.Number})
	s.acts = nil
	if at := s.co.patience(); at != silence || s.co.backoff() != 0 {
		t.Errorf("after a checkpoint, patience is %v, want %v", at, silence)
	}
}

func (s *script) delayAfter(stuck int) time.Duration {
	return []time.Duration{0, 80, 160, 320, 640, 1280}[stuck] * time.Millisecond
}

// TestHeard has the messages of a rank be handled late, or never: it counts when they came.
func TestHeard(t *testing.T) {
	s := &script{t: t, co: newLone(Config{Ranks: ranks(2), Iterations: 1000, AutoRestart: true,
		Limits: Limits{Silence: 8 * time.Second, Phase: time.Hour, Restarts: 5}})}
	s.take(s.co.Begin(0))
	s.all(Hello{})
	s.all(Ready{})
	s.got = nil
	for range 60 {
		s.now += time.Second
		s.co.Heard(1, s.now)
		s.rank(0, Beat{})
	}
	s.want()
	for range 8 {
		s.now += time.Second
		s.co.Heard(1, s.now-8*time.Second) // old news
		s.rank(0, Beat{})
	}
	s.want("kill 1", "spawn from 0")
}
