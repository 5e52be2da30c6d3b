package root

import (
	"errors"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

// asProcess1 runs this command line in a child, and ends with its status. The kernel gives
// process 1 of a container each process that has lost its parent: process 1 has to reap it,
// and must not take from package os/exec what that waits for. It returns false if the child
// cannot be started.
func asProcess1() (status int, ok bool) {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals)
	child, err := os.StartProcess("/proc/self/exe", os.Args, &os.ProcAttr{Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
	if err != nil {
		signal.Stop(signals)
		return 0, false
	}
	go func() {
		ignored := notPassedOn()
		for s := range signals {
			if !slices.Contains(ignored, s) {
				_ = child.Signal(s)
			}
		}
	}()
	return reapUntil(child.Pid), true
}

// notPassedOn are signals that mean this process only. A terminal sends its own to the child
// as well.
func notPassedOn() []os.Signal {
	list := []os.Signal{syscall.SIGCHLD, syscall.SIGURG, syscall.SIGPIPE}
	if tty, err := os.Open("/dev/tty"); err == nil {
		tty.Close()
		list = append(list, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTSTP, syscall.SIGWINCH)
	}
	return list
}

// reapUntil reaps processes until a certain one has ended, and returns the status of that one
// as a shell tells it.
func reapUntil(pid int) int {
	for {
		var status syscall.WaitStatus
		ended, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 1 // there is no child
		case ended == pid && status.Signaled():
			return 128 + int(status.Signal())
		case ended == pid:
			return status.ExitStatus()
		}
	}
}
