// Package family finds a process and all that it has started, and ends them.
//
// # Promises
//
//   - Signal reaches no process but those that were found: one that has taken the number
//     of a process that ended is not touched.
package family

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A Process has a number, and the moment of its start, in ticks since the machine started.
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

// Find returns the process of a number; false if it has ended.
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

// Carrying returns the processes of this host that began with all of these variables,
// NAME=VALUE, in their environment.
func Carrying(variables ...string) (list []Process) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err != nil || slices.ContainsFunc(variables, func(v string) bool { return !bytes.Contains(b, []byte(v+"\x00")) }) {
			continue
		}
		if p, ok := Find(pid); ok {
			list = append(list, p)
		}
	}
	return list
}

// Above returns the nearest process above one whose program has one of these names, or a
// name that begins with one; false if there is none below the process of number limit.
func (p Process) Above(names []string, limit int) (Process, bool) {
	for pid := p.PID; ; {
		s, ok := statOf(pid)
		if !ok || s.parent <= 1 || s.parent == limit {
			return Process{}, false
		}
		pid = s.parent
		above, ok := statOf(pid)
		if ok && slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(above.name, name) }) {
			return Process{pid, above.start}, true
		}
	}
}

// Name returns what the kernel calls the program of a process: at most 15 bytes.
func (p Process) Name() string {
	s, _ := statOf(p.PID)
	return s.name
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
	s, ok := statOf(p.PID)
	return ok && s.start == p.Start && s.state == "D"
}

// Idle reports whether all threads of a process wait for somebody: it has taken all that came to
// it, and has passed it on.
func (p Process) Idle() bool {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", p.PID))
	return err == nil && !slices.ContainsFunc(threads, func(thread os.DirEntry) bool {
		id, _ := strconv.Atoi(thread.Name())
		s, ok := statOf(id)
		return ok && s.state != "S"
	})
}

// Suspended reports whether a process is stopped, or has ended: it does nothing. A process
// that waits for a suspended child to begin its program (vfork) does nothing, either.
func (p Process) Suspended() bool {
	s, ok := statOf(p.PID)
	if !ok || s.start != p.Start || stopped(s.state) {
		return true
	}
	if s.state != "D" {
		return false
	}
	own, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", p.PID))
	for _, child := range Descendants(p.PID) {
		of, cerr := os.Readlink(fmt.Sprintf("/proc/%d/exe", child.PID))
		if s, ok := statOf(child.PID); child != p && ok && stopped(s.state) && err == nil && cerr == nil && of == own {
			return true
		}
	}
	return false
}

// stopped reports whether a process is in this state after SIGSTOP.
func stopped(state string) bool { return state == "T" || state == "t" }

// startOf returns when a process started, in ticks since the machine did. It reports
// false if there is no such process, or it has ended.
func startOf(pid int) (string, bool) {
	s, ok := statOf(pid)
	return s.start, ok
}

// A stat is what proc(5) says of a process that has not ended.
type stat struct {
	name, state, start string
	parent             int
}

func statOf(pid int) (s stat, ok bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, false
	}
	// The name of the program, in parentheses, may hold anything.
	first, last := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if first < 0 || last < first {
		return stat{}, false
	}
	fields := strings.Fields(string(b[last+1:]))
	const stateField, parentField, startField = 0, 1, 19 // fields 3, 4 and 22
	if len(fields) <= startField || slices.Contains([]string{"Z", "X"}, fields[stateField]) {
		return stat{}, false
	}
	s = stat{name: string(b[first+1 : last]), state: fields[stateField], start: fields[startField]}
	s.parent, _ = strconv.Atoi(fields[parentField])
	return s, true
}

// BytesRead adds up what processes have read from files, as far as that is known. A process
// that waits or spins reads nothing.
func BytesRead(list []Process) int64 { return sumOf(list, "rchar") }

// BytesMoved adds up what processes, and their children that have ended, have read
// from storage and written for it, as far as that is known. Bytes in memory do not count.
func BytesMoved(list []Process) int64 { return sumOf(list, "read_bytes", "write_bytes") }

// BytesOfCalls adds up what processes, and their children that have ended, have read
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

// Resident adds up the memory that processes hold, as far as that is known. A process that the
// list names twice counts once.
func Resident(list []Process) int64 {
	var sum int64
	seen := make(map[int]bool)
	for _, p := range list {
		if seen[p.PID] {
			continue
		}
		seen[p.PID] = true
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

// Grace is how long a command may take to end after SIGTERM, before SIGKILL.
const Grace = 5 * time.Second

// A Command is a process that this one has started, in a process group of its own.
type Command struct {
	cmd  *exec.Cmd
	over chan struct{}
	err  error
}

// Start starts a command. It gets SIGTERM if this process dies.
func Start(cmd *exec.Cmd) (*Command, error) {
	c := &Command{cmd: cmd, over: make(chan struct{})}
	cmd.WaitDelay = time.Second // a descendant may keep the output open
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	started := make(chan error)
	go func() {
		// The kernel sends the signal when the thread ends that has started the command.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			c.err = cmd.Wait()
			close(c.over)
		}
	}()
	return c, <-started
}

// PID is the number of the command and of its process group.
func (c *Command) PID() int { return c.cmd.Process.Pid }

func (c *Command) Over() <-chan struct{} { return c.over }

// Err returns how the command ended, nil for status 0. Wait for Over first.
func (c *Command) Err() error { return c.err }

// Status returns how the command ended, as shells say it: 128 and the number of a signal.
// Wait for Over first.
func (c *Command) Status() int {
	if s, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		return 128 + int(s.Signal())
	}
	return c.cmd.ProcessState.ExitCode()
}

// Signal sends a signal to the process group.
func (c *Command) Signal(s os.Signal) {
	if n, ok := s.(syscall.Signal); ok {
		_ = syscall.Kill(-c.PID(), n) // it may end meanwhile
	}
}

// End ends the command and its descendants: by SIGTERM, and after Grace by SIGKILL.
func (c *Command) End() {
	below := Descendants(c.PID())
	Signal(below, syscall.SIGTERM)
	select {
	case <-c.over:
	case <-time.After(Grace):
	}
	Signal(below, syscall.SIGKILL)
	<-c.over
	Await(below, Grace) // a killed process leaves soon
}
