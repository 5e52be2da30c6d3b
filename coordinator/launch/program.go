package launch

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/wire"
	"ckpt/internal/wording"
)

// Streams are the standard streams of a program of the user.
type Streams struct {
	In       io.Reader // nil: it reads nothing
	Out, Err io.Writer
}

// Program is a launcher that runs the command of a user, which starts all ranks of an
// MPI program, once for each incarnation. The agents of the ranks find the coordinator
// through the environment that the command passes on.
type Program struct {
	of      job.Program
	streams Streams
	input   *Input
	mu      sync.Mutex
	run     *ProgramRun // of the current incarnation
}

// NewProgram returns the launcher of a program, unless its command cannot be run. Each run
// reads the input anew.
func NewProgram(p job.Program, input *Input, streams Streams) (*Program, error) {
	if _, err := os.ReadDir(p.Dir); err != nil {
		return nil, &job.UsageError{Text: fmt.Sprintf("directory of the program: %v", err),
			Fix: wording.Sprintf("if it was renamed or moved, {restart JOB} {chdir} DIR says where it is now")}
	}
	if _, err := lookIn(p.Dir, p.Command[0]); err != nil {
		return nil, &job.UsageError{Text: fmt.Sprintf("command %s: %v", p.Command[0], err), Fix: "give the command that starts the program after --"}
	}
	return &Program{of: p, input: input, streams: streams}, nil
}

// A ProgramRun is one run of the command of a program.
type ProgramRun struct {
	Incarnation int
	cmd         *exec.Cmd
	over        chan struct{}
	status      int // when it is over
	cause       string
	ended       []func()
	mu          sync.Mutex
}

// Over is closed when the command has ended and is reaped.
func (r *ProgramRun) Over() <-chan struct{} { return r.over }

// Status returns the exit status of the command, once it is over: 128 and the number of
// the signal if that killed it.
func (r *ProgramRun) Status() int { return r.status }

// Cause says in words how the command has ended, once it is over.
func (r *ProgramRun) Cause() string { return r.cause }

// Kill ends the command and what it has started in its process group.
func (r *ProgramRun) Kill() { r.signal(syscall.SIGKILL) }

// End kills the command, and waits a little until it is over.
func (r *ProgramRun) End() {
	r.Kill()
	select {
	case <-r.over:
	case <-time.After(2 * drainTime):
	}
}

// Terminate asks the command to end. It passes that on to its ranks.
func (r *ProgramRun) Terminate() { r.signal(syscall.SIGTERM) }

func (r *ProgramRun) signal(s syscall.Signal) {
	select {
	case <-r.over: // its number may have passed to somebody else
	default:
		_ = syscall.Kill(-r.cmd.Process.Pid, s)
	}
}

// WhenOver has ended called, from another goroutine, after the command has ended.
func (r *ProgramRun) WhenOver(ended func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.over:
		go ended()
	default:
		r.ended = append(r.ended, ended)
	}
}

// Grace is how long the program may take to end after it was told to stop, 0 for the
// usual time.
func (p *Program) Grace() time.Duration { return p.of.Grace }

// InputTooLong is closed when the standard input turns out to be too long to be kept.
func (p *Program) InputTooLong() <-chan struct{} { return p.input.tooLong }

// drainTime is how long processes that have outlived the command may keep its output
// open.
const drainTime = 2 * time.Second

// Run starts the command of an incarnation, or returns the run that there is. Where the
// ranks find the coordinator is all that counts of r.
func (p *Program) Run(r Rank) (*ProgramRun, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run != nil && p.run.Incarnation == r.Incarnation {
		return p.run, nil
	}
	agent, err := os.Executable()
	if err != nil {
		return nil, err
	}
	path, err := lookIn(p.of.Dir, p.of.Command[0])
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path, p.of.Command[1:]...)
	cmd.Args[0] = p.of.Command[0]
	cmd.Dir = p.of.Dir
	cmd.Env = forCommand(p.of.Command, append(append(os.Environ(), r.environment()...), wire.EnvAgent+"="+agent))
	stdin, done, err := p.input.open()
	if err != nil {
		return nil, fmt.Errorf("standard input: %w", err)
	}
	if stdin != nil {
		cmd.Stdin = stdin
	}
	cmd.Stdout, cmd.Stderr = p.streams.Out, p.streams.Err
	cmd.WaitDelay = drainTime
	// Its own process group: a ^C at the terminal is for the coordinator, which then
	// stops the program in order. It dies with the coordinator: Open MPI's mpiexec may
	// wait for itself for ever when its ranks are killed.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	run := &ProgramRun{Incarnation: r.Incarnation, cmd: cmd, over: make(chan struct{})}
	started := make(chan error)
	go run.carry(p.of.Command[0], started)
	if err := <-started; err != nil {
		done()
		return nil, fmt.Errorf("start %s: %w", p.of.Command[0], err)
	}
	p.run = run
	run.WhenOver(done)
	return run, nil
}

// carry starts the command and waits for its end, in one thread: the command would die
// with the thread that has started it.
func (r *ProgramRun) carry(name string, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := r.cmd.Start()
	started <- err
	if err == nil {
		r.wait(name)
	}
}

func (r *ProgramRun) wait(name string) {
	err := r.cmd.Wait()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // others hold its output open; it has exited with 0
	}
	r.status = exitStatus(r.cmd.ProcessState)
	r.cause = name + " exited with status 0"
	if err != nil {
		r.cause = name + " " + (&child{}).cause(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.over)
	for _, ended := range r.ended {
		go ended()
	}
}

// exitStatus is the status that a shell tells: 128 and the number of a signal that killed.
func exitStatus(s *os.ProcessState) int {
	if status, ok := s.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return s.ExitCode()
}

// Start joins a rank to the run of its incarnation, or starts it.
func (p *Program) Start(r Rank, ended func(cause string)) (Process, error) {
	run, err := p.Run(r)
	if err != nil {
		return nil, err
	}
	run.WhenOver(func() { ended(run.cause) })
	return &programRank{run}, nil
}

// programRank is a process of a program, of which only the command is known. Its agent
// knows more.
type programRank struct{ *ProgramRun }

func (r *programRank) Done() <-chan struct{} { return r.over }
func (r *programRank) PID() int              { return 0 }

// Explains is true: a command that ends soon after the connection of a rank says why.
func (r *programRank) Explains() bool { return true }

// lookIn finds a command as a shell in a directory would.
func lookIn(dir, name string) (string, error) {
	if strings.Contains(name, "/") && !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	return exec.LookPath(name)
}
