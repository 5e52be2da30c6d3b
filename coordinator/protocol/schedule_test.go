package protocol

import "testing"

// TestJitter: boundaries come later than without, by less than the fraction of the
// period, and a rank that goes back finds the same ones again.
func TestJitter(t *testing.T) {
	sched := Schedule{Every: 100, Jitter: 0.5, Seed: 1}
	last, moved := 0, 0
	for i := range 100 {
		b := sched.next(last, 1<<20)
		late := b - 100*(i+1)
		if late < 0 || late >= 50 {
			t.Fatalf("boundary %d is %d", i, b)
		}
		moved += min(late, 1)
		if got := sched.next((last+b)/2, 1<<20); got != b {
			t.Fatalf("after iteration %d comes %d, want %d", (last+b)/2, got, b)
		}
		last = b
	}
	if moved < 90 {
		t.Errorf("only %d of 100 boundaries are delayed", moved)
	}
}
