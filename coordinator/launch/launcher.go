package launch

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"ckpt/coordinator/wire"
)

// Self is the executable of this process, also when its file has been replaced
// or removed meanwhile.
const Self = "/proc/self/exe"

// A Launcher starts ranks.
type Launcher interface {
	// Start starts a rank; ended is called once, from another goroutine, with
	// the cause in words, after done of the process has been closed.
	Start(r Rank, ended func(cause string)) (Process, error)
}

// Rank says what a new rank needs to know.
type Rank struct {
	Rank, Incarnation int
	Job               string // its name, and the number of its ranks, for lists of processes
	NP                int
	Socket, Token     string
	Scratch           string // directory of its node
	Beat              time.Duration
}

// A Process runs a rank.
type Process interface {
	Kill()                 // at once, whatever it is doing, even if it is stopped
	Done() <-chan struct{} // closed when it is over and reaped
	PID() int
	Explains() bool // whether its end says why this rank, and not another, is gone
}

// environment tells a process how to reach the coordinator.
func (r Rank) environment() []string {
	return []string{wire.EnvSocket + "=" + r.Socket, wire.EnvToken + "=" + r.Token, wire.EnvIncarnation + "=" + strconv.Itoa(r.Incarnation),
		wire.EnvBeat + "=" + r.Beat.String()}
}

// Local starts ranks as children.
type Local struct{}

func (Local) Start(r Rank, ended func(cause string)) (Process, error) {
	p := &child{over: make(chan struct{})}
	p.cmd = exec.Command(Self, "rank", r.Job, fmt.Sprintf("%d/%d", r.Rank, r.NP))
	p.cmd.Args[0] = "ckpt"
	p.cmd.Dir = r.Scratch
	p.cmd.Env = append(append(os.Environ(), r.environment()...), wire.EnvRank+"="+strconv.Itoa(r.Rank))
	p.cmd.Stderr = &p.stderr
	// Its own process group: a ^C at the terminal is for the coordinator,
	// which then stops the ranks in order.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start rank %d: %w", r.Rank, err)
	}
	go func() {
		err := p.cmd.Wait()
		close(p.over)
		ended(p.cause(err))
	}()
	return p, nil
}

// child is a rank that this process has started.
type child struct {
	cmd    *exec.Cmd
	stderr tail
	over   chan struct{}
}

func (p *child) Done() <-chan struct{} { return p.over }
func (p *child) PID() int              { return p.cmd.Process.Pid }
func (p *child) Explains() bool        { return true }

func (p *child) Kill() {
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return // nothing else can be done; done tells
	}
}

// cause says in words how the process ended.
func (p *child) cause(err error) string {
	var exit *exec.ExitError
	if err == nil {
		return "left"
	}
	if !errors.As(err, &exit) {
		return fmt.Sprintf("cannot be waited for: %v", err)
	}
	status, _ := exit.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return "was killed by " + signalName(status.Signal())
	}
	text := fmt.Sprintf("exited with status %d", exit.ExitCode())
	if last := p.stderr.line(); last != "" {
		text += ": " + last
	}
	return text
}

func signalName(s syscall.Signal) string {
	switch s {
	case syscall.SIGKILL:
		return "SIGKILL"
	case syscall.SIGSEGV:
		return "SIGSEGV"
	case syscall.SIGBUS:
		return "SIGBUS"
	case syscall.SIGTERM:
		return "SIGTERM"
	case syscall.SIGABRT:
		return "SIGABRT"
	}
	return fmt.Sprintf("signal %d (%v)", int(s), s)
}

// tail keeps the first bytes a process writes to standard error: what it
// complains about first is the cause, what follows are stack traces.
type tail struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

const tailLimit = 8 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if room := tailLimit - t.buf.Len(); room > 0 {
		t.buf.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}

// line returns the first line that is not empty.
func (t *tail) line() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	for line := range strings.SplitSeq(t.buf.String(), "\n") {
		if line = strings.TrimSpace(line); line != "" {
			return line
		}
	}
	return ""
}
