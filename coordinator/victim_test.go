package coordinator

import (
	"syscall"
	"testing"

	"ckpt/coordinator/protocol"
	"ckpt/image"
	"ckpt/internal/vfs"
)

// victim strikes one rank of a job once, when the coordinator takes a certain action.
type victim struct {
	job     string
	rank    int
	suspend bool
	is      func(protocol.Action) bool
	pids    []int
	struck  bool
}

// watch runs in the loop of the driver, which knows the processes.
func (v *victim) watch(a protocol.Action) {
	if v.pids == nil && broadcasts[protocol.Start](a) {
		v.pids = children(v.job, v.rank) // before the ranks compute: to look for them takes time
	}
	if v.struck || !v.is(a) {
		return
	}
	v.struck = true
	sig := syscall.SIGKILL
	if v.suspend {
		sig = syscall.SIGSTOP
	}
	for _, pid := range v.pids {
		_ = syscall.Kill(pid, sig)
	}
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
