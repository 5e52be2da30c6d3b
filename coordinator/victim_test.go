package coordinator

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"ckpt/coordinator/protocol"
	"ckpt/coordinator/wire"
	"ckpt/image"
	"ckpt/internal/vfs"
)

// victim strikes one rank once, when the coordinator takes a certain action.
type victim struct {
	rank    int
	suspend bool
	is      func(protocol.Action) bool
	struck  bool
}

// watch runs in the loop of the driver, which knows the processes.
func (v *victim) watch(a protocol.Action) {
	if v.struck || !v.is(a) {
		return
	}
	v.struck = true
	sig := syscall.SIGKILL
	if v.suspend {
		sig = syscall.SIGSTOP
	}
	for _, pid := range children(v.rank) {
		_ = syscall.Kill(pid, sig)
	}
}

// children finds the processes of a rank among the children of this one.
func children(rank int) []int {
	var pids []int
	dirs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range dirs {
		env, err := os.ReadFile(path)
		if err != nil || !hasVariable(env, wire.EnvRank, rank) {
			continue
		}
		pid, ppid := parent(filepath.Dir(path))
		if ppid == os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

// verifyAll checks every checkpoint of a finished job, and that nothing else is
// left behind.
func verifyAll(t *testing.T, opt Options) {
	t.Helper()
	store, err := image.OpenStore(vfs.OS{}, opt.Store)
	if err != nil {
		t.Fatal(err)
	}
	job, err := store.Job(opt.Job)
	if err != nil {
		t.Fatal(err)
	}
	numbers, err := job.Checkpoints()
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range numbers {
		report, err := job.Verify(t.Context(), n, nil)
		if err != nil || len(report.Damage) > 0 {
			t.Errorf("checkpoint %d: damage %v, error %v", n, report.Damage, err)
		}
	}
	if err := job.Lock(); err != nil {
		t.Fatal(err)
	}
	defer job.Unlock()
	if debris, err := job.Sweep(); err != nil || len(debris) > 0 {
		t.Errorf("debris %v, error %v", debris, err)
	}
}
