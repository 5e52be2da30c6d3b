package codec

import (
	"time"

	"golang.org/x/sys/unix"
)

// ProcessorTime returns how long the calling thread has been on a processor. A
// goroutine that compares two of these calls runtime.LockOSThread first. Elapsed time
// would count the turns of other processes as work of the codec.
func ProcessorTime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0 // the kernel has had this clock since 2.6.12
	}
	return time.Duration(t.Nano())
}

func threadClock() time.Time { return time.Unix(0, int64(ProcessorTime())) }
