package coordinator

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"ckpt/coordinator/job"
	"ckpt/image/plan"
)

// TestAggregatorsOfSmallGroups launches jobs with more aggregators than some of their
// groups have ranks, and restarts them: each group has as many as it can, and the user
// is told.
func TestAggregatorsOfSmallGroups(t *testing.T) {
	notRaced(t)
	t.Parallel()
	for _, c := range []struct {
		name string
		set  func(*job.Spec)
		told string
	}{
		{"uncoordinated", func(s *job.Spec) { s.Mode = job.Uncoordinated }, "{aggregators} 2: a group of 1 rank has 1 aggregator"},
		{"semi", func(s *job.Spec) { s.Mode, s.Mapping, s.WritePath.Aggregators = job.Semi, job.Mapping{3, 1}, 3 },
			"{aggregators} 3: a group of 1 rank has 1 aggregator"},
		{"size", func(s *job.Spec) { s.Mode, s.GroupSize, s.WritePath.Aggregators = job.Semi, 2, 3 },
			"{aggregators} 3: a group of 2 ranks has 2 aggregators"},
		{"per-rank", func(s *job.Spec) { s.Mode, s.WritePath.Layout = job.Uncoordinated, plan.PerRank }, ""},
		{"coordinated", func(*job.Spec) {}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSpec(t, "ring.S.4", 2)
			s.WritePath.Layout, s.WritePath.Aggregators, s.Schedule.Every = plan.Aggregated, 2, 10
			c.set(&s)
			if _, err := s.Layout(); err != nil {
				t.Fatal(err)
			}
			r, rec, opt := mustLaunch(t, s, Options{})
			if told := len(rec.warned) > 0; told != (c.told != "") || told && !slices.Contains(rec.warned, c.told) {
				t.Errorf("warned %q, want %q", rec.warned, c.told)
			}
			again := RestartOptions{Options: opt}
			if c.name == "size" || c.name == "coordinated" {
				again.Mapping = func(int) (job.Mapping, error) { return job.Mapping{1, 3}, nil }
			}
			b, err := Restart(context.Background(), again)
			if err != nil {
				t.Fatal(err)
			}
			if b.Digest != r.Digest {
				t.Errorf("digest %s, then %s", r.Digest, b.Digest)
			}
			files, _ := filepath.Glob(filepath.Join(opt.Store, "jobs", "job", "*", "aggregator-*.img"))
			if (len(files) > 0) != (c.name != "per-rank") {
				t.Errorf("files %q", files)
			}
		})
	}
}
