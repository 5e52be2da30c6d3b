package coordinator

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
)

// The environment of a rank process.
const (
	envSocket = "CKPT_SOCKET" // of the coordinator
	envToken  = "CKPT_TOKEN"
	envGen    = "CKPT_GENERATION"
	envBeat   = "CKPT_BEAT" // period of the signs of life
	envRank   = "CKPT_RANK"
)

// rankVariables are where launchers tell a process its rank, ours first.
var rankVariables = []string{envRank, "PMIX_RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"}

// self is the executable of this process, also when its file has been replaced
// or removed meanwhile.
const self = "/proc/self/exe"

// A launcher starts ranks.
type launcher interface {
	// start starts a rank; ended is called once, from another goroutine, with
	// the cause in words, after done of the process has been closed.
	start(r rankStart, ended func(cause string)) (process, error)
}

// rankStart says what a new rank needs to know.
type rankStart struct {
	rank, gen     int
	socket, token string
	scratch       string // directory of its node
	beat          time.Duration
}

// A process is that of a rank.
type process interface {
	kill()                 // at once, whatever it is doing, even if it is stopped
	done() <-chan struct{} // closed when it is over and reaped
	pid() int
	explains() bool // whether its end says why this rank, and not another, is gone
}

const localLauncher = "local"

// environment tells a process how to reach the coordinator.
func (r rankStart) environment() []string {
	return []string{envSocket + "=" + r.socket, envToken + "=" + r.token, envGen + "=" + strconv.Itoa(r.gen),
		envBeat + "=" + r.beat.String()}
}

// local starts ranks as children.
type local struct{}

func (local) start(r rankStart, ended func(cause string)) (process, error) {
	p := &child{over: make(chan struct{})}
	p.cmd = exec.Command(self, "rank")
	p.cmd.Args[0] = "ckpt"
	p.cmd.Dir = r.scratch
	p.cmd.Env = append(append(os.Environ(), r.environment()...), envRank+"="+strconv.Itoa(r.rank))
	p.cmd.Stderr = &p.stderr
	// Its own process group: a ^C at the terminal is for the coordinator,
	// which then stops the ranks in order.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start rank %d: %w", r.rank, err)
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

func (p *child) done() <-chan struct{} { return p.over }
func (p *child) pid() int              { return p.cmd.Process.Pid }
func (p *child) explains() bool        { return true }

func (p *child) kill() {
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
