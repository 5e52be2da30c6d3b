package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ckpt/cmd/ckpt/internal/scripttest"
	"ckpt/cmd/ckpt/internal/ui"
	"ckpt/internal/testkit"
)

// Of which files calls fail: strace knows no other way to tell files of the store from
// connections and what Go's runtime has open, of which there are far more.
const (
	anyFile = 1 << iota
	storeFile
)

// The system calls of a job that fail, and how the kernel may have them fail. A thread
// makes about so many of them; more than 60 tell nothing new. Closing fails for files of
// the store only: strace leaves open what could not be closed, and the kernel does not, so
// that a process would wait for the end of a pipe that never comes.
var injections = []struct {
	call   string
	most   int
	errors []string
	files  int
}{
	{"openat", 60, []string{"EIO", "EMFILE", "ENFILE", "ENOMEM", "ENOSPC"}, anyFile},
	{"pwrite64", 14, []string{"EIO", "ENOSPC"}, anyFile},
	{"fsync", 30, []string{"EIO", "ENOSPC"}, anyFile},
	{"fallocate", 2, []string{"EIO", "ENOSPC"}, anyFile},
	{"ftruncate", 4, []string{"EIO", "ENOSPC"}, anyFile},
	{"renameat", 9, []string{"EIO", "ENOSPC"}, anyFile},
	{"close", 60, []string{"EIO", "ENOSPC"}, storeFile},
	{"mkdirat", 8, []string{"EIO", "ENOSPC"}, anyFile},
	{"unlinkat", 27, []string{"EIO"}, anyFile},
	{"getdents64", 60, []string{"EIO", "ENOMEM"}, anyFile},
	{"read", 60, []string{"EIO", "ENOMEM"}, anyFile | storeFile},
	{"write", 60, []string{"EIO", "ENOSPC"}, anyFile | storeFile},
	{"accept4", 6, []string{"EMFILE", "ENFILE", "ENOMEM"}, anyFile},
	{"connect", 4, []string{"EAGAIN", "ENOMEM"}, anyFile},
	{"epoll_ctl", 60, []string{"ENOSPC", "ENOMEM"}, anyFile},
	{"clone", 3, []string{"EAGAIN", "ENOMEM"}, anyFile},
	{"mmap", 50, []string{"EAGAIN", "ENOMEM"}, anyFile},
	{"memfd_create", 1, []string{"ENOMEM"}, anyFile},
}

// The jobs that they fail in.
var injected = []struct {
	name  string
	flags string
}{
	{"per-rank", ""},
	{"per-rank-async", "--async"},
	{"aggregated", "--layout aggregated --auto-restart"},
	{"aggregated-async", "--layout aggregated --async"},
	{"shared", "--layout shared"},
	{"shared-async", "--layout shared --async --auto-restart"},
	{"semi", "--mode semi --auto-restart"},
	{"receiver", "--mode uncoordinated --auto-restart"},
	{"sender", "--mode uncoordinated --log pessimistic-sender --async"},
	{"optimistic", "--mode uncoordinated --log optimistic --auto-restart"},
	{"unlogged", "--mode uncoordinated --log none --auto-restart"},
}

const (
	injectLook  = 15 * time.Second // between looks at a job that takes long
	injectApp   = "ring.S.4"
	injectFlags = "--nodes 2 --every 4 --iterations 12 --residual-every 2 --silence 5s --job job --json"
)

// A trial is a job in which a system call fails, in every thread of the coordinator
// and of the ranks: the Nth, or all from there on.
type trial struct {
	job, flags string
	fault      string // in the words of strace
	files      bool   // in files of the store only
}

func (x trial) name() string {
	if x.files {
		return x.job + " files " + x.fault
	}
	return x.job + " " + x.fault
}

// TestInjectedErrors has system calls fail. That may cost checkpoints or the job, with an
// error; the job ends, what it has shown and stored is right, and it can be restarted.
// CKPT_NIGHTLY tries each error of each call in each job. To try one of them, name it:
//
//	CKPT_INJECT='semi accept4:error=EMFILE:when=1' go test -run TestInjectedErrors ./cmd/ckpt
func TestInjectedErrors(t *testing.T) {
	t.Parallel()
	if err := exec.Command("strace", "-f", "--seccomp-bpf", "-o", os.DevNull, "true").Run(); err != nil {
		testkit.Skip(t, fmt.Sprintf("strace that injects errors: %v", err))
	}
	testkit.Costly(t)
	want := clean(t)
	for _, x := range trials(os.Getenv("CKPT_INJECT"), testkit.Nightly(), number(t, "RAPID_SEED", 0)) {
		t.Run(x.name(), func(t *testing.T) {
			t.Parallel()
			testkit.Costly(t)
			x.run(t, want)
		})
	}
}

// trials returns those to run: one, all, or an error of every second call in some job. The
// seed, which .ci/run takes from the commit, says which half of the calls.
func trials(one string, all bool, seed int) []trial {
	var list []trial
	for i, in := range injections {
		if !all && one == "" && i%2 != seed%2 {
			continue
		}
		for k, e := range in.errors {
			for n, j := range injected {
				if in.files&anyFile != 0 && (all || one != "" || k == i%len(in.errors) && n == 5*i%len(injected)) {
					list = append(list, trial{j.name, j.flags, drawFault(j.name, in.call, in.most, e), false})
				}
				if in.files&storeFile != 0 && (all || one != "" || k == 0 && n == 4*i%len(injected)) {
					list = append(list, trial{j.name, j.flags, drawFault(j.name, in.call, in.most/4, e), true})
				}
			}
		}
	}
	if one == "" {
		return list
	}
	job, fault, _ := strings.Cut(one, " ")
	fault, files := strings.CutPrefix(fault, "files ")
	for _, x := range list {
		if x.job == job {
			return []trial{{job, x.flags, fault, files}}
		}
	}
	return nil
}

// drawFault draws when an error strikes, always alike.
func drawFault(job, call string, most int, err string) string {
	seed := fnv.New64a()
	fmt.Fprint(seed, job, call, most, err)
	r := rand.New(rand.NewPCG(seed.Sum64(), 1))
	fault := fmt.Sprintf("%s:error=%s:when=%d", call, err, 1+int(float64(most)*r.Float64()*r.Float64())) // most threads do little
	if r.IntN(2) == 0 {
		fault += "+"
	}
	return fault
}

// told is what a run has printed.
type told struct {
	digest      string
	lines       []string // of output, by index
	started     bool
	checkpoints int
	stderr      string
	status      int
	interrupted bool
}

// clean runs the job without a fault.
func clean(t *testing.T) *told {
	t.Helper()
	dir := t.TempDir()
	r := ckpt(t, dir, nil, "launch", injectApp, injectFlags)
	if r.status != 0 || r.digest == "" || len(r.lines) != 6 {
		t.Fatalf("without a fault: %+v", r)
	}
	return r
}

// paths returns the files of the store that the job opens, without a fault.
func (x trial) paths(t *testing.T) []string {
	dir := t.TempDir()
	trace := filepath.Join(dir, "trace")
	ckpt(t, dir, []string{"strace", "-f", "--seccomp-bpf", "-o", trace, "-e", "trace=openat"}, "launch", injectApp, injectFlags, x.flags)
	b, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, m := range regexp.MustCompile(`"`+regexp.QuoteMeta(dir)+`/([^"]+)", O_(WRONLY|RDWR|RDONLY\|O_CLOEXEC\))`).FindAllStringSubmatch(string(b), -1) {
		paths = append(paths, m[1])
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// tracer returns the command that injects the fault.
func (x trial) tracer(t *testing.T, dir, trace string) []string {
	call, _, _ := strings.Cut(x.fault, ":")
	argv := []string{"strace", "-f", "--seccomp-bpf", "-qq", "-e", "signal=none", "-o", trace, "-e", "trace=" + call, "-e", "inject=" + x.fault}
	if x.files {
		for _, path := range x.paths(t) {
			argv = append(argv, "-P", filepath.Join(dir, path))
		}
	}
	return argv
}

func (x trial) run(t *testing.T, want *told) {
	dir := t.TempDir()
	trace := filepath.Join(dir, "trace")
	first := ckpt(t, dir, x.tracer(t, dir, trace), "launch", injectApp, injectFlags, x.flags)
	b, err := os.ReadFile(trace)
	if err != nil {
		t.Error(err)
	}
	t.Logf("struck %d times; status %d, %d checkpoints; %s", bytes.Count(b, []byte("(INJECTED)")), first.status, first.checkpoints, first.stderr)
	died := x.checkEnd(t, first)
	again := ckpt(t, dir, nil, "verify")
	if again.status != ui.ExitDone && (again.status != ui.ExitNotFound || first.started) {
		t.Errorf("verify: status %d: %s", again.status, again.stderr)
	}
	again = ckpt(t, dir, nil, "restart", "job", "--again", "--json")
	// With several groups there is always the beginning.
	nothing := first.checkpoints == 0 && (!strings.Contains(x.flags, "--mode") || !first.started)
	if again.status != ui.ExitDone {
		if !nothing || again.status != ui.ExitNotFound {
			t.Errorf("restart: status %d: %s", again.status, again.stderr)
		}
	} else if again.digest != want.digest {
		t.Errorf("restart: digest %s, want %s", again.digest, want.digest)
	}
	if first.status == ui.ExitDone {
		if first.digest != want.digest {
			t.Errorf("digest %s, want %s", first.digest, want.digest)
		}
		checkShown(t, first.lines, want.lines, false)
	} else if again.status == ui.ExitDone {
		checkShown(t, append(first.lines, again.lines...), want.lines, died || x.mute())
	}
}

// mute reports whether a run may have been unable to say something.
func (x trial) mute() bool { return strings.HasPrefix(x.fault, "write:") && !x.files }

// checkShown holds lines that were shown against those that should be, once each unless
// some may be missing.
func checkShown(t *testing.T, lines, want []string, some bool) {
	t.Helper()
	lines = slices.Sorted(slices.Values(lines))
	want = slices.Sorted(slices.Values(want))
	if some {
		want = slices.DeleteFunc(want, func(line string) bool { return !slices.Contains(lines, line) })
	}
	if !slices.Equal(lines, want) {
		t.Errorf("lines shown:\n%s\nwant:\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
}

// runtimeDeath matches the complaints with which the runtime of Go, or the loader, ends a
// process that it cannot go on with.
var runtimeDeath = scripttest.Lazily(`(?m)^(runtime: (cannot allocate memory|mmap: too much locked memory|failed to create new OS thread|epollcreate failed|epollctl failed|eventfd failed|netpollBreak write failed|netpoll: eventfd|netpoll failed|out of memory)` +
	`|fatal error: (pageAlloc: out of memory|runtime: (cannot allocate memory|out of memory|cannot map pages|netpollinit failed|netpoll)|newosproc|out of memory|failed to (reserve|allocate))|runtime/cgo: pthread_create failed: )|: error while loading shared libraries: `)

// tookForFailed matches the goroutine of package os that waits for the end of a process, since
// it could not read that it has begun.
var tookForFailed = scripttest.Lazily(`(?m)^syscall\.Wait4\(.*\n.*\nsyscall\.forkExec\(`)

// checkEnd checks the exit status and that nothing crashed, unless the runtime did.
func (x trial) checkEnd(t *testing.T, r *told) (died bool) {
	t.Helper()
	// Without memory the kernel or the loader kills it as it begins.
	unborn := strings.HasPrefix(x.fault, "mmap:") && r.status == -1 && r.stderr == "" && !r.started
	if died = unborn || runtimeDeath().MatchString(r.stderr); died {
		return true
	}
	if strings.Contains(r.stderr, "panic: ") || strings.Contains(r.stderr, "\ngoroutine ") {
		t.Errorf("it crashed: %s", r.stderr)
	}
	if !slices.Contains([]int{ui.ExitDone, ui.ExitRuntime, ui.ExitJobFailed, ui.ExitStorageFull}, r.status) && (r.status != ui.ExitInterrupted || !r.interrupted) {
		t.Errorf("status %d: %s", r.status, r.stderr)
	}
	if r.status != ui.ExitDone && !strings.Contains(r.stderr, "ckpt: ") && !x.mute() {
		t.Errorf("status %d without an error: %s", r.status, r.stderr)
	}
	return false
}

// ckpt runs a command, under another one if tracer is not nil, and fails the test if that
// does not end in time.
func ckpt(t *testing.T, dir string, tracer []string, args ...string) *told {
	t.Helper()
	path, err := exec.LookPath("ckpt")
	if err != nil {
		t.Fatal(err)
	}
	argv := append(slices.Clone(tracer), path)
	for _, a := range args {
		argv = append(argv, strings.Fields(a)...)
	}
	p := &traced{store: filepath.Join(dir, "store"), stdout: filepath.Join(dir, "stdout"), stderr: filepath.Join(dir, "stderr"), over: make(chan struct{})}
	p.cmd = exec.Command(argv[0], argv[1:]...)
	p.cmd.Env = append(os.Environ(), "CKPT_STORE="+p.store, scripttest.Outputs+"=") // notes would fail, too
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.start(); err != nil {
		t.Fatal(err)
	}
	interrupted, ended := p.wait()
	out, err := os.ReadFile(p.stdout)
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := os.ReadFile(p.stderr)
	if err != nil {
		t.Fatal(err)
	}
	if !ended && tracer != nil && tookForFailed().Match(stderr) {
		t.Skip("the error struck the pipe in which package os is told that a process has begun: it waits for the end of one that runs")
	}
	if !ended {
		t.Fatalf("%s hangs: %s%s", args[0], out, stderr)
	}
	r := &told{status: p.cmd.ProcessState.ExitCode(), stderr: string(stderr), interrupted: interrupted}
	r.read(t, out)
	return r
}

// A traced process belongs to a command, or traces one.
type traced struct {
	cmd                   *exec.Cmd
	store, stdout, stderr string
	over                  chan struct{}
}

// start starts the process, with its output in files.
func (p *traced) start() error {
	stdout, err := os.Create(p.stdout)
	if err != nil {
		return err
	}
	defer stdout.Close()
	stderr, err := os.Create(p.stderr)
	if err != nil {
		return err
	}
	defer stderr.Close()
	p.cmd.Stdout, p.cmd.Stderr = stdout, stderr
	if err := p.cmd.Start(); err != nil {
		return err
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.over)
	}()
	return nil
}

// wait waits for the end of the process. A job that says that it is restarted again and
// again, or waits for free space, is interrupted, as a user does. One that does not end
// shows its goroutines and is killed.
func (p *traced) wait() (interrupted, ended bool) {
	limit := time.After(testkit.Patience)
	for range 3 {
		select {
		case <-p.over:
			return interrupted, true
		case <-time.After(injectLook):
		}
		out, _ := os.ReadFile(p.stdout)
		log, _ := os.ReadFile(p.stderr)
		if bytes.Contains(out, []byte(`{"type":"failure"`)) || bytes.Contains(log, []byte("waits for its message log")) {
			var pid int
			b, _ := os.ReadFile(filepath.Join(p.store, "jobs", "job", "run.json"))
			if n, _ := fmt.Sscanf(string(b), `{"pid":%d,`, &pid); n == 1 {
				interrupted = syscall.Kill(pid, syscall.SIGINT) == nil
			}
		}
	}
	select {
	case <-p.over:
		return interrupted, true
	case <-limit:
	}
	endHung(p.cmd.Process.Pid, p.store, p.over)
	return interrupted, false
}

// endHung has the coordinator of a store show its goroutines, and ends all its processes.
func endHung(group int, store string, over <-chan struct{}) {
	procs := processesOf(store)
	for _, pid := range procs {
		_ = syscall.Kill(pid, syscall.SIGQUIT)
	}
	select {
	case <-over:
		return
	case <-time.After(5 * time.Second):
	}
	for _, pid := range procs {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	_ = syscall.Kill(-group, syscall.SIGKILL)
	<-over
}

// processesOf returns the processes of ckpt whose environment names the store.
func processesOf(store string) []int {
	var pids []int
	envs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range envs {
		dir := filepath.Dir(path)
		env, _ := os.ReadFile(path)
		name, _ := os.ReadFile(filepath.Join(dir, "comm"))
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil && bytes.Contains(env, []byte("CKPT_STORE="+store)) && string(name) != "strace\n" {
			pids = append(pids, pid)
		}
	}
	return pids
}

// read reads the events that a run has printed.
func (r *told) read(t *testing.T, out []byte) {
	for line := range bytes.Lines(out) {
		var ev struct {
			Type, Digest, Text string
			Rank               int
			Index              int
		}
		if err := json.Unmarshal(line, &ev); err != nil {
			continue
		}
		switch ev.Type {
		case "start":
			r.started = true
		case "checkpoint":
			r.checkpoints++
		case "output":
			r.lines = append(r.lines, fmt.Sprintf("%d %d %s", ev.Rank, ev.Index, ev.Text))
		case "result":
			r.digest = ev.Digest
		}
	}
}
