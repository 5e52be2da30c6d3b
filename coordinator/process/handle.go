package process

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A handle is the process itself, whatever its link does.
type handle struct {
	pid  int
	file *os.File // a pidfd; nil where the kernel refuses it
	done chan struct{}
	stop chan struct{}
	once sync.Once
	wait sync.WaitGroup
}

// openHandle starts to watch a process. Without a pidfd it asks every 50 ms.
func openHandle(pid int) (*handle, error) {
	h := &handle{pid: pid, done: make(chan struct{}), stop: make(chan struct{})}
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err == unix.ESRCH {
		return nil, os.NewSyscallError("pidfd_open", err)
	}
	if err == nil {
		h.file = os.NewFile(uintptr(fd), "pidfd")
	}
	h.wait.Go(h.watch)
	return h, err
}

func (h *handle) watch() {
	if h.file != nil {
		raw, err := h.file.SyscallConn()
		if err == nil {
			err = raw.Read(func(fd uintptr) bool {
				list := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
				n, err := unix.Poll(list, 0)
				return err == nil && n > 0
			})
		}
		if err == nil {
			close(h.done)
			return
		}
	}
	for {
		if ended(h.pid) {
			close(h.done)
			return
		}
		select {
		case <-h.stop:
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// ended reports whether a process is gone, or only waits for its parent.
func ended(pid int) bool {
	s, err := statOf(pid)
	if err != nil {
		return err == unix.ESRCH || unix.Kill(pid, 0) == unix.ESRCH
	}
	return s.state == 'Z' || s.state == 'X'
}

// A stat is what the kernel says of a process: its parent, and how many faults of pages, which
// need no disk, its threads had.
type stat struct {
	state          byte
	parent, faults int64
}

func statOf(pid int) (s stat, err error) {
	fd, err := unix.Open(fmt.Sprintf("/proc/%d/stat", pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return s, err
	}
	defer unix.Close(fd)
	text := make([]byte, 1024)
	n, err := unix.Read(fd, text)
	if err != nil {
		return s, err
	}
	at := bytes.LastIndexByte(text[:n], ')') // the name may hold any character
	var skip int64
	_, err = fmt.Sscanf(string(text[at+1:n]), " %c %d %d %d %d %d %d %d", &s.state, &s.parent, &skip, &skip, &skip, &skip, &skip, &s.faults)
	return s, err
}

func (h *handle) kill() {
	select {
	case <-h.done:
		return // the number may be another process by now
	default:
	}
	if h.file == nil {
		_ = unix.Kill(h.pid, unix.SIGKILL)
		return
	}
	raw, err := h.file.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { _ = unix.PidfdSendSignal(int(fd), unix.SIGKILL, nil, 0) })
}

func (h *handle) close() {
	h.once.Do(func() {
		close(h.stop)
		if h.file != nil {
			h.file.Close()
		}
	})
	h.wait.Wait()
}

const (
	// EnvClient holds the number of the descriptor of the link.
	EnvClient = "CKPT_CLIENT"
	// EnvAgent names the program to start, for the client.
	EnvAgent = "CKPT_AGENT"
	EnvSize  = "CKPT_SIZE"

	envDetached = "CKPT_DETACHED"
	linkFD      = 3
)

// Detach makes the agent a process of its own: no child of the program, no member of its session,
// without any of its descriptors but the link. A launcher that waits for the end of its pipes
// would wait for the agent otherwise. It returns false in the process that the client started,
// which must exit at once; the agent continues in another process, where Detach returns true.
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

// unbind lets the processes that this thread starts use all processors. A launcher may have bound
// the rank to one, which only the rank needs.
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
