package launch

import (
	"github.com/prometheus/procfs"
)

// WaitsForStorage reports whether a thread of a process is in an uninterruptible sleep,
// as the kernel puts it to while a disk does not answer. One page of mapped memory that
// cannot be read or written is enough to hold a whole process up. No signal ends it
// either.
func WaitsForStorage(pid int) bool {
	threads, err := procfs.AllThreads(pid)
	if err != nil {
		return false
	}
	for _, t := range threads {
		if stat, err := t.Stat(); err == nil && stat.State == "D" {
			return true
		}
	}
	return false
}
