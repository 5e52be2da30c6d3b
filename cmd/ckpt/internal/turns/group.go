package turns

import (
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"time"

	"ckpt/internal/family"
)

// A group is a command with all processes that it starts. They run in a process group of
// their own, so that they can be suspended together. If ckpt is killed, the command gets
// SIGTERM; if it is suspended then, all its processes get SIGTERM and continue.
type group struct {
	cmd   *exec.Cmd
	guard *guard        // from when the command is suspended first, nil if none can be started
	over  chan struct{} // closed when the command has ended
	moved int64         // bytes of ckpt and all below it, when somebody looked last
}

// stopping is how long suspend waits for processes that are in the middle of an operation.
const stopping = 5 * time.Second

// newGroup starts a command. Calls says which bytes its progress counts.
func newGroup(command []string, calls bool, in io.Reader, out, errs io.Writer) (*group, error) {
	g := &group{cmd: exec.Command(command[0], command[1:]...), over: make(chan struct{})}
	g.progress(calls)
	g.cmd.Stdin, g.cmd.Stdout, g.cmd.Stderr = in, out, errs
	g.cmd.WaitDelay = time.Second // a descendant may keep the output open
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	started := make(chan error)
	go func() {
		// The kernel sends Pdeathsig when the thread ends that has started the command.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := g.cmd.Start()
		started <- err
		if err == nil {
			_ = g.cmd.Wait() // the state of the process has more
			close(g.over)
		}
	}()
	return g, <-started
}

// suspend stops all processes of the command. It returns when they stand still: a process
// finishes its current operation first.
func (g *group) suspend() {
	if g.guard == nil {
		g.guard, _ = newGuard() // without it, the kernel resumes most commands
	}
	g.guard.tell(suspended{Group: g.cmd.Process.Pid})
	_ = syscall.Kill(-g.cmd.Process.Pid, syscall.SIGSTOP) // it may end meanwhile
	seen := []family.Process{}
	for late := time.Now().Add(stopping); time.Now().Before(late); time.Sleep(time.Millisecond) {
		// Launchers of MPI programs make groups of their own, and a process may start
		// another one meanwhile.
		var found []family.Process
		still := true
		for _, p := range g.family() {
			if !slices.Contains(seen, p) {
				found = append(found, p)
			}
			still = still && p.Suspended()
		}
		if still {
			return
		}
		seen = append(seen, found...)
		g.guard.tell(suspended{Group: g.cmd.Process.Pid, Processes: seen})
		family.Signal(found, syscall.SIGSTOP)
	}
}

// resume continues what suspend has stopped.
func (g *group) resume() {
	family.Signal(g.family(), syscall.SIGCONT)
	_ = syscall.Kill(-g.cmd.Process.Pid, syscall.SIGCONT) // it may end meanwhile
	g.guard.tell(suspended{})
}

// release ends what was started beside the command. Nothing is suspended any more.
func (g *group) release() { g.guard.release() }

// signal passes a signal to the process group, even if that is suspended.
func (g *group) signal(s os.Signal) {
	if n, ok := s.(syscall.Signal); ok {
		_ = syscall.Kill(-g.cmd.Process.Pid, n) // it may end meanwhile
		g.resume()
	}
}

func (g *group) family() []family.Process { return family.Descendants(g.cmd.Process.Pid) }

// blocked reports whether a process of the command waits for a device.
func (g *group) blocked() bool { return slices.ContainsFunc(g.family(), family.Process.Blocked) }

// progress returns how many bytes more the command has moved to and from storage, or of all
// its calls.
func (g *group) progress(calls bool) int64 {
	// The kernel counts the bytes of processes that have ended as those of their parent:
	// in the end, ckpt itself.
	var all int64
	switch {
	case !calls:
		all = family.BytesMoved(family.Descendants(os.Getpid()))
	case g.cmd.Process != nil:
		all = family.BytesOfCalls(g.family()) // ckpt itself makes many
	}
	more := all - g.moved
	if more <= 0 {
		return 0 // processes that end are missing until their parent has noticed
	}
	g.moved += more
	return more
}

// status is how the command ended, as shells say it: 128 and the number of a signal.
func (g *group) status() int {
	s, ok := g.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ok && s.Signaled() {
		return 128 + int(s.Signal())
	}
	return g.cmd.ProcessState.ExitCode()
}
