package coordinator

import (
	"testing"

	"ckpt/coordinator/job"
	"ckpt/dataset"
	"ckpt/image"
	"ckpt/image/plan"
	"ckpt/internal/vfs"
)

func measureRun(t *testing.T, opt Options) dataset.JobRun {
	t.Helper()
	store, err := image.OpenStore(vfs.OS{}, opt.Store)
	if err != nil {
		t.Fatal(err)
	}
	j, err := store.Job(opt.Job)
	if err != nil {
		t.Fatal(err)
	}
	run, err := job.MeasureRun(j)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// TestMeasureRun measures jobs of each layout: every byte that a checkpoint added to the
// store is in some zone and region, or in headers and indexes.
func TestMeasureRun(t *testing.T) {
	useOwnProgram(t)
	for _, layout := range []plan.Layout{plan.PerRank, plan.Aggregated, plan.Shared} {
		t.Run(string(layout), func(t *testing.T) {
			s := newSpec(t, "bt.S.4", 2)
			s.Iterations, s.Schedule.Every, s.Codec, s.Incremental = 7, 2, "none", true
			if layout != plan.PerRank {
				s.WritePath = plan.Defaults()
				s.WritePath.Layout = layout
			}
			_, _, opt := mustLaunch(t, s, Options{})
			run := measureRun(t, opt)
			if run.App != "bt" || run.Class != "S" || run.NP != 4 || len(run.Mapping) != 2 || run.Engine != dataset.Ckpt || run.Codec != "none" ||
				run.Layout != string(layout) || !run.Incremental || len(run.Checkpoints) != 3 {
				t.Fatalf("%+v", run)
			}
			for i, c := range run.Checkpoints {
				checkMeasured(t, c, i == 0)
			}
		})
	}
}

// checkMeasured checks a checkpoint of a coordinated job without compression.
func checkMeasured(t *testing.T, c dataset.JobCheckpoint, first bool) {
	t.Helper()
	if c.Iterations != 2 || c.Ranks != 4 || c.Full != first || c.Files == 0 || c.Overhead <= 0 || c.LatencyS() <= 0 || c.PauseS <= 0 {
		t.Errorf("%+v", c)
	}
	if sum := c.Stored.Data + c.Stored.Shared + c.Overhead; sum != c.StoredBytes {
		t.Errorf("checkpoint %d: zones and overhead are %d bytes, %d were stored", c.Number, sum, c.StoredBytes)
	}
	if first != (c.Stored.Library == c.Memory.Library && c.Stored.Library > 0) {
		t.Errorf("checkpoint %d: %d of %d bytes of the library were stored", c.Number, c.Stored.Library, c.Memory.Library)
	}
	stored := map[string]int64{}
	for _, r := range c.Regions {
		stored[r.Name] = r.Stored
		if r.Stored != r.Unpacked {
			t.Errorf("checkpoint %d: %s: %d bytes took %d without compression", c.Number, r.Name, r.Unpacked, r.Stored)
		}
		if first && r.Zeros+r.Unpacked != r.Memory {
			t.Errorf("%s: %d bytes are zeros, %d stored, of %d", r.Name, r.Zeros, r.Unpacked, r.Memory)
		}
	}
	if stored["u"] == 0 || first != (stored["forcing"] > 0) {
		t.Errorf("checkpoint %d: stored %v, want forcing in the first only", c.Number, stored)
	}
}
