// Package launch starts the processes of ranks: as children, or with one command of
// mpiexec or srun for all of them. It also keeps the directory of a run outside the
// store, which holds the socket and the scratch files of each node.
//
// # Promises
//
//   - A process counts as done only when the kernel has reaped it.
//   - The next run removes the directories and the shared memory of dead runs.
package launch

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
	"github.com/zeebo/blake3"

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

// An Account has the processes of a run, so that they can be killed although the run is
// blocked.
type Account struct {
	mu    sync.Mutex
	job   string
	of    map[Process]bool
	ended bool
}

// Kill kills all processes, and those that are started from now on. It does not wait for
// processes that the kernel keeps until the storage answers. It returns the name of the
// job.
func (p *Account) Kill() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	for proc := range p.of {
		proc.Kill()
	}
	return p.job
}

// known is a launcher that keeps account of its processes.
type known struct {
	Launcher
	alive *Account
}

// WithAccount returns a launcher that enters its processes in an account; without one it
// returns l.
func WithAccount(l Launcher, alive *Account, job string) Launcher {
	if alive == nil {
		return l
	}
	alive.mu.Lock()
	defer alive.mu.Unlock()
	alive.job, alive.of = job, make(map[Process]bool)
	return known{l, alive}
}

func (k known) Start(r Rank, ended func(cause string)) (Process, error) {
	p := k.alive
	p.mu.Lock()
	defer p.mu.Unlock()
	var proc Process
	proc, err := k.Launcher.Start(r, func(cause string) {
		p.mu.Lock()
		delete(p.of, proc)
		p.mu.Unlock()
		ended(cause)
	})
	if err != nil {
		return nil, err
	}
	p.of[proc] = true
	if p.ended {
		proc.Kill()
	}
	return proc, nil
}

// WaitsForStorage reports whether a thread of a process is in an uninterruptible sleep,
// as the kernel puts it to while a disk does not answer. One page of mapped memory that
// cannot be read or written is enough to hold a whole process up. No signal ends it
// either.
func WaitsForStorage(pid int) bool {
	threads, err := procfs.AllThreads(pid)
	if err != nil {
		return false
	}
	for _, t := range threads {
		if stat, err := t.Stat(); err == nil && stat.State == "D" {
			return true
		}
	}
	return false
}

// Digest returns the BLAKE3 and the length of a file that processes run.
func Digest(path string) (digest string, bytes int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	h := blake3.New()
	bytes, err = io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), bytes, err
}
