package dmtcp_test

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"ckpt/coordinator"
	"ckpt/coordinator/dmtcp"
	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/coordinator/protocol"
	"ckpt/coordinator/wire"
	"ckpt/internal/testkit"
)

// insideName is set in the test process that has a network of its own.
const insideName = "CKPT_TEST_OWN_NETWORK"

// inOwnNetwork runs the rest of a test in a network namespace: DMTCP's coordinator listens
// on all interfaces. It returns true in the process that is in there.
func inOwnNetwork(t *testing.T) bool {
	t.Helper()
	t.Setenv("PATH", realPath)
	testkit.All(t, "dmtcp_launch")
	if os.Getenv(insideName) != "" {
		return true
	}
	// MPI libraries look for an address besides that of loopback.
	const setUp = `ip link set lo up && ip addr add 10.77.0.1/32 dev lo && exec "$0" "$@"`
	tests, limit := "^"+t.Name()+"$", "10m"
	if asked := flag.Lookup("test.run").Value.String(); strings.HasPrefix(asked, t.Name()+"/") {
		tests = asked
	}
	if testkit.Nightly() {
		limit = "2h"
	}
	cmd := exec.Command("unshare", "--net", "sh", "-c", setUp, os.Args[0], "-test.run="+tests, "-test.v", "-test.timeout="+limit)
	cmd.Env = append(os.Environ(), insideName+"=yes", "OMPI_MCA_oob_tcp_if_include=lo")
	said, err := cmd.CombinedOutput()
	if err != nil && !strings.Contains(string(said), t.Name()) {
		testkit.Skip(t, fmt.Sprintf("network namespaces: %v: %s", err, said))
	}
	t.Logf("%s", said)
	if err != nil {
		t.Error(err)
	}
	return false
}

// realPrograms are built from testdata, and run so.
var realPrograms = []struct{ name, build, run string }{
	{"C", "cc -DPLAIN -O2 -o DIR/program testdata/ring.c", "DIR/program"},
	{"threads", "cc -O2 -pthread -o DIR/program testdata/threads.c", "DIR/program"},
	{"numpy", "cp testdata/heat.py DIR/heat.py", "/usr/bin/python3 DIR/heat.py"},
	{"MPICH", "mpicc.mpich -DMPI -O2 -o DIR/program testdata/ring.c", "mpiexec.mpich -n 4 DIR/program"},
	{"OpenMPI", "mpicc.openmpi -DMPI -O2 -o DIR/program testdata/ring.c", "mpiexec.openmpi --allow-run-as-root --oversubscribe -n 4 DIR/program"},
}

// built builds a program in a directory, and returns the command that runs it for some steps.
func built(t *testing.T, build, run, dir string, steps int) []string {
	t.Helper()
	words := strings.Fields(strings.ReplaceAll(build, "DIR", dir))
	needs := []string{words[0]}
	if launcher, _, _ := strings.Cut(run, " "); !strings.HasPrefix(launcher, "DIR") {
		needs = append(needs, launcher)
	}
	testkit.All(t, needs...)
	if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return append(strings.Fields(strings.ReplaceAll(run, "DIR", dir)), fmt.Sprint(steps))
}

// TestRealDMTCP runs programs under the DMTCP of this machine: each is checkpointed,
// killed, restarted by itself, stopped and continued, and ends with the result of a run
// without failures. At night there are twenty kills each.
func TestRealDMTCP(t *testing.T) {
	if !inOwnNetwork(t) {
		return
	}
	kills, steps, interval := 1, 300, time.Duration(0)
	if testkit.Nightly() {
		kills, steps, interval = 20, 1500, 500*time.Millisecond // kills while DMTCP writes, too
	}
	for _, c := range realPrograms {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "numpy" && exec.Command("/usr/bin/python3", "-c", "import numpy").Run() != nil {
				testkit.Skip(t, "numpy")
			}
			dir := t.TempDir()
			t.Setenv("TMPDIR", dir)
			command := built(t, c.build, c.run, dir, steps)
			realRun(t, dir, command, resultOf(t, command), kills, interval)
		})
	}
}

// resultOf runs a command without DMTCP.
func resultOf(t *testing.T, command []string) string {
	t.Helper()
	out, err := exec.Command(command[0], command[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dmtcp.LastLine(string(out))
}

// insist orders something until it is done. DMTCP 5.0 may lose a process of an MPI program while
// it takes a checkpoint (docs/DMTCP.md): then the checkpoint is aborted, and the program restarts.
func insist(t *testing.T, order func() error) {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); ; time.Sleep(time.Second) {
		err := order()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Error(err)
			return
		}
		t.Logf("ordered again: %v", err)
	}
}

func realRun(t *testing.T, dir string, command []string, want string, kills int, interval time.Duration) {
	t.Helper()
	t.Setenv(dmtcp.EnvAny, "any")
	rng := rand.New(rand.NewPCG(7, uint64(len(command))))
	out, err := os.Create(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	rec := &recorder{}
	s := &scene{t: t, rec: rec, out: out.Name(), faults: filepath.Join(dir, "faults")}
	s.spec = job.Spec{App: "ring", Mode: job.Coordinated, Created: time.Now(), AutoRestart: true,
		Schedule: job.Schedule{Interval: interval}, Program: &job.Program{Command: command, Dir: dir}}
	s.opt = coordinator.Options{Store: filepath.Join(dir, "store"), Job: "job", Observer: rec,
		Streams: launch.Streams{Out: out, Err: os.Stderr}}
	s.opt.Limits = protocol.Limits{Silence: 500 * time.Millisecond, Patience: time.Minute, Restarts: 10 + kills}
	moments := []time.Duration{time.Second}
	if interval > 0 {
		moments = append(moments, 4*time.Second, 20*time.Second)
	}
	asked := s.atStart(func(c *wire.Client) {
		insist(t, func() error { _, err := c.Checkpoint(); return err })
		for kill := range kills {
			// A moment drawn by chance: soon, while DMTCP writes, or after a checkpoint of restarted processes.
			time.Sleep(time.Duration(rng.Int64N(int64(moments[rng.IntN(len(moments))]))))
			insist(t, func() error { // it may be restarting after a failure of DMTCP's own
				status, err := c.Status()
				if err == nil && len(status.PIDs) == 0 {
					err = errors.New("no process")
				}
				if err != nil {
					return err
				}
				killed := status.PIDs[rng.IntN(len(status.PIDs))]
				t.Logf("SIGKILL to process %d of %d in phase %s", killed, len(status.PIDs), status.Phase)
				return syscall.Kill(killed, syscall.SIGKILL)
			})
			for end := time.Now().Add(2 * time.Minute); len(of[*job.RestartedEvent](rec)) <= kill; {
				if time.Now().After(end) {
					t.Error("no restart after two minutes")
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
		}
		insist(t, func() error { _, err := c.Stop(false); return err })
	})
	r, err := launched(t.Context(), s.spec, s.opt)
	asked()
	for _, ev := range rec.events {
		if _, frequent := ev.(*coordinator.ProgressEvent); !frequent {
			t.Logf("%T %+v", ev, ev)
		}
	}
	if err != nil || r.Outcome != job.StateStopped || r.Failures < kills || r.Checkpoints < 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	taken := r.Checkpoints
	r, err = restarted(t.Context(), s.opt, 0, true)
	if err != nil || r.Outcome != job.StateCompleted {
		t.Fatalf("%+v, %v", r, err)
	}
	b, err := os.ReadFile(out.Name())
	if got := dmtcp.LastLine(string(b)); err != nil || got != want {
		t.Errorf("%s, want %s; %v", got, want, err)
	}
	s.sound(taken + r.Checkpoints)
}
