package dmtcp_test

import (
	"fmt"
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
	cmd := exec.Command("unshare", "--net", "sh", "-c", setUp, os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=4m")
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

// TestRealDMTCP runs programs under the DMTCP of this machine: each is checkpointed,
// killed, restarted by itself, stopped and continued, and ends with the result of a run
// without failures.
func TestRealDMTCP(t *testing.T) {
	if !inOwnNetwork(t) {
		return
	}
	for _, c := range []struct{ name, compiler, flag, run string }{
		{"C", "cc", "-DPLAIN", ""},
		{"MPICH", "mpicc.mpich", "-DMPI", "mpiexec.mpich -n 4"},
		{"OpenMPI", "mpicc.openmpi", "-DMPI", "mpiexec.openmpi --allow-run-as-root --oversubscribe -n 4"},
	} {
		t.Run(c.name, func(t *testing.T) {
			testkit.All(t, c.compiler)
			dir := t.TempDir()
			program := filepath.Join(dir, "ring")
			if out, err := exec.Command(c.compiler, c.flag, "-O2", "-o", program, "testdata/ring.c").CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			command := append(strings.Fields(c.run), program, "300")
			want := resultOf(t, command)
			realRun(t, dir, command, want)
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

func realRun(t *testing.T, dir string, command []string, want string) {
	out, err := os.Create(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	t.Setenv("TMPDIR", dir)
	rec := &recorder{}
	s := &scene{t: t, rec: rec, out: out.Name(), faults: filepath.Join(dir, "faults")}
	s.spec = job.Spec{App: "ring", Mode: job.Coordinated, Created: time.Now(), AutoRestart: true, Program: &job.Program{Command: command, Dir: dir}}
	s.opt = coordinator.Options{Store: filepath.Join(dir, "store"), Job: "job", Observer: rec,
		Streams: launch.Streams{Out: out, Err: os.Stderr}}
	s.opt.Limits = protocol.Limits{Silence: 500 * time.Millisecond, Patience: 20 * time.Second, Restarts: 10}
	asked := s.atStart(func(c *wire.Client) {
		if _, err := c.Checkpoint(); err != nil {
			t.Error(err)
		}
		status, err := c.Status()
		if err != nil || len(status.PIDs) == 0 {
			t.Errorf("%+v, %v", status, err)
			return
		}
		killed := status.PIDs[len(status.PIDs)-1]
		t.Logf("checkpoint 1 is stored; SIGKILL to process %d of %d", killed, len(status.PIDs))
		if err := syscall.Kill(killed, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
		for len(of[*job.RestartedEvent](rec)) == 0 {
			time.Sleep(10 * time.Millisecond)
		}
		if _, err := c.Stop(false); err != nil {
			t.Error(err)
		}
	})
	r, err := launched(t.Context(), s.spec, s.opt)
	asked()
	for _, ev := range rec.events {
		t.Logf("%T %+v", ev, ev)
	}
	if err != nil || r.Outcome != job.StateStopped || r.Failures == 0 || r.Checkpoints != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	r, err = restarted(t.Context(), s.opt, 0, true)
	if err != nil || r.Outcome != job.StateCompleted {
		t.Fatalf("%+v, %v", r, err)
	}
	b, err := os.ReadFile(out.Name())
	if got := dmtcp.LastLine(string(b)); err != nil || got != want {
		t.Errorf("%s, want %s; %v", got, want, err)
	}
	s.sound(2)
}
