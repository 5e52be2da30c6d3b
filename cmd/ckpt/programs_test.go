package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ckpt/internal/testkit"
)

// An mpiLibrary is an installed implementation of MPI.
type mpiLibrary struct {
	name string
	args []string // of mpiexec
	env  []string
	// hosts are arguments that have it take two names of this host for two hosts, which it
	// reaches with the command session.
	hosts []string
	slurm bool // srun starts its programs, on three nodes of this host
}

func (m *mpiLibrary) String() string {
	if m.slurm {
		return "slurm"
	}
	return m.name
}

var mpiLibraries = []mpiLibrary{
	{name: "mpich", hosts: []string{"-launcher", "ssh", "-launcher-exec", "./session", "-hosts", "one:8,two:8", "-ppn", "2"}},
	{name: "openmpi", args: []string{"--oversubscribe", "--mca", "btl", "self,vader"},
		hosts: []string{"--host", "one:8,two:8", "--oversubscribe", "--map-by", "node", "--mca", "plm_rsh_agent", "sh ./session", "--mca", "oob_tcp_if_include", "lo",
			"--mca", "btl", "self,tcp", "--mca", "btl_tcp_if_include", "lo"},
		env: []string{"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "HWLOC_COMPONENTS=-linuxio,-pci,-opencl,-gl"}},
}

// mpiexec returns the command line that runs a program on some ranks.
func (m *mpiLibrary) mpiexec(ranks int, program ...string) []string {
	if m.slurm {
		return slices.Concat([]string{"srun", "-N", "3", "-n", strconv.Itoa(ranks), "-O", "--mpi=pmi2"}, program)
	}
	return slices.Concat([]string{"mpiexec." + m.name, "-n", strconv.Itoa(ranks)}, m.args, program)
}

// session stands for ssh: it runs a command for a host.
const session = `#!/bin/sh
while :; do case $1 in -*) shift;; *) break;; esac; done
shift
setsid sh -c "$*"
`

// A heatProgram is one of docs/examples, ready to run.
type heatProgram struct {
	language      string
	mpi           *mpiLibrary
	command       []string
	steps         int // that four ranks take in some seconds
	compiled      sync.Once
	needs, failed string
}

// heatPrograms are the heat programs for each library that has them: Debian's mpi4py is
// for Open MPI only.
func heatPrograms() (list []*heatProgram) {
	for i := range mpiLibraries {
		m, steps := &mpiLibraries[i], 6000
		list = append(list,
			&heatProgram{language: "c", mpi: m, steps: steps, needs: "mpicc." + m.name},
			&heatProgram{language: "fortran", mpi: m, steps: steps, needs: "mpifort." + m.name})
		if m.name == "openmpi" {
			list = append(list, &heatProgram{language: "python", mpi: m, steps: steps / 4, needs: "mpiexec.openmpi"})
		}
	}
	return list
}

// killedPrograms are the heat programs of all languages and for all other interfaces, for each
// launcher: any seven in a row have each language, any three each launcher.
func killedPrograms() (list []*heatProgram) {
	slurm := &mpiLibrary{name: "mpich", slurm: true}
	languages := []string{"c", "fti", "fortran", "scr", "c++", "veloc", "python"}
	steps := map[string]int{"python": 1500, "veloc": 3000, "c++": 200000}
	compilers := map[string]string{"c++": "mpicxx.", "fortran": "mpifort.", "python": "mpiexec."}
	for i := range 3 * len(languages) {
		p := &heatProgram{language: languages[i%len(languages)], mpi: []*mpiLibrary{&mpiLibraries[0], &mpiLibraries[1], slurm}[i%3]}
		if p.language == "python" { // Debian's mpi4py is for Open MPI
			p.mpi = &mpiLibraries[1]
		}
		p.steps = cmp.Or(steps[p.language], 6000)
		if p.mpi.slurm {
			p.steps /= 2
		}
		p.needs = cmp.Or(compilers[p.language], "mpicc.") + p.mpi.name
		list = append(list, p)
	}
	return list
}

// build compiles the program in a directory, or skips the test where there is no MPI.
func (p *heatProgram) build(t *testing.T, dir string) {
	t.Helper()
	testkit.Costly(t)
	testkit.All(t, p.needs)
	if p.language == "python" {
		testkit.All(t, "numpy", "mpi4py")
	}
	if p.mpi.slurm {
		testkit.All(t, "mounts", "slurmctld", "munged", "ip")
	}
	p.compiled.Do(func() {
		p.failed = "an earlier test could not build it"
		dir = filepath.Join(dir, p.language+"-"+p.mpi.String())
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		p.compile(t, dir)
		p.failed = ""
	})
	if p.failed != "" {
		t.Fatal(p.failed)
	}
}

// example returns the path of a program of the documentation.
func example(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("../../docs/examples", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func (p *heatProgram) compile(t *testing.T, dir string) {
	t.Helper()
	heat := filepath.Join(dir, "heat")
	p.command = []string{heat}
	sdk(t, "c", filepath.Join(dir, "ckpt.h"))
	switch p.language {
	case "c":
		build(t, dir, p.needs, "-O2", "-I"+dir, example(t, "heat.c"), "-o", heat)
	case "fortran":
		build(t, dir, "mpicc."+p.mpi.name, "-c", "-x", "c", "-include", "mpi.h", "ckpt.h", "-o", "ckpt_c.o")
		build(t, dir, p.needs, "-O2", sdk(t, "fortran", filepath.Join(dir, "ckpt.f90")), example(t, "heat.f90"), "ckpt_c.o", "-o", heat)
	case "fti", "scr", "veloc":
		sdk(t, p.language, filepath.Join(dir, p.language+".h"))
		build(t, dir, p.needs, "-O2", "-I"+dir, example(t, "heat_"+p.language+".c"), "-o", heat)
	case "c++":
		sdk(t, "c++", filepath.Join(dir, "ckpt.hpp"))
		build(t, dir, p.needs, "-std=c++17", "-O2", "-I"+dir, example(t, "heat.cpp"), "-o", heat)
	case "python":
		sdk(t, "python", filepath.Join(dir, "ckpt.py"))
		build(t, dir, "cp", example(t, "heat.py"), ".")
		p.command = []string{"/usr/bin/python3", heat + ".py"}
	}
}

// plain returns the command of the same program without checkpoints, which it compiles in a directory.
func (p *heatProgram) plain(t *testing.T, dir string) []string {
	t.Helper()
	plain := filepath.Join(dir, "heat_plain")
	switch p.language {
	case "fortran":
		build(t, dir, p.needs, "-O2", example(t, "heat_plain.f90"), "-o", plain)
	case "c++":
		return p.command // it needs no coordinator
	case "python":
		return []string{"/usr/bin/python3", example(t, "heat_plain.py")}
	default:
		build(t, dir, p.needs, "-O2", example(t, "heat_plain.c"), "-o", plain)
	}
	return []string{plain}
}

// compileSource compiles a program in C, which is called heat.
func (p *heatProgram) compileSource(t *testing.T, dir, source string) {
	t.Helper()
	testkit.All(t, p.needs)
	p.command = []string{filepath.Join(dir, "heat")}
	if err := os.WriteFile(p.command[0]+".c", []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	sdk(t, "c", filepath.Join(dir, "ckpt.h"))
	build(t, dir, p.needs, "-I"+dir, p.command[0]+".c", "-o", p.command[0])
}

// sdk writes the client for a language to a file, and returns its path.
func sdk(t *testing.T, language, path string) string {
	t.Helper()
	out, err := exec.Command("ckpt", "sdk", language).Output()
	if err != nil {
		t.Fatalf("ckpt sdk %s: %v", language, err)
	}
	if err := os.WriteFile(path, out, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// build runs a compiler in a directory.
func build(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// A sandbox is what a test of programs starts processes in: a store and a directory for
// temporary files of its own. The processes have the store in their environment.
type sandbox struct {
	t     *testing.T
	dir   string
	env   []string
	store string
}

func newSandbox(t *testing.T, env []string) *sandbox {
	t.Helper()
	testkit.Costly(t)
	dir, err := os.MkdirTemp("", "ckpt-run-") // paths of sockets are short
	if err != nil {
		t.Fatal(err)
	}
	s := &sandbox{t: t, dir: dir, store: filepath.Join(dir, "store")}
	tmp := filepath.Join(dir, "tmp")
	if err := os.Mkdir(tmp, 0o700); err != nil {
		t.Fatal(err)
	}
	s.env = slices.Concat(os.Environ(), env, []string{"CKPT_STORE=" + s.store, "TMPDIR=" + tmp, "LC_ALL=C.UTF-8"})
	t.Cleanup(func() {
		for _, p := range s.processes() {
			p.signal(syscall.SIGKILL)
		}
		os.RemoveAll(dir)
	})
	return s
}

// command returns a command whose output goes to a file.
func (s *sandbox) command(output string, args ...string) *exec.Cmd {
	s.t.Helper()
	f, err := os.OpenFile(filepath.Join(s.dir, output), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { f.Close() })
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = s.dir, s.env, f, f
	return cmd
}

// said returns the last lines of a file.
func (s *sandbox) said(output string) string {
	b, _ := os.ReadFile(filepath.Join(s.dir, output))
	return string(b[max(0, len(b)-3000):])
}

// eventually waits until done returns true.
func (s *sandbox) eventually(what string, done func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(testkit.Patience); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.t.Fatalf("waited in vain for %s; there are %v", what, s.processes())
		}
	}
}

// A foundProcess is one that a sandbox has started.
type foundProcess struct {
	pid  int
	args []string
}

// The roles of the processes of a job.
const (
	aCoordinator = "coordinator"
	aLauncher    = "launcher"
	aDaemon      = "daemon"  // of the launcher, on a host
	aSession     = "session" // with a host
	anAgent      = "agent"
	aRank        = "rank"
	another      = "other"
)

// role returns what a process does.
func (p *foundProcess) role() string {
	word := func(i int) string {
		if i >= len(p.args) {
			return ""
		}
		return filepath.Base(p.args[i])
	}
	switch {
	case word(0) == "ckpt" && word(1) == "rank":
		return anAgent
	case word(0) == "ckpt":
		return aCoordinator
	case strings.HasPrefix(word(0), "mpiexec") || word(0) == "srun":
		return aLauncher
	case word(0) == "hydra_pmi_proxy" || word(0) == "orted" || strings.HasPrefix(word(0), "slurmstepd"):
		return aDaemon
	case word(1) == "session":
		return aSession
	case word(0) == "heat" || word(1) == "heat.py":
		return aRank
	}
	return another
}

func (p *foundProcess) String() string { return fmt.Sprintf("%d %s", p.pid, strings.Join(p.args, " ")) }

// signal sends a signal to a process, which may have ended.
func (p *foundProcess) signal(sig syscall.Signal) { _ = syscall.Kill(p.pid, sig) }

// processes returns those that have the store in their environment, but for zombies.
func (s *sandbox) processes() (list []foundProcess) {
	mark := []byte("CKPT_STORE=" + s.store + "\x00")
	envs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range envs {
		env, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(env, mark) {
			continue
		}
		dir := filepath.Dir(path)
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil || len(line) == 0 {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(dir))
		list = append(list, foundProcess{pid, strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")})
	}
	return list
}

// having returns the processes of a role.
func (s *sandbox) having(role string) []foundProcess {
	return slices.DeleteFunc(s.processes(), func(p foundProcess) bool { return p.role() != role })
}

// nothingLeft checks that all that was started for a job ends, and leaves no socket and no
// shared memory.
func (s *sandbox) nothingLeft() {
	s.t.Helper()
	s.eventually("all processes to end", func() bool { return len(s.processes()) == 0 })
	err := filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type()&fs.ModeSocket != 0 {
			return fmt.Errorf("socket %s is left behind", path)
		}
		return err
	})
	names, gerr := filepath.Glob("/dev/shm/*" + filepath.Base(s.dir) + "*")
	if len(names) > 0 {
		gerr = fmt.Errorf("%v are left behind", names)
	}
	if err := errors.Join(err, gerr); err != nil {
		s.t.Error(err)
	}
}
