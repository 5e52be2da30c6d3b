package dmtcp

import (
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"ckpt/internal/family"
)

// A child is a process that this one has started, in a process group of its own. It gets
// SIGTERM if this one dies.
type child struct {
	cmd  *exec.Cmd
	self family.Process
	over chan struct{} // closed when it has ended
	err  error         // then how
}

func startChild(cmd *exec.Cmd) (*child, error) {
	c := &child{cmd: cmd, over: make(chan struct{})}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	started := make(chan error)
	go func() {
		// The kernel sends the signal when the thread ends that has started the process.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			c.err = cmd.Wait()
			close(c.over)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	c.self, _ = family.Find(cmd.Process.Pid)
	return c, nil
}

// ended reports whether the process has ended.
func (c *child) ended() bool {
	select {
	case <-c.over:
		return true
	default:
		return false
	}
}

// killTime is how long a killed process may take to be gone.
const killTime = 5 * time.Second

// kill ends the process and all below it, at once.
func (c *child) kill() {
	if c.ended() {
		return
	}
	below := family.Descendants(c.self.PID)
	family.Signal(below, syscall.SIGKILL)
	_ = c.cmd.Process.Kill()
	<-c.over
	family.Await(below, killTime)
}

// failRC is the exit status of a program of DMTCP that has failed.
const failRC = 99

// cause says in words how a process ended, "" if it was successful.
func cause(err error) string {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return ""
	case !errors.As(err, &exit):
		return err.Error()
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return fmt.Sprintf("was killed by signal %d (%v)", int(status.Signal()), status.Signal())
	}
	if exit.ExitCode() == failRC {
		return fmt.Sprintf("exited with status %d, by which DMTCP says that it failed", failRC)
	}
	return fmt.Sprintf("exited with status %d", exit.ExitCode())
}
