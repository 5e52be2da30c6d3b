package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ckpt/internal/family"
)

// A watched is a command whose output goes to a file, and which may not stand still: a time
// without output counts, but for the time in which its processes waited for a processor.
type watched struct {
	cmd   *exec.Cmd
	file  string // of its output
	limit time.Duration
	done  chan error

	began   time.Time
	size    int                   // of its output
	spoke   time.Time             // last output
	still   time.Duration         // without output since
	longest time.Duration         // such time
	looked  time.Time             // last
	waits   map[int]time.Duration // by thread: waited for a processor until then
}

// hindered is how much longer a command may be quiet that gets no processor.
const hindered = 8

func watch(cmd *exec.Cmd, file string, limit time.Duration) (*watched, error) {
	c := &watched{cmd: cmd, file: file, limit: limit, done: make(chan error, 1), began: time.Now(), spoke: time.Now(), looked: time.Now()}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() { c.done <- cmd.Wait() }()
	return c, nil
}

var errStandstill = errors.New("the command stood still")

// until waits for the end of the command, or until seen says so of its output. It returns the
// output, and whether the command has ended, and how.
func (c *watched) until(seen func(said string) bool) (said string, ended bool, err error) {
	for {
		b, _ := os.ReadFile(c.file)
		if seen(string(b)) {
			return string(b), false, nil
		}
		select {
		case err := <-c.done:
			c.done <- err
			b, _ := os.ReadFile(c.file)
			return string(b), true, err
		case <-time.After(5 * time.Millisecond):
		}
		if c.look(len(b)); c.still > c.limit || time.Since(c.spoke) > hindered*c.limit {
			_ = c.cmd.Process.Signal(syscall.SIGQUIT) // it prints where it stands
			select {
			case <-c.done:
			case <-time.After(c.limit):
				_ = c.cmd.Process.Kill()
				<-c.done
			}
			c.done <- errStandstill
		}
	}
}

// look counts the time since the last look as one without output, unless there is some.
func (c *watched) look(size int) {
	now := time.Now()
	if size != c.size {
		c.size, c.still, c.spoke, c.looked, c.waits = size, 0, now, now, nil
		return
	}
	passed := now.Sub(c.looked)
	if passed < 100*time.Millisecond {
		return
	}
	was := c.waits
	c.looked, c.waits = now, make(map[int]time.Duration)
	for _, p := range family.Descendants(c.cmd.Process.Pid) {
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", p.PID))
		for _, file := range files {
			thread, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			b, _ := os.ReadFile(file)
			if fields := strings.Fields(string(b)); len(fields) > 1 {
				ns, _ := strconv.ParseInt(fields[1], 10, 64)
				c.waits[thread] = time.Duration(ns)
			}
		}
	}
	for thread, waited := range c.waits {
		passed -= waited - was[thread]
	}
	if was != nil {
		c.still += max(0, passed)
		c.longest = max(c.longest, c.still)
	}
}

// TestStandstill: a command that does nothing is ended, and one that ends is not.
func TestStandstill(t *testing.T) {
	for args, want := range map[string]error{"1000": errStandstill, "0": nil} {
		c, err := watch(exec.Command("sleep", args), os.DevNull, 300*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		if _, ended, err := c.until(func(string) bool { return false }); !ended || !errors.Is(err, want) {
			t.Errorf("sleep %s: %v, %v; want %v", args, ended, err, want)
		}
	}
}
