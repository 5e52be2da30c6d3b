package launch

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/wire"
	"ckpt/internal/wording"
)

// external starts all ranks of an incarnation with one command of an existing
// launcher, which tells each process its rank. Where the coordinator listens on a Unix
// socket, the ranks have to run on this machine.
type external struct {
	name string
	np   int
	run  *externalRun // of the current incarnation
}

// externalRun is one run of the launcher's command.
type externalRun struct {
	incarnation int
	child
	killed bool // by a signal; to be read when it is over
	ended  []func(cause string)
}

// externalRank is a rank that the launcher has started.
type externalRank struct {
	run   *externalRun
	token string
	id    atomic.Int64 // process id, once the rank has said hello
}

// New returns the launcher of a name, for so many ranks; Spec.Launcher lists the names.
func New(name string, np int) (Launcher, error) {
	if name == "" || name == job.LocalLauncher {
		return Local{}, nil
	}
	if _, ok := job.Launchers[name]; !ok {
		return nil, &job.UsageError{Text: fmt.Sprintf("launcher %q is unknown", name), Fix: wording.Sprintf("{launcher} takes local, mpiexec or srun")}
	}
	if _, err := exec.LookPath(name); err != nil {
		return nil, &job.UsageError{Text: fmt.Sprintf("launcher %s: %v", name, err), Fix: wording.Sprintf("install it, or use {launcher} local")}
	}
	return &external{name: name, np: np}, nil
}

// Start starts the launcher with the first rank of an incarnation.
func (e *external) Start(r Rank, ended func(string)) (Process, error) {
	if e.run == nil || e.run.incarnation != r.Incarnation {
		if err := e.launch(r); err != nil {
			return nil, err
		}
	}
	e.run.ended = append(e.run.ended, ended)
	if len(e.run.ended) == e.np {
		go e.run.wait(e.name)
	}
	return &externalRank{run: e.run, token: r.Token}, nil
}

func (e *external) launch(r Rank) error {
	// The launcher's own processes have another /proc/self/exe.
	binary, err := os.Executable()
	if err != nil {
		return err
	}
	e.run = &externalRun{incarnation: r.Incarnation, child: child{over: make(chan struct{})}}
	cmd := exec.Command(e.name, job.Launchers[e.name], strconv.Itoa(e.np), binary, "rank", r.Job)
	cmd.Dir = r.Scratch
	cmd.Env = forOpenMPI(append(os.Environ(), r.environment()...))
	cmd.Stderr = &e.run.stderr
	cmd.WaitDelay = time.Second // processes of the launcher may outlive it, and hold its output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", e.name, err)
	}
	e.run.cmd = cmd
	return nil
}

func (r *externalRun) wait(name string) {
	err := r.cmd.Wait()
	r.killed = r.cmd.ProcessState != nil && r.cmd.ProcessState.ExitCode() < 0
	cause := r.cause(err)
	close(r.over)
	for _, ended := range r.ended {
		ended(name + " " + cause)
	}
}

// Identify notes the process id, which the rank itself has told. On another host it says
// nothing here.
func (r *externalRank) Identify(pid int, here bool) {
	if !here {
		pid = elsewhere
	}
	r.id.Store(int64(pid))
}

// elsewhere stands for the process id of a rank on another host.
const elsewhere = -1

// End ends the launcher of a rank that was killed.
func End(p Process) {
	if r, ok := p.(*externalRank); ok {
		r.run.end()
	}
}

// end asks the launcher to end, and kills it a second later. On SIGTERM, srun kills all its
// tasks; killed itself, it would leave them running.
func (r *externalRun) end() {
	group := -r.cmd.Process.Pid // its own
	_ = syscall.Kill(group, syscall.SIGTERM)
	time.AfterFunc(time.Second, func() {
		select {
		case <-r.over:
		default:
			_ = syscall.Kill(group, syscall.SIGKILL)
		}
	})
}

func (r *externalRank) Done() <-chan struct{} { return r.run.over }
func (r *externalRank) PID() int              { return max(0, int(r.id.Load())) }

// Explains is false as long as the launcher was not killed: its end does not tell which
// rank was the first to go, the end of its connection does.
func (r *externalRank) Explains() bool {
	select {
	case <-r.run.over:
		return r.run.killed
	default:
		return false
	}
}

// Kill ends the rank, or the whole run while the rank is not known yet.
func (r *externalRank) Kill() {
	pid := int(r.id.Load())
	if pid == elsewhere {
		return
	}
	if pid == 0 {
		r.run.Kill()
		return
	}
	// The number may have passed to somebody else's process.
	env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err == nil && bytes.Contains(env, []byte(wire.EnvToken+"="+r.token)) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}
