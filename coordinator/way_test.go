package coordinator

import (
	"testing"

	"ckpt/coordinator/job"
	"ckpt/coordinator/launch"
	"ckpt/image/plan"
	"ckpt/internal/testkit"
)

// ways are as unlike each other as they can be: layouts, strategies, numbers of
// aggregators, buffers, stripes and codecs.
var ways = []job.Way{
	{WritePath: plan.Settings{Layout: plan.Shared, P1: true, P2: true}, Codec: "none"},
	{WritePath: plan.Settings{Layout: plan.PerRank}, Codec: "zstd"},
	{WritePath: plan.Settings{Layout: plan.Aggregated, Aggregators: 2, P1: true, P3: true, Buffer: 1 << 20}, Codec: "s2"},
	{WritePath: plan.Settings{Layout: plan.Shared, Strategy: plan.Individual, StripeSize: 64 << 10, P1: true}, Codec: "auto"},
	{WritePath: plan.Settings{Layout: plan.Aggregated, Strategy: plan.Static, Aggregators: 1, P1: true}, Codec: "gzip"},
}

// TestWaysChange: every checkpoint is written in another way than the one before, with
// references across them, and ranks die in between. The result is that of a run without,
// and a checkpoint in the middle can be resumed from.
func TestWaysChange(t *testing.T) {
	t.Parallel()
	type way struct {
		name        string
		incremental bool
		async       bool
		mode        job.Mode
	}
	for _, c := range testkit.Some(2, []way{{"full", false, false, job.Coordinated}, {"incremental", true, false, job.Coordinated}, {"async", true, true, job.Coordinated},
		{"groups", true, false, job.Semi}}...) {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newSpec(t, "ring.S.4", 2)
			s.Codec, s.Incremental, s.Async, s.Mode, s.AutoRestart, s.Iterations = "s2", c.incremental, c.async, c.mode, true, 24
			s.Schedule.Every = 3
			plain := undisturbed(t, s)
			opt := Options{ways: func(n int) *job.Way { return &ways[n%len(ways)] },
				Failures: []launch.Failure{{Rank: 1, Node: -1, Iter: 8}, {Rank: 3, Node: -1, Iter: 17}}}
			r, rec, opt := mustLaunch(t, s, opt)
			if r.Digest != plain.Digest {
				t.Errorf("digest %s, without changes %s", r.Digest, plain.Digest)
			}
			verifyAll(t, opt)
			checkKinds(t, opt, rec, c.mode)
			if c.mode != job.Coordinated {
				return
			}
			taken := eventsOf[*job.CheckpointEvent](rec)
			from := taken[len(taken)/2]
			again := RestartOptions{Options: Options{Store: opt.Store, Job: from.Job, Observer: &recorder{t: t}, ways: opt.ways}, Checkpoint: from.Number}
			resumed, err := Restart(t.Context(), again)
			if err != nil || resumed.Digest != plain.Digest {
				t.Errorf("restart from checkpoint %d: %+v, %v, want digest %s", from.Number, resumed, err, plain.Digest)
			}
		})
	}
}

// checkKinds checks that the files are those of the way.
func checkKinds(t *testing.T, opt Options, rec *recorder, mode job.Mode) {
	t.Helper()
	if mode != job.Coordinated {
		return // groups of two ranks have fewer files
	}
	for _, ev := range eventsOf[*job.CheckpointEvent](rec) {
		w := ways[ev.Number%len(ways)].WritePath
		want := map[plan.Layout]int{plan.PerRank: 4, plan.Shared: 1, plan.Aggregated: w.Aggregators}[w.Layout] + 1
		if ev.Files != want {
			t.Errorf("checkpoint %d (%s) has %d files, want %d", ev.Number, w.Layout, ev.Files, want)
		}
	}
}

// TestWayImpossible: a checkpoint that cannot be written so is aborted, and the job
// continues.
func TestWayImpossible(t *testing.T) {
	t.Parallel()
	s := newSpec(t, "ring.S.4", 2)
	s.Schedule.Every = 5
	bad := &job.Way{WritePath: plan.Settings{Layout: plan.Shared, Aggregators: 99}, Codec: "none"}
	r, rec, _ := mustLaunch(t, s, Options{ways: func(int) *job.Way { return bad }})
	if r.Checkpoints != 0 || len(eventsOf[*AbortedEvent](rec)) == 0 {
		t.Errorf("%d checkpoints, %d aborted", r.Checkpoints, len(eventsOf[*AbortedEvent](rec)))
	}
}
