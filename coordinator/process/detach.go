package process

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// The environment of an agent that a client starts.
const (
	// EnvClient holds the number of the descriptor of the link.
	EnvClient = "CKPT_CLIENT"
	// EnvAgent names the program to start, for the client.
	EnvAgent = "CKPT_AGENT"
	// EnvSize holds the number of ranks.
	EnvSize = "CKPT_SIZE"

	envDetached = "CKPT_DETACHED"
	linkFD      = 3
)

// Detach makes the agent a process of its own: no child of the program, no member of its
// session, without any of its descriptors but the link. A launcher that waits for the end
// of its pipes would wait for the agent otherwise. It returns false in the process that
// the client started, which must exit at once; the agent continues in another process,
// where Detach returns true.
func Detach() (detached bool, err error) {
	if os.Getenv(envDetached) != "" {
		return true, os.Unsetenv(envDetached)
	}
	if err := closeOthers(); err != nil {
		return false, fmt.Errorf("detach the agent: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return false, fmt.Errorf("detach the agent: %w", err)
	}
	link := os.NewFile(linkFD, "link")
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Env = append(os.Environ(), envDetached+"=1")
	cmd.ExtraFiles = []*os.File{link}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	unbind()
	if err := cmd.Start(); err != nil {
		return false, fmt.Errorf("detach the agent: %w", err)
	}
	return false, cmd.Process.Release()
}

// unbind lets the processes that this thread starts use all processors. A launcher may
// have bound the rank to one, which only the rank needs.
func unbind() {
	runtime.LockOSThread() // until the process ends, which is soon
	var all unix.CPUSet
	for i := range len(all) * 64 {
		all.Set(i)
	}
	_ = unix.SchedSetaffinity(0, &all)
}

// closeOthers has all descriptors beyond the link closed when the agent starts again.
func closeOthers() error {
	if unix.CloseRange(linkFD+1, 1<<31-1, unix.CLOSE_RANGE_CLOEXEC) == nil {
		return nil
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return os.NewSyscallError("getrlimit", err)
	}
	for fd := linkFD + 1; fd < int(min(limit.Max, 1<<20)); fd++ {
		unix.CloseOnExec(fd)
	}
	return nil
}
