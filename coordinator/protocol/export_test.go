package protocol

import (
	"testing"
	"time"
)

// Watch runs simulated schedule seed and tells what went into the coordinator
// and what came out: for tests of what stands in its place. The first event is
// nil, for Begin.
func Watch(t *testing.T, seed uint64, setUp func(Config), watch func(now time.Duration, ev Event, acts []Action)) {
	runWatched(t, seed, setUp, watch)
}
