package coordinator

import (
	"os"
	"sync"
	"testing"

	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
)

// TestRunDirGone: a job restarts after a failure although a cleaner has removed everything
// in the directory for temporary files.
func TestRunDirGone(t *testing.T) {
	for _, mode := range []job.Mode{job.Coordinated, job.Semi} {
		t.Run(string(mode), func(t *testing.T) {
			s := newSpec(t, "ring.S.4", 2)
			s.Mode, s.Schedule.Every = mode, 5
			want := undisturbed(t, s)
			tmp := t.TempDir()
			t.Setenv("TMPDIR", tmp)
			var clean sync.Once
			rec := &recorder{t: t, on: func(ev any) {
				if _, ok := ev.(*job.CheckpointEvent); ok {
					clean.Do(func() {
						if err := os.RemoveAll(tmp); err != nil {
							t.Error(err)
						}
					})
				}
			}}
			s.AutoRestart = true
			r, _, _ := mustLaunch(t, s, Options{Observer: rec, Failures: []launch.Failure{{Rank: 1, Node: -1, Iter: 12}}})
			if r.Failures != 1 || r.Digest != want.Digest {
				t.Errorf("%d failures, digest %s, want %s", r.Failures, r.Digest, want.Digest)
			}
		})
	}
}
