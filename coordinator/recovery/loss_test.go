package recovery

import (
	"slices"
	"testing"
)

// TestInTransitToSurvivor: messages between a rank that goes back and one that keeps
// its state are in transit, in both directions.
func TestInTransitToSurvivor(t *testing.T) {
	rec := NewRecorder(2)
	rec.Send(0, 1)
	rec.Send(0, 1)
	rec.Send(1, 0)
	rec.Receive(1, 0)
	rec.Checkpoint(1)
	rec.Receive(1, 0) // the second message, which rank 1 loses by its failure
	line, err := Find(rec.History(), []int{1}, Options{Allowed})
	if err != nil {
		t.Fatal(err)
	}
	want := []span{{From: 0, To: 1, First: 2, Last: 2}, {From: 1, To: 0, First: 1, Last: 1}}
	if got := line.inTransit(); !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestLostCheckpointsAreStored: a state that a log leads to is no checkpoint, and
// counts as none when it is lost.
func TestLostCheckpointsAreStored(t *testing.T) {
	rec := NewRecorder(2)
	rec.Checkpoint(0)
	rec.Send(1, 0)
	rec.Receive(0, 1)
	rec.Log(0)
	rec.Checkpoint(0)
	line, err := Find(rec.History(), []int{1}, Options{Allowed})
	if err != nil {
		t.Fatal(err)
	}
	if p := line.Places[0]; p.Index != 1 || p.LostCheckpoints != 1 {
		t.Errorf("rank 0 is at %d and loses %d checkpoints, want 1 and 1", p.Index, p.LostCheckpoints)
	}
}
