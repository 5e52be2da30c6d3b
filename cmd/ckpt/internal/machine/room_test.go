package machine

import (
	"math"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestRoom: a run that would be without threads or memory in the middle is refused, by the
// limit that is the lowest; one without limits is not.
func TestRoom(t *testing.T) {
	const none = math.MaxUint64
	for name, c := range map[string]struct {
		processes, addresses uint64
		group                string // that pids.max says
		counts               bool
		ranks                int
		says                 string // "" if there is room
	}{
		"no limit":        {none, none, "max", true, 1000, ""},
		"few processes":   {15, none, "max", true, 0, "ulimit -u leaves 5 more"},
		"few for ranks":   {40, none, "max", true, 4, "ulimit -u leaves 30 more processes and threads, too few for 4 ranks: want 40"},
		"enough":          {50, none, "max", true, 4, ""},
		"root":            {15, none, "max", false, 4, ""},
		"group":           {none, none, "30", true, 4, "the control group leaves 25 more"},
		"addresses":       {none, 1260 << 20, "max", true, 0, "ulimit -v leaves 60.00 MiB"},
		"addresses, rank": {none, 1260 << 20, "max", true, 4, ""},
	} {
		m := healthy(t)
		m.Tasks = func() (int64, bool) { return 10, c.counts }
		m.Limit = func(resource int) (uint64, error) {
			if resource == unix.RLIMIT_AS {
				return c.addresses, nil
			}
			return c.processes, nil
		}
		m.ReadFile = files(map[string]string{"/proc/self/status": "Name: ckpt\nVmSize:\t 1228800 kB\n", "/proc/self/cgroup": "0::/a\n",
			"/sys/fs/cgroup/a/pids.max": c.group + "\n", "/sys/fs/cgroup/a/pids.current": "5\n"})
		err := m.room(c.ranks)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}

// TestTasks counts at least the threads of this process.
func TestTasks(t *testing.T) {
	n, counts := tasks()
	if counts && n < 2 {
		t.Errorf("%d processes and threads", n)
	}
	keepThreads(20)
	if more, _ := tasks(); counts && more < 20 {
		t.Errorf("%d processes and threads, with 20 kept", more)
	}
}
