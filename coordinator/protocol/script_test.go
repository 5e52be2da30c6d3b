package protocol

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// script drives a coordinator of two ranks by hand and compares what it does,
// described in words.
type script struct {
	t   *testing.T
	co  lone
	now time.Duration
	got []string
	cp  Checkpoint // for which Commit came last

	acts []Action // all since a test looked at them
}

// newScript starts an asynchronous job of two ranks that compute.
func newScript(t *testing.T, s Schedule) *script {
	sc := &script{t: t, co: newLone(Config{Ranks: ranks(2), Iterations: 100, Schedule: s, AutoRestart: true, Async: true, Cost: Cost{First: time.Second},
		Limits: Limits{Silence: time.Hour, Phase: 10 * time.Second, Restarts: 5}})}
	sc.take(sc.co.Begin(0))
	sc.all(Ready{})
	sc.got = nil
	return sc
}

// at moves the clock on to second s; the coordinator hears of it often enough.
func (s *script) at(seconds float64) *script {
	for to := time.Duration(seconds * float64(time.Second)); s.now < to; {
		s.now = min(to, s.now+time.Second)
		s.event(Tick{})
	}
	return s
}

// label names a message and its checkpoint.
func label(m Message) string {
	number := int64(0)
	if f := reflect.ValueOf(m).FieldByName("Number"); f.IsValid() {
		number = f.Int()
	}
	return fmt.Sprintf("%s %d", Name(m), number)
}

func (s *script) event(ev Event) { s.take(s.co.Step(s.now, ev)) }

// rank lets one rank send a message; all does for both.
func (s *script) rank(i int, m Message) {
	body := fmt.Appendf(nil, "%s %d", Name(m), i)
	switch written := m.(type) {
	case Written:
		written.Body = body
		m = written
	case Done:
		m = Done{body}
	}
	s.event(FromRank{Incarnation: s.co.incarnation, Rank: i, Message: m})
}

func (s *script) all(m Message) {
	s.rank(0, m)
	s.rank(1, m)
}

// write takes checkpoint n at boundary iter as far as the order to write.
func (s *script) write(n, iter int) {
	s.all(Stopped{Number: n, Iter: iter})
	s.all(Drained{Number: n})
}

func (s *script) ask(id int, stop bool) { s.event(Requested{Request{ID: id, Stop: stop}}) }

func (s *script) take(acts []Action) {
	s.acts = append(s.acts, acts...)
	for _, a := range acts {
		switch a := a.(type) {
		case Send:
			if a.Rank == 0 {
				s.got = append(s.got, label(a.Message))
			}
		case Broadcast:
			s.got = append(s.got, label(a.Message))
		case Kill:
			s.got = append(s.got, fmt.Sprintf("kill %d", a.Rank))
		case Spawn:
			s.got = append(s.got, fmt.Sprintf("spawn from %d", a.From))
		case Prepare:
		case Commit:
			s.cp = a.Checkpoint
			s.got = append(s.got, fmt.Sprintf("commit %d", a.Checkpoint.Number))
		case Discard:
			s.got = append(s.got, fmt.Sprintf("discard %d", a.Number))
		case Answer:
			s.got = append(s.got, strings.TrimSpace(fmt.Sprintf("answer %d: %d %s", a.ID, a.Number, a.Err)))
		case Report:
			switch n := a.Notice; n.Kind {
			case CheckpointTaken:
				s.got = append(s.got, fmt.Sprintf("taken %d pause %v", n.Checkpoint, n.Pause))
			case CheckpointAborted:
				s.got = append(s.got, fmt.Sprintf("lost %d", n.Checkpoint))
			}
		case Finish:
			s.got = append(s.got, a.Outcome.Result.String())
		}
	}
}

// want compares what was done since the last call.
func (s *script) want(actions ...string) {
	s.t.Helper()
	if !slices.Equal(actions, s.got) {
		s.t.Fatalf("at %v:\n%s", s.now, cmp.Diff(actions, s.got))
	}
	s.got = nil
}
