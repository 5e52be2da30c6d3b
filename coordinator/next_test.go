package coordinator

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"ckpt/image"
	"ckpt/internal/testkit"
	"ckpt/internal/vfs"
	"ckpt/internal/vfs/memfs"
)

// TestNextFails fails operations of a next store, each once. A launch whose next store cannot be made
// is refused. Else the job completes, a warning says what failed, and the next store gets each second
// checkpoint all the same, though the store is to keep one, or the store still has it at the end.
func TestNextFails(t *testing.T) {
	t.Parallel()
	s := newSpec(t, "ring.S.4", 2)
	s.Schedule.Every, s.Keep, s.Iterations = 1, 1, 8
	want := undisturbed(t, s)
	run := func(at int) (operations int) {
		dir := filepath.Join(t.TempDir(), "next")
		disk := memfs.WithFault(vfs.OS{}, memfs.Fault{At: at, Of: under(dir), Err: []error{syscall.EIO, syscall.ENOSPC}[at%2]})
		s := s
		s.Next = []image.Next{{Store: dir, Every: 2}}
		rec := &recorder{t: t}
		opt := Options{Job: fmt.Sprintf("next-%d", at), Store: t.TempDir(), FS: disk, Observer: rec}
		r, err := Launch(t.Context(), s, opt)
		for _, op := range disk.Ops() {
			if under(dir)(op) {
				operations++
			}
		}
		if err != nil {
			if !strings.Contains(err.Error(), dir) {
				t.Errorf("operation %d: %v does not name the next store", at, err)
			}
			return operations
		}
		if r.Digest != want.Digest || r.Checkpoints != 7 {
			t.Errorf("operation %d: %+v, want digest %s", at, r, want.Digest)
		}
		opt.FS = nil
		verifyAll(t, opt)
		_, first := storedJobOf(t, opt)
		left, lerr := first.Checkpoints()
		opt.Store = dir
		_, j := storedJobOf(t, opt)
		have, err := j.Checkpoints()
		for _, n := range have { // what the last copy has left there goes with the next one
			if report, err := j.Verify(t.Context(), n, nil); err != nil || len(report.Damage) > 0 {
				t.Errorf("operation %d: checkpoint %d: %+v, %v", at, n, report, err)
			}
		}
		for _, n := range []int{2, 4, 6} {
			if err := cmp.Or(err, lerr); err != nil || !slices.Contains(have, n) && !slices.Contains(left, n) {
				t.Errorf("operation %d: the next store has %v, the store %v, %v; %q", at, have, left, err, rec.warned)
				break
			}
		}
		return operations
	}
	operations, step := run(0), 149
	if testkit.Nightly() {
		step = 1
	}
	t.Logf("%d operations", operations)
	for at := 1 + int(testkit.Seed()%uint64(step)); at <= operations; at += step {
		run(at)
	}
}

// under selects the operations on files and directories below dir.
func under(dir string) func(memfs.Op) bool {
	return func(op memfs.Op) bool { return strings.HasPrefix(op.Path, dir) }
}
