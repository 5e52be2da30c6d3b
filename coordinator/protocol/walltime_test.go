package protocol

import (
	"testing"
	"time"
)

func TestWalltime(t *testing.T) {
	w := NewWalltime(4*time.Hour, 10*time.Second)
	at := func(want time.Duration) {
		t.Helper()
		if got := w.At(); got != want {
			t.Errorf("stops at %v, want %v", got, want)
		}
	}
	at(4*time.Hour - time.Minute - 20*time.Second)
	w.Took(2*time.Minute, true)
	at(4*time.Hour - 5*time.Minute)
	for range recentCosts - 1 {
		w.Took(time.Minute, false)
	}
	at(4*time.Hour - 5*time.Minute)
	w.Took(time.Minute, false)
	at(4*time.Hour - 3*time.Minute)
	w.Took(3*time.Hour, false)
	at(0)
	if w = NewWalltime(10*time.Second, time.Second); w.At() != 7*time.Second || w.Left(4*time.Second) != 6*time.Second || w.Left(time.Minute) != 0 {
		t.Errorf("a short run stops at %v", w.At())
	}
}
