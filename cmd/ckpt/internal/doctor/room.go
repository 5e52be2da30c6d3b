package doctor

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"ckpt/cmd/ckpt/internal/ui"
)

const (
	// tasksEach is how many threads a rank, or the coordinator, has at most in a small job.
	tasksEach = 10
	// addressesEach is what the coordinator maps beyond what it has when it starts, most of it
	// for threads.
	addressesEach = 96 << 20
)

// Room refuses a run on this machine that would soon be without threads or memory: the runtime
// of Go ends a process then, and prints what all of it was doing. With 0 ranks it is about the
// coordinator, whose threads it makes at once, so that ranks cannot take them.
func Room(ranks int) error {
	m := ThisMachine()
	if err := m.room(ranks); err != nil {
		return err
	}
	if _, limited := m.addressesLeft(); ranks == 0 && !limited { // threads take addresses
		keepThreads(tasksEach)
	}
	return nil
}

func (m *Machine) room(ranks int) error {
	who := "a coordinator"
	if ranks > 0 {
		who = ui.Count(ranks, "rank")
	}
	need := int64(max(1, ranks)) * tasksEach
	if left, of := m.tasksLeft(); left < need {
		return ui.WithHint(fmt.Errorf("%s leaves %d more processes and threads, too few for %s: want %d", of, left, who, need), "raise that limit, or run fewer ranks; ckpt doctor shows the limits")
	}
	if left, ok := m.addressesLeft(); ok && ranks == 0 && left < addressesEach {
		return ui.WithHint(fmt.Errorf("ulimit -v leaves %s MiB of address space, too little for %s: want %s", ui.MiB(max(0, left)), who, ui.MiB(addressesEach)), "ulimit -v unlimited; the memory limit of a batch system or container does no harm")
	}
	return nil
}

// tasksLeft returns how many more processes and threads there may be, and by which limit;
// math.MaxInt64 without one.
func (m *Machine) tasksLeft() (left int64, of string) {
	left, of = math.MaxInt64, "ulimit -u"
	if n, err := m.Limit(unix.RLIMIT_NPROC); err == nil && n < math.MaxInt64 {
		if used, counts := m.Tasks(); counts {
			left = max(0, int64(n)-used)
		}
	}
	if n, ok := m.groupLeft("pids.max", "pids.current", "pids/pids.max", "pids/pids.current"); ok && n < left {
		left, of = n, "the control group"
	}
	return left, of
}

// addressesLeft returns what this process may still map, if that is limited.
func (m *Machine) addressesLeft() (int64, bool) {
	n, err := m.Limit(unix.RLIMIT_AS)
	if err != nil || n >= math.MaxInt64 {
		return 0, false
	}
	text, err := m.ReadFile("/proc/self/status")
	kib, ok := field(string(text), "VmSize:")
	return int64(n) - kib<<10, ok && err == nil
}

// tasks counts the processes and threads of this user. Those of root are not limited.
func tasks() (n int64, counts bool) {
	if os.Geteuid() == 0 {
		return 0, false
	}
	names, _ := filepath.Glob("/proc/[0-9]*")
	for _, name := range names {
		fi, err := os.Stat(name)
		if err != nil {
			continue // it has ended
		}
		if st, ok := fi.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Geteuid() {
			continue
		}
		text, err := os.ReadFile(filepath.Join(name, "status"))
		if threads, ok := field(string(text), "Threads:"); ok && err == nil && !strings.Contains(string(text), "State:\tZ") {
			n += threads
		}
	}
	return n, true
}

// keepThreads makes so many threads. The runtime keeps them for later.
func keepThreads(n int) {
	var there, gone sync.WaitGroup
	leave := make(chan struct{})
	there.Add(n)
	for range n {
		gone.Go(func() {
			runtime.LockOSThread() // until all are there, each has its own
			defer runtime.UnlockOSThread()
			there.Done()
			<-leave
		})
	}
	there.Wait()
	close(leave)
	gone.Wait()
}
