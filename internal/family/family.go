// Package family finds a process and all that it has started, and ends them.
//
// # Promises
//
//   - Signal reaches no process but those that were found: one that has taken the number
//     of a process that ended is not touched.
package family

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A Process has a number, and the moment of its start in ticks since that of the machine.
type Process struct {
	PID   int    `json:"pid"`
	Start string `json:"start"`
}

// Alive reports whether a process still is what it was.
func (p Process) Alive() bool {
	start, ok := startOf(p.PID)
	return ok && start == p.Start
}

// Await returns when all processes have ended, or after a time; then it reports false.
func Await(list []Process, limit time.Duration) bool {
	for end := time.Now().Add(limit); slices.ContainsFunc(list, Process.Alive); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// Find returns the process of a number; false if there is none, or it has ended.
func Find(pid int) (Process, bool) {
	start, ok := startOf(pid)
	return Process{pid, start}, ok
}

// Descendants returns a process and all below it, parents first.
func Descendants(pid int) []Process {
	first, ok := Find(pid)
	if !ok {
		return nil
	}
	list := []Process{first}
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return list // it has ended
	}
	for _, t := range threads {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, t.Name()))
		if err != nil {
			continue
		}
		for _, word := range strings.Fields(string(b)) {
			if n, err := strconv.Atoi(word); err == nil {
				list = append(list, Descendants(n)...)
			}
		}
	}
	return list
}

// Signal sends a signal to those processes that still are what they were, parents
// first.
func Signal(list []Process, s syscall.Signal) {
	for _, p := range list {
		if p.Alive() {
			_ = syscall.Kill(p.PID, s) // it may end meanwhile
		}
	}
}

// startOf returns when a process started, in ticks since the machine did. It reports
// false if there is no such process, or it has ended.
func startOf(pid int) (string, bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", false
	}
	// The name of the program, in parentheses, may hold anything.
	_, rest, _ := strings.Cut(string(b[max(0, strings.LastIndexByte(string(b), ')')):]), " ")
	fields := strings.Fields(rest)
	const state, start = 0, 19 // fields 3 and 22 of proc(5)
	if len(fields) <= start || slices.Contains([]string{"Z", "X"}, fields[state]) {
		return "", false
	}
	return fields[start], true
}
