package family

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// BytesRead adds up what processes have read from files, as far as that is known. A process
// that waits or spins reads nothing.
func BytesRead(list []Process) int64 { return sumOf(list, "rchar") }

// BytesMoved adds up what processes, and those of their children that have ended, have read
// from storage and written for it, as far as that is known. Bytes in memory do not count.
func BytesMoved(list []Process) int64 { return sumOf(list, "read_bytes", "write_bytes") }

// BytesOfCalls adds up what processes, and those of their children that have ended, have read
// and written by calls, also in memory, through pipes and connections.
func BytesOfCalls(list []Process) int64 { return sumOf(list, "rchar", "wchar") }

// sumOf adds up counters of /proc/PID/io.
func sumOf(list []Process, counters ...string) int64 {
	var sum int64
	for _, p := range list {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", p.PID))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(b)) {
			if name, rest, ok := strings.Cut(line, ":"); ok && slices.Contains(counters, name) {
				n, _ := strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
				sum += n
			}
		}
	}
	return sum
}

// Resident adds up the memory that processes hold, as far as that is known.
func Resident(list []Process) int64 {
	var sum int64
	for _, p := range list {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", p.PID))
		if err != nil {
			continue
		}
		if fields := strings.Fields(string(b)); len(fields) > 1 {
			n, _ := strconv.ParseInt(fields[1], 10, 64)
			sum += n * int64(os.Getpagesize())
		}
	}
	return sum
}

// Variable returns a variable of the environment with which a process began, false if it
// had none of that name.
func (p Process) Variable(name string) (string, bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.PID))
	if err != nil {
		return "", false
	}
	for v := range strings.SplitSeq(string(b), "\x00") {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value, true
		}
	}
	return "", false
}
