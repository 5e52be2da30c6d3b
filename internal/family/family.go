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

// Tracees returns the processes that a process traces (ptrace), also those that are not
// below it any more: their parent has ended.
func Tracees(tracer int) (list []Process) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	line := fmt.Sprintf("\nTracerPid:\t%d\n", tracer)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil || !strings.Contains(string(status), line) {
			continue // it has ended, perhaps
		}
		if p, ok := Find(pid); ok {
			list = append(list, p)
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

// Blocked reports whether a process waits for a device, and not for anybody.
func (p Process) Blocked() bool {
	state, start, ok := statOf(p.PID)
	return ok && start == p.Start && state == "D"
}

// Suspended reports whether a process is stopped, or has ended: it does nothing. A process
// that waits for a suspended child to begin its program (vfork) does nothing, either.
func (p Process) Suspended() bool {
	state, start, ok := statOf(p.PID)
	if !ok || start != p.Start || stopped(state) {
		return true
	}
	if state != "D" {
		return false
	}
	own, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", p.PID))
	for _, child := range Descendants(p.PID) {
		of, cerr := os.Readlink(fmt.Sprintf("/proc/%d/exe", child.PID))
		if state, _, ok := statOf(child.PID); child != p && ok && stopped(state) && err == nil && cerr == nil && of == own {
			return true
		}
	}
	return false
}

// stopped reports whether a state is that of a process after SIGSTOP.
func stopped(state string) bool { return state == "T" || state == "t" }

// startOf returns when a process started, in ticks since the machine did. It reports
// false if there is no such process, or it has ended.
func startOf(pid int) (string, bool) {
	_, start, ok := statOf(pid)
	return start, ok
}

// statOf returns the state of a process and when it started.
func statOf(pid int) (state, start string, ok bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", "", false
	}
	// The name of the program, in parentheses, may hold anything.
	_, rest, _ := strings.Cut(string(b[max(0, strings.LastIndexByte(string(b), ')')):]), " ")
	fields := strings.Fields(rest)
	const stateField, startField = 0, 19 // fields 3 and 22 of proc(5)
	if len(fields) <= startField || slices.Contains([]string{"Z", "X"}, fields[stateField]) {
		return "", "", false
	}
	return fields[stateField], fields[startField], true
}
