package jobs

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// startAlone starts a process that gets none of the descriptors which this one was started
// with, such as the lock of a script or a pipe that its reader waits for the end of. Those
// that this process has opened itself never pass on.
func startAlone(start func() error) error {
	list := inherited()
	mark := func(flag int) {
		for _, fd := range list {
			_, _ = unix.FcntlInt(fd, unix.F_SETFD, flag) // fails if it was closed meanwhile
		}
	}
	mark(unix.FD_CLOEXEC)
	defer mark(0)
	return start()
}

// inherited lists the descriptors beside the standard ones that a child would get.
func inherited() []uintptr {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil
	}
	var list []uintptr
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd <= 2 {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			list = append(list, uintptr(fd))
		}
	}
	return list
}
