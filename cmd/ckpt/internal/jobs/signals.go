package jobs

import (
	"os"
	"syscall"
	"time"
)

// sameRequest is how soon after a signal another one of its kind repeats it. timeout(1)
// and batch systems signal a process by its number, and again with its process group.
const sameRequest = time.Second

// A requestFilter tells new requests to stop from repeated ones. Its zero value has seen
// none.
type requestFilter struct {
	last os.Signal
	at   time.Time
}

// isNew reports whether a signal is a request of its own. A second ^C always is: a user
// who types it twice has no time to wait.
func (f *requestFilter) isNew(s os.Signal, now time.Time) bool {
	repeated := s == f.last && s != os.Interrupt && now.Sub(f.at) < sameRequest
	// A batch system asks before the end, and again at the end.
	repeated = repeated || f.last == syscall.SIGUSR1 && (s == syscall.SIGTERM || s == syscall.SIGUSR1)
	f.last, f.at = s, now
	return !repeated
}
