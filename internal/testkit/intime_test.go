package testkit

import (
	"testing"
	"time"
)

func TestInTime(t *testing.T) {
	for _, c := range []struct {
		since, limit time.Duration
		late         bool
	}{
		{0, 10 * time.Minute, false},
		{6 * time.Minute, 10 * time.Minute, false},
		{6*time.Minute + 1, 10 * time.Minute, true},
		{time.Hour, 0, false},
	} {
		if late(c.since, c.limit) != c.late {
			t.Errorf("late after %v of %v: %v, want %v", c.since, c.limit, !c.late, c.late)
		}
	}
}
