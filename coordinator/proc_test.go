package coordinator

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// hasVariable reports whether an environment block sets name to rank.
func hasVariable(env []byte, name string, rank int) bool {
	for entry := range bytes.SplitSeq(env, []byte{0}) {
		if string(entry) == fmt.Sprintf("%s=%d", name, rank) {
			return true
		}
	}
	return false
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
