package coordinator

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"ckpt/coordinator/job"
	"ckpt/image/plan"
	"ckpt/internal/testkit"
)

// TestFilesOfLayouts counts the files of a checkpoint of 8 ranks, nightly of 64: as many as
// ranks or aggregators, or one; and the manifest.
func TestFilesOfLayouts(t *testing.T) {
	notRaced(t)
	t.Parallel()
	ranks := 8
	if testkit.Nightly() {
		ranks = 64
	}
	for _, c := range []struct {
		s     plan.Settings
		files int
	}{
		{plan.Settings{Layout: plan.PerRank}, ranks},
		{plan.Settings{Layout: plan.Aggregated}, 4},
		{plan.Settings{Layout: plan.Aggregated, Aggregators: 7}, 7},
		{plan.Settings{Layout: plan.Shared}, 1},
	} {
		t.Run(fmt.Sprintf("%s,%d", c.s.Layout, c.s.Aggregators), func(t *testing.T) {
			t.Parallel()
			s := newSpec(t, fmt.Sprintf("ring.S.%d", ranks), 4)
			s.WritePath = c.s
			s.Schedule.Count = 2
			_, rec, opt := mustLaunch(t, s, Options{Store: onDisk(t)})
			events := eventsOf[*job.CheckpointEvent](rec)
			if len(events) != 2 {
				t.Fatalf("%d checkpoints", len(events))
			}
			for _, e := range events {
				dir := filepath.Join(opt.Store, "jobs", e.Job, fmt.Sprintf("%04d", e.Number))
				entries, err := os.ReadDir(dir)
				if err != nil {
					t.Fatal(err)
				}
				if len(entries) != c.files+1 || e.Files != len(entries) {
					t.Errorf("checkpoint %d: %d files in %s, %d told, want %d", e.Number, len(entries), dir, e.Files, c.files+1)
				}
			}
			verifyAll(t, opt)
		})
	}
}

// onDisk returns a directory that is on a disk.
func onDisk(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(testkit.Disk(), "ckpt-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
