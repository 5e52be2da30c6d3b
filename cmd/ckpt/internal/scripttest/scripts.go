// Package scripttest runs sessions of ckpt as tests: those in testdata/script beside the
// commands of their subject.
package scripttest

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"ckpt/internal/family"
	"ckpt/internal/testkit"
	"ckpt/iotrace/bpf"
	"ckpt/zones/dmtcptest"
)

// Main runs the tests of a package, with this binary as the command ckpt.
func Main(m *testing.M) {
	dmtcptest.Serve()
	// Scripts wait most of their time: for disks, for ranks, for each other.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	testscript.Main(schemaChecked{m}, map[string]func(){"ckpt": checkedMain})
}

// Clone returns the path of a file of this repository.
func Clone(name string) string { return filepath.Join(top(), name) }

var top = sync.OnceValue(func() string {
	dir, err := os.Getwd()
	for err == nil && dir != filepath.Dir(dir) {
		if _, missing := os.Stat(filepath.Join(dir, "go.mod")); missing == nil {
			return dir
		}
		dir = filepath.Dir(dir)
	}
	panic(fmt.Sprintf("no go.mod above this directory: %v", err))
})

// Lazily compiles an expression when a test uses it: each command of a script is a process
// of this binary, too.
func Lazily(expression string) func() *regexp.Regexp {
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

// Run runs the sessions in testdata/script of a package, which read like the manual.
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
//	objects NAME…       start an object storage, and set variables to the URLs of stores in it, and
//	                    DEAF_NAME to URLs of a storage that ignores conditions of writes
//	foreign DIR         put another build of ckpt into a directory
//	readonly DIR        make a mounted file system read-only
//	status N CMD…       run a command and check its exit status
//	dmtcpjob DIR KEY=VALUE…  write synthetic images of DMTCP: ranks, seed, shared
//	                    (MiB), mpi=openmpi, gzip=yes
//	fakedmtcp DIR       put programs that answer like DMTCP into a directory
//	same FILE FILE      fail if two results have different digests
//	matches SCHEMA FILE check the JSON in a file against docs/schema
//	needs NAME…         skip the script without a program, root, mounts, ebpf, hydra
func Run(t *testing.T, more ...Commands) {
	t.Helper()
	t.Parallel()
	commands := maps.Clone(common)
	for _, c := range more {
		maps.Copy(commands, c)
	}
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
			testkit.Costly(scriptTest{env.T(), "TestScripts/" + strings.TrimPrefix(filepath.Base(env.WorkDir), "script-")})
			env.Defer(func() { endLeft(env.WorkDir) })
			env.Setenv("CKPT_STORE", filepath.Join(env.WorkDir, "store"))
			for _, name := range passed {
				env.Setenv(name, os.Getenv(name))
			}
			env.Setenv("EXAMPLES", Clone("docs/examples"))
			env.Setenv("TESTDATA", Clone("testdata"))
			env.Setenv("HOSTS", Clone("cmd/ckpt/testdata/hosts"))
			env.Setenv("SLURM", Clone("cmd/ckpt/testdata/slurm"))
			env.Setenv("LC_ALL", "C.UTF-8")
			if home, err := os.UserHomeDir(); err == nil && os.Getenv("RUSTUP_HOME") == "" {
				env.Setenv("RUSTUP_HOME", filepath.Join(home, ".rustup")) // rustc may be one that rustup chooses
			}
			return nil
		},
		Cmds: commands,
	})
}

// endLeft ends processes that a script that failed has left stopped, or waiting for its next
// command: the script waits for them.
func endLeft(dir string) {
	family.Signal(family.Carrying("WORK="+dir), syscall.SIGCONT)
	time.AfterFunc(time.Minute, func() { family.Signal(family.Carrying("WORK="+dir), syscall.SIGKILL) })
}

// Commands are further commands of scripts.
type Commands map[string]func(ts *testscript.TestScript, neg bool, args []string)

var common = Commands{
	"await":     await,
	"fakedmtcp": fakeDMTCP,
	"flip":      flip,
	"cut":       cut,
	"killjob":   killJob,
	"orphans":   orphans,
	"smalldisk": smallDisk,
	"objects":   objectStore,
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
	"matches":   matches,
	"needs":     need,
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

// eventually waits until done returns true.
func eventually(ts *testscript.TestScript, what string, done func() bool) {
	for deadline := time.Now().Add(testkit.Patience); !done(); {
		if time.Now().After(deadline) {
			ts.Fatalf("waited in vain for %s", what)
		}
		tick := time.NewTimer(10 * time.Millisecond)
		<-tick.C
	}
}
