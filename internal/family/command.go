package family

import (
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

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

// PID is the number of the command, which is also that of its process group.
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
