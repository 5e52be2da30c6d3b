package coordinator

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"ckpt/coordinator/job"
	"ckpt/image/plan"
)

// TestFilesOfLayouts counts the files of a checkpoint of 64 ranks: as many as
// ranks or aggregators, or one; and the manifest.
func TestFilesOfLayouts(t *testing.T) {
	notRaced(t)
	for _, c := range []struct {
		s     plan.Settings
		files int
	}{
		{plan.Settings{Layout: plan.PerRank}, 64},
		{plan.Settings{Layout: plan.Aggregated}, 4},
		{plan.Settings{Layout: plan.Aggregated, Aggregators: 7}, 7},
		{plan.Settings{Layout: plan.Shared}, 1},
	} {
		t.Run(fmt.Sprintf("%s,%d", c.s.Layout, c.s.Aggregators), func(t *testing.T) {
			s := newSpec(t, "ring.S.64", 4)
			s.WritePath = c.s
			s.Schedule.Count = 2
			_, rec, opt := mustLaunch(t, s, Options{})
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
