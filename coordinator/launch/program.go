package launch

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/wire"
	"ckpt/image"
	"ckpt/internal/family"
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
	token       string   // a variable of all processes of this run and of those before it
	marks       []string // variables of all its processes, and of no other run's
	orphaned    chan string
	mu          sync.Mutex
	// The launcher's processes on this host while there were ranks: its own, and those that looked
	// after ranks.
	own, after []family.Process
}

// launchers are the programs of MPICH, Open MPI, Slurm and PALS that start ranks on a host and
// look after them, as the kernel calls them.
var launchers = []string{"hydra_", "pmi_proxy", "orted", "prte", "orterun", "mpiexec", "mpirun", "srun", "slurmstepd", "palsd"}

// LauncherOf returns the launcher's process that looks after one of a program on this host: it
// passes the output on, and ends the process with the others.
func LauncherOf(p family.Process) (family.Process, bool) { return p.Above(launchers, os.Getpid()) }

// Orphaned tells which rank has lost the process of its launcher, whatever that was doing.
func (r *ProgramRun) Orphaned() <-chan string { return r.orphaned }

// toldLauncher are variables that processes have from one of launchers that is above them.
var toldLauncher = []string{"HYDI_CONTROL_FD", "OMPI_COMM_WORLD_RANK"}

// LostLauncher reports whether a launcher of this host has started a process, and has ended: none
// is above it.
func LostLauncher(p family.Process) bool {
	told := slices.ContainsFunc(toldLauncher, func(name string) bool { _, ok := p.Variable(name); return ok })
	_, ok := LauncherOf(p)
	return told && !ok && p.Alive()
}

// orphan finds a process of the run on this host whose launcher is gone, while the command
// may wait for ever.
func (r *ProgramRun) orphan() string {
	var own, after []family.Process
	for _, p := range family.Carrying(r.marks...) {
		name := p.Name()
		if slices.ContainsFunc(launchers, func(l string) bool { return strings.HasPrefix(name, l) }) {
			own = append(own, p)
			continue
		}
		if _, agent := p.Variable(wire.EnvClient); agent || name == "" {
			continue
		}
		if launcher, ok := LauncherOf(p); ok {
			after = append(after, launcher)
		} else if LostLauncher(p) {
			return fmt.Sprintf("process %d, %s, goes on without the launcher that started it", p.PID, name)
		}
	}
	if len(after) > 0 {
		r.mu.Lock()
		r.own, r.after = own, after
		r.mu.Unlock()
	}
	return ""
}

// Look notes the launcher's processes, while there are ranks.
func (r *ProgramRun) Look() { _ = r.orphan() }

// Hangs names a process of the launcher that goes on although one that looked after ranks has
// ended, or is empty. Once all ranks have ended it may wait for that one for ever, as srun does.
func (r *ProgramRun) Hangs() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	lost := slices.IndexFunc(r.after, func(p family.Process) bool { return !p.Alive() })
	waits := slices.IndexFunc(r.own, func(p family.Process) bool { return p.Alive() })
	if lost < 0 || waits < 0 {
		return ""
	}
	return fmt.Sprintf("process %d, %s, waits for process %d, which looked after ranks and has died", r.own[waits].PID, r.own[waits].Name(), r.after[lost].PID)
}

// watch looks for orphans, less and less often. The agents of ranks see it sooner.
func (r *ProgramRun) watch() {
	for pause, found := 500*time.Millisecond, ""; ; pause = min(2*pause, time.Minute) {
		select {
		case <-r.over:
			return
		case <-time.After(pause):
		}
		is := r.orphan()
		if is != "" && is == found { // it does not end with its launcher
			r.orphaned <- is
			return
		}
		if found = is; is != "" {
			pause = 50 * time.Millisecond
		}
	}
}

// Sweep ends all processes of a run and of those before it on this host, also those that no signal
// to the command reaches: ranks whose launcher is gone.
func (r *ProgramRun) Sweep() { r.sweep(func(family.Process) bool { return true }) }

// SweepEarlier ends what the sweeps of runs before this one have missed: a process that was just
// becoming a rank had no environment for a moment.
func (r *ProgramRun) SweepEarlier() {
	r.sweep(func(p family.Process) bool {
		of, ok := p.Variable(wire.EnvIncarnation)
		return ok && of != strconv.Itoa(r.Incarnation)
	})
}

func (r *ProgramRun) sweep(ends func(family.Process) bool) {
	left := slices.DeleteFunc(family.Carrying(r.token), func(p family.Process) bool { return p.PID == os.Getpid() || !ends(p) })
	family.Signal(left, syscall.SIGKILL)
	family.Await(left, drainTime)
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
	cmd.Env = forCommand(p.of.Command, append(append(forSrun(os.Environ()), r.environment()...), wire.EnvAgent+"="+agent))
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
	run := &ProgramRun{Incarnation: r.Incarnation, cmd: cmd, over: make(chan struct{}), orphaned: make(chan string, 1),
		token: wire.EnvToken + "=" + r.Token}
	run.marks = []string{run.token, wire.EnvIncarnation + "=" + strconv.Itoa(r.Incarnation)}
	err = Carry(cmd, func(err error) { run.end(p.of.Command[0], err) })
	if err != nil {
		done()
		return nil, fmt.Errorf("start %s: %w", p.of.Command[0], err)
	}
	p.run = run
	go run.watch()
	run.WhenOver(done)
	return run, nil
}

// Carry starts a command and waits for its end in one thread: with Pdeathsig a process dies
// with the thread that has started it. Ended learns how it ended.
func Carry(cmd *exec.Cmd, ended func(error)) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			ended(cmd.Wait())
		}
	}()
	return <-started
}

// end notes how the command has ended.
func (r *ProgramRun) end(name string, err error) {
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

// counts reports whether a word is an option of a launcher that says how many ranks
// there are, after one dash or two.
func counts(word string) bool {
	option, dashed := strings.CutPrefix(word, "-")
	return dashed && slices.Contains([]string{"n", "np", "c", "ntasks"}, strings.TrimPrefix(option, "-"))
}

// WithRanks returns the command of a program with another number of ranks. It reports
// false where the command does not tell, in exactly one place, that there were so many.
func WithRanks(command []string, were, np int) ([]string, bool) {
	place, changed := -1, ""
	for i, word := range command {
		option, value, joined := strings.Cut(word, "=")
		switch {
		case joined && counts(option) && value == strconv.Itoa(were):
			word = option + "=" + strconv.Itoa(np)
		case i > 0 && counts(command[i-1]) && word == strconv.Itoa(were):
			word = strconv.Itoa(np)
		default:
			continue
		}
		if place >= 0 {
			return nil, false
		}
		place, changed = i, word
	}
	if place < 0 {
		return nil, false
	}
	command = slices.Clone(command)
	command[place] = changed
	return command, true
}

// Open MPI passes variables to other hosts that this setting lists. With the values in the
// environment and only names in the setting, the token is on no command line.
const (
	envPassed    = "OMPI_MCA_mca_base_env_list"
	envDelimiter = "OMPI_MCA_mca_base_env_list_delimiter"
)

// ours are the variables that a rank needs.
var ours = []string{wire.EnvSocket, wire.EnvToken, wire.EnvIncarnation, wire.EnvBeat, wire.EnvAgent}

// passed are the variables that ranks need on other hosts.
func passed() []string {
	if image.IdentityGiven() {
		return append(slices.Clone(ours), image.IdentityVariable)
	}
	return ours
}

// NotPassed returns the options that a command lacks which may pass variables with Open
// MPI's option -x. Open MPI refuses that option and the list together.
func NotPassed(command []string) (options string) {
	if !slices.Contains(command, "-x") {
		return ""
	}
	var lacks []string
	for _, name := range passed() {
		if !slices.Contains(command, name) {
			lacks = append(lacks, "-x "+name)
		}
	}
	return strings.Join(lacks, " ")
}

// forCommand is forOpenMPI for the command of a user.
func forCommand(command, env []string) []string {
	if slices.Contains(command, "-x") {
		return env
	}
	return forOpenMPI(env)
}

// killBadExit has srun end all tasks when one has died, as other launchers do: the others
// would wait for it in ckpt_init.
const killBadExit = "SLURM_KILL_BAD_EXIT"

// forSrun sets that, unless the user has.
func forSrun(env []string) []string {
	if slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, killBadExit+"=") }) {
		return env
	}
	return append(env, killBadExit+"=1")
}

// forOpenMPI has Open MPI pass our variables on, besides those that the user has it pass.
func forOpenMPI(env []string) []string {
	list, delimiter := "", ";"
	for _, v := range env { // of equal names the last counts
		if value, ok := strings.CutPrefix(v, envPassed+"="); ok {
			list = value
		}
		if value, ok := strings.CutPrefix(v, envDelimiter+"="); ok && value != "" {
			delimiter = value
		}
	}
	var names []string
	if list != "" {
		names = strings.Split(list, delimiter)
	}
	for _, v := range env {
		if name, _, _ := strings.Cut(v, "="); slices.Contains(passed(), name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return append(env, envPassed+"="+strings.Join(names, delimiter))
}
