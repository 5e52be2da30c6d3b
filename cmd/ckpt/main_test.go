package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"ckpt/internal/testkit"
	"ckpt/iotrace/bpf"
	"ckpt/zones/dmtcp/dmtcptest"
)

func TestMain(m *testing.M) {
	dmtcptest.Serve()
	// Scripts wait most of their time: for disks, for ranks, for each other.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	testscript.Main(schemaChecked{m}, map[string]func(){"ckpt": checkedMain})
}

// lazily compiles an expression when a test uses it: each command of a script is a process
// of this binary, too.
func lazily(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

// heedSignals has the commands that tests start heed signals that this process ignores, as
// it does behind nohup and in the background of a script: a test that sends one would wait
// in vain. A signal that a process catches is not ignored by those that it starts.
func heedSignals() {
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGHUP, syscall.SIGQUIT} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
}

// TestScripts runs the sessions in testdata/script, which read like the manual.
// Besides testscript's own commands they have
//
//	await FILE TEXT     wait until a file contains a text
//	flip FILE OFFSET    flip a bit of a file
//	cut FILE SIZE       truncate a file
//	killjob JOB         SIGKILL the coordinator of a job in $CKPT_STORE
//	suspend JOB, resume JOB, hangup JOB, demand JOB, terminate JOB  signal the coordinator of a job
//	stall RANK          SIGSTOP a rank of this script's store
//	orphans             fail if ranks of this script's store are alive
//	smalldisk DIR SIZE [FILE]  mount a file system of a size, and of the size of a file
//	foreign DIR         put another build of ckpt into a directory
//	readonly DIR        make a mounted file system read-only
//	status N CMD…       run a command and check its exit status
//	dmtcpjob DIR KEY=VALUE…  write synthetic images of DMTCP: ranks, seed, shared
//	                    (MiB), mpi=openmpi, gzip=yes
//	fakedmtcp DIR       put programs that answer like DMTCP into a directory
//	same FILE FILE      fail if two results have different digests
//	ownjobs APP SMALL,… LARGE,… CODEC  predict large jobs from small ones, and compare
//	matches SCHEMA FILE check the JSON in a file against docs/schema
//	figures FILE        compare the errors in README with ckpt predict eval --json
//	needs NAME…         skip the script without a program, root, mounts, ebpf, hydra
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Condition: func(cond string) (bool, error) {
			switch cond {
			case "root":
				return os.Getuid() == 0, nil
			case "nightly":
				return testkit.Nightly(), nil
			}
			return false, fmt.Errorf("condition %q is unknown", cond)
		},
		Setup: func(env *testscript.Env) error {
			env.Values[theTest] = env.T()
			env.Setenv("CKPT_STORE", filepath.Join(env.WorkDir, "store"))
			for _, name := range passed {
				env.Setenv(name, os.Getenv(name))
			}
			examples, exerr := filepath.Abs("../../docs/examples")
			if exerr != nil {
				return exerr
			}
			env.Setenv("EXAMPLES", examples)
			samples, err := filepath.Abs("../../testdata")
			if err != nil {
				return err
			}
			env.Setenv("TESTDATA", samples)
			for _, kind := range []string{"hosts", "slurm"} {
				dir, err := filepath.Abs(filepath.Join("testdata", kind))
				if err != nil {
					return err
				}
				env.Setenv(strings.ToUpper(kind), dir)
			}
			env.Setenv("LC_ALL", "C.UTF-8")
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"await":     await,
			"fakedmtcp": fakeDMTCP,
			"flip":      flip,
			"cut":       cut,
			"killjob":   killJob,
			"orphans":   orphans,
			"smalldisk": smallDisk,
			"same":      same,
			"status":    status,
			"foreign":   otherBuild,
			"stall":     stall,
			"suspend":   func(ts *testscript.TestScript, _ bool, args []string) { signalJob(ts, args[0], syscall.SIGSTOP) },
			"hangup":    func(ts *testscript.TestScript, _ bool, args []string) { signalJob(ts, args[0], syscall.SIGHUP) },
			"demand":    func(ts *testscript.TestScript, _ bool, args []string) { signalJob(ts, args[0], syscall.SIGUSR2) },
			"terminate": func(ts *testscript.TestScript, _ bool, args []string) { signalRanks(ts, args[0]) },
			"resume":    func(ts *testscript.TestScript, _ bool, args []string) { signalJob(ts, args[0], syscall.SIGCONT) },
			"readonly":  readOnly,
			"dmtcpjob":  dmtcpJob,
			"agrees":    agrees,
			"figures":   figures,
			"matches":   matches,
			"needs":     need,
			"ownjobs":   ownJobs,
		},
	})
}

// theTest is the key of a script's test among its values.
const theTest = "test"

// A scriptTest is a script as package needs takes it.
type scriptTest struct {
	testscript.T
	name string
}

func (t scriptTest) Name() string { return t.name }

// need skips a script on a machine that lacks something.
func need(ts *testscript.TestScript, _ bool, args []string) {
	t := scriptTest{ts.Value(theTest).(testscript.T), "TestScripts/" + ts.Name()}
	for _, name := range args {
		switch name {
		case "ebpf":
			r, err := bpf.Open()
			if err != nil {
				testkit.Skip(t, fmt.Sprintf("ebpf: %v", err))
			}
			r.Close()
		case "hydra":
			if out, err := exec.Command("mpiexec", "--version").Output(); err != nil || !bytes.HasPrefix(out, []byte("HYDRA")) {
				testkit.Skip(t, "MPICH's mpiexec")
			}
		default:
			testkit.All(t, name)
		}
	}
}

// patience bounds every wait of a script; no test asserts a time.
const patience = 5 * time.Minute

// eventually waits until done returns true.
func eventually(ts *testscript.TestScript, what string, done func() bool) {
	for deadline := time.Now().Add(patience); !done(); {
		if time.Now().After(deadline) {
			ts.Fatalf("waited in vain for %s", what)
		}
		tick := time.NewTimer(10 * time.Millisecond)
		<-tick.C
	}
}

func await(ts *testscript.TestScript, neg bool, args []string) {
	path := ts.MkAbs(args[0])
	eventually(ts, args[1]+" in "+args[0], func() bool {
		b, _ := os.ReadFile(path)
		return bytes.Contains(b, []byte(args[1])) != neg
	})
}

func flip(ts *testscript.TestScript, _ bool, args []string) {
	offset, err := strconv.ParseInt(args[1], 0, 64)
	ts.Check(err)
	f, err := os.OpenFile(ts.MkAbs(args[0]), os.O_RDWR, 0)
	ts.Check(err)
	defer f.Close()
	b := make([]byte, 1)
	_, err = f.ReadAt(b, offset)
	ts.Check(err)
	b[0] ^= 4
	_, err = f.WriteAt(b, offset)
	ts.Check(err)
}

func cut(ts *testscript.TestScript, _ bool, args []string) {
	size, err := strconv.ParseInt(args[1], 0, 64)
	ts.Check(err)
	ts.Check(os.Truncate(ts.MkAbs(args[0]), size))
}

// ranksOf finds the processes whose environment says that they belong to
// this script, and that run a rank.
func ranksOf(ts *testscript.TestScript) []int {
	var pids []int
	store := "CKPT_STORE=" + ts.Getenv("CKPT_STORE")
	envs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range envs {
		env, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		fields := strings.Split(string(env), "\x00")
		mine, rank := false, false
		for _, f := range fields {
			mine = mine || f == store
			rank = rank || strings.HasPrefix(f, "CKPT_INCARNATION=")
		}
		if mine && rank {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			pids = append(pids, pid)
		}
	}
	return pids
}

func killJob(ts *testscript.TestScript, _ bool, args []string) {
	signalJob(ts, args[0], syscall.SIGKILL)
}

func stall(ts *testscript.TestScript, _ bool, args []string) {
	pids := ranksOf(ts)
	i, err := strconv.Atoi(args[0])
	ts.Check(err)
	ts.Check(syscall.Kill(pids[i], syscall.SIGSTOP))
}

func signalJob(ts *testscript.TestScript, job string, sig syscall.Signal) {
	path := filepath.Join(ts.Getenv("CKPT_STORE"), "jobs", job, "run.json")
	b, err := os.ReadFile(path)
	ts.Check(err)
	var pid int
	_, err = fmt.Sscanf(string(b), `{"pid":%d,`, &pid)
	ts.Check(err)
	ts.Check(syscall.Kill(pid, sig))
}

// signalRanks sends SIGUSR1, SIGUSR2, SIGTERM, SIGHUP and SIGINT to a job and all its ranks, as
// batch systems do.
func signalRanks(ts *testscript.TestScript, job string) {
	for _, pid := range ranksOf(ts) {
		for _, sig := range []syscall.Signal{syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT} {
			ts.Check(syscall.Kill(pid, sig))
		}
	}
	signalJob(ts, job, syscall.SIGTERM)
}

// orphans waits until no rank is left: without their coordinator ranks notice
// its end by themselves.
func orphans(ts *testscript.TestScript, _ bool, _ []string) {
	eventually(ts, "the ranks to leave", func() bool { return len(ranksOf(ts)) == 0 })
}

// smallDisk mounts a file system, or skips the rest of the script: smalldisk DIR SIZE [FILE],
// of a size like 20m and the size of a file. A store without compression has ckpt itself, which grows.
func smallDisk(ts *testscript.TestScript, _ bool, args []string) {
	dir, size := ts.MkAbs(args[0]), args[1]
	if len(args) > 2 {
		fi, err := os.Stat(ts.MkAbs(args[2]))
		ts.Check(err)
		mebibytes, err := strconv.Atoi(strings.TrimSuffix(size, "m"))
		ts.Check(err)
		size = strconv.FormatInt(fi.Size()+int64(mebibytes)<<20, 10)
	}
	need(ts, false, []string{"mounts"})
	ts.Check(os.MkdirAll(dir, 0o700))
	ts.Check(syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size))
	ts.Defer(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
}

// same compares the digests in two results, as text or JSON.
func same(ts *testscript.TestScript, neg bool, args []string) {
	var digests []string
	for _, name := range args {
		text := ts.ReadFile(name)
		i := strings.LastIndex(text, "digest")
		if i < 0 {
			ts.Fatalf("%s has no digest", name)
		}
		digest := strings.FieldsFunc(text[i+len("digest"):], func(r rune) bool { return !strings.ContainsRune("0123456789abcdef", r) })
		if len(digest) == 0 || len(digest[0]) != 64 {
			ts.Fatalf("%s has no digest", name)
		}
		digests = append(digests, digest[0])
	}
	if (digests[0] == digests[1]) == neg {
		ts.Fatalf("digests %s and %s", digests[0], digests[1])
	}
}

// status runs ckpt and checks its exit status: status N ckpt ARGS…
func status(ts *testscript.TestScript, _ bool, args []string) {
	err := ts.Exec(args[1], args[2:]...)
	code := "0"
	if err != nil {
		code = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if code != args[0] {
		ts.Fatalf("exit status %s, want %s", code, args[0])
	}
}

// otherBuild makes a build of ckpt that works alike and has other bytes. Another process
// writes it: what this one has open for writing, processes that other scripts start at that
// moment have as well until they execute, and the kernel runs no file that is being written.
func otherBuild(ts *testscript.TestScript, _ bool, args []string) {
	path, err := exec.LookPath("ckpt")
	ts.Check(err)
	ts.Check(os.MkdirAll(ts.MkAbs(args[0]), 0o700))
	ts.Check(ts.Exec("sh", "-c", `cp "$0" "$1" && printf '\0' >> "$1"`, path, filepath.Join(ts.MkAbs(args[0]), "ckpt")))
}

func readOnly(ts *testscript.TestScript, _ bool, args []string) {
	dir := ts.MkAbs(args[0])
	ts.Check(syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	ts.Defer(func() { _ = syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "") })
}

func dmtcpJob(ts *testscript.TestScript, _ bool, args []string) {
	ranks, o := 2, dmtcptest.Options{Name: "heat.B.4"}
	for _, arg := range args[1:] {
		key, value, _ := strings.Cut(arg, "=")
		n, _ := strconv.Atoi(value)
		switch key {
		case "ranks":
			ranks = n
		case "seed":
			o.Seed = uint64(n)
		case "shared":
			o.Shared = int64(n) << 20
		case "mpi":
			o.OpenMPI = value == "openmpi"
		case "gzip":
			o.Gzip = true
		default:
			ts.Fatalf("dmtcpjob: unknown %s", key)
		}
	}
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o700))
	ts.Check(dmtcptest.Job(ranks, o).WriteDir(dir))
}

// fakeDMTCP puts programs that answer as DMTCP does into a directory.
func fakeDMTCP(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: fakedmtcp DIR")
	}
	ts.Check(dmtcptest.Install(ts.MkAbs(args[0])))
}
