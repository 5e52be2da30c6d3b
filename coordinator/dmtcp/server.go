package dmtcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/coordinator/mpi"
	"ckpt/internal/family"
	"ckpt/internal/lazy"
	"ckpt/internal/wording"
)

// A server is DMTCP's coordinator.
type server struct {
	tools *Tools
	env   []string // of the programs that speak to it
	port  int
	child *child
}

// startTime is how long DMTCP's coordinator may take to listen.
const startTime = 20 * time.Second

// startServer starts a coordinator of DMTCP for one run. Its files lie in dir.
func startServer(ctx context.Context, t *Tools, dir *directory, own []string, temp string, advised map[string]string) (*server, error) {
	port, status, log := dir.path("port"), dir.path("status"), dir.path(logName)
	if err := errors.Join(dir.remove(port), dir.remove(status)); err != nil {
		return nil, err
	}
	out, err := dir.create(log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	env := environment(own, dir.path(liveName), temp, advised, 0)
	cmd := exec.Command(t.coordinator, "-q", "-p", "0", option("port-file"), port, option("status-file"), status,
		option("ckptdir"), dir.path(liveName), option("stale-timeout"), "-1", "-i", "0")
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir.root, env, out, out
	c, err := startChild(cmd)
	if err != nil {
		return nil, fmt.Errorf("start DMTCP's coordinator: %w", err)
	}
	s := &server{tools: t, child: c}
	end := time.Now().Add(startTime)
	for s.port == 0 {
		text := dir.read(port)
		if n, err := strconv.Atoi(strings.TrimSpace(text)); err == nil && n > 0 && n < 1<<16 {
			s.port = n
			break
		}
		switch {
		case c.ended():
			err = fmt.Errorf("DMTCP's coordinator %s: %s", cause(c.err), lastLine(dir.read(log)))
		case time.Now().After(end):
			err = fmt.Errorf("DMTCP's coordinator does not listen after %v", startTime)
		case ctx.Err() != nil:
			err = ctx.Err()
		}
		if err != nil {
			c.kill()
			return nil, err
		}
		time.Sleep(10 * time.Millisecond)
	}
	s.env = environment(own, dir.path(liveName), temp, advised, s.port)
	return s, nil
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return filepath.ToSlash(strings.TrimSpace(lines[len(lines)-1]))
}

// command sends a command and returns what the coordinator says.
func (s *server) command(ctx context.Context, what string) (string, error) {
	cmd := exec.CommandContext(ctx, s.tools.command, "-h", loopback, "-p", strconv.Itoa(s.port), what)
	cmd.Env = s.env
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	err := cmd.Run()
	if err != nil {
		err = fmt.Errorf("dmtcp_command %s %s: %s", what, cause(err), lastLine(complaint.String()))
	}
	return out.String(), errors.Join(err, ctx.Err())
}

var (
	peersLine   = lazy.Regexp(`NUM_PEERS=([0-9]+)`)
	runningLine = lazy.Regexp(`RUNNING=yes`)
	workerLine  = lazy.Regexp(`\[([0-9]+):([0-9]+)\]@`)
)

// status says how many processes the program has, and whether all of them compute.
func (s *server) status(ctx context.Context) (peers int, running bool, err error) {
	ctx, done := context.WithTimeout(ctx, answerTime)
	defer done()
	said, err := s.command(ctx, "-s")
	if err != nil {
		return 0, false, err
	}
	m := peersLine().FindStringSubmatch(said)
	if m == nil {
		return 0, false, fmt.Errorf("dmtcp_command -s says %.80q, without the number of processes", said)
	}
	peers, err = strconv.Atoi(m[1])
	return peers, runningLine().MatchString(said), err
}

// A worker is a process of the program, which DMTCP gives a number of its own that stays
// the same over restarts.
type worker struct {
	family.Process
	virtual int
}

// workers lists the processes of the program.
func (s *server) workers(ctx context.Context) []worker {
	ctx, done := context.WithTimeout(ctx, answerTime)
	defer done()
	said, err := s.command(ctx, "-l")
	if err != nil {
		return nil
	}
	var list []worker
	for _, m := range workerLine().FindAllStringSubmatch(said, -1) {
		virtual, verr := strconv.Atoi(m[1])
		pid, err := strconv.Atoi(m[2])
		if p, ok := family.Find(pid); ok && errors.Join(err, verr) == nil {
			list = append(list, worker{p, virtual})
		}
	}
	return list
}

func processesOf(list []worker) []family.Process {
	var all []family.Process
	for _, w := range list {
		all = append(all, w.Process)
	}
	return all
}

// checkpoint has all processes write their images, and returns when they compute again.
func (s *server) checkpoint(ctx context.Context) error {
	_, err := s.command(ctx, "-bc")
	return err
}

// endProgram has all processes end.
func (s *server) endProgram(ctx context.Context) {
	ctx, done := context.WithTimeout(ctx, killTime)
	defer done()
	_, _ = s.command(ctx, "-k") // those that stay are killed
}

// A child is a process that this one has started, in a process group of its own. It gets
// SIGTERM if this one dies.
type child struct {
	cmd  *exec.Cmd
	self family.Process
	over chan struct{} // closed when it has ended
	err  error         // then how
}

func startChild(cmd *exec.Cmd) (*child, error) {
	c := &child{cmd: cmd, over: make(chan struct{})}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	if err := launch.Carry(cmd, func(err error) {
		c.err = err
		close(c.over)
	}); err != nil {
		return nil, err
	}
	c.self, _ = family.Find(cmd.Process.Pid)
	return c, nil
}

// ended reports whether the process has ended.
func (c *child) ended() bool {
	select {
	case <-c.over:
		return true
	default:
		return false
	}
}

// killTime is how long a killed process may take to be gone.
const killTime = 5 * time.Second

// kill ends the process and all below it, at once.
func (c *child) kill() {
	if c.ended() {
		return
	}
	below := family.Descendants(c.self.PID)
	family.Signal(below, syscall.SIGKILL)
	_ = c.cmd.Process.Kill()
	<-c.over
	family.Await(below, killTime)
}

// failRC is the exit status of a program of DMTCP that has failed.
const failRC = 99

// cause says in words how a process ended, "" if it was successful.
func cause(err error) string {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return ""
	case !errors.As(err, &exit):
		return err.Error()
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return fmt.Sprintf("was killed by signal %d (%v)", int(status.Signal()), status.Signal())
	}
	if exit.ExitCode() == failRC {
		return fmt.Sprintf("exited with status %d, by which DMTCP says that it failed", failRC)
	}
	return fmt.Sprintf("exited with status %d", exit.ExitCode())
}

// Tools are the programs of DMTCP.
type Tools struct {
	launch, coordinator, command, restart string
	version                               string
	losing                                bool // it may end processes of an MPI program
}

// oldest is the first version of DMTCP whose images package image/dmtcp can read.
const oldest = 4

const installIt = "install DMTCP 4.0 or newer (https://github.com/dmtcp/dmtcp), or put the directory of dmtcp_launch into $PATH"

// answerTime is how long a program of DMTCP may take to say something.
const answerTime = 30 * time.Second

// EnvAny, set to "any", has a program of MPICH run under a DMTCP that loses its processes.
const EnvAny = "CKPT_DMTCP"

// FindFor is Find for a command. A new job is refused where DMTCP would end a process of it after
// every few checkpoints.
func FindFor(ctx context.Context, command []string, anew bool) (*Tools, error) {
	t, err := Find(ctx)
	if err != nil || !t.loses(ctx, command) || !anew || !isMPICH(command) || os.Getenv(EnvAny) == "any" {
		return t, err
	}
	return nil, &job.UsageError{
		Text: fmt.Sprintf("engine dmtcp: %s, version %s, ends a process of a program of MPICH after every 1 to 3 checkpoints (6 of 6 runs)", t.launch, t.version),
		Fix:  wording.Sprintf("add the line of docs/DMTCP.md to DMTCP, or use the client of ckpt ({sdk c}); %s=any in the environment has the program restarted each time", EnvAny),
	}
}

// loses reports whether DMTCP ends processes of an MPI program: a launcher reads the warnings that
// processes write after exec. They go to a file if each process opens one then, which a trial shows.
func (t *Tools) loses(ctx context.Context, command []string) bool {
	if !slices.ContainsFunc(command, isLauncher) || !strings.HasPrefix(t.version, "5.") {
		return false
	}
	run, err := launch.NewRunDir(mpi.SegmentDir(0), 1)
	if err != nil {
		return true
	}
	defer func() { _ = run.Remove() }() // else the next run does
	dir := run.Scratch(0)
	ctx, done := context.WithTimeout(ctx, answerTime)
	defer done()
	cmd := exec.CommandContext(ctx, t.launch, "-q", "-q", option("new-coordinator"), option("coord-port"), "0",
		option("port-file"), filepath.Join(dir, "port"), "/bin/sh", "-c", "exec /bin/true")
	cmd.Env = append(clean(cmd.Environ()), "DMTCP_TMPDIR="+dir, "DMTCP_CHECKPOINT_DIR="+dir)
	_ = cmd.Run()
	files, _ := filepath.Glob(filepath.Join(dir, "*", "dmtcpworker.*.log"))
	t.losing = len(files) < 2 // one of the shell, one of what it became
	return t.losing
}

// Find finds DMTCP beside the dmtcp_launch of $PATH, and asks for its version.
func Find(ctx context.Context) (*Tools, error) {
	launch, err := exec.LookPath("dmtcp_launch")
	if err != nil {
		return nil, &job.UsageError{Text: "engine dmtcp: DMTCP is not installed: " + err.Error(), Fix: installIt}
	}
	if launch, err = filepath.Abs(launch); err != nil {
		return nil, err
	}
	beside := func(name string) string { return filepath.Join(filepath.Dir(launch), name) }
	t := &Tools{launch: launch, coordinator: beside("dmtcp_coordinator"), command: beside("dmtcp_command"), restart: beside("dmtcp_restart")}
	for _, name := range []string{t.coordinator, t.command, t.restart} {
		if _, err := exec.LookPath(name); err != nil {
			return nil, &job.UsageError{Text: fmt.Sprintf("engine dmtcp: %s is there, but %s is not", launch, filepath.Base(name)), Fix: installIt}
		}
	}
	ctx, done := context.WithTimeout(ctx, answerTime)
	defer done()
	cmd := exec.CommandContext(ctx, launch, option("version"))
	cmd.Env = clean(cmd.Environ())
	said, err := cmd.CombinedOutput() // some versions end with status 1
	if t.version = parseVersion(string(said)); t.version == "" {
		return nil, &job.UsageError{Text: fmt.Sprintf("engine dmtcp: %s does not tell its version (%v): %.80q", launch, err, said), Fix: installIt}
	}
	if major, _ := strconv.Atoi(versionForm().FindStringSubmatch(t.version)[1]); major < oldest {
		return nil, &job.UsageError{Text: fmt.Sprintf("engine dmtcp: %s is version %s, whose images ckpt cannot read", launch, t.version), Fix: installIt}
	}
	return t, nil
}

var (
	versionLine = lazy.Regexp(`\(DMTCP[^)]*\) +(?:version +)?([0-9][^\s]*)`)
	versionForm = lazy.Regexp(`^([0-9]+)`)
)

// parseVersion returns the version in what a program of DMTCP says about itself.
func parseVersion(said string) string {
	if m := versionLine().FindStringSubmatch(said); m != nil {
		return m[1]
	}
	return ""
}

// option returns the long form of a setting of DMTCP.
func option(name string) string { return "--" + name }

// clean removes the variables that would tell DMTCP to do something else: variables of the
// user's shell, and of a DMTCP that ckpt itself runs under.
func clean(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		return strings.HasPrefix(v, "DMTCP_") || strings.HasPrefix(v, "JALIB_") || strings.HasPrefix(v, "MTCP_")
	})
}

// advice are settings of MPI libraries under which checkpoints of their programs can be
// restarted. They do not replace settings of the user.
func (s *state) advice() map[string]string {
	set := map[string]string{
		// UCX of MPICH: no hooks in malloc, and transports that DMTCP can restore.
		"UCX_MEM_EVENTS": "no",
		"UCX_TLS":        "posix,self",
		// These parts of hwloc open files in /sys that are not there in containers.
		"HWLOC_COMPONENTS": "-linuxio,-pci,-opencl,-gl",
		// Open MPI: transports that DMTCP can restore, and its files where they are found
		// again after a restart. The file of rtc hwloc goes with the first mpiexec.
		"OMPI_MCA_pml":              "ob1",
		"OMPI_MCA_btl":              "self,vader",
		"OMPI_MCA_rtc":              "^hwloc",
		"OMPI_MCA_orte_tmpdir_base": s.Session,
		"PRTE_MCA_prte_tmpdir_base": s.Session,
	}
	if s.Segments != "" {
		set["OMPI_MCA_btl_vader_backing_directory"] = s.Segments
	}
	return set
}

// environment returns the variables of the programs of DMTCP and of the user's program. DMTCP keeps
// its temporary files in temp, and writes images to images.
func environment(env []string, images, temp string, advised map[string]string, port int) []string {
	env = clean(env)
	for _, name := range slices.Sorted(maps.Keys(advised)) {
		given := slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, name+"=") })
		if !given {
			env = append(env, name+"="+advised[name])
		}
	}
	return append(env, "DMTCP_COORD_HOST="+loopback, "DMTCP_COORD_PORT="+strconv.Itoa(port), "DMTCP_CHECKPOINT_DIR="+images,
		"DMTCP_TMPDIR="+temp, "DMTCP_GZIP=0", "DMTCP_QUIET=2")
}

const loopback = "127.0.0.1"
