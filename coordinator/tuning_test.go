package coordinator

import (
	"strings"
	"testing"

	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/coordinator/tune"
	"ckpt/image"
	"ckpt/image/plan"
	"ckpt/internal/testkit"
	"ckpt/internal/vfs"
)

// misjudged describes processors that are slower than any: with zstd a checkpoint would take
// minutes. Much faster processors explain the time that it really takes; on those, too, it
// takes less without a codec.
const misjudged = `
name: misjudged
host: {processors: 2, one_host: true}
targets: {count: 1, rate: 1GB/s}
codecs:
  none: {pack: 1GB/s}
  s2: {pack: 1kB/s, ratio: 0.9}
  zstd: {pack: 1kB/s, ratio: 0.9}
  gzip: {pack: 1kB/s, ratio: 0.9}
`

// TestTuning: a job that is tuned for a storage that is unlike its own changes its way
// between two checkpoints, says so, and comes to the same result, with ranks that die in
// between. A restart continues in the way that was found.
func TestTuning(t *testing.T) {
	t.Parallel()
	s := newSpec(t, "ring.S.4", 2)
	s.Schedule.Every, s.AutoRestart, s.Iterations = 2, true, 60
	plain := undisturbed(t, s)
	before := s.Way()
	s.Codec = "zstd"
	s.Tuning = &job.Tuning{Storage: misjudged, Objective: "latency", Before: before, Why: "for a test"}
	r, rec, opt := mustLaunch(t, s, Options{Failures: []launch.Failure{{Rank: 1, Node: -1, Iter: 25}, {Rank: 2, Node: -1, Iter: 41}}})
	if r.Digest != plain.Digest {
		t.Errorf("digest %s, want %s", r.Digest, plain.Digest)
	}
	events := eventsOf[*tune.TunedEvent](rec)
	if len(events) < 2 {
		t.Fatalf("%d changes were told, want the beginning and another", len(events))
	}
	first, second := events[0], events[1]
	if first.After != 0 || first.From.Codec == "zstd" || first.To.Codec != "zstd" || first.Why != "for a test" {
		t.Errorf("at the beginning: %+v", first)
	}
	if second.After == 0 || second.From != first.To || second.To == second.From || second.Measured <= 0 || second.Forecast <= second.Measured ||
		!strings.Contains(second.Why, "a checkpoint took") {
		t.Errorf("the change: %+v", second)
	}
	verifyAll(t, opt)

	store, err := image.OpenStore(vfs.OS{}, opt.Store)
	if err != nil {
		t.Fatal(err)
	}
	j, err := store.Job(r.Job)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := job.ReadSpec(j)
	if err != nil {
		t.Fatal(err)
	}
	last := events[len(events)-1].To
	if w := tune.ReadWay(j, spec); tune.NewTunedWay(w, false) != last {
		t.Errorf("the way of a restart is %+v, want %+v", w, last)
	}
	again, err := Restart(t.Context(), RestartOptions{Options: Options{Store: opt.Store, Job: r.Job, Observer: &recorder{t: t}}, Checkpoint: 3})
	if err != nil || again.Digest != plain.Digest {
		t.Errorf("restart: %+v, %v", again, err)
	}
}

// idle describes a storage with targets that are far slower than any, and shared files that are
// far dearer: what is stored in the best way there is not in the best way here.
const idle = `
name: idle
host: {processors: 2, one_host: true}
targets: {count: 4, rate: 1kB/s}
`

// TestTuningLevels: a job that keeps its checkpoints on nodes is tuned by their copies into the
// store, and one of several groups by the checkpoints of one. Both come to the same result.
func TestTuningLevels(t *testing.T) {
	t.Parallel()
	type tuned struct {
		name, storage, objective string
		set                      func(*job.Spec)
	}
	for _, c := range testkit.Some(2, []tuned{
		{"nodes", idle, "latency", func(s *job.Spec) { s.Tier = tiered(t, "ring.S.4", 2, "partner", "every=1").Tier }},
		{"groups", misjudged, "latency", func(s *job.Spec) { s.Mode, s.Codec = job.Semi, "zstd" }},
		{"groups on nodes", idle, "bytes", func(s *job.Spec) {
			s.Mode, s.Codec, s.Incremental, s.Tier = job.Semi, "none", false, tiered(t, "ring.S.4", 2, "partner", "every=1").Tier
		}},
	}...) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSpec(t, "ring.S.4", 2)
			s.Schedule.Every, s.AutoRestart, s.Iterations = 4, true, 60
			plain := undisturbed(t, s)
			c.set(&s)
			s.WritePath.Layout, s.WritePath.Strategy = plan.Shared, plan.Dynamic
			s.Tuning = &job.Tuning{Storage: c.storage, Objective: c.objective, Before: s.Way(), Why: "for a test"}
			r, rec, opt := mustLaunch(t, s, Options{Failures: []launch.Failure{{Rank: 1, Node: -1, Iter: 45}}})
			if r.Digest != plain.Digest {
				t.Errorf("digest %s, want %s", r.Digest, plain.Digest)
			}
			events := eventsOf[*tune.TunedEvent](rec)
			if len(events) < 2 || events[1].Measured <= 0 || events[1].To == events[1].From {
				t.Errorf("changes %+v, want the beginning and another", events)
			}
			verifyAll(t, opt)
		})
	}
}

// TestPossibleWays tells ways that a job can change to from others.
func TestPossibleWays(t *testing.T) {
	t.Parallel()
	r, err := newSpec(t, "ring.S.4", 2).Resolve()
	if err != nil {
		t.Fatal(err)
	}
	if r.Possible(job.Way{WritePath: plan.Settings{Layout: plan.Shared}, Codec: "zstd"}) != nil ||
		r.Possible(job.Way{Codec: "lz5"}) == nil || r.Possible(job.Way{WritePath: plan.Settings{Layout: plan.Aggregated, Aggregators: 5}}) == nil {
		t.Error("possible ways are not told from others")
	}
}
