package exec_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"ckpt/image/exec"
	"ckpt/image/plan"

	"pgregory.net/rapid"
)

// A session is an All in a bubble whose every step waits for the test.
type session struct {
	*gate
	disk   *disk
	cancel context.CancelFunc
	result chan error // with room for it
}

func begin(p *plan.Plan, j *job) *session {
	ctx, cancel := context.WithCancel(context.Background())
	s := &session{gate: newGate(j), disk: newDisk(p, false), cancel: cancel, result: make(chan error, 1)}
	s.disk.before = s.write
	go func() {
		_, err := exec.All(ctx, p, j.of, exec.AllOptions{Files: s.disk.open(everybody), Pull: s})
		s.result <- err
	}()
	return s
}

// next waits until nothing moves any more, and returns what is in progress.
func (s *session) next() []step {
	synctest.Wait()
	return s.held()
}

// end cancels what is left and lets all writes go.
func (s *session) end() error {
	s.cancel()
	for steps := s.next(); len(steps) > 0; steps = s.next() {
		for _, st := range steps {
			s.release(st, nil)
		}
	}
	return <-s.result
}

// inBubble runs f in a bubble, where rapid cannot fail a test.
func inBubble(t *testing.T, f func() error) (err error) {
	synctest.Test(t, func(*testing.T) { err = f() })
	return err
}

// The operations in progress are exactly those that the switches allow, whichever
// step takes longest.
func TestSwitches(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		sources, p := genPlan(rt, layouts...)
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		j := newJob(sources, false)
		err := inBubble(t, func() error {
			m, s := newModel(p), begin(p, j)
			for {
				got, want := s.next(), m.inProgress()
				if !slices.Equal(got, want) {
					s.end()
					return fmt.Errorf("in progress: %v, want %v", got, want)
				}
				if len(got) == 0 {
					break
				}
				done := got[rng.IntN(len(got))]
				s.release(done, nil)
				m.end(done)
			}
			if err := s.end(); err != nil {
				return err
			}
			return s.disk.check(j)
		})
		if err != nil {
			rt.Fatal(err)
		}
	})
}

// An error or a cancelled context stops everything: pulls in progress end, writes
// in progress are waited for, and nothing new begins.
func TestStops(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		sources, p := genPlan(rt, layouts...)
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		before := rapid.IntRange(0, 20).Draw(rt, "steps before")
		fail := rapid.Bool().Draw(rt, "fail")
		j := newJob(sources, false)
		err := inBubble(t, func() error {
			s := begin(p, j)
			steps := s.next()
			for ; before > 0 && len(steps) > 0; before-- {
				s.release(steps[rng.IntN(len(steps))], nil)
				steps = s.next()
			}
			if len(steps) == 0 { // it was over before
				return s.end()
			}
			arrived := s.arrived
			cause := context.Canceled
			if fail {
				k := rng.IntN(len(steps))
				s.release(steps[k], syscall.ENOSPC)
				steps = slices.Delete(steps, k, k+1)
				cause = syscall.ENOSPC
			} else {
				s.cancel()
			}
			writes := slices.DeleteFunc(steps, func(st step) bool { return !st.write })
			if left := s.next(); !slices.Equal(left, writes) {
				s.end()
				return fmt.Errorf("still in progress: %v, want %v", left, writes)
			}
			if len(writes) > 0 && len(s.result) > 0 {
				s.end()
				return fmt.Errorf("returned before %v", writes)
			}
			err := s.end()
			if s.arrived != arrived {
				return fmt.Errorf("%d steps were begun afterwards", s.arrived-arrived)
			}
			if err == nil && !fail { // the last writes were in progress
				return s.disk.check(j)
			}
			if e := (*exec.Error)(nil); !errors.Is(err, cause) || !errors.As(err, &e) {
				return fmt.Errorf("%v, want %v", err, cause)
			}
			return nil
		})
		if err != nil {
			rt.Fatal(err)
		}
	})
}

// The same for people to read: in each line what is in progress, and after the
// arrow what ends then: rank or file, first page and number of pages.
func TestSchedule(t *testing.T) {
	three := plan.Settings{Layout: plan.Aggregated, Aggregators: 1, Buffer: 2 * page}
	with := func(s plan.Settings, change func(*plan.Settings)) plan.Settings {
		change(&s)
		return s
	}
	for _, test := range []struct {
		name     string
		sources  []plan.Source
		settings plan.Settings
		schedule string
	}{
		{"P2 off: one pull at a time", ranks(4, 1), with(three, func(s *plan.Settings) { s.Buffer = 4 * page }), `
			pull 1:0+1 -> pull 1:0+1
			pull 2:0+1 -> pull 2:0+1
			pull 3:0+1 -> pull 3:0+1
			write 0:0+1 -> write 0:0+1
			write 0:1+3 -> write 0:1+3`},
		{"P2: one pull from each rank", ranks(4, 1), with(three, func(s *plan.Settings) { s.Buffer = 4 * page; s.P2 = true }), `
			pull 1:0+1, pull 2:0+1, pull 3:0+1 -> pull 2:0+1
			pull 1:0+1, pull 3:0+1 -> pull 3:0+1
			pull 1:0+1 -> pull 1:0+1
			write 0:0+1 -> write 0:0+1
			write 0:1+3 -> write 0:1+3`},
		{"P3 off: gather, write, gather, write", ranks(2, 4), three, `
			write 0:0+2 -> write 0:0+2
			write 0:2+2 -> write 0:2+2
			pull 1:0+2 -> pull 1:0+2
			write 0:4+2 -> write 0:4+2
			pull 1:2+2 -> pull 1:2+2
			write 0:6+2 -> write 0:6+2`},
		{"P3: no third buffer for a slow write", ranks(3, 2), with(three, func(s *plan.Settings) { s.P3 = true }), `
			write 0:0+2, pull 1:0+2 -> pull 1:0+2
			write 0:0+2 -> write 0:0+2
			write 0:2+2, pull 2:0+2 -> pull 2:0+2
			write 0:2+2 -> write 0:2+2
			write 0:4+2 -> write 0:4+2`},
		{"P3: buffers stay until a slow gather is done", ranks(3, 2), with(three, func(s *plan.Settings) { s.P3 = true }), `
			write 0:0+2, pull 1:0+2 -> write 0:0+2
			pull 1:0+2 -> pull 1:0+2
			write 0:2+2, pull 2:0+2 -> write 0:2+2
			pull 2:0+2 -> pull 2:0+2
			write 0:4+2 -> write 0:4+2`},
		{"P1 off: a writer after the other", ranks(4, 1), plan.Settings{Layout: plan.Aggregated, Aggregators: 2, P3: true}, `
			pull 1:0+1 -> pull 1:0+1
			write 0:0+1 -> write 0:0+1
			write 0:1+1 -> write 0:1+1
			pull 3:0+1 -> pull 3:0+1
			write 1:0+1 -> write 1:0+1
			write 1:1+1 -> write 1:1+1`},
		{"P1: all writers", ranks(4, 1), plan.Settings{Layout: plan.Aggregated, Aggregators: 2, P1: true}, `
			pull 1:0+1, pull 3:0+1 -> pull 3:0+1
			write 1:0+1, pull 1:0+1 -> pull 1:0+1
			write 0:0+1, write 1:0+1 -> write 1:0+1
			write 0:0+1, write 1:1+1 -> write 0:0+1
			write 0:1+1, write 1:1+1 -> write 1:1+1
			write 0:1+1 -> write 0:1+1`},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := mustPlan(t, test.sources, test.settings)
			j := newJob(test.sources, false)
			err := inBubble(t, func() error {
				s := begin(p, j)
				for line := range strings.Lines(strings.TrimSpace(test.schedule)) {
					want, done, _ := strings.Cut(strings.TrimSpace(line), " -> ")
					steps := s.next()
					got := strings.Trim(strings.ReplaceAll(fmt.Sprintf("%q", steps), `" "`, ", "), `["]`)
					if got != want {
						s.end()
						return fmt.Errorf("in progress: %s\nwant:        %s", got, want)
					}
					s.release(steps[slices.IndexFunc(steps, func(st step) bool { return st.String() == done })], nil)
				}
				s.next()
				if err := s.end(); err != nil {
					return err
				}
				return s.disk.check(j)
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}
