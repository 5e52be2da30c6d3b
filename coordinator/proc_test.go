package coordinator

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// children finds the processes of a rank among the children of this one. Other tests run
// jobs at the same time, of other names.
func children(job string, rank int) []int {
	var pids []int
	dirs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range dirs {
		line, err := os.ReadFile(path)
		if err != nil || !bytes.HasPrefix(line, fmt.Appendf(nil, "ckpt\x00rank\x00%s\x00%d/", job, rank)) {
			continue
		}
		if pid, ppid := parent(filepath.Dir(path)); ppid == os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

// stopped reports whether a process has been suspended.
func stopped(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, _ := strings.Cut(string(stat), ") ")
	return err == nil && strings.HasPrefix(state, "T")
}

// parent reads the ids of a process and of its parent.
func parent(dir string) (pid, ppid int) {
	pid, _ = strconv.Atoi(filepath.Base(dir))
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return pid, 0
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "PPid:"); ok {
			ppid, _ = strconv.Atoi(strings.TrimSpace(rest))
		}
	}
	return pid, ppid
}
