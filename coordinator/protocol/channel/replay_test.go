package channel

import (
	"math"
	"slices"
	"testing"
)

// restored goes back to the beginning with a log of these frames.
func restored(t *testing.T, kind Kind, line []uint64, frames ...Frame) (*Endpoint, []Action) {
	t.Helper()
	e := newEndpoint(t, kind)
	e, acts, err := Restore(e.cfg, e.Snapshot(), reading(frames), line)
	if err != nil {
		t.Fatal(err)
	}
	return e, acts
}

// match is a determinant in a log: receive number n got message seq of rank 2.
func match(n, seq uint64) Frame {
	return Frame{Kind: Determined, Peer: 2, Number: n, Message: Message{Seq: seq}}
}

// from2 is a message of rank 2 in a log, which depends on so many matches of it.
func from2(seq, depends uint64) Frame {
	return Frame{Kind: Received, Peer: 2, Message: Message{Seq: seq, Depends: []uint64{0, 0, depends}}}
}

// TestSnapshotOfReplay: a checkpoint that is taken during a replay holds what is left
// to follow.
func TestSnapshotOfReplay(t *testing.T) {
	e, _ := restored(t, Sender, nil, match(1, 4), match(2, 5))
	if _, _, err := e.ReceivedAny(2, 4); err != nil {
		t.Fatal(err)
	}
	if got := e.Snapshot().Replay; !slices.Equal(got, []Determinant{{Number: 2, Source: 2, Seq: 5}}) {
		t.Errorf("%+v", got)
	}
}

// TestPresentOfReplay: matches that are left to follow count as made, also for what
// the rank itself depends on.
func TestPresentOfReplay(t *testing.T) {
	e, _ := restored(t, Optimistic, nil, match(1, 4), match(2, 5))
	if v := e.Present(); v.Matches != 2 || !slices.Equal(v.Depends, []uint64{2, 0, 0}) {
		t.Errorf("%+v", v)
	}
}

// TestLoggedStatesDependOnThemselves: each state that a log leads to depends on the
// match that it ends with, and on what came before.
func TestLoggedStatesDependOnThemselves(t *testing.T) {
	frames := []Frame{from2(1, 3), match(1, 1), match(2, 2)}
	states, err := newEndpoint(t, Optimistic).Snapshot().Logged(reading(frames))
	if err != nil || len(states) != 2 {
		t.Fatalf("%+v, %v", states, err)
	}
	for i, v := range states {
		if n := uint64(i + 1); v.Matches != n || !slices.Equal(v.Depends, []uint64{n, 0, 3}) {
			t.Errorf("state %d: %+v", i, v)
		}
	}
}

// TestLineCuts: a line takes back exactly what depends on more than it keeps, and a
// Cut in the log says so to every later recovery.
func TestLineCuts(t *testing.T) {
	line := []uint64{math.MaxUint64, math.MaxUint64, 5}
	_, acts := restored(t, Optimistic, line, from2(1, 5), from2(2, 6))
	var cuts, delivered int
	for _, a := range acts {
		switch a := a.(type) {
		case Append:
			if a.Frame.Kind != Cut || !slices.Equal(a.Frame.Message.Data, AppendNumbers(nil, line)) {
				t.Errorf("appends %+v", a.Frame)
			}
			cuts++
		case Deliver:
			delivered++
		}
	}
	if cuts != 1 || delivered != 1 {
		t.Errorf("%d cuts, %d messages delivered, want 1 of each", cuts, delivered)
	}
	if _, acts := restored(t, Optimistic, line, from2(1, 5)); len(acts) != 1 {
		t.Errorf("with nothing to take back: %+v", acts)
	}
}

// TestMatchInsideHasNoNumber: channels inside a group begin to count anew after a
// failure, so that their numbers must not be in a log.
func TestMatchInsideHasNoNumber(t *testing.T) {
	e, err := New(Config{Kind: Sender, Rank: 0, Size: 3, Group: []int{0, 1}})
	if err != nil {
		t.Fatal(err)
	}
	for src, want := range map[int]uint64{1: 0, 2: 9} {
		_, acts, err := e.ReceivedAny(src, 9)
		if err != nil || len(acts) != 1 || acts[0].(Append).Frame.Message.Seq != want {
			t.Errorf("rank %d: %+v, %v", src, acts, err)
		}
	}
}

// TestOptimisticStandsAlone: an optimistic log and a group of two do not go together.
func TestOptimisticStandsAlone(t *testing.T) {
	if _, err := New(Config{Kind: Optimistic, Rank: 0, Size: 3, Group: []int{0, 1}}); err == nil {
		t.Error("accepted")
	}
}
