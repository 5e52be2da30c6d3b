package jobs

import (
	"testing"
	"time"
)

func TestParseEvery(t *testing.T) {
	for text, want := range map[string]struct {
		iterations int
		interval   time.Duration
	}{"1": {1, 0}, "500": {500, 0}, "30s": {0, 30 * time.Second}, "1h30m": {0, 90 * time.Minute}, "2.5": {}, "0": {}, "-3": {}, "-3s": {}, "0s": {}, "": {}, "5x": {}, "1e3": {}} {
		iterations, interval, err := parseEvery(text)
		if iterations != want.iterations || interval != want.interval || (err == nil) != (iterations > 0 || interval > 0) {
			t.Errorf("%q: %d, %v, %v", text, iterations, interval, err)
		}
	}
}
